"""Installs a resolved environment with Spack, generates module files, runs the user's script, and fills build caches.

The store is mounted at the image's mount point, where only Spack and its child processes see it.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from uenvtool.core.errors import BadInput, ToolFailed, ToolMissing
from uenvtool.core.files import (
    appending,
    fill,
    last_lines,
    locked,
    remove_tree,
    scratch_folder,
    take_lock,
    write,
    write_all,
)
from uenvtool.core.processes import Completed, become, run
from uenvtool.core.result import Step
from uenvtool.env.directory import MODULES, yaml_data
from uenvtool.env.installable import Installable, pins_of
from uenvtool.env.output import InstallOutput, explain_failed_install, explain_failed_push
from uenvtool.env.program import Spack
from uenvtool.env.runner import Runner, index_cache, log_output, user_cache, without_foreign, write_scope
from uenvtool.knowledge.lock import installed_hashes
from uenvtool.knowledge.recipe import module_kinds

MOUNTING: tuple[str | Path, ...] = (sys.executable, "-I", Path(__file__).parent / "scripts" / "with_mount.py")
"""The start of a command that runs another command with a store mounted.

`-I` makes Python ignore environment variables and the current directory.
"""
WORK = ".uenvtool-install"
"""The directory in a store for builds and logs. An image does not contain this directory."""
STAGE = f"{WORK}/stage"
LOG = "spack.log"
"""The file in WORK with the output of the last installation, also of one that failed or was killed."""
BUILDER = "uenvtool"
"""The user name of every build, which is part of STAGE.

Spack 1.1 appends LOGNAME to the build path, unless the path already contains LOGNAME (stage.py, _resolve_paths). Built
packages contain the build path, so it must not depend on the user.
"""
LOCK_RACE = "LockUpgradeError"
"""An error of Spack 1.1.0 when several runs install into one store. Observed with three nodes, one of them killed."""
MIRROR_PREFIX = "uenvtool-"
"""The prefix in the names of mirrors that the user gives as URLs."""
POST_INSTALL = "post-install"
"""The name of the user's script among the texts of an environment."""
LOCAL = "local"
"""The directory of an image for the files that the user's script installs."""
MODULE_FILES = "modules"
"""The directory of an image for module files."""
_MADE_ON = re.compile(rb"(Module file created by spack \([^)\n]*\)) on [0-9:. -]+")
MAX_RUNS = 5
"""How often uenvtool starts Spack at most if LOCK_RACE occurs. Each run continues where the previous run stopped."""


def usual_stores() -> Path:
    """Return the default directory of this user's stores. Each store belongs to one lock."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "uenvtool" / "stores"


@dataclass(frozen=True, kw_only=True, slots=True)
class InstallOptions:
    """Options of an installation.

    jobs: the number of parallel processes of one build, or None for Spack's default. repos: the directories of package
    repositories on disk, by name. mirrors, caches: the URLs of source mirrors and of build caches. unsigned: whether
    Spack accepts unsigned packages from a cache. shared: whether other runs install into the same store at the same
    time. If so, this run does not create the view. scope: the user's directory of Spack configuration, see `Runner`.
    """

    jobs: int | None = None
    repos: Mapping[str, Path] = field(default_factory=dict)
    mirrors: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    unsigned: bool = False
    shared: bool = False
    scope: Path | None = None

    @property
    def spack_mirrors(self) -> dict[str, object]:
        """The value of Spack's configuration key `mirrors`. Spack tries the mirrors in this order."""
        sources = {"source": True, "binary": False}
        caches = {"source": False, "binary": True, "signed": not self.unsigned}
        return {
            **{f"{MIRROR_PREFIX}source{index}": {"url": url, **sources} for index, url in enumerate(self.mirrors)},
            **{f"{MIRROR_PREFIX}cache{index}": {"url": url, **caches} for index, url in enumerate(self.caches)},
        }


