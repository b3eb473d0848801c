"""Builds the image of an environment: resolved if needed, installed by real Spack, described, packed, read back."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from uenvtool import files
from uenvtool.commands.build import BuildRequest
from uenvtool.commands.build.build import build_environment
from uenvtool.commands.build.next_steps import usual_folder
from uenvtool.commands.image.environment import described, omitted
from uenvtool.errors import BadInput, ToolMissing
from uenvtool.image.metadata import uenv_name
from uenvtool.image.pack import Packed, pack
from uenvtool.image.programs import find_programs
from uenvtool.image.read import refuse_foreign
from uenvtool.image.tree import Tree, walk
from uenvtool.knowledge import choose, load_recipe
from uenvtool.model.spec import parse_spec
from uenvtool.result import Progress, Result, silent
from uenvtool.spack.environment import plan_environment
from uenvtool.spack.folder import PURPOSE
from uenvtool.spack.install import Installable, InstallOptions, install, read_installable
from uenvtool.spack.manifest import MANIFEST
from uenvtool.spack.program import Spack, find_spack, repository_folder

SCRATCH_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """A request for the image of an environment.

    source: a recipe, by name or path, or the folder of an environment. system, uarch, spack, repos: as
    for `uenvtool build`. output: the image; None for NAME.squashfs. store: the folder that is installed
    into and that an interrupted run goes on with; None for one in the user's cache. jobs, mirrors,
    caches, unsigned: see `InstallOptions`.
    """

    source: str
    system: str | None = None
    uarch: str | None = None
    output: Path | None = None
    store: Path | None = None
    spack: Path | None = None
    repos: Mapping[str, Path] = field(default_factory=dict)
    jobs: int | None = None
    mirrors: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    unsigned: bool = False


def build_image(request: ImageRequest, progress: Progress = silent) -> Result:
    """Build an image. The old one, if any, is as it was until the new one is complete.

    Raises BadInput if an input is wrong or the target is not an image of this tool's, AnswerIsNo if the
    lock would not install, ToolMissing without Spack or squashfs-tools, ToolFailed if Spack, a program
    or the disk fails.
    """
    programs = find_programs()
    spack = find_spack(request.spack)
    if spack is None:
        raise ToolMissing("Spack is not here", hint="name one with --spack; `uenvtool build` says how to get it")
    environment, name = _environment(request, progress)
    target = Path(os.path.abspath(request.output or f"{name}.squashfs"))
    refuse_foreign(target)
    store = Path(os.path.abspath(request.store or _usual_store(environment, name)))
    with files.locked(store):
        _install(request, spack, environment, store, progress)
        with progress(f"packing {target.name}"), files.workplace(target) as work:
            with files.working_folder(SCRATCH_BYTES) as scratch:
                tree = _tree(environment, store, uenv_name(target.stem, "environment"))
                packed = pack(programs, tree, work / "new", scratch)
            files.set_shared_mode(work / "new")
            files.publish([files.Replacement(new=work / "new", target=target)])
    return _result(environment, dataclasses.replace(packed, path=target), store)


def _environment(request: ImageRequest, progress: Progress) -> tuple[Installable, str]:
    """The resolved environment and a name for its image."""
    folder = Path(request.source)
    if (folder / MANIFEST).is_file():
        purpose = str(files.read_record(folder).more.get(PURPOSE, ""))
        name = purpose.split(" for ", maxsplit=1)[0] if purpose else folder.resolve().name
        return read_installable(folder), name
    recipe = load_recipe(request.source)
    choice = choose(recipe, request.system, request.uarch)
    planned = plan_environment(recipe, choice.system, choice.uarch)
    order = BuildRequest(recipe=request.source, spack=request.spack, repos=request.repos)
    outcome = build_environment(planned, usual_folder(planned), order, progress)
    if outcome.lock is None:
        raise BadInput(f"{outcome.folder} is {outcome.state}", hint="\n".join(outcome.next_steps))
    return read_installable(outcome.folder), recipe.name


def _install(request: ImageRequest, spack: Spack, environment: Installable, store: Path, progress: Progress) -> None:
    options = InstallOptions(
        jobs=request.jobs,
        repos={name: repository_folder(name, path) for name, path in request.repos.items()},
        mirrors=request.mirrors,
        caches=request.caches,
        unsigned=request.unsigned,
    )
    with progress(f"installing {len(environment.lock.packages)} packages into {environment.mount}") as on_step:
        install(spack, environment, store, options, on_step=on_step)


def _usual_store(environment: Installable, name: str) -> Path:
    """A store in the user's cache for this lock alone."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    hashes = "\n".join(sorted(package.hash for package in environment.lock.packages))
    return cache / "uenvtool" / "stores" / f"{name}-{files.digest(hashes)[:12]}"


def _tree(environment: Installable, store: Path, name: str) -> Tree:
    left_out = omitted(environment, store)
    roots = [parse_spec(root).package for root in environment.lock.roots]
    description = f"{', '.join(sorted(roots)[:4])}{' and more' if len(roots) > 4 else ''}; made by uenvtool"
    return Tree(
        folder=store,
        entries=walk(store, left_out=left_out),
        added=described(environment, store, name, description),
        left_out=left_out,
    )


def _result(environment: Installable, packed: Packed, store: Path) -> Result:
    size = f"{packed.bytes / 1e6:.1f} MB"
    return Result(
        data={
            "image": str(packed.path),
            "bytes": packed.bytes,
            "sha256": packed.sha256,
            "mount": environment.mount,
            "view": environment.view,
            "packages": environment.lock.versions(),
            "store": str(store),
        },
        text=str(packed.path),
        notes=(f"{packed.path.name}: {size}, sha256 {packed.sha256}", f"the store stays for the next run: {store}"),
        next=(f"uenv start {packed.path} --view={environment.view}",),
    )
