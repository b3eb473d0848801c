"""The image that a user names: a file, which is written as a path, or a name of a registry or a uenv."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from uenvtool.core import quoting
from uenvtool.core.errors import Problem
from uenvtool.job.disk import Disk
from uenvtool.job.named_edf import SUBMITTED_IN, NamedEdf
from uenvtool.job.plan import KUBERNETES, NO_IMAGE, PATH_STARTS, JobPlan
from uenvtool.job.shell import mounted_overlay

_IMAGE_FILE = re.compile(r"(?P<file>[^:]+?(?P<end>\.sqsh|\.squashfs|\.sif|\.toml|\.tar\.gz|\.tgz)?)(?P<mount>:/[^:]*)?")
"""A file, with where a uenv is mounted behind it. end: what files of images end with, and no registry's name does."""

_LABEL_END = re.compile(r"[:@%]")
"""What ends the name and version of a uenv's label, `NAME/VERSION:TAG@SYSTEM%UARCH`."""
_TAG = re.compile(r"[^./$:@%][^:@%]*:([^/@%][^@%]*)")


def file_of(image: str) -> str:
    """Return the file that an image's name is, without where it is mounted; empty for a name that is no path."""
    found = _IMAGE_FILE.fullmatch(image)
    return found["file"] if found and image.startswith(PATH_STARTS) else ""


def as_path(image: str, *, is_absolute: bool = False) -> str:
    """Return an image's name as a path, if it is one: a file that is here, or a name that ends as those of images do.

    is_absolute: the job runs in another folder than this. The Container Engine and the uenv client take a name for a
    path only if it starts with `/` or `.` (CSCS documentation, software/container-engine/edf.md; uenv's command line).
    """
    found = _IMAGE_FILE.fullmatch(image)
    if found is None:
        return image
    if image.startswith("~"):
        return os.path.expanduser(image)
    is_path = image.startswith(PATH_STARTS) or found["end"] or os.path.isfile(found["file"])
    if image.startswith(("/", "$")) or not is_path:
        return image
    if is_absolute:
        return os.path.abspath(image)
    return image if image.startswith(".") else f"./{image}"


def of_image_file(plan: JobPlan, disk: Disk) -> Iterator[Problem]:
    """Yield why a job cannot run the file that is named as its image."""
    named, file = plan.request.image, "" if plan.use.image == NO_IMAGE else file_of(plan.request.image)
    if file and "$" not in file and not disk.exists(file):
        yield Problem(f"--image {named}: there is no such file", hint="check the path, or name a label")
    elif file and "$" not in file and not disk.is_image(file):
        yield Problem(f"--image {named}: this is not a file", hint="name the file of an image, or a label")
    if file and plan.use.scheduler == KUBERNETES:
        yield Problem(f"--image {named}: pods run images of a registry", hint="push it to one, and name it there")
    if disk.edf and plan.edf is None:
        hint = "name a runtime that does with --runtime, such as ce, or an image"
        yield Problem(f"--image {named} is an EDF, and {plan.runtime.name} reads none", hint=hint)
    if plan.edf:
        yield from _of_edf(plan, plan.edf, disk.folder)
    yield from _of_annotations(plan)


def _of_edf(plan: JobPlan, edf: NamedEdf, folder: str) -> Iterator[Problem]:
    """Yield what an EDF of the user's must say for a job. folder: the current one."""
    request, path = plan.request, edf.path
    runs_in = request.workdir or folder
    if edf.error:
        yield Problem(f"{path}: {edf.error}", hint=f"`uenvtool check {path}` says where")
    if request.stage:
        yield Problem(f"--stage: {path} names the image", hint="leave it out, or name the image itself with --image")
    if edf.is_whole and edf.workdir.rstrip("/") not in (SUBMITTED_IN, runs_in.rstrip("/")):
        where = f"starts in {edf.workdir}" if edf.workdir else "has no workdir"
        yield Problem(
            f"{path} {where}, and the job runs in {runs_in}",
            hint=f'write workdir = "{SUBMITTED_IN}" into it, and "{SUBMITTED_IN}:{SUBMITTED_IN}" into its mounts',
        )
    if not edf.shows(runs_in, runs_in):
        yield Problem(f"{path} does not mount {runs_in}, where the job runs", hint=mount_hint(path, SUBMITTED_IN))
    for mount in request.mount:
        source, _, inside = mount.partition(":")
        if not edf.shows(inside or source, runs_in):
            yield Problem(f"--mount {mount}: {path} is taken as it is", hint=mount_hint(path, source, inside))
    for name, value in request.annotations.items():
        hint = f"write {name} = {quoting.toml(value)} into the [annotations] of {path}"
        yield Problem(f"--annotation {name}={value}: {path} is taken as it is", hint=hint)
    overlay = plan.overlay
    if overlay and not edf.shows(overlay.mount or overlay.path, runs_in):
        source, _, inside = mounted_overlay(plan, os.path.abspath(overlay.image)).partition(":")
        hint = mount_hint(path, source, inside if overlay.mount else "")
        yield Problem(f"--venv {overlay.path}: {path} is taken as it is", hint=hint)


def _of_annotations(plan: JobPlan) -> Iterator[Problem]:
    """Yield the annotations that no TOML can hold: `a.b` is a table where `a.b.c` has a value."""
    asked = plan.request.annotations
    of_site = (plan.extended.annotations if plan.extended else plan.knowledge.annotations) if asked else ()
    names = {*asked, *(one.name for one in of_site)}
    for name in asked:
        if below := sorted(other for other in names if other.startswith(f"{name}.")):
            yield Problem(f"--annotation {name}: it has no value beside {below[0]}", hint="name the whole annotation")


def mount_hint(edf: str, source: str, inside: str = "") -> str:
    """Return what to do for what an EDF of the user's does not mount."""
    mount = f"{source}:{inside or source}"
    return (
        f'write "{mount}" into the mounts of {edf}; or name the image itself with --image, for an EDF of the job\'s own'
    )


def on_another_image(plan: JobPlan, published: str) -> Iterator[Problem]:
    """Yield that an overlay was made on another image than is asked for. published: the uenv of --recipe, or empty.

    An image that is a file can be that of a recipe.
    """
    base = plan.overlay.base_image if plan.overlay else ""
    for option, wanted in (("image", plan.request.image), ("recipe", published)):
        is_file = option == "recipe" and base.startswith(PATH_STARTS)
        if plan.overlay and base and wanted and not is_file and not _can_be_same(wanted, base):
            yield Problem(
                f"{plan.overlay.path} was made on {base}, not on {wanted}",
                hint=f"leave --{option} out, or make the overlay anew on that image",
            )


def on_another_tag(plan: JobPlan, published: str) -> Iterator[str]:
    """Yield that an overlay was made on another build of the image. published: as for `on_another_image`."""
    base = plan.overlay.base_image if plan.overlay else ""
    wanted = plan.request.image or published
    tags = [found[1] for found in map(_TAG.match, (base, wanted)) if found]
    if plan.overlay and len(set(tags)) > 1:
        runs = f"the job runs {plan.image}"
        yield f"{plan.overlay.path} was made on {base}, another build than {wanted} ({runs}): make it anew on that"


def _can_be_same(one: str, other: str) -> bool:
    """Tell if two names can be of one image: a label with and without its tag, or the same path."""
    if one.startswith(PATH_STARTS) or other.startswith(PATH_STARTS):
        return os.path.abspath(one) == os.path.abspath(other)
    return _LABEL_END.split(one)[0] == _LABEL_END.split(other)[0]
