"""`uenvtool build`: writes a Spack environment and, if Spack is installed, resolves it."""

import dataclasses
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput, Position, ToolFailed
from uenvtool.core.result import Progress, Result, Table, silent
from uenvtool.core.words import counted, grouped
from uenvtool.env import directory as env_directory
from uenvtool.env.directory import LOG, MANIFEST, TABLE, build_again, usual_directory
from uenvtool.env.environment import Environment, Root
from uenvtool.env.known_versions import unknown_versions_of
from uenvtool.env.manifest import render
from uenvtool.env.plan import plan_environment
from uenvtool.env.program import Spack, deviations, find_spack, how_to_get, repository_directories, spack_is_missing
from uenvtool.env.request import SPACK, STACKINATOR, BuildRequest
from uenvtool.env.resolve import can_resolve, parse_resolved_lock, resolve
from uenvtool.env.table import render_table
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.fabric import unusable_packages
from uenvtool.knowledge.kinds import PACKAGES
from uenvtool.knowledge.load import skipped_file_notes
from uenvtool.knowledge.locate import data_root
from uenvtool.knowledge.lock import (
    LOCK,
    Lock,
    read_lock,
    require_installable,
    require_network,
    without_network,
    without_wrapper,
)
from uenvtool.knowledge.options import named_paths
from uenvtool.knowledge.packages import PackageFacts, package_facts
from uenvtool.knowledge.place import choose
from uenvtool.knowledge.secrets import NOT_WRITTEN
from uenvtool.knowledge.version import Version


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The result of a build.

    lock: the lock, or None if the environment is not resolved yet. state: how the lock was made, or why it is missing.
    next_step: the command to run next. unseen: a sentence for each source that could not be compared with its pin, and
    for each version that was not found.
    """

    environment: Environment
    directory: Path
    lock: Lock | None
    state: str
    next_step: str
    unseen: tuple[str, ...] = ()

    def result(self, *, verbose: bool = False) -> Result:
        """Return the result that the command prints. verbose: add a table with one row per root package."""
        rows = self.rows()
        text = f"{self.directory / MANIFEST}: {counted(len(rows), 'root package')}; --verbose lists them"
        if self.lock:
            packages = counted(len(self.lock.packages), "package")
            text += f"\n{self.directory / LOCK}: {packages}; {TABLE} next to it lists them"
        return Result(
            data=self.data(),
            text=text,
            tables=(Table(headings=("package", "version", "set in", "why"), rows=rows),) if verbose else (),
            warnings=tuple(self.warnings()),
            notes=(self.state, *self.unseen),
            next=(self.next_step,),
        )

    @property
    def versions(self) -> Mapping[str, Sequence[str]]:
        """The versions of the lock, or without a lock, the pinned versions."""
        return self.lock.versions() if self.lock else self.environment.pinned

    @property
    def known(self) -> PackageFacts:
        return package_facts().about(self.versions)

    def rows(self) -> list[tuple[str, str, str, str]]:
        versions = self.lock.versions() if self.lock else {}
        rows = []
        for root in self.environment.roots:
            resolved = ", ".join(versions.get(root.package, ()))
            requested, origin = self._requested_version(root)
            rows.append((root.package, resolved or requested, origin, root.reason))
        return rows

    def warnings(self) -> list[str]:
        deviating = env_directory.deviations_of_locks(self.directory) if self.lock else ()
        return [
            *([NOT_WRITTEN] if self.environment.has_secrets else []),
            *self._vulnerabilities(),
            *(
                f"{yanked.package}@{str(yanked.versions).lstrip('=')} was yanked by its developers: {yanked.reason}"
                for yanked in self.known.yanked
            ),
            *(f"{problem.position}: {problem.message}" for problem in unusable_packages(self.environment.system)),
            *(f"the lock deviates from the recipe: {sentence}" for sentence in deviating),
        ]

    def _vulnerabilities(self) -> list[str]:
        by_fix = grouped(((cve.package, cve.fixed), cve.id) for cve in self.known.cves)
        by_package = grouped(
            (package, ", ".join(ids) + (f" (fixed in {fixed})" if fixed else ""))
            for (package, fixed), ids in by_fix.items()
        )
        return [
            f"{package}@{','.join(self.versions[package])} has known vulnerabilities: {'; '.join(listed)}"
            for package, listed in by_package.items()
        ]

    def data(self) -> dict[str, Any]:
        return {
            "recipe": self.environment.recipe.name,
            "system": self.environment.system.name,
            "uarch": self.environment.node.uarch,
            "folder": str(self.directory),
            "state": self.state,
            "roots": [dict(zip(("package", "version", "from", "reason"), row, strict=True)) for row in self.rows()],
            "packages": self.lock.versions() if self.lock else None,
            "cves": [
                {"id": cve.id, "package": cve.package, "versions": str(cve.versions), "fixed": cve.fixed}
                for cve in self.known.cves
            ],
            "yanked": [
                {"package": yanked.package, "versions": str(yanked.versions), "reason": yanked.reason}
                for yanked in self.known.yanked
            ],
            "next": self.next_step,
        }

    def _requested_version(self, root: Root) -> tuple[str, str]:
        if root.version:
            return str(root.version).lstrip("="), _file_and_line(root.origin)
        settings = next((package for package in self.environment.packages if package.name == root.package), None)
        if settings and settings.externals and settings.buildable is False:
            external = settings.externals[0]
            return str(external.spec.versions), _file_and_line(external.position)
        if settings and settings.preferred:
            version = settings.preferred.versions[0].lstrip("=")
            return f"{version} if possible", _file_and_line(settings.preferred.origin)
        return "Spack chooses", ""


def build(request: BuildRequest, progress: Progress = silent) -> Result:
    """Write and resolve the environment of a recipe for a system, or only check or print the environment.

    Raises BadInput if the recipe, the system or the target directory is not usable, AnswerIsNo if --check finds
    differences, ToolMissing if --concretize is given and Spack is not installed, and ToolFailed if Spack or the disk
    fails. If Spack fails, the old lock stays unchanged.
    """
    recipe = load_recipe(request.recipe)
    choice = choose(recipe, request.system, request.uarch)
    environment = plan_environment(recipe, choice.system, choice.uarch)
    usual = usual_directory(environment, "envs" if request.format == SPACK else "stackinator")
    directory = request.output or usual
    if directory != usual and not directory.is_absolute():
        environment = dataclasses.replace(environment, output=directory.as_posix())
    result = _answer(environment, directory, request, progress)
    note = f"{recipe.name} for {choice.system.name} ({choice.reason}), node type {choice.uarch}"
    return dataclasses.replace(result, notes=(note, *skipped_file_notes(PACKAGES), *result.notes))


def _answer(environment: Environment, directory: Path, request: BuildRequest, progress: Progress) -> Result:
    if request.format != SPACK:
        return _stackinator_recipe(environment, directory, request)
    if request.dry_run:
        texts = render(environment)
        return Result(data={"folder": str(directory), "files": texts}, file=texts[MANIFEST])
    if request.check:
        _check_environment(environment, directory)
        return _unchanged(directory)
    return build_environment(environment, directory, request, progress).result(verbose=request.verbose)


def build_environment(environment: Environment, directory: Path, request: BuildRequest, progress: Progress) -> Outcome:
    """Write an environment and, if its lock does not match it and Spack is installed, resolve it."""
    texts = render(environment)
    repos = repository_directories(named_paths(request.repo), environment.pins)
    unknown = [*unknown_versions_of(environment, repos)] if repos else []
    if environment.pins.keys() <= repos.keys():  # otherwise another repository may have the version
        BadInput.raise_any(unknown)
    spack = None if request.concretize is False else find_spack(request.spack)
    if request.concretize and spack is None:
        again = build_again(environment, directory)
        raise spack_is_missing(environment.recipe.spack, again)
    unseen: tuple[str, ...] = ()
    with files.locked(directory):
        env_directory.write_environment(directory, texts, purpose=environment.purpose, force=request.force)
        resolver = spack if spack and can_resolve(spack, environment) else None
        stale = [
            part
            for part in env_directory.parts_of(texts)
            if request.concretize
            or env_directory.why_outdated(directory, texts, part)
            or (resolver and any(_why_unusable(environment, directory, part)))  # without Spack, keep any lock
        ]
        if not stale:
            lock, state = _kept_lock(environment, directory, texts)
        elif resolver is None:
            lock, state = _unresolved(environment, directory, stale, spack, request)
        else:
            lock, state, unseen = _new_lock(
                environment, directory, texts, stale, spack=resolver, repos=repos, progress=progress
            )
    return Outcome(
        environment=environment,
        directory=directory,
        lock=lock,
        state=state,
        next_step=_next_step(environment, directory, spack=spack, resolved=lock is not None, repos=repos),
        unseen=(*unseen, *(f"{problem.position}: {problem.message}" for problem in unknown)),
    )


def _kept_lock(environment: Environment, directory: Path, texts: Mapping[str, str]) -> tuple[Lock | None, str]:
    path = directory / LOCK
    lock = read_lock(path)
    for part in env_directory.parts_of(texts):
        kept = directory / env_directory.lock_of(part)
        require_installable(read_lock(kept), str(kept))
    require_network(lock, environment.needs, str(path))
    table = {TABLE: render_table(environment, lock)}
    files.write_generated(directory, table, keep=files.read_record(directory).names)
    return lock, f"spack.lock matches these inputs (made by Spack {lock.spack})"


def _unresolved(
    environment: Environment, directory: Path, parts: Sequence[str], spack: Spack | None, request: BuildRequest
) -> tuple[Lock | None, str]:
    if spack is not None:
        pinned = environment.recipe.spack.revision
        why = f"Spack {spack.version} can make this lock only on a node of {environment.system.name}"
        if request.concretize:
            again = build_again(environment, directory)
            hint = f"use Spack {pinned}, which the recipe pins, or run this command on a node:\n  {again} --concretize"
            raise ToolFailed(why, hint=hint)
    else:
        why = "--no-concretize was given" if request.concretize is False else "Spack is not installed"
    stale = ", ".join(name for name in map(env_directory.lock_of, parts) if (directory / name).is_file())
    return None, f"not resolved: {why}{f'; out of date: {stale}' if stale else ''}"


def _new_lock(
    environment: Environment,
    directory: Path,
    texts: Mapping[str, str],
    parts: Sequence[str],
    *,
    spack: Spack,
    repos: Mapping[str, Path],
    progress: Progress,
) -> tuple[Lock, str, tuple[str, ...]]:
    seen, unseen = deviations(spack, environment.recipe.spack, repos, environment.pins)
    log, made, locks = directory / LOG, {}, {}
    for part in parts:
        with progress(f"concretizing {f'{part} of ' if part else ''}{environment.purpose}") as on_step:
            made[part] = resolve(spack, environment, texts, part, repos=repos, log=log, on_step=on_step)
        locks[part] = parse_resolved_lock(made[part], environment, part, spack)
    log.unlink(missing_ok=True)
    lock = locks[""] if "" in locks else read_lock(directory / LOCK)
    table = render_table(environment, lock)
    env_directory.write_locks(directory, made, table, contents=texts, spack=spack.version, deviations=seen)
    return lock, f"resolved by Spack {spack.version} ({spack.found_by})", unseen


def _stackinator_recipe(environment: Environment, directory: Path, request: BuildRequest) -> Result:
    from uenvtool.env.stackinator import render_recipe

    version = STACKINATOR[request.format]
    texts = render_recipe(environment, version)
    if request.check:
        again = build_again(environment, directory, "--format", request.format, kind="stackinator")
        files.check_generated(directory, texts, again=again)
        return _unchanged(directory)
    if not request.dry_run:
        purpose = f"{environment.purpose}, as a recipe of Stackinator {version}"
        with files.locked(directory):
            env_directory.write_environment(directory, texts, purpose=purpose, force=request.force)
    paths = [str(directory / name) for name in texts]
    pin = environment.recipe.spack  # Stackinator 7 writes groups of specs, which Spack 1.1 cannot read
    newer = f"Stackinator 7 needs Spack 1.2, but the recipe pins {pin.revision}; see docs/stackinator.md"
    is_old = version == 3 and not (pin.tag and Version(pin.tag.removeprefix("v")) >= Version("1.2"))
    data = {"folder": str(directory), "version": version, "files": paths}
    warnings = (*([newer] if is_old else []), *([NOT_WRITTEN] if environment.has_secrets else []))
    return Result(data=data, text="\n".join(paths), warnings=warnings)


def _unchanged(directory: Path) -> Result:
    return Result(data={"folder": str(directory), "drift": None}, notes=(f"{directory} is up to date",))


def _check_environment(environment: Environment, directory: Path) -> None:
    expected, lock, again = render(environment), directory / LOCK, build_again(environment, directory)
    table = {TABLE: render_table(environment, read_lock(lock))} if lock.is_file() else {}
    files.check_generated(
        directory,
        {**expected, **table},
        again=again,
        kept=env_directory.resolved_names(expected),
        remarks=[*_remarks_on_locks(environment, directory, expected, again)],
    )


def _remarks_on_locks(environment: Environment, directory: Path, texts: Mapping[str, str], again: str) -> Iterator[str]:
    for part in env_directory.parts_of(texts):
        path = directory / env_directory.lock_of(part)
        if not path.is_file():
            yield f"{path} is missing; run `{again} --concretize`"
            continue
        if why := env_directory.why_outdated(directory, texts, part):
            yield f"{path} {why}; run `{again}`"
        yield from _why_unusable(environment, directory, part)


def _why_unusable(environment: Environment, directory: Path, part: str) -> Iterator[str]:
    path = directory / env_directory.lock_of(part)
    lock = read_lock(path)
    if unwrapped := without_wrapper(lock):
        yield f"{path} has no compiler-wrapper for {len(unwrapped)} packages, so they would not find their libraries"
    lacks = () if part else without_network(lock, environment.needs)
    yield from (f"{path} does not fit the system: {lack}" for lack in lacks)


def _file_and_line(position: Position) -> str:
    return f"{position.file}:{position.line}".removeprefix(f"{data_root()}/")


def _next_step(
    environment: Environment, directory: Path, *, spack: Spack | None, resolved: bool, repos: Mapping[str, Path]
) -> str:
    from_disk = "".join(f" --repo {shlex.quote(f'{name}={path}')}" for name, path in repos.items())
    command = build_again(environment, directory) + from_disk
    if resolved:
        arguments = ["uenvtool", "image", "build", os.fspath(directory)]
        arguments += ["--spack", str(spack.program.parent.parent)] if spack and spack.found_by == "--spack" else []
        command = shlex.join(arguments) + from_disk
    elif spack is None:
        return how_to_get(environment.recipe.spack, command)
    else:
        command += " --concretize"
    return f"{command}  # on a node of {environment.system.name}"