@dataclass(frozen=True, slots=True)
class Installed:
    """The packages from build caches and the packages that the run built, as NAME-VERSION. log: Spack's output."""

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
    """Install an environment and create its views. Spack sees the directory `store` at the mount point.

    Spack skips packages that are in the store, so a new run continues a stopped one. Spack installs the environments
    of compilers first, and ignores the user's configuration. Raises BadInput if the mount point does not exist, and
    ToolFailed if Spack cannot build a package. After an error, the installed packages stay in the store.
    """
    with scratch_folder() if options.shared else contextlib.nullcontext(store / WORK) as work:
        runner = _staged(spack, environment, store, work, options)
        directory = runner.directory
        if not options.shared:
            (store / WORK / LOG).unlink(missing_ok=True)
        installed = Installed()
        for compiler, lock in environment.compiler_locks.items():
            first = replace(runner, directory=directory / compiler)
            installed += _install(first, replace(environment, lock=lock), store, options, on_step)
        return installed + _install(runner, environment, store, options, on_step)


def _staged(spack: Spack, environment: Installable, store: Path, work: Path, options: InstallOptions) -> Runner:
    require_mount_point(environment.mount)
    write_scope(work / "configuration", configuration(environment, options))
    view = False if options.shared else _views(environment)
    for name in environment.views if view else ():
        _remove_unfinished_views(store / "env" / name)
    runner = sandboxed(spack, environment, store, work, options)
    write_all(runner.directory, environment.staged_texts(view, options.repos).items())
    return runner


def shell(spack: Spack, environment: Installable, store: Path, options: InstallOptions) -> NoReturn:
    """Replace this process with the user's shell in the sandbox of a build, in which `spack` uses the environment.

    The shell holds the lock of the store until it ends. Raises BadInput if the mount point does not exist, ToolFailed
    if another run uses the store.
    """
    with locked(store):
        runner = _staged(spack, environment, store, store / WORK, options)
    descriptor = os.open(store, os.O_RDONLY | os.O_DIRECTORY)
    take_lock(descriptor, store)
    os.set_inheritable(descriptor, True)
    variables = without_foreign() | {
        "PATH": f"{spack.program.parent}{os.pathsep}{os.environ['PATH']}",
        "SPACK_ENV": os.fspath(runner.directory),
        "SPACK_USER_CONFIG_PATH": os.fspath(runner.scope),
        "SPACK_SYSTEM_CONFIG_PATH": os.fspath(runner.user_scope or runner.scope),
    }
    become([*runner.prefix, os.environ.get("SHELL") or "/bin/sh"], {**variables, **runner.variables})


def require_mount_point(mount: str) -> None:
    """Raise BadInput if the mount point does not exist."""
    if not Path(mount).is_dir():
        raise BadInput(
            f"the mount point {mount} does not exist",
            hint=f"create this empty directory as root: `mkdir {mount}`",
        )


def require_mount(mount: str) -> None:
    """Raise BadInput if the mount point does not exist, ToolMissing if this user cannot mount a directory there."""
    require_mount_point(mount)
    with scratch_folder() as directory:
        done = run([*MOUNTING, directory, mount, "true"])
    if done.code != 0:
        hint = "run as root, or allow user namespaces (user_namespaces(7))"
        raise ToolMissing(f"cannot mount at {mount}: {done.stderr.strip()}", hint=hint)


def push(spack: Spack, environment: Installable, store: Path, url: str, options: InstallOptions) -> int:
    """Push the packages of an installed environment to the build cache `url`, and return how many the cache lacked.

    Spack signs the packages with its key, unless `unsigned` is set. Raises ToolFailed if Spack has no key or cannot
    write to the cache.
    """
    work = store / WORK
    directory = directory_of(url)
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    runner = sandboxed(spack, environment, store, work, options, [directory] if directory else ())
    signing = ["--unsigned"] if options.unsigned else ["--signed"]
    completed = runner.run("buildcache", "push", *signing, "--update-index", url)
    if completed.code != 0:
        output = _logged_output(completed, environment, store)
        raise explain_failed_push(spack, url=url, code=completed.code, output=output, log=work / LOG)
    return completed.stdout.count("] Pushed ")


