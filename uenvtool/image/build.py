"""Builds the image of environments: resolved if needed, installed by real Spack, described, packed, read back."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import indent

from uenvtool.core import files
from uenvtool.core.errors import BadInput, ToolMissing
from uenvtool.core.result import Progress, Result, silent
from uenvtool.core.words import counted, size_text
from uenvtool.env.build import build_environment
from uenvtool.env.folder import EXTRA, usual_folder
from uenvtool.env.install import (
    POST_INSTALL,
    Installed,
    InstallOptions,
    folder_of,
    install,
    make_modules,
    push,
    run_post_install,
    usual_stores,
)
from uenvtool.env.installable import Installable, is_environment, pins_of, read_installable, read_manifest, together
from uenvtool.env.plan import named_environment
from uenvtool.env.program import SPACK_URL, Spack, deviations, find_spack, repository_folders, spack_is_missing
from uenvtool.env.request import BuildRequest
from uenvtool.env.runner import require_key
from uenvtool.image.metadata import PACKED
from uenvtool.image.pack import Packed, pack
from uenvtool.image.programs import find_programs
from uenvtool.image.read import LARGEST_TEXT, refuse_foreign
from uenvtool.image.report import Clock, names_of, refuse_others, report_of, write_report
from uenvtool.image.request import ImageRequest
from uenvtool.image.store import image_tree
from uenvtool.knowledge.system import GitPin


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePlan:
    """An image that is to be built.

    environments: the first is the image's own. store: the folder that is installed into. options: how.
    """

    spack: Spack
    environments: tuple[Installable, ...]
    target: Path
    store: Path
    options: InstallOptions

    @property
    def pin(self) -> GitPin:
        """The Spack that resolved it."""
        return _pin(self.environments[0])

    @property
    def start(self) -> str:
        """The command that loads the image, and where, if there is no client of uenv here."""
        command = f"uenv start {shlex.quote(str(self.target))} --view={self.environments[0].view}"
        return command if shutil.which("uenv") else f"{command}  # on a machine with the uenv client"


def build_image(request: ImageRequest, progress: Progress = silent) -> Result:
    """Build an image. The old one, if any, is as it was until the new one is complete.

    Raises BadInput if an input is wrong or the target is not an image of this tool's, AnswerIsNo if the
    lock would not install, ToolMissing without Spack or squashfs-tools, ToolFailed if Spack, a program
    or the disk fails, or if packages are to be signed and there is no key.
    """
    clock = Clock()
    plan = planned_image(request, progress)
    clock.ends("resolving")
    programs = find_programs()
    if request.push and not request.unsigned:
        require_key(plan.spack)
    with files.locked(plan.store, shared=request.install_only):
        installed = _install(plan, progress)
        clock.ends("installing")
        if request.install_only:
            return Result(
                data={"store": str(plan.store), "from_cache": list(installed.cached), "built": list(installed.built)},
                text=str(plan.store),
                notes=(
                    f"{len(installed.cached)} of the packages from a cache, {len(installed.built)} built by this run",
                ),
            )
        make_modules(plan.spack, plan.environments, plan.store, plan.options)
        run_post_install(plan.environments[0], plan.store)
        with progress(f"packing {plan.target.name}"), files.workplace(plan.target) as work:
            (scratch := work / "scratch").mkdir()
            tree = image_tree(plan.environments, plan.store, scratch)
            packed = pack(programs, tree, work / "new", scratch)
            files.publish([files.Replacement(new=work / "new", target=plan.target)])
        clock.ends("packing")
    used = deviations(plan.spack, plan.pin, plan.options.repos, pins(request))
    report = report_of(
        plan.environments,
        packed,
        installed,
        spack=plan.spack,
        repos=plan.options.repos,
        not_as_pinned=used.seen,
        seconds=clock.seconds,
    )
    write_report(plan.target, report, installed.log)
    notes = _pushed(plan, as_url(request.push), progress) if request.push else ()
    warnings = (*used.seen, *absent_caches(request), *_not_from_caches(request, installed))
    return _result(plan, packed, warnings, notes)


def planned_image(request: ImageRequest, progress: Progress) -> ImagePlan:
    """Decide what is built, of what, and where. An environment is resolved if its lock is of other inputs.

    Raises as `build_image` does, before anything is installed.
    """
    for place in request.mirror:
        if (folder := folder_of(as_url(place))) and not folder.is_dir():
            hint = "name a folder or a URL; `spack -e DIR mirror create --all -d FOLDER` fills one"
            raise BadInput(f"--mirror {place}: there is no such folder", hint=hint)
    options = install_options(request)
    own_texts, spack = _own_texts(request), find_spack(request.spack)
    first, *others = (_environment(source, request, spack, progress) for source in request.sources)
    environments = together([replace(first, texts={**first.texts, **own_texts}), *others])
    usual = f"{first.name}.squashfs"
    output = request.output or usual
    is_folder = os.path.isdir(output) or str(output).endswith("/")
    target = Path(os.path.abspath(os.path.join(output, usual) if is_folder else output))
    refuse_foreign(target)
    refuse_others(target)
    if spack is None:
        folders = [os.fspath(one.folder) for one in environments]
        again = shlex.join(["uenvtool", "image", "build", *folders, "-o", os.fspath(target)])
        raise spack_is_missing(_pin(first), again)
    return ImagePlan(
        spack=spack,
        environments=environments,
        target=target,
        store=Path(os.path.abspath(request.store or _usual_store(environments))),
        options=options,
    )


def _pin(environment: Installable) -> GitPin:
    return GitPin(url=SPACK_URL, tag=f"v{environment.lock.spack}")


def _environment(source: str, request: ImageRequest, spack: Spack | None, progress: Progress) -> Installable:
    if is_environment(Path(source)):
        return read_installable(Path(source))
    environment = named_environment(source, request.system, request.uarch)
    find_programs()  # what takes long is not begun without them
    order = BuildRequest(recipe=source, spack=request.spack, repo=request.repo)
    outcome = build_environment(environment, usual_folder(environment), order, progress)
    if outcome.lock is None:
        kind = BadInput if spack else ToolMissing
        steps = indent("\n".join(outcome.next_steps), "  ")
        raise kind(f"{outcome.folder} is {outcome.state}", hint=f"go on with\n{steps}")
    return read_installable(outcome.folder)


def _own_texts(request: ImageRequest) -> dict[str, str]:
    """Return the script and the metadata that the user names, which are inputs as an environment's own files.

    Raises BadInput for what is no text, or has a name that an image cannot have there.
    """
    named = {f"{EXTRA}/{file.name}": file for file in request.meta}
    named |= {POST_INSTALL: request.post_install} if request.post_install else {}
    odd = [name for name in named if not re.fullmatch(r"(extra/)?[A-Za-z0-9_][A-Za-z0-9_.-]*", name)]
    if odd or f"{EXTRA}/{Path(PACKED).name}" in named:
        wrong = odd[0] if odd else PACKED
        raise BadInput(f"{wrong} cannot be metadata of yours", hint="give the file another name")
    try:
        return {name: files.read_named(file, LARGEST_TEXT).decode("utf-8") for name, file in named.items()}
    except FileNotFoundError as error:
        raise BadInput(f"there is no file {error}", hint="check the name") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"a script or metadata is no text: {error}", hint="save it as UTF-8") from error


def install_options(request: ImageRequest) -> InstallOptions:
    """Return how to install. Raises BadInput if a package repository is none, and as `config_scope`."""
    return InstallOptions(
        jobs=request.jobs,
        repos=repository_folders(request.repos, pins(request)),
        mirrors=tuple(map(as_url, request.mirror)),
        caches=tuple(map(as_url, request.cache)),
        unsigned=request.unsigned,
        beside_others=request.install_only,
        scope=config_scope(request),
    )


def config_scope(request: ImageRequest) -> Path | None:
    """Return the folder of Spack's configuration that is handed on, if any. Raises BadInput if it is not there."""
    if request.config_scope is None:
        return None
    if not request.config_scope.is_dir():
        hint = "name a folder with files such as mirrors.yaml"
        raise BadInput(f"--config-scope {request.config_scope}: there is no such folder", hint=hint)
    return request.config_scope.absolute()


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


