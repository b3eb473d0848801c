"""Builds the image of an environment: resolved if needed, installed by real Spack, described, packed, read back."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput, ToolMissing
from uenvtool.core.result import Progress, Result, silent
from uenvtool.env.build import build_environment
from uenvtool.env.environment import plan_environment
from uenvtool.env.folder import PURPOSE
from uenvtool.env.install import Installed, InstallOptions, folder_of, install, push
from uenvtool.env.installable import Installable, read_installable
from uenvtool.env.manifest import MANIFEST
from uenvtool.env.next_steps import usual_folder
from uenvtool.env.program import REPOSITORY, Spack, find_spack, how_to_get, repository_folder
from uenvtool.env.request import BuildRequest
from uenvtool.env.store import usual_stores
from uenvtool.image.environment import described, omitted
from uenvtool.image.inputs import has_mark_of_another, inputs_hash, is_made_of, marker_of, tested_sha256
from uenvtool.image.kept import Key, Place, Taken, keep, place_of, take
from uenvtool.image.metadata import uenv_name
from uenvtool.image.pack import Packed, pack
from uenvtool.image.programs import find_programs
from uenvtool.image.read import refuse_foreign
from uenvtool.image.request import ImageRequest
from uenvtool.image.tree import Tree
from uenvtool.knowledge.choice import choose, load_recipe
from uenvtool.knowledge.parts import GitPin
from uenvtool.knowledge.spec import parse_spec

SCRATCH_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """An image that is to be built.

    found_spack: None where there is none: an image that somebody else built needs none. name: of what it is
    an image of. inputs: their hash. store: the folder that is installed into. places, push_places: those
    that are asked for it, and those that get it.
    """

    found_spack: Spack | None
    environment: Installable
    name: str
    inputs: str
    target: Path
    store: Path
    places: tuple[Place, ...] = ()
    push_places: tuple[Place, ...] = ()

    @property
    def spack(self) -> Spack:
        """What installs it. Raises ToolMissing if it is not here."""
        if self.found_spack is None:
            pin = GitPin(url=REPOSITORY, tag=f"v{self.environment.lock.spack}")
            words = ["uenvtool", "image", "build", os.fspath(self.environment.folder), "-o", os.fspath(self.target)]
            raise ToolMissing("Spack is not here", hint=how_to_get(pin, shlex.join(words)))
        return self.found_spack

    @property
    def key(self) -> Key:
        """Under which places keep it."""
        return Key(name=self.name, inputs=self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBefore:
    """What is known before anything is built. result: the answer if nothing has to be. warnings: of places."""

    result: Result | None = None
    warnings: tuple[str, ...] = ()


def build_image(request: ImageRequest, progress: Progress = silent) -> Result:
    """Build an image. The old one, if any, is as it was until the new one is complete.

    Raises BadInput if an input is wrong or the target is not an image of this tool's, AnswerIsNo if the
    lock would not install, ToolMissing without Spack or squashfs-tools, ToolFailed if Spack, a program
    or the disk fails.
    """
    programs = find_programs()
    plan = planned_image(request, progress)
    found = found_before(request, plan, progress)
    if found.result:
        return found.result
    spack, marked = plan.spack, tested_sha256(plan.target)
    with files.locked(plan.store, shared=request.install_only):
        installed = _install(request, plan, spack, progress)
        if request.install_only:
            return _installed(plan, installed)
        with progress(f"packing {plan.target.name}"), files.workplace(plan.target) as work:
            with files.working_folder(SCRATCH_BYTES) as scratch:
                packed = pack(programs, _tree(plan), work / "new", scratch)
            files.publish([files.Replacement(new=work / "new", target=plan.target)])
        if marked not in (None, packed.sha256):
            files.remove_file(marker_of(plan.target))  # of the image that was there before
        notes = _pushed(request, plan, spack, progress) if request.push else ()
    result = _result(plan, dataclasses.replace(packed, path=plan.target))
    kept = keep(plan.push_places, plan.target, plan.key, progress, sha256=packed.sha256)
    warnings = (*found.warnings, *absent_caches(request), *_not_from_caches(request, installed), *kept)
    return dataclasses.replace(result, warnings=warnings, notes=(*result.notes, *notes))


def planned_image(request: ImageRequest, progress: Progress) -> ImagePlan:
    """What is built, of what, and where. The environment is resolved if its lock is of other inputs.

    Raises as `build_image` does, before anything is installed.
    """
    places, push_places = tuple(map(place_of, request.images)), tuple(map(place_of, request.push_image))
    if (places or push_places) and not request.tag:
        raise BadInput("--images and --push-image are for images that are named by their inputs", hint="add --tag hash")
    spack = find_spack(request.spack)
    environment, name = _environment(request, spack, progress)
    inputs = inputs_hash(environment)
    usual = Key(name=name, inputs=inputs).file_name if request.tag else f"{name}.squashfs"
    output = request.output or Path(usual)
    target = Path(os.path.abspath(output / usual if output.is_dir() else output))
    refuse_foreign(target)
    store = Path(os.path.abspath(request.store or _usual_store(environment, name)))
    return ImagePlan(
        found_spack=spack,
        environment=environment,
        name=name,
        inputs=inputs,
        target=target,
        store=store,
        places=places,
        push_places=push_places,
    )


def _environment(request: ImageRequest, spack: Spack | None, progress: Progress) -> tuple[Installable, str]:
    """The resolved environment and a name for its image."""
    folder = Path(request.source)
    if (folder / MANIFEST).is_file():
        purpose = str(files.read_record(folder).more.get(PURPOSE, ""))
        name = purpose.split(" for ", maxsplit=1)[0] if purpose else folder.resolve().name
        return read_installable(folder), name
    recipe = load_recipe(request.source)
    choice = choose(recipe, request.system, request.uarch)
    planned = plan_environment(recipe, choice.system, choice.uarch)
    order = BuildRequest(recipe=request.source, spack=request.spack, repo=request.repo)
    outcome = build_environment(planned, usual_folder(planned), order, progress)
    if outcome.lock is None:
        kind = BadInput if spack else ToolMissing
        raise kind(f"{outcome.folder} is {outcome.state}", hint="\n".join(outcome.next_steps))
    return read_installable(outcome.folder), recipe.name


def _install(request: ImageRequest, plan: ImagePlan, spack: Spack, progress: Progress) -> Installed:
    options = InstallOptions(
        jobs=request.jobs,
        repos={name: repository_folder(name, path) for name, path in request.repos.items()},
        mirrors=tuple(map(as_url, request.mirror)),
        caches=tuple(map(as_url, request.cache)),
        unsigned=request.unsigned,
        beside_others=request.install_only,
    )
    environment = plan.environment
    with progress(f"installing {len(environment.lock.packages)} packages") as on_step:
        return install(spack, environment, plan.store, options, on_step=on_step)


def _pushed(request: ImageRequest, plan: ImagePlan, spack: Spack, progress: Progress) -> tuple[str, ...]:
    """Fill a build cache. The image is complete by then, and stays if this fails."""
    url = as_url(request.push)
    with progress(f"filling {url}"):
        count = push(spack, plan.environment, plan.store, url, unsigned=request.unsigned)
    return (f"{count} packages are new in {url}",)


def _usual_store(environment: Installable, name: str) -> Path:
    """A store in the user's cache for this lock alone."""
    hashes = "\n".join(sorted(package.hash for package in environment.lock.packages))
    return usual_stores() / f"{name}-{files.digest(hashes)[:12]}"


