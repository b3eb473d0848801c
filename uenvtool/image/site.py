"""What a site file adds to a request for an image, and whether all that a build needs is there, before it begins."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from uenvtool.core import files, tools
from uenvtool.core.errors import AnswerIsNo, BadInput, Position, Problem, ToolFailed, ToolMissing, UenvtoolError
from uenvtool.core.result import Progress, Result, Table, silent
from uenvtool.core.value import value_class
from uenvtool.core.words import size_text
from uenvtool.env.environment import named_environment
from uenvtool.env.install import OWN, WITH_MOUNT, InstallOptions, usual_stores
from uenvtool.env.installable import MOUNT, mount_of, pins_of, read_manifest
from uenvtool.env.mirrors import keyring, require_key, unreachable
from uenvtool.env.program import Spack, find_spack, repository_folder, repository_folders
from uenvtool.image.programs import find_programs
from uenvtool.image.request import ImageRequest
from uenvtool.knowledge.parts import GitPin
from uenvtool.knowledge.site import Site, site_here

T = TypeVar("T")
Place = tuple[str | int, ...]
PUSH = f"{OWN}push"
"""The cache that is filled, among the mirrors, if no mirror of the site is."""
IN_SITE = "mend the site file, or name another one with --site"


@value_class(kw_only=False)
class Check:
    """One thing that a build needs. found: what is there. problem: why it will not do."""

    name: str
    found: str = ""
    problem: Problem | None = None


def with_site(request: ImageRequest) -> tuple[ImageRequest, Site]:
    """Return a request with what its site file names and it does not, and the site file.

    Raises BadInput for what is wrong in the file, and for variables that are not set.
    """
    site = site_here(request.site)
    return (
        replace(
            request,
            jobs=request.jobs or site.jobs,
            push=request.push or site.push,
            **site.defaults(request.spack, request.repos),
        ),
        site,
    )


def install_options(request: ImageRequest, site: Site, ring: Path | None) -> InstallOptions:
    """Return how to install. Raises BadInput if a package repository is none."""
    return InstallOptions(
        jobs=request.jobs,
        repos=repository_folders(request.repos, pins(request)),
        mirrors=tuple(map(as_url, request.mirror)),
        caches=tuple(map(as_url, request.cache)),
        site=site.spack_mirrors,
        unsigned=request.unsigned,
        keyring=ring,
        beside_others=request.install_only,
    )


def pins(request: ImageRequest) -> dict[str, GitPin]:
    """Return the package repositories that the environments pin. Raises BadInput for a source that is none."""
    found: dict[str, GitPin] = {}
    for source in request.sources if request.repos else ():
        manifest = read_manifest(Path(source))
        if manifest is None:
            found |= named_environment(source, request.system, request.uarch).pins
        else:
            found |= pins_of(manifest)
    return found


def as_url(place: str) -> str:
    """Return a cache or mirror as Spack names it; a folder may be given as its path."""
    return place if "://" in place else f"file://{os.path.abspath(place)}"


def push_target(request: ImageRequest, site: Site) -> str:
    """Return the cache that is filled, as Spack names it: a mirror of the site by its name; "" if none is."""
    return request.push if not request.push or request.push in site.mirrors else as_url(request.push)


def is_unsigned(request: ImageRequest, site: Site) -> bool:
    """Tell if packages are pushed without signatures."""
    mirror = site.spack_mirrors.get(request.push)
    return request.unsigned or (isinstance(mirror, dict) and mirror.get("signed") is False)


def require_site(request: ImageRequest, site: Site, spack: Spack, progress: Progress = silent) -> None:
    """Raise AnswerIsNo with all that the site file names and that is not there; nothing was begun yet."""
    if site.path is None:
        return
    with progress("asking what the site file names"):
        found = [check.problem for check in _site_checks(request, site, spack)]
    AnswerIsNo.raise_any(problem for problem in found if problem and problem.position)


def check(request: ImageRequest, progress: Progress = silent) -> Result:
    """Check all that a build needs, without beginning one: nothing is resolved, installed or written.

    The exit code is NO if something will not do. Raises BadInput as `with_site`, and for a recipe that is none.
    """
    request, site = with_site(request)
    with progress("looking at what a build needs"):
        found = list(_checks(request, site))
    AnswerIsNo.raise_any(check.problem for check in found if check.problem)
    rows = [(check.name, check.found) for check in found]
    return Result(data=dict(rows), tables=(Table(headings=("checked", "found"), rows=rows),))


def _checks(request: ImageRequest, site: Site) -> Iterator[Check]:
    yield _checked("squashfs-tools", find_programs, lambda found: ".".join(map(str, found.version)))
    spack = None
    try:
        spack = find_spack(request.spack)
        missing = None if spack else Problem("Spack is not here", hint="name it with --spack, or in the site file")
        yield Check("Spack", f"{spack.version} at {spack.program}" if spack else "", missing)
    except UenvtoolError as error:
        yield Check("Spack", problem=_placed(error.problems[0], site, "spack"))
    yield _checked("mount point", lambda: _mounted(request), str)
    yield _store(request, site)
    if spack:
        yield from _site_checks(request, site, spack)


def _site_checks(request: ImageRequest, site: Site, spack: Spack) -> Iterator[Check]:
    """Yield what a build takes from others and gives to others: repositories, mirrors, keys."""
    pinned = pins(request)
    for name, path in request.repos.items():
        place: Place = ("repos", name) if name in site.repos else ()
        find = partial(repository_folder, name, path, pinned.get(name))
        yield _checked(f"repository {name}", find, str, site, *place)
    yield from _mirrors(request, site, spack)
    yield from _keys(request, site, spack)


def _mirrors(request: ImageRequest, site: Site, spack: Spack) -> Iterator[Check]:
    """Yield whether Spack reaches the mirrors."""
    named = install_options(replace(request, repo=()), site, None).spack_mirrors  # of repositories it is said above
    filled = push_target(request, site)
    if filled and filled not in site.mirrors:
        named, filled = {**named, PUSH: {"url": filled, "source": False, "binary": True}}, PUSH
    if not named:
        return
    try:
        absent = unreachable(spack, named, filled)
    except ToolFailed as error:
        yield Check("mirrors", problem=_placed(error.problems[0], site, "mirrors"))
        return
    for name in named:
        place = site.position("mirrors", name) if name in site.mirrors else None
        place = site.position("push") if name == PUSH and request.push == site.push else place
        problem = (
            Problem(f"mirror {name}: {absent[name]}", place, IN_SITE if place else None) if name in absent else None
        )
        yield Check(f"mirror {name}", "answers", problem)


def _keys(request: ImageRequest, site: Site, spack: Spack) -> Iterator[Check]:
    """Yield whether the keys are there, and one that signs what is pushed."""
    keys = tuple(map(Path, site.keys))
    absent = [index for index, key in enumerate(keys) if not key.is_file()]
    for index in absent:
        yield Check("keys", problem=Problem(f"{keys[index]} is not there", site.position("keys", index), IN_SITE))
    if absent or not (keys or request.push):
        return

    def signing_keys() -> str:
        with keyring(spack, keys) as ring:
            if request.push and not is_unsigned(request, site):
                require_key(spack, ring)
        return f"{len(keys)} of the site" if keys else "Spack's own"

    yield _checked("keys", signing_keys, str, site, "keys" if keys else "push")


def _mounted(request: ImageRequest) -> str:
    """Return where the image belongs, after a folder was mounted there as Spack will see it."""
    source = request.sources[0]
    manifest = read_manifest(Path(source))
    if manifest is None:
        mount = named_environment(source, request.system, request.uarch).system.mount or MOUNT
    else:
        mount = mount_of(manifest)
    if not Path(mount).is_dir():
        raise BadInput(f"the mount point {mount} does not exist here", hint=f"make it: `mkdir {mount}` as root")
    with files.scratch_folder() as folder:
        done = tools.run([sys.executable, WITH_MOUNT, folder, mount, "true"])
    if done.code != 0:
        hint = "root can, and others where user namespaces are allowed (user_namespaces(7))"
        raise ToolMissing(f"nothing can be mounted at {mount} here: {done.stderr.strip()}", hint=hint)
    return mount


def _store(request: ImageRequest, site: Site) -> Check:
    """Tell whether stores can be written, and how much is free there."""
    folder = Path(os.path.abspath(request.store or site.stores or usual_stores()))
    position = site.position("stores") if site.stores and not request.store else None
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return Check("store", problem=Problem(f"{folder} cannot be written", position, "name another --store"))
    return Check("store", f"{folder}, {size_text(shutil.disk_usage(nearest).free)} free")


def _checked(
    name: str, work: Callable[[], T], text: Callable[[T], str], site: Site | None = None, *place: str | int
) -> Check:
    try:
        return Check(name, text(work()))
    except UenvtoolError as error:
        return Check(name, problem=_placed(error.problems[0], site, *place))


def _placed(problem: Problem, site: Site | None, *place: str | int) -> Problem:
    """Return a problem at the place in the site file that names what is wrong, if it does."""
    position: Position | None = None
    if site and place and site.tree and site.tree.get(str(place[0])):
        position = site.position(*place)
    return replace(problem, position=problem.position or position)
