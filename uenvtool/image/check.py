"""`uenvtool image build --check`: checks whether the programs, directories and mirrors that a build needs exist."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from uenvtool.core.errors import AnswerIsNo, Problem, ToolFailed, UenvtoolError
from uenvtool.core.files import is_writable
from uenvtool.core.result import Progress, Result, Table, silent
from uenvtool.core.words import size_text
from uenvtool.env.install import MIRROR_PREFIX, require_mount, usual_stores
from uenvtool.env.installable import MOUNT, mount_of, read_manifest
from uenvtool.env.plan import named_environment
from uenvtool.env.program import Spack, find_spack, repository_directory
from uenvtool.env.runner import mirror_answers, require_key
from uenvtool.image.build import as_url, install_options, pins
from uenvtool.image.programs import find_programs
from uenvtool.image.request import ImageRequest
from uenvtool.knowledge.options import named_paths

PUSH = f"{MIRROR_PREFIX}push"
"""The name of the mirror that Spack pushes packages to."""


Check = tuple[str, str | Problem]
"""The name of a requirement, and its version or path, or the problem if it is not met."""


def check_needs(request: ImageRequest, progress: Progress = silent) -> Result:
    """Check the requirements of a build, without resolving, installing or writing anything.

    Raises AnswerIsNo if a requirement is not met, BadInput if a recipe is invalid.
    """
    with progress("checking the requirements of the build"):
        checks = list(_checks(request))
    AnswerIsNo.raise_any(found for _, found in checks if isinstance(found, Problem))
    rows = [(name, str(found)) for name, found in checks]
    return Result(data=dict(rows), tables=(Table(headings=("checked", "found"), rows=rows),))


def _checks(request: ImageRequest) -> Iterator[Check]:
    yield _checked("squashfs-tools", lambda: ".".join(map(str, find_programs().version)))
    spack = None
    try:
        spack = find_spack(request.spack)
        missing = Problem("Spack is not installed", hint="name a Spack with --spack")
        yield "Spack", f"{spack.version} at {spack.program}" if spack else missing
    except UenvtoolError as error:
        yield "Spack", error.problems[0]
    yield _checked("mount point", lambda: _mount(request))
    yield _checked("store", lambda: _store(request))
    if spack is None:
        return
    pinned = pins(request)
    for name, path in named_paths(request.repo).items():
        yield _checked(f"repository {name}", partial(repository_directory, name, path, pinned.get(name)))
    yield from _mirrors(request, spack)
    if request.push and not request.unsigned:
        yield _checked("key", lambda: _key(spack))


def _key(spack: Spack) -> str:
    require_key(spack)
    return "Spack's own"


def _mirrors(request: ImageRequest, spack: Spack) -> Iterator[Check]:
    try:
        options = install_options(replace(request, repo=()))  # the repositories are checked separately
        pushed = {PUSH: {"url": as_url(request.push), "source": False, "binary": True}} if request.push else {}
        named = {**options.spack_mirrors, **pushed}
        answers = mirror_answers(spack, named, PUSH, options.scope) if named or options.scope else {}
    except UenvtoolError as error:
        yield "mirrors", error.problems[0]
        return
    for name, why in answers.items():
        yield f"mirror {name}", Problem(f"mirror {name}: {why}") if why else "answers"


def _mount(request: ImageRequest) -> str:
    source = request.sources[0]
    manifest = read_manifest(Path(source))
    if manifest is None:
        mount = named_environment(source, request.system, request.uarch).system.mount or MOUNT
    else:
        mount = mount_of(manifest)
    require_mount(mount)
    return mount


def _store(request: ImageRequest) -> str:
    directory = Path(os.path.abspath(request.store or usual_stores()))
    nearest = next(path for path in (directory, *directory.parents) if path.exists())
    if not is_writable(nearest):
        raise ToolFailed(f"cannot write to the store {directory}", hint="name another directory with --store")
    return f"{directory}, {size_text(shutil.disk_usage(nearest).free)} free"


def _checked(name: str, get: Callable[[], str | Path]) -> Check:
    """Return the result of a check. get: returns the checked value, or raises an error if it does not exist."""
    try:
        return name, str(get())
    except UenvtoolError as error:
        return name, error.problems[0]