def directory_of(url: str) -> Path | None:
    """Return the directory of a file:// URL, or None for another URL."""
    return Path(unquote(urlsplit(url).path)) if url.startswith("file://") else None


def sandboxed(
    spack: Spack, environment: Installable, store: Path, work: Path, options: InstallOptions, also: Sequence[Path] = ()
) -> Runner:
    """Return a runner whose Spack sees the store at the mount point.

    Spack can write only to the store, its cache, its keys, `work`, and the directories in `also`.
    """
    user_cache().mkdir(parents=True, exist_ok=True)  # only an existing directory can stay writable
    root = spack.program.resolve().parent.parent  # the default location of Spack's keys
    keys = Path(os.environ.get("SPACK_GNUPGHOME", root))
    writable = sorted({work, user_cache(), root, keys, *also})
    arguments = [argument for directory in writable for argument in ("--writable", directory)]
    return Runner(
        spack=spack,
        directory=work / "environment" / environment.place,
        scope=work / "configuration",
        user_scope=options.scope,
        prefix=(*MOUNTING, *arguments, store, environment.mount),
        variables={"LOGNAME": BUILDER, "USER": BUILDER},
    )


def _install(
    runner: Runner, environment: Installable, store: Path, options: InstallOptions, on_step: Step | None
) -> Installed:
    hashes = {package.hash for package in environment.lock.packages}
    output = InstallOutput(total=len(hashes), done={key[:7] for key in hashes & installed_hashes(store)})

    def handle(line: str) -> None:
        log.append(line.replace(*_shown_paths(environment, store)))
        append(log[-1])
        if output.take(line) and on_step:
            on_step(output.text())

    log: list[str] = []
    arguments = ["--include-build-deps"]  # Spack 1.2 skips them for packages from a cache
    arguments += [] if options.shared else ["--fail-fast"]  # in a shared store, continue like the other runs
    arguments += ["-j", str(options.jobs)] if options.jobs else []
    with appending(store / WORK / LOG) as append:
        for _ in range(MAX_RUNS if options.shared else 1):
            handle(f"$ {shlex.join(runner.command('install', *arguments))}")
            completed = runner.run("install", *arguments, on_line=handle)
            if completed.code == 0 or LOCK_RACE not in completed.stdout + completed.stderr:
                break
    _raise_if_failed(completed, runner.spack, environment, store)
    return Installed(tuple(output.cached), tuple(output.built), "".join(f"{line}\n" for line in log))


def _raise_if_failed(completed: Completed, spack: Spack, environment: Installable, store: Path) -> None:
    if completed.code != 0:
        output = _logged_output(completed, environment, store)
        raise explain_failed_install(spack, code=completed.code, output=output, log=store / WORK / LOG)


def _logged_output(completed: Completed, environment: Installable, store: Path) -> str:
    return log_output(completed, store / WORK / LOG, *_shown_paths(environment, store))


def _shown_paths(environment: Installable, store: Path) -> tuple[str, str]:
    # Only Spack's processes see the mount point, so the output must name paths in the store.
    return f"{environment.mount}/{WORK}/", f"{store}/{WORK}/"


def configuration(environment: Installable, options: InstallOptions) -> dict[str, object]:
    """Return the Spack configuration: the mirrors, and directories that are all in the store or in Spack's cache."""
    directories = {
        "install_tree": {"root": environment.mount},
        "build_stage": [f"{environment.mount}/{STAGE}"],  # built packages contain this path, so it never varies
        "source_cache": os.fspath(user_cache() / "downloads"),
        "misc_cache": index_cache(platform.machine(), pins_of(environment.manifest)),
    }
    return {"config": directories, "mirrors": options.spack_mirrors}