def _tree(plan: ImagePlan) -> Tree:
    environment, store = plan.environment, plan.store
    left_out = omitted(environment, store)
    roots = [parse_spec(root).package for root in environment.lock.roots]
    description = f"{', '.join(sorted(roots)[:4])}{' and more' if len(roots) > 4 else ''}; made by uenvtool"
    name = uenv_name(plan.target.stem, "environment")
    return Tree(
        folder=store,
        added=described(environment, store, name=name, description=description, inputs=plan.inputs),
        left_out=left_out,
    )


def _result(plan: ImagePlan, packed: Packed) -> Result:
    environment, store = plan.environment, plan.store
    size = f"{packed.bytes / 1e6:.1f} MB"
    return Result(
        data={
            "image": str(packed.path),
            "bytes": packed.bytes,
            "sha256": packed.sha256,
            "inputs": plan.inputs,
            "mount": environment.mount,
            "view": environment.view,
            "packages": environment.lock.versions(),
            "store": str(store),
        },
        text=str(packed.path),
        notes=(f"{packed.path.name}: {size}, sha256 {packed.sha256}", f"the store stays for the next run: {store}"),
        next=(_start(plan),),
    )


def found_before(request: ImageRequest, plan: ImagePlan, progress: Progress) -> FoundBefore:
    """The image of these inputs, if it is there or a place keeps it; the target and `push_places` have it then.

    Raises as `take` and `keep` do.
    """
    if not request.tag:
        return FoundBefore()
    taken = Taken()
    if not is_made_of(plan.target, plan.inputs):
        taken = take(plan.places, plan.key, plan.target, progress)
        if not taken.place:
            return FoundBefore(warnings=taken.warnings)
    others = [kept for kept in plan.push_places if kept.shown != taken.place]
    kept = tuple(keep(others, plan.target, plan.key, progress))
    result = _made_before(plan, taken.place)
    return FoundBefore(result=dataclasses.replace(result, warnings=(*taken.warnings, *kept)))