def _install(plan: ImagePlan, progress: Progress) -> Installed:
    installed = Installed()
    for one in plan.environments:
        with progress(f"installing {counted(len(one.lock.packages), 'package')} of {one.name}") as on_step:
            installed += install(plan.spack, one, plan.store, plan.options, on_step=on_step)
    return installed


def _pushed(plan: ImagePlan, url: str, progress: Progress) -> tuple[str, ...]:
    """Fill a build cache. The image is complete by then, with its report, and stays if this fails."""
    with files.locked(plan.store, below=False), progress(f"filling {url}"):
        count = sum(push(plan.spack, one, plan.store, url, plan.options) for one in plan.environments)
    return (f"new in {url}: {counted(count, 'package')}",)


def _usual_store(environments: Sequence[Installable]) -> Path:
    hashes = "\n".join(sorted({package.hash for one in environments for package in one.lock.packages}))
    return usual_stores() / f"{environments[0].name}-{files.digest(hashes)[:12]}"


def _result(plan: ImagePlan, packed: Packed, warnings: tuple[str, ...], notes: tuple[str, ...]) -> Result:
    environment, target = plan.environments[0], plan.target
    packages = {package.hash: package for one in plan.environments for package in one.lock.packages}
    size = size_text(packed.bytes)
    return Result(
        data={
            "image": str(target),
            "bytes": packed.bytes,
            "sha256": packed.sha256,
            "mount": environment.mount,
            "view": environment.view,
            "packages": replace(environment.lock, packages=tuple(packages.values())).versions(),
            "store": str(plan.store),
        },
        text=str(target),
        warnings=warnings,
        notes=(
            f"{target.name}: {size}, sha256 {packed.sha256}",
            f"the store stays for the next run: {plan.store}",
            f"what went in and came of it: {' and '.join(names_of(target))} beside it",
            *notes,
        ),
        next=(plan.start,),
    )


def absent_caches(request: ImageRequest) -> Iterator[str]:
    """Yield a sentence for each cache on disk that is not there; Spack itself says nothing."""
    for url in map(as_url, request.cache):
        folder = folder_of(url)
        if folder is not None and not folder.is_dir():
            yield f"there is no build cache at {url}"


def _not_from_caches(request: ImageRequest, installed: Installed) -> Iterator[str]:
    """Yield what was built although caches were named: Spack does not say that it does not trust a signature."""
    if request.cache and installed.built:
        why = "" if request.unsigned else ", or their signatures are not by a key that Spack trusts (`spack gpg trust`)"
        yield f"built, since the caches do not have them{why}: {', '.join(installed.built)}"
