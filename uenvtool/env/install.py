"""Installs a resolved environment with real Spack, at its mount point, which only Spack sees; fills build caches."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from uenvtool.core.errors import BadInput
from uenvtool.core.files import make_folder, remove_file, remove_tree, scratch_folder, write_all
from uenvtool.core.processes import Completed
from uenvtool.core.result import Step
from uenvtool.env.explain_failure import explain_failed_install, explain_failed_push
from uenvtool.env.installable import Installable
from uenvtool.env.program import Spack
from uenvtool.env.runner import Runner, kept_output, user_cache, write_scope
from uenvtool.knowledge.lock import LOCK, installed_hashes

WITH_MOUNT = Path(__file__).parent / "scripts" / "with_mount.py"
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
MAX_RUNS = 5
"""How often a Spack that shares its store is started, if it ends so; each run goes on where the last one was."""
_HASH = r"-[a-z0-9]{32}"
_EXTRACTING = re.compile(rf"==> Extracting (\S+){_HASH} from binary cache")
_INSTALLING = re.compile(rf"==> Installing (\S+){_HASH} \[\d+/\d+\]")
_INSTALLED = re.compile(rf"==> [^:]+: Successfully installed (\S+){_HASH}")
_IN_PLACE = re.compile(r"\[\+\] /.*-([a-z0-9]{7})[a-z0-9]{25}\)?$")
_STATE = re.compile(r"\[([ +e])\] ([a-z0-9]{7}) (\S+)@(\S+) (.*?)(?: \(|$)")
"""A line of Spack 1.2 (new_installer.py, _generate_line_components): mark, hash, name, version, state or prefix."""
_UNPACKING = ("fetching from build cache", "relocating")


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
    """The packages that a run took from build caches, and those that it built, as NAME-VERSION."""

    cached: tuple[str, ...] = ()
    built: tuple[str, ...] = ()

    def __add__(self, other: Installed) -> Installed:
        return Installed(self.cached + other.cached, self.built + other.built)


@dataclass(slots=True)
class InstallOutput:
    """What one `spack install` has said so far (Spack v1.1.0, installer.py; v1.2.0, new_installer.py).

    total: how many packages the environment has. done: the first seven letters of the hashes of those that are there
    now, of the system and of earlier runs too. cached, built: the packages that this run took from a build cache, or
    built, as NAME-VERSION. current: the one that was begun last.
    """

    total: int
    done: set[str] = field(default_factory=set)
    cached: list[str] = field(default_factory=list)
    built: list[str] = field(default_factory=list)
    current: str = ""
    _extracted: set[str] = field(default_factory=set)
    _begun: set[str] = field(default_factory=set)

    def take(self, line: str) -> bool:
        """Take a line of Spack's. Gives True if another package is worked on now."""
        if found := _STATE.match(line):
            return self._take_state(found[1], found[2], f"{found[3]}-{found[4]}", found[5])
        if found := _EXTRACTING.match(line):
            self._extracted.add(found[1])
            return self._begin(found[1])
        if found := _INSTALLING.match(line):  # after an extraction it comes late
            return self._begin(found[1])
        if found := _INSTALLED.match(line):
            self._finish(found[1])
        elif found := _IN_PLACE.match(line):
            self.done.add(found[1])
        return False

    def text(self) -> str:
        """Return the state in a line that begins with what must not be cut off a terminal."""
        origin = "unpacking" if self.current in self._extracted else "building"
        counts = [f"{len(self.done)} done, {max(0, self.total - len(self.done))} left"]
        counts += [f"{len(self.cached)} cached"] if self.cached else []
        counts += [f"{len(self.built)} built"] if self.built else []
        return f"{', '.join(counts)}; {origin} {self.current}"

    def _take_state(self, mark: str, key: str, package: str, state: str) -> bool:
        if mark == " ":
            (self._extracted.add if state in _UNPACKING else self._extracted.discard)(package)
            return self._begin(package)
        self.done.add(key)
        if mark == "+":
            self._finish(package)
        return False

    def _finish(self, package: str) -> None:
        (self.cached if package in self._extracted else self.built).append(package)

    def _begin(self, package: str) -> bool:
        is_new = package not in self._begun
        self._begun.add(package)
        self.current = package if is_new else self.current
        return is_new


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
    there are any, are resolved on this node and installed first. The user's own configuration of Spack stays outside.
    Raises BadInput if the mount point does not exist, ToolFailed if a package cannot be built; what is
    installed stays.
    """
    if not Path(environment.mount).is_dir():
        raise BadInput(
            f"the mount point {environment.mount} does not exist here",
            hint=f"make it (`mkdir {environment.mount}` as root); it stays empty",
        )
    with scratch_folder() if options.beside_others else contextlib.nullcontext(store / WORK) as work:
        write_scope(work / "configuration", configuration(environment, options))
        view = False if options.beside_others else _views(environment)
        for name in environment.views if view else ():
            _remove_unfinished_views(store / "env" / name)
        folder = staged_folder(environment, work)
        write_all(folder, environment.staged_texts(view, options.repos))
        runner = sandboxed(spack, environment, store, work, folder, options)
        for compiler in environment.compilers:
            first = replace(runner, folder=folder / compiler)
            judged(first.run("concretize", "--fresh", on_step=on_step), spack, environment, store)
            _install(first, environment, store, options, on_step)
        return _install(runner, environment, store, options, on_step)


def staged_folder(environment: Installable, work: Path) -> Path:
    """Return the folder with the copy of an environment that Spack installs. work: WORK in a store."""
    return work / Path(ENVIRONMENT).name / environment.place


def write_locks(environments: Sequence[Installable], store: Path) -> None:
    """Write into a store what is to be installed, so that its state is seen; other locks are of an earlier image."""
    folder, locks = store / ENVIRONMENT, _locks(environments)
    of_compilers = {os.path.join(one.place, name, LOCK) for one in environments for name in one.compilers}
    for lock in folder.rglob(LOCK):
        if os.fspath(lock.relative_to(folder)) not in {*locks, *of_compilers}:
            remove_file(lock)
    write_all(folder, locks)


def _locks(environments: Sequence[Installable]) -> dict[str, str]:
    return {os.path.join(one.place, LOCK): one.texts[LOCK] for one in environments}


def push(spack: Spack, environment: Installable, store: Path, url: str, options: InstallOptions) -> int:
    """Put the packages of an installed environment into a build cache; gives how many it lacked.

    url: of the cache. Spack's own key signs, unless they are to be unsigned. Raises ToolFailed if Spack has no key, or
    cannot write there.
    """
    work = store / WORK
    folder = folder_of(url)
    if folder is not None:
        make_folder(folder)
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
    make_folder(user_cache())  # what is not there cannot be left writable
    root = spack.program.resolve().parent.parent  # its keys lie there
    keys = Path(os.environ.get("SPACK_GNUPGHOME", root))
    named = {work, user_cache(), root, keys, *also}
    words = [word for folder in sorted(named) for word in ("--writable", os.fspath(folder))]
    prefix = (sys.executable, os.fspath(WITH_MOUNT), *words, os.fspath(store), environment.mount)
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
    remove_file(store / WORK / LOG)
    return Installed(tuple(output.cached), tuple(output.built))


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
