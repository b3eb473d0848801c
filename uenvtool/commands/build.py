"""`uenvtool build`: from a recipe and a system to an environment on disk, resolved where Spack is."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from uenvtool import drift
from uenvtool.errors import BadInput, Position, ToolFailed, ToolMissing
from uenvtool.files import locked
from uenvtool.knowledge import choose, load_recipe
from uenvtool.model.locate import from_root
from uenvtool.model.recipe import Vulnerability
from uenvtool.result import Progress, Result, Table, silent
from uenvtool.spack import folder as env_folder
from uenvtool.spack.driver import Spack, concretize, find_spack, how_to_get, repository_path
from uenvtool.spack.environment import Environment, Root, plan_environment
from uenvtool.spack.lock import Lock, parse_lock, read_lock
from uenvtool.spack.manifest import MANIFEST, again, render, render_manifest
from uenvtool.spack.table import render_table

LOG = ".uenvtool-concretize.log"

STACKINATOR = {"stackinator": 2, "stackinator3": 3}
"""The other forms of an environment, and the version of Stackinator's recipes that each is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a user orders. recipe: name or path. output: None for the usual folder.

    format: `spack`, or a form of STACKINATOR. concretize: None if it depends on finding Spack. repos:
    package repositories on disk, by name. check: compare only. force: replace changed files.
    """

    recipe: str
    system: str | None = None
    uarch: str | None = None
    output: Path | None = None
    format: str = "spack"
    concretize: bool | None = None
    spack: Path | None = None
    repos: Mapping[str, Path] = field(default_factory=dict)
    check: bool = False
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a build gave. lock: None where it is left to Spack; state says why or where it is from."""

    environment: Environment
    folder: Path
    lock: Lock | None
    state: str
    next_command: str

    @property
    def cves(self) -> tuple[Vulnerability, ...]:
        """The known vulnerabilities of what was pinned."""
        return self.environment.cves

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The root packages: package, version, where the version is from, reason."""
        versions = self.lock.versions() if self.lock else {}
        rows = []
        for root in self.environment.roots:
            known = ", ".join(versions.get(root.package, ()))
            asked, origin = self._asked(root)
            rows.append((root.package, known or asked, origin, root.reason))
        return rows

    def _asked(self, root: Root) -> tuple[str, str]:
        """The version that a root is asked for at, and the file and line that say so."""
        if root.version:
            return str(root.version).lstrip("="), _place(root.origin)
        settings = {each.name: each for each in self.environment.packages}.get(root.package)
        if settings and settings.externals and settings.buildable is False:
            external = settings.externals[0]
            return str(external.spec.versions), _place(external.position)
        if settings and settings.preferred:
            return f"{settings.preferred.versions[0].lstrip('=')} if possible", _place(settings.preferred.origin)
        return "Spack chooses", ""

    def warnings(self) -> list[str]:
        """What the user should know of the pinned versions: a line a package with its CVEs."""
        pinned = {root.package: str(root.version).lstrip("=") for root in self.environment.roots if root.version}
        by_package: dict[str, dict[str, list[str]]] = {}
        for cve in self.cves:
            by_package.setdefault(cve.package, {}).setdefault(cve.fixed, []).append(cve.id)
        lines = []
        for package, known in by_package.items():
            listed = [f"{', '.join(ids)}" + (f" (fixed in {fixed})" if fixed else "") for fixed, ids in known.items()]
            lines.append(f"{package}@{pinned.get(package, '')} has known vulnerabilities: {'; '.join(listed)}")
        return lines

    def data(self) -> dict[str, Any]:
        """The same as data for --json."""
        return {
            "recipe": self.environment.recipe.name,
            "system": self.environment.system.name,
            "uarch": self.environment.node.uarch,
            "folder": str(self.folder),
            "state": self.state,
            "roots": [
                {"package": package, "version": version, "from": origin, "reason": reason}
                for package, version, origin, reason in self.rows()
            ],
            "packages": self.lock.versions() if self.lock else None,
            "cves": [
                {"id": cve.id, "package": cve.package, "versions": str(cve.versions), "fixed": cve.fixed}
                for cve in self.cves
            ],
            "next": self.next_command,
        }


def _place(position: Position) -> str:
    """FILE:LINE, for a table; built-in files from the folder that holds recipes/ and systems/."""
    return from_root(f"{position.file}:{position.line}")


def build(order: Order, progress: Progress = silent) -> Result:
    """Write a recipe's environment for a system and, if Spack is found and the lock is of other inputs, its lock.

    Raises BadInput if an input is wrong or the folder is not the tool's to write, AnswerIsNo if `check`
    finds a difference, ToolMissing if Spack is ordered and missing, ToolFailed if Spack or the disk
    fails; the old lock stays then.
    """
    recipe = load_recipe(order.recipe)
    choice = choose(recipe, order.system, order.uarch)
    environment = plan_environment(recipe, choice.system, choice.uarch)
    result = _answer(order, environment, progress)
    note = f"{recipe.name} for {choice.system.name} ({choice.reason}), node type {choice.uarch}"
    return replace(result, notes=(note, *result.notes))


def _answer(order: Order, environment: Environment, progress: Progress) -> Result:
    if order.format in STACKINATOR:
        return _stackinator(order, environment)
    folder = order.output or _usual_folder(environment)
    if order.dry_run:
        return Result(data=render(environment), file=render_manifest(environment))
    if order.check:
        return check(environment, folder)
    built = _built(order, environment, folder, progress)
    return Result(
        data=built.data(),
        tables=(Table(headings=("package", "version", "set in", "why"), rows=built.rows()),),
        warnings=tuple(built.warnings()),
        notes=(f"wrote {folder}/{MANIFEST}; {built.state}",),
        next=(built.next_command,),
    )


def _stackinator(order: Order, environment: Environment) -> Result:
    from uenvtool.spack.stackinator import check_recipe, write_recipe

    version = STACKINATOR[order.format]
    folder = order.output or Path("stackinator") / environment.recipe.name / environment.node.uarch
    if order.check:
        check_recipe(environment, version, folder)
        return Result(notes=(f"{folder} is what its inputs give",))
    written = write_recipe(environment, version, folder, force=order.force, dry_run=order.dry_run)
    caution = "Stackinator 7 needs Spack 1.2; see that the recipe pins it (docs/stackinator.md)"
    return Result(data=written, text="\n".join(written["files"]), warnings=(caution,) if version == 3 else ())


def _built(order: Order, environment: Environment, folder: Path, progress: Progress) -> Built:
    files = render(environment)
    repos = {name: repository_path(name, path) for name, path in order.repos.items()}
    spack = None if order.concretize is False else find_spack(order.spack)
    if order.concretize and spack is None:
        raise ToolMissing("Spack is not here", hint=how_to_get(environment.recipe.spack, _again(environment, folder)))
    with locked(folder):
        env_folder.refuse_foreign(folder, files, order.force)
        env_folder.write_environment(folder, files)
        lock, state = _resolved(environment, folder, files, spack, repos, order.concretize, progress)
    return Built(
        environment=environment,
        folder=folder,
        lock=lock,
        state=state,
        next_command=_next(environment, folder, spack, lock),
    )


def check(environment: Environment, folder: Path) -> Result:
    """Raise AnswerIsNo with the diff if a committed environment is not what its inputs give."""
    expected = render(environment)
    record = env_folder.read_record(folder)
    drift.check(
        folder,
        {**expected, **_expected_table(environment, folder)},
        again=f"uenvtool build {environment.recipe.name}",
        left_over=_left_over(record, expected, folder),
        remarks=_remarks_on_lock(folder, expected),
    )
    return Result(notes=(f"{folder} is what its inputs give",))


def _expected_table(environment: Environment, folder: Path) -> dict[str, str]:
    """The table of the lock in a folder, by its name; nothing if there is no lock."""
    path = folder / env_folder.LOCK
    return {env_folder.TABLE: render_table(environment, read_lock(path, str(path)))} if path.is_file() else {}


def _remarks_on_lock(folder: Path, expected: Mapping[str, str]) -> Iterator[str]:
    path = folder / env_folder.LOCK
    if not path.is_file():
        yield f"{path} is missing; make it with uenvtool build --concretize"
    elif not env_folder.lock_is_of(folder, env_folder.fingerprint(expected)):
        yield f"{path} is of other inputs, or was changed; make it again with uenvtool build"


def _resolved(
    environment: Environment,
    folder: Path,
    files: Mapping[str, str],
    spack: Spack | None,
    repos: Mapping[str, Path],
    concretize_: bool | None,
    progress: Progress,
) -> tuple[Lock | None, str]:
    """The lock of the folder, made now where it has to be, and where it is from."""
    wanted = env_folder.fingerprint(files)
    path = folder / env_folder.LOCK
    if env_folder.lock_is_of(folder, wanted) and not concretize_:
        lock = read_lock(path, str(path))
        env_folder.write_table(folder, render_table(environment, lock))
        return lock, f"spack.lock is of these inputs (made by Spack {lock.spack})"
    if spack is None:
        why = "not asked for" if concretize_ is False else "Spack is not here"
        stale = "; the spack.lock that is here is of other inputs" if path.is_file() else ""
        return None, f"not concretized: {why}{stale}"
    to_run = {**files, MANIFEST: render_manifest(environment, repos)} if repos else files
    with progress("concretizing") as on_step:
        text = concretize(spack, to_run, folder / LOG, on_step)
    (folder / LOG).unlink(missing_ok=True)
    lock = _usable(text, environment, spack)
    env_folder.write_lock(folder, text, render_table(environment, lock), wanted, spack.version)
    return lock, f"concretized by Spack {spack.version} ({spack.found_by})"


def _usable(text: str, environment: Environment, spack: Spack) -> Lock:
    """The lock that Spack made, if it is one and for the nodes; ToolFailed where it is not.

    A package that Spack resolved for another operating system or target would build, and then fail
    on the nodes.
    """
    try:
        lock = parse_lock(text, env_folder.LOCK)
    except BadInput as error:
        raise ToolFailed(f"what Spack {spack.version} wrote is not a lock of Spack", hint="run it again") from error
    node = environment.node
    strays = sorted(each.name for each in lock.packages if (each.os, each.target) != (node.os, node.target))
    if strays:
        named = ", ".join(strays[:5])
        raise ToolFailed(
            f"Spack {spack.version} resolved {named} for another machine than {environment.architecture}",
            hint="the packages' requirements must name the architecture; please report this with the recipe",
        )
    return lock


def _next(environment: Environment, folder: Path, spack: Spack | None, lock: Lock | None) -> str:
    """The commands that come next."""
    if lock is None and spack is None:
        return how_to_get(environment.recipe.spack, _again(environment, folder))
    program = "spack" if spack is None or spack.found_by == "PATH" else shlex.quote(str(spack.program))
    mount = environment.system.mount
    tree = f" -c config:install_tree:root:{shlex.quote(mount)}" if mount else ""
    install = f"{program}{tree} -e {shlex.quote(os.fspath(folder))} install"
    if environment.compiler and environment.compiler.first:
        first = f"{program} -e {shlex.quote(os.fspath(folder / env_folder.COMPILER))} install"
        return f"{first}  # on a node of {environment.system.name}\n{install}"
    return install


def _again(environment: Environment, folder: Path) -> str:
    """The command that builds into the same folder again."""
    elsewhere = folder != _usual_folder(environment)
    return again(environment, *(["-o", shlex.quote(os.fspath(folder))] if elsewhere else []))


def _usual_folder(environment: Environment) -> Path:
    return Path("envs") / environment.recipe.name / environment.node.uarch


def _left_over(record: env_folder.Record, expected: Mapping[str, str], folder: Path) -> set[str]:
    own = {*expected, env_folder.LOCK, env_folder.TABLE}
    return {name for name in record.files if name not in own and (folder / name).exists()}