def _made_before(plan: ImagePlan, place: str) -> Result:
    """The answer if the image of these inputs is there. place: the one that it was taken from now."""
    tested = tested_sha256(plan.target) is not None and not has_mark_of_another(plan.target)
    state = "marked as tested" if tested else "not marked as tested: uenvtool image mark-tested"
    return Result(
        data={
            "image": str(plan.target),
            "inputs": plan.inputs,
            "made_before": True,
            "tested": tested,
            "taken_from": place or None,
        },
        text=str(plan.target),
        notes=(
            f"{plan.target.name} is of these inputs{f', from {place}' if place else ''}; nothing was built; {state}",
        ),
        next=(_start(plan),),
    )


def _installed(plan: ImagePlan, installed: Installed) -> Result:
    return Result(
        data={"store": str(plan.store), "from_cache": list(installed.cached), "built": list(installed.built)},
        text=str(plan.store),
        notes=(f"{len(installed.cached)} packages from a cache, {len(installed.built)} built by this run",),
    )


def _start(plan: ImagePlan) -> str:
    return f"uenv start {shlex.quote(str(plan.target))} --view={plan.environment.view}"


def as_url(place: str) -> str:
    """A cache or mirror as Spack names it; a folder may be given as its path."""
    return place if "://" in place else f"file://{os.path.abspath(place)}"


def absent_caches(request: ImageRequest) -> Iterator[str]:
    """A sentence for each cache and mirror on disk that is not there; Spack itself says nothing."""
    for kind, places in (("build cache", request.cache), ("source mirror", request.mirror)):
        for url in map(as_url, places):
            folder = folder_of(url)
            if folder is not None and not folder.is_dir():
                yield f"there is no {kind} at {url}"


def _not_from_caches(request: ImageRequest, installed: Installed) -> Iterator[str]:
    """What was built although caches were named: Spack does not say that it does not trust a signature."""
    if request.cache and installed.built:
        why = "" if request.unsigned else ", or their signatures are not by a key that Spack trusts (`spack gpg trust`)"
        yield f"built, since the caches do not have them{why}: {', '.join(installed.built)}"
