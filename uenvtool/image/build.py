"""`uenvtool image build`: resolves environments if needed, installs them with Spack, and packs them into an image."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import indent

from uenvtool.core import files
from uenvtool.core.errors import BadInput, ToolMissing
from uenvtool.core.result import Progress, Result, silent
from uenvtool.core.words import counted, size_text
from uenvtool.env.build import build_environment
from uenvtool.env.directory import EXTRA, usual_directory
from uenvtool.env.install import (
    POST_INSTALL,
    Installed,
    InstallOptions,
    directory_of,
    install,
    make_modules,
    push,
    run_post_install,
    shell,
    usual_stores,
)
from uenvtool.env.installable import Installable, is_environment, pins_of, read_installable, read_manifest, together
from uenvtool.env.plan import named_environment
from uenvtool.env.program import SPACK_URL, Spack, deviations, find_spack, repository_directories, spack_is_missing
from uenvtool.env.request import BuildRequest
from uenvtool.env.runner import require_key
from uenvtool.image.metadata import PACKED
from uenvtool.image.pack import Packed, pack
from uenvtool.image.programs import find_programs
from uenvtool.image.read import LARGEST_TEXT, refuse_foreign
from uenvtool.image.report import Clock, ImagePlan, names_of, refuse_others, report_of, write_report
from uenvtool.image.request import ImageRequest
from uenvtool.image.store import image_tree
from uenvtool.knowledge.options import named_paths
from uenvtool.knowledge.system import GitPin

_OF_IMAGES = ("output", "push", "post_install", "meta", "install_only")
"""The options that --shell does not use."""


def build_image(request: ImageRequest, progress: Progress = silent) -> Result:
    """Build an image. Replaces an existing image at the same path only when the new image is complete.

    Raises BadInput if an input is invalid, or if a file that uenvtool did not pack has the path of the image. Raises
    AnswerIsNo if the lock cannot be installed, ToolMissing if Spack or squashfs-tools are not installed, and ToolFailed
    if Spack, another program or the disk fails, or if signed packages are pushed and Spack has no key.
    """
    unused = [name for name in _OF_IMAGES if request.shell and getattr(request, name)]
    if unused:
        option = f"--{unused[0].replace('_', '-')}"
        raise BadInput(f"--shell packs no image, so {option} has no effect", hint=f"leave out {option} or --shell")
    clock = Clock()
    plan = _planned(request, progress)
    clock.ends("resolving")
    if request.shell:
        shell(plan.spack, plan.environments[0], plan.store, plan.options)
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
                    f"packages: {len(installed.cached)} from a build cache, {len(installed.built)} built by this run",
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
    deviating, unseen = deviations(plan.spack, _pin(plan.environments[0]), plan.options.repos, pins(request))
    write_report(plan.target, report_of(plan, packed, installed, deviating, unseen, clock.seconds), installed.log)
    notes = _push(plan, as_url(request.push), progress) if request.push else ()  # if this fails, the image stays
    return _result(plan, packed, (*deviating, *unseen, *_cache_warnings(request, installed)), notes)


def _planned(request: ImageRequest, progress: Progress) -> ImagePlan:
    for mirror in request.mirror:
        if (directory := directory_of(as_url(mirror))) and not directory.is_dir():
            hint = "name a directory or a URL; to create a mirror: `spack -e DIR mirror create --all -d MIRROR`"
            raise BadInput(f"--mirror '{mirror}': directory not found", hint=hint)
    options = install_options(request)
    user_texts, spack = _user_texts(request), find_spack(request.spack)
    first, *others = (_environment(source, request, spack, progress) for source in request.sources)
    environments = together([replace(first, texts={**first.texts, **user_texts}), *others])
    usual = f"{first.name}.squashfs"
    output = request.output or usual
    is_directory = os.path.isdir(output) or output.endswith("/")
    target = Path(os.path.abspath(os.path.join(output, usual) if is_directory else output))
    refuse_foreign(target)
    refuse_others(target)
    if spack is None:
        directories = [os.fspath(environment.folder) for environment in environments]
        again = shlex.join(["uenvtool", "image", "build", *directories, "-o", os.fspath(target)])
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
    find_programs()  # fail before the slow steps
    order = BuildRequest(recipe=source, spack=request.spack, repo=request.repo)
    outcome = build_environment(environment, usual_directory(environment), order, progress)
    if outcome.lock is None:
        kind = BadInput if spack else ToolMissing
        raise kind(f"{outcome.directory} is {outcome.state}", hint=f"run:\n{indent(outcome.next_step, '  ')}")
    return read_installable(outcome.directory)


def _user_texts(request: ImageRequest) -> dict[str, str]:
    named = {f"{EXTRA}/{file.name}": ("--meta", file) for file in request.meta}
    named |= {POST_INSTALL: ("--post-install", request.post_install)} if request.post_install else {}
    texts = {}
    for name, (option, file) in named.items():
        if name == f"{EXTRA}/{Path(PACKED).name}":
            raise BadInput(f"{option} '{file.name}': uenvtool writes {PACKED} itself", hint="rename the file")
        if not re.fullmatch(r"(extra/)?[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
            hint = "rename the file: use letters, digits, '_', '.' and '-', and start with a letter, a digit or '_'"
            raise BadInput(f"{option} '{file.name}': this file name is not allowed in an image", hint=hint)
        try:
            texts[name] = files.read_named(file, LARGEST_TEXT).decode("utf-8")
        except FileNotFoundError as error:
            raise BadInput(f"{option}: file not found: '{error}'", hint="name an existing file") from error
        except UnicodeDecodeError as error:
            raise BadInput(f"{option} '{file.name}': not a text file: {error}", hint="save it as UTF-8") from error
    return texts


def install_options(request: ImageRequest) -> InstallOptions:
    """Return Spack's options for the build.

    Raises BadInput if a value of --repo is not a package repository, or --config-scope is not a directory.
    """
    scope = request.config_scope
    if scope and not scope.is_dir():
        hint = "name a directory with files such as mirrors.yaml"
        raise BadInput(f"--config-scope '{scope}': directory not found", hint=hint)
    return InstallOptions(
        jobs=request.jobs,
        repos=repository_directories(named_paths(request.repo), pins(request)),
        mirrors=tuple(map(as_url, request.mirror)),
        caches=tuple(map(as_url, request.cache)),
        unsigned=request.unsigned,
        shared=request.install_only,
        scope=scope and scope.absolute(),
    )


def pins(request: ImageRequest) -> dict[str, GitPin]:
    """Return the pins of the package repositories of all sources, by name. Raises BadInput if a source is invalid."""
    pins_by_name: dict[str, GitPin] = {}
    for source in request.sources if request.repo else ():
        manifest = read_manifest(Path(source))
        if manifest is None:
            pins_by_name |= named_environment(source, request.system, request.uarch).pins
        else:
            pins_by_name |= pins_of(manifest)
    return pins_by_name


def as_url(location: str) -> str:
    """Return the URL of a cache or mirror. location: a URL, or the path of a directory."""
    return location if "://" in location else f"file://{os.path.abspath(location)}"


def _install(plan: ImagePlan, progress: Progress) -> Installed:
    installed = Installed()
    for environment in plan.environments:
        count = counted(len(environment.lock.packages), "package")
        with progress(f"installing {count} of {environment.name}") as on_step:
            installed += install(plan.spack, environment, plan.store, plan.options, on_step=on_step)
    return installed


def _push(plan: ImagePlan, url: str, progress: Progress) -> tuple[str, ...]:
    with files.locked(plan.store, below=False), progress(f"pushing packages to {url}"):
        count = sum(push(plan.spack, environment, plan.store, url, plan.options) for environment in plan.environments)
    return (f"new in {url}: {counted(count, 'package')}",)


def _usual_store(environments: Sequence[Installable]) -> Path:
    hashes = "\n".join(sorted({package.hash for each in environments for package in each.lock.packages}))
    return usual_stores() / f"{environments[0].name}-{files.digest(hashes)[:12]}"


def _result(plan: ImagePlan, packed: Packed, warnings: tuple[str, ...], notes: tuple[str, ...]) -> Result:
    environment, target = plan.environments[0], plan.target
    packages = {package.hash: package for each in plan.environments for package in each.lock.packages}
    start = f"uenv start {shlex.quote(str(target))} --view={environment.view}"
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
            f"{target.name}: {size_text(packed.bytes)}, sha256 {packed.sha256}",
            f"the next run reuses the store: {plan.store}",
            f"report and log, next to the image: {' and '.join(names_of(target))}",
            *notes,
        ),
        next=(start if shutil.which("uenv") else f"{start}  # on a machine with the uenv client",),
    )


def _cache_warnings(request: ImageRequest, installed: Installed) -> Iterator[str]:
    for url in map(as_url, request.cache):
        directory = directory_of(url)
        if directory is not None and not directory.is_dir():  # Spack ignores it silently
            yield f"the build cache {url} does not exist"
    if request.cache and installed.built:  # Spack does not report an untrusted signature
        untrusted = ", or Spack does not trust the key of their signatures (`spack gpg trust`)"
        signatures = "" if request.unsigned else untrusted
        yield f"built because no build cache has them{signatures}: {', '.join(installed.built)}"
