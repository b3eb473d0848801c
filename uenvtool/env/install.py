"""Installs a resolved environment with real Spack, at its mount point, which only Spack sees; fills build caches.

Behind the packages come their module files, and a script of the user's.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from uenvtool.core.errors import BadInput, ToolFailed, ToolMissing
from uenvtool.core.files import fill, last_lines, remove_tree, scratch_folder, write, write_all
from uenvtool.core.processes import Completed, run
from uenvtool.core.result import Step
from uenvtool.env.folder import MODULES
from uenvtool.env.installable import Installable, pins_of
from uenvtool.env.output import InstallOutput, explain_failed_install, explain_failed_push
from uenvtool.env.program import Spack
from uenvtool.env.runner import Runner, index_cache, kept_output, user_cache, without_foreign, write_scope
from uenvtool.knowledge.lock import installed_hashes
from uenvtool.knowledge.recipe import module_kinds

MOUNTING: tuple[str | Path, ...] = (sys.executable, "-I", Path(__file__).parent / "scripts" / "with_mount.py")
"""What starts a command that sees a store mounted; without what Python takes from variables and the current folder."""
WORK = ".uenvtool-install"
"""The folder in a store where packages are built and logs are kept; no part of an image."""
STAGE = f"{WORK}/stage"
LOG = "spack.log"
"""The file in WORK with all that Spack printed in a run that failed; a run that does not removes it."""
BUILDER = "uenvtool"
"""The user's name for a build, whoever runs it. Spack 1.1 takes the name from LOGNAME and puts it into the path that
packages are built in, which gets into them, unless the path has it already (stage.py, _resolve_paths): STAGE has this
one."""
ENVIRONMENT = f"{WORK}/environment"
"""The folder in a store with the copies of the environments that Spack installs."""
LOCK_RACE = "LockUpgradeError"
"""What Spack 1.1.0 can end with if others install into its store: seen with three nodes of which one was killed."""
OWN = "uenvtool-"
"""What the names of mirrors begin with that are given as URLs."""
POST_INSTALL = "post-install"
"""The name of the script among the texts of an environment that is made an image."""
LOCAL = "local"
"""The folder of an image with what the script put there."""
MODULE_FILES = "modules"
"""The folder of an image with its module files."""
_MADE_ON = re.compile(rb"(Module file created by spack \([^)\n]*\)) on [0-9:. -]+")
MAX_RUNS = 5
"""How often a Spack that shares its store is started, if it ends so; each run goes on where the last one was."""


def usual_stores() -> Path:
    """Return the folder of this user's stores, each of one lock, for which no other place is named."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "uenvtool" / "stores"


@dataclass(frozen=True, kw_only=True, slots=True)
class InstallOptions:
    """How to install. jobs: processes of one build, None for Spack's own choice.

    repos: package repositories on disk, by name. mirrors: URLs of source mirrors. caches: URLs of build
    caches. unsigned: take packages from a cache that nobody signed. beside_others: others install into the same store
    at the same time; the view is left to the last. scope: a folder of Spack's configuration, see `Runner`.
    """

    jobs: int | None = None
    repos: Mapping[str, Path] = field(default_factory=dict)
    mirrors: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    unsigned: bool = False
    beside_others: bool = False
    scope: Path | None = None

    @property
    def spack_mirrors(self) -> dict[str, object]:
        """All mirrors, as Spack's configuration has them, in the order in which it asks them."""
        sources = {"source": True, "binary": False}
        caches = {"source": False, "binary": True, "signed": not self.unsigned}
        found: dict[str, object] = {
            f"{OWN}source{index}": {"url": url, **sources} for index, url in enumerate(self.mirrors)
        }
        return found | {f"{OWN}cache{index}": {"url": url, **caches} for index, url in enumerate(self.caches)}


@dataclass(frozen=True, slots=True)
class Installed:
    """The packages that a run took from build caches, and those that it built, as NAME-VERSION; what Spack printed."""

    cached: tuple[str, ...] = ()
    built: tuple[str, ...] = ()
    log: str = ""

    def __add__(self, other: Installed) -> Installed:
        return Installed(self.cached + other.cached, self.built + other.built, self.log + other.log)


def install(
    spack: Spack,
    environment: Installable,
    store: Path,
    options: InstallOptions,
    *,
    on_step: Step | None = None,
) -> Installed:
    """Install an environment and make its view; `store` is the folder that Spack sees at the mount point.

    What the store has is not built again: a run that was stopped goes on. The environments of compilers, if
    there are any, are installed first. The user's own configuration of Spack stays outside.
    Raises BadInput if the mount point does not exist, ToolFailed if a package cannot be built; what is
    installed stays.
    """
    require_mount_point(environment.mount)
    with scratch_folder() if options.beside_others else contextlib.nullcontext(store / WORK) as work:
        write_scope(work / "configuration", configuration(environment, options))
        view = False if options.beside_others else _views(environment)
        for name in environment.views if view else ():
            _remove_unfinished_views(store / "env" / name)
        folder = staged_folder(environment, work)
        write_all(folder, environment.staged_texts(view, options.repos).items())
        runner = sandboxed(spack, environment, store, work, folder, options)
        installed = Installed()
        for compiler, lock in environment.compiler_locks.items():
            first = replace(runner, folder=folder / compiler)
            installed += _install(first, replace(environment, lock=lock), store, options, on_step)
        return installed + _install(runner, environment, store, options, on_step)