def _views(environment: Installable) -> object:
    views = environment.manifest.get("view")
    settings = views if isinstance(views, dict) else {}
    return {name: {**settings.get(name, {}), "root": environment.root_of(name)} for name in environment.views}


def _remove_unfinished_views(view: Path) -> None:
    # A killed run leaves an unfinished `._VIEW/HASH`, which Spack does not overwrite. Spack links VIEW to a complete
    # directory (Spack 1.1, environment.py, ViewDescriptor.regenerate).
    complete = os.path.basename(os.readlink(view)) if view.is_symlink() else ""
    generations = view.parent / f"._{view.name}"
    for directory in generations.iterdir() if generations.is_dir() else ():
        if directory.name != complete:
            remove_tree(directory)


def make_modules(spack: Spack, environments: Sequence[Installable], store: Path, options: InstallOptions) -> None:
    """Let Spack generate module files for the environments that configure modules.

    uenvtool changes only the directory of the module files, since all environments share one. Raises ToolFailed if
    Spack fails.
    """
    configuring = [each for each in environments if MODULES in each.texts]
    if configuring and os.path.lexists(store / MODULE_FILES):
        remove_tree(store / MODULE_FILES)  # from an earlier run
    for environment in configuring:
        modules = yaml_data(environment.texts[MODULES])["modules"]
        default = modules.pop("default")
        (kind,) = module_kinds(default)
        default |= {"enable": [kind], "roots": {kind: f"{environment.mount}/{MODULE_FILES}"}, "arch_folder": False}
        scope = store / WORK / MODULE_FILES
        write_scope(scope, {**configuration(environment, options), "modules": {**modules, "default:": default}})
        runner = replace(sandboxed(spack, environment, store, store / WORK, options), scope=scope)
        done = runner.run("module", kind, "refresh", "--yes-to-all")
        _raise_if_failed(done, spack, environment, store)
    for file in (store / MODULE_FILES).rglob("*"):
        if file.is_file():
            write(file, _MADE_ON.sub(rb"\1", file.read_bytes()))  # without the date, for reproducible images


def has_modules(environments: Sequence[Installable]) -> bool:
    """Return whether an image of these environments contains module files."""
    return any(MODULES in environment.texts for environment in environments)


def run_post_install(environment: Installable, store: Path) -> None:
    """Run the user's post-install script, if the environment has one, in a new directory LOCAL of the store.

    The script sees the store at the mount point. It can write only to LOCAL and to temporary directories, so it cannot
    change the packages. If the script fails, raises ToolFailed with the last lines of its output.
    """
    text = environment.texts.get(POST_INSTALL)
    if text is None:
        return
    log = store / WORK / f"{POST_INSTALL}.log"
    if os.path.lexists(store / LOCAL):
        remove_tree(store / LOCAL)  # from an earlier run
    (store / LOCAL).mkdir(parents=True, exist_ok=True)
    fill(store / WORK, {POST_INSTALL: text}, executable=[POST_INSTALL])
    local = f"{environment.mount}/{LOCAL}"
    sandbox = [*MOUNTING, "--read-only", "--in", local, "--writable", local, store, environment.mount]
    variables = {
        "UENV_MOUNT": environment.mount,
        "UENV_VIEW": environment.root_of(environment.view),
        "UENV_LOCAL": local,
    }
    done = run([*sandbox, f"{environment.mount}/{WORK}/{POST_INSTALL}"], env={**without_foreign(), **variables})
    write(log, f"{done.stdout}{done.stderr}")
    if done.code != 0:
        lines = "".join(f"\n  {line}" for line in last_lines(log))
        hint = f"fix the script and run the command again; the packages stay installed\nthe script's output: {log}"
        raise ToolFailed(f"the --post-install script failed (exit code {done.code}){lines}", hint=hint)
