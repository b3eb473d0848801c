"""Checks the image that a user names: a file, a registry image or a uenv."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePath

from uenvtool.core import quoting
from uenvtool.core.errors import Problem
from uenvtool.core.files import is_file
from uenvtool.job.disk import EDF, SUBMITTED_IN, Disk, NamedEdf
from uenvtool.job.plan import KUBERNETES, NO_IMAGE, PATH_STARTS, SLURM, JobPlan
from uenvtool.job.shell import mounted_overlay
from uenvtool.knowledge.recognise import recognised

REGISTRY = re.compile(
    r"(?:docker://)?(?P<host>[\w-]+(?:\.[\w-]+)+(?::\d+)?|localhost(?::\d+)?)[/#](?P<name>[\w./-]+(?:[:@][\w.:-]+)*)"
)
"""The name of a registry image, which starts with a host name that contains a dot, as for docker."""
_IMAGE_FILE = re.compile(r"(?P<file>[^:]+?(?P<end>\.sqsh|\.squashfs|\.sif|\.toml|\.tar\.gz|\.tgz)?)(?P<mount>:/[^:]*)?")
"""An image file, optionally followed by the mount point of a uenv. end: a suffix of image files only."""

_MOUNT_POINTS = ("/", "/mnt", "/media", "/home", "/users")
"""Directories of a machine that does not have the file system of a path below them."""
_LABEL_END = re.compile(r"[:@%]")
"""The characters that end name and version in `NAME/VERSION:TAG@SYSTEM%UARCH`, the name of a uenv image."""
_TAG = re.compile(r"[^./$:@%][^:@%]*:([^/@%][^@%]*)")


def _path_in(image: str) -> str:
    match = _IMAGE_FILE.fullmatch(image)
    return match["file"] if match and image.startswith(PATH_STARTS) else ""


def as_path(image: str, *, is_absolute: bool = False) -> str:
    """Return the name of an image. If it is an existing file or has the suffix of image files, return it as a path.

    is_absolute: return an absolute path, for a job that runs in another directory. The Container Engine and the uenv
    client treat a name as a path only if it starts with `/` or `.` (CSCS documentation,
    software/container-engine/edf.md; uenv's command line).
    """
    match = _IMAGE_FILE.fullmatch(image)
    if match is None:
        return image
    if image.startswith("~"):
        return os.path.expanduser(image)
    is_path = image.startswith(PATH_STARTS) or match["end"] or os.path.isfile(match["file"])
    if image.startswith(("/", "$")) or not is_path:
        return image
    if is_absolute:
        return os.path.abspath(image)
    return image if image.startswith(".") else f"./{image}"


def of_image_file(plan: JobPlan, disk: Disk) -> Iterator[Problem]:
    """Yield the problems with a file that the user names as the image of a job."""
    named, file = plan.request.image, "" if plan.use.image == NO_IMAGE else _path_in(plan.request.image)
    is_checked = file and "$" not in file and not is_elsewhere(plan)
    if is_checked and not os.path.exists(file):
        yield Problem(f"--image: file not found: '{named}'", hint="check the path, or use an image name and tag")
    elif is_checked and not (is_file(Path(file)) or os.path.isdir(file)):  # conda, Apptainer: directories
        yield Problem(f"--image '{named}': not an image file", hint="name an image file, or an image name and tag")
    if file and plan.use.scheduler == KUBERNETES:
        hint = "push the image to a registry, and use its name there"
        yield Problem(f"--image {named}: pods run only images from a registry", hint=hint)
    if disk.edf and plan.edf is None:
        hint = "use --runtime to choose a runtime that reads EDFs, such as ce, or specify an image"
        yield Problem(f"--image {named}: this is an EDF, and {plan.runtime.name} does not read EDFs", hint=hint)
    if plan.edf:
        yield from _of_edf(plan, plan.edf)
    yield from _of_annotations(plan)


def is_elsewhere(plan: JobPlan) -> bool:
    """Return whether the image of a job is a path of another machine, so that it cannot be checked here.

    The nearest directory of the path that exists here is then none, or one in which file systems are mounted.
    """
    file = PurePath(_path_in(plan.request.image))
    here, _ = recognised() or ("", "")
    if not file.is_absolute() or file.suffix == EDF or os.path.exists(str(file)) or here == plan.system:
        return False
    nearest = next(str(folder) for folder in file.parents if os.path.exists(str(folder)))
    return nearest in _MOUNT_POINTS


def on_another_machine(plan: JobPlan) -> Iterator[str]:
    """Yield a warning if the image of a job is a path of another machine."""
    if plan.use.image != NO_IMAGE and plan.use.scheduler == SLURM and is_elsewhere(plan):
        yield f"--image {plan.request.image}: this machine has no such file system, so the path was not checked"


def _of_edf(plan: JobPlan, edf: NamedEdf) -> Iterator[Problem]:
    request, path = plan.request, edf.path
    runs_in = request.workdir or os.getcwd()
    if edf.error:
        yield Problem(f"{path}: {edf.error}", hint=f"run `uenvtool check {path}` to see the line")
    if request.stage:
        hint = "leave --stage out, or name the image itself with --image"
        yield Problem(f"--stage cannot be combined with an EDF ({path}), which names the image", hint=hint)
    if edf.is_whole and edf.workdir.rstrip("/") not in (SUBMITTED_IN, runs_in.rstrip("/")):
        where = f"starts in {edf.workdir}" if edf.workdir else "has no workdir"
        yield Problem(
            f"{path} {where}, but the job runs in {runs_in}",
            hint=f'write workdir = "{SUBMITTED_IN}" into it, and add "{SUBMITTED_IN}:{SUBMITTED_IN}" to its mounts',
        )
    if not edf.shows(runs_in, runs_in):
        yield Problem(f"{path} does not mount {runs_in}, where the job runs", hint=mount_hint(path, SUBMITTED_IN))
    for mount in request.mount:
        source, _, inside = mount.partition(":")
        if not edf.shows(inside or source, runs_in):
            yield Problem(f"--mount {mount}: uenvtool does not change {path}", hint=mount_hint(path, source, inside))
    for name, value in request.annotations.items():
        hint = f"write {name} = {quoting.toml(value)} into the [annotations] of {path}"
        yield Problem(f"--annotation {name}={value}: uenvtool does not change {path}", hint=hint)
    overlay = plan.overlay
    if overlay and not edf.shows(overlay.place, runs_in):
        source, _, inside = mounted_overlay(plan, os.path.abspath(overlay.image)).partition(":")
        hint = mount_hint(path, source, inside if overlay.mount else "")
        yield Problem(f"--venv {overlay.path}: uenvtool does not change {path}", hint=hint)


def _of_annotations(plan: JobPlan) -> Iterator[Problem]:
    # In TOML, `a.b` cannot have a value if `a.b.c` has one, because `a.b` is then a table.
    asked = plan.request.annotations
    of_site = (plan.extended.annotations if plan.extended else plan.knowledge.annotations) if asked else ()
    names = {*asked, *(annotation.name for annotation in of_site)}
    for name in asked:
        if below := sorted(other for other in names if other.startswith(f"{name}.")):
            hint = f"write the whole name, such as {below[0]}"
            yield Problem(f"--annotation {name}: cannot have a value, because {below[0]} has one", hint=hint)


def mount_hint(edf: str, source: str, inside: str = "") -> str:
    """Return the hint for a path that the user's own EDF does not mount."""
    mount = f"{source}:{inside or source}"
    return (
        f'add "{mount}" to the mounts of {edf}, or name the image itself with --image, for which uenvtool writes an EDF'
    )


def on_another_image(plan: JobPlan, published: str) -> Iterator[Problem]:
    """Yield a problem if the overlay was created on another image than the request names.

    published: the uenv of --recipe, or an empty string. With --recipe, the base may be a file, because an image of the
    recipe can be a file.
    """
    overlay, base = _overlay_and_base(plan)
    for option, image in (("--image", plan.request.image), ("--recipe", published)):
        is_file = option == "--recipe" and base.startswith(PATH_STARTS)
        if base and image and not is_file and not _can_be_same(image, base):
            yield Problem(
                f"{overlay} was created on {base}, not on {image}",
                hint=f"leave {option} out, or create the overlay again on {image}",
            )


def on_another_tag(plan: JobPlan, published: str) -> Iterator[str]:
    """Yield a warning if the overlay was created on another build of the image. published: as in `on_another_image`."""
    overlay, base = _overlay_and_base(plan)
    image = plan.request.image or published
    tags = [match[1] for match in map(_TAG.match, (base, image)) if match]
    if len(set(tags)) > 1:
        yield (
            f"{overlay} was created on {base}, which is another build than {image} (the job runs "
            f"{plan.image}); create the overlay again on {image}"
        )


def on_unknown_recipe(plan: JobPlan) -> Iterator[str]:
    """Yield a warning if --recipe names a recipe from which the overlay's base may not have been built."""
    overlay, base = _overlay_and_base(plan)
    if plan.recipe and base and not plan.request.image:
        yield (
            f"--recipe {plan.recipe}: the job runs {base}, on which {overlay} was created; its variables are "
            f"correct only if {base} was built from {plan.recipe}"
        )


def _overlay_and_base(plan: JobPlan) -> tuple[str, str]:
    return (plan.overlay.path, plan.overlay.base_image) if plan.overlay else ("", "")


def _can_be_same(first: str, second: str) -> bool:
    if first.startswith(PATH_STARTS) or second.startswith(PATH_STARTS):
        return os.path.abspath(first) == os.path.abspath(second)
    return _LABEL_END.split(first)[0] == _LABEL_END.split(second)[0]