def require_mount_point(mount: str) -> None:
    """Raise BadInput if there is no folder that the store of an image could be seen at."""
    if not Path(mount).is_dir():
        raise BadInput(
            f"the mount point {mount} does not exist here",
            hint=f"make it (`mkdir {mount}` as root); it stays empty",
        )


def require_mount(mount: str) -> None:
    """Raise BadInput if there is no mount point, ToolMissing if nothing can be mounted at it here."""
    require_mount_point(mount)
    with scratch_folder() as folder:
        done = run([*MOUNTING, folder, mount, "true"])
    if done.code != 0:
        hint = "root can, and others where user namespaces are allowed (user_namespaces(7))"
        raise ToolMissing(f"nothing can be mounted at {mount} here: {done.stderr.strip()}", hint=hint)


def staged_folder(environment: Installable, work: Path) -> Path:
    """Return the folder with the copy of an environment that Spack installs. work: WORK in a store."""
    return work / Path(ENVIRONMENT).name / environment.place


def push(spack: Spack, environment: Installable, store: Path, url: str, options: InstallOptions) -> int:
    """Put the packages of an installed environment into a build cache; gives how many it lacked.

    url: of the cache. Spack's own key signs, unless they are to be unsigned. Raises ToolFailed if Spack has no key, or
    cannot write there.
    """
    work = store / WORK
    folder = folder_of(url)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    staged = staged_folder(environment, work)
    runner = sandboxed(spack, environment, store, work, staged, options, [folder] if folder else ())
    signing = ["--unsigned"] if options.unsigned else ["--signed"]
    completed = runner.run("buildcache", "push", *signing, "--update-index", url)
    if completed.code != 0:
        output = _kept(completed, environment, store)
        raise explain_failed_push(spack, url=url, code=completed.code, output=output, log=work / LOG)
    return completed.stdout.count("] Pushed ")


def folder_of(url: str) -> Path | None:
    """Return the folder that the URL of a cache or mirror names; None if it is elsewhere."""
    return Path(unquote(urlsplit(url).path)) if url.startswith("file://") else None


def sandboxed(
    spack: Spack,
    environment: Installable,
    store: Path,
    work: Path,
    folder: Path,
    options: InstallOptions,
    also: Sequence[Path] = (),
) -> Runner:
    """Return a runner whose Spack sees the store at the mount point, and can write there and to its own folders alone.

    also: further folders that it may write to.
    """
    user_cache().mkdir(parents=True, exist_ok=True)  # what is not there cannot be left writable
    root = spack.program.resolve().parent.parent  # its keys lie there
    keys = Path(os.environ.get("SPACK_GNUPGHOME", root))
    named = {work, user_cache(), root, keys, *also}
    words = [word for folder in sorted(named) for word in ("--writable", folder)]
    prefix = (*MOUNTING, *words, store, environment.mount)
    variables = {"LOGNAME": BUILDER, "USER": BUILDER}
    scope = work / "configuration"
    return Runner(spack=spack, folder=folder, scope=scope, below=options.scope, prefix=prefix, variables=variables)


def _install(
    runner: Runner, environment: Installable, store: Path, options: InstallOptions, on_step: Step | None
) -> Installed:
    """Run `spack install` to its end. One that shares the store goes on after a failure: the others do too."""
    of_lock = {package.hash for package in environment.lock.packages}
    output = InstallOutput(total=len(of_lock), done={key[:7] for key in of_lock & installed_hashes(store)})

    def handle(line: str) -> None:
        if output.take(line) and on_step:
            on_step(output.text())

    words = ["--include-build-deps"]  # as when they are built: Spack 1.2 leaves them out of what caches have
    words += [] if options.beside_others else ["--fail-fast"]
    words += ["-j", str(options.jobs)] if options.jobs else []
    for _ in range(MAX_RUNS if options.beside_others else 1):
        completed = runner.run("install", *words, on_line=handle)
        if completed.code == 0 or LOCK_RACE not in completed.stdout + completed.stderr:
            break
    judged(completed, runner.spack, environment, store)
    (store / WORK / LOG).unlink(missing_ok=True)
    log = f"$ {completed.command}\n{completed.stdout}{completed.stderr}"
    return Installed(tuple(output.cached), tuple(output.built), log)


def judged(completed: Completed, spack: Spack, environment: Installable, store: Path) -> None:
    """Raise ToolFailed if Spack failed; its whole output is then in a file of the store."""
    if completed.code != 0:
        output = _kept(completed, environment, store)
        raise explain_failed_install(spack, code=completed.code, output=output, log=store / WORK / LOG)


def _kept(completed: Completed, environment: Installable, store: Path) -> str:
    """Return what Spack printed, which LOG has too; paths in it are those outside of the mount point."""
    return kept_output(completed, store / WORK / LOG, f"{environment.mount}/{WORK}/", f"{store}/{WORK}/")


def configuration(environment: Installable, options: InstallOptions) -> dict[str, object]:
    """Return Spack's configuration for the run: all that it writes lies in the store or in its own cache."""
    places = {
        "install_tree": {"root": environment.mount},
        "build_stage": [f"{environment.mount}/{STAGE}"],  # its name gets into what is built: the same everywhere
        "source_cache": os.fspath(user_cache() / "downloads"),
        "misc_cache": index_cache(platform.machine(), pins_of(environment.manifest)),
    }
    return {"config": places, "mirrors": options.spack_mirrors}


def _views(environment: Installable) -> object:
    views = environment.manifest.get("view")
    own = views if isinstance(views, dict) else {}
    return {name: {**own.get(name, {}), "root": environment.root_of(name)} for name in environment.views}


def _remove_unfinished_views(view: Path) -> None:
    """Remove what a run that was killed has left of a view; Spack refuses to write where one lies.

    Spack makes `._VIEW/HASH`, and has the symlink VIEW name it when it is complete (Spack 1.1,
    environment.py, ViewDescriptor.regenerate).
    """
    complete = os.path.basename(os.readlink(view)) if view.is_symlink() else ""
    made = view.parent / f"._{view.name}"
    for folder in made.iterdir() if made.is_dir() else ():
        if folder.name != complete:
            remove_tree(folder)


def make_modules(spack: Spack, environments: Sequence[Installable], store: Path, options: InstallOptions) -> None:
    """Have Spack make the module files of the environments that have a configuration of them.

    That is passed on as it is, but for the folder, which all share. Raises ToolFailed if Spack fails.
    """
    if has_modules(environments) and os.path.lexists(store / MODULE_FILES):
        remove_tree(store / MODULE_FILES)  # of an earlier run
    for environment in environments:
        if MODULES in environment.texts:
            _make_modules(spack, environment, store, options)
    for file in (store / MODULE_FILES).rglob("*"):
        if file.is_file():
            write(file, _MADE_ON.sub(rb"\1", file.read_bytes()))  # the same bytes, whenever they are made


def has_modules(environments: Sequence[Installable]) -> bool:
    """Tell if there are module files in the image of environments."""
    return any(MODULES in environment.texts for environment in environments)


def _make_modules(spack: Spack, environment: Installable, store: Path, options: InstallOptions) -> None:
    import yaml

    work, folder = store / WORK, f"{environment.mount}/{MODULE_FILES}"
    modules = yaml.load(environment.texts[MODULES], Loader=yaml.CSafeLoader)["modules"]
    default = modules.pop("default")
    (kind,) = module_kinds(default)
    own = {**default, "enable": [kind], "roots": {kind: folder}, "arch_folder": False}
    write_scope(work / MODULE_FILES, {**configuration(environment, options), "modules": {**modules, "default:": own}})
    runner = sandboxed(spack, environment, store, work, staged_folder(environment, work), options)
    done = replace(runner, scope=work / MODULE_FILES).run("module", kind, "refresh", "--yes-to-all")
    judged(done, spack, environment, store)


def run_post_install(environment: Installable, store: Path) -> None:
    """Run the script of an environment, if it has one, in a new folder LOCAL of the store.

    It sees the store at its mount point, and can write to LOCAL and to temporary files alone: the packages stay as
    the lock has them. Raises ToolFailed with the end of what it printed if it fails.
    """
    text = environment.texts.get(POST_INSTALL)
    if text is None:
        return
    log = store / WORK / f"{POST_INSTALL}.log"
    if os.path.lexists(store / LOCAL):
        remove_tree(store / LOCAL)  # of an earlier run
    (store / LOCAL).mkdir(parents=True, exist_ok=True)
    fill(store / WORK, {POST_INSTALL: text}, executable=[POST_INSTALL])
    local = f"{environment.mount}/{LOCAL}"
    options = ["--read-only", "--in", local, "--writable", local]
    sandbox = [*MOUNTING, *options, store, environment.mount]
    own = {"UENV_MOUNT": environment.mount, "UENV_VIEW": environment.root_of(environment.view), "UENV_LOCAL": local}
    done = run([*sandbox, f"{environment.mount}/{WORK}/{POST_INSTALL}"], env={**without_foreign(), **own})
    write(log, f"{done.stdout}{done.stderr}")
    if done.code != 0:
        lines = "".join(f"\n  {line}" for line in last_lines(log))
        hint = f"what it printed: {log}\nthe packages stay installed: mend the script, and run it again"
        raise ToolFailed(f"the script of --post-install failed (exit code {done.code}){lines}", hint=hint)
