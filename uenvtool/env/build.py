"""The use case: writes the environment into its folder, and resolves it there if Spack is here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import ToolFailed, ToolMissing
from uenvtool.core.files import locked, remove_file
from uenvtool.core.result import Progress, Result, silent
from uenvtool.env import folder as env_folder
from uenvtool.env.environment import Environment, plan_environment
from uenvtool.env.lock import Lock, read_lock, require_installable, without_wrapper
from uenvtool.env.manifest import MANIFEST, render
from uenvtool.env.next_steps import build_again, next_steps, usual_folder
from uenvtool.env.outcome import Outcome
from uenvtool.env.program import Spack, find_spack, how_to_get, repository_folder
from uenvtool.env.request import SPACK, STACKINATOR, BuildRequest
from uenvtool.env.resolve import can_resolve, checked_lock, resolve
from uenvtool.env.table import render_table
from uenvtool.knowledge.choice import choose, load_recipe

LOG = ".uenvtool-concretize.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The lock of an environment, None if there is none, and what to say of it."""

    lock: Lock | None
    state: str


def build(request: BuildRequest, progress: Progress = silent) -> Result:
    """Write the environment of a recipe for a system and resolve it, compare it, or only show it.

    Raises BadInput if recipe, system or folder are not such that this can be done; AnswerIsNo if a
    check finds differences; ToolMissing if Spack is requested and absent; ToolFailed if Spack or the
    disk fails. The old lock stays then.
    """
    recipe = load_recipe(request.recipe)
    choice = choose(recipe, request.system, request.uarch)
    environment = plan_environment(recipe, choice.system, choice.uarch)
    result = _answer(environment, request, progress)
    note = f"{recipe.name} for {choice.system.name} ({choice.reason}), node type {choice.uarch}"
    return dataclasses.replace(result, notes=(note, *result.notes))


def _answer(environment: Environment, request: BuildRequest, progress: Progress) -> Result:
    if request.format != SPACK:
        return _stackinator_recipe(environment, request)
    folder = request.output or usual_folder(environment)
    if request.dry_run:
        files = render(environment)
        return Result(data={"folder": str(folder), "files": files}, file=files[MANIFEST])
    if request.plan:
        from uenvtool.env.plan import show_plan

        return show_plan(environment, request, progress)
    if request.sources or request.mirror:
        from uenvtool.env.download import list_sources

        return list_sources(environment, request, progress)
    if request.check:
        from uenvtool.env.drift import check_environment

        check_environment(environment, folder)
        return _unchanged(folder)
    return build_environment(environment, folder, request, progress).result(verbose=request.verbose)


def build_environment(environment: Environment, folder: Path, request: BuildRequest, progress: Progress) -> Outcome:
    """Write an environment into a folder and, if Spack is here and the lock is of other inputs, its lock."""
    files = render(environment)
    pins = {**environment.recipe.repos, **environment.system.repos}
    repos = {name: repository_folder(name, path, pins.get(name)) for name, path in request.repos.items()}
    spack = None if request.concretize is False else find_spack(request.spack)
    if request.concretize and spack is None:
        again = build_again(environment, folder)
        raise ToolMissing("Spack is not here", hint=how_to_get(environment.recipe.spack, again))
    with locked(folder):
        env_folder.refuse_foreign(folder, files, purpose=environment.purpose, force=request.force)
        env_folder.write_environment(folder, files, purpose=environment.purpose)
        inputs = env_folder.fingerprint(files)
        spack_here = spack if spack and can_resolve(spack, environment) else None
        if (
            env_folder.lock_is_of(folder, inputs)
            and not request.concretize
            and not _is_to_be_replaced(folder, spack_here)
        ):
            resolution = _kept_lock(environment, folder)
        elif spack_here is None:
            resolution = _unresolved(environment, folder, spack, request)
        else:
            resolution = _new_lock(environment, folder, files, spack=spack_here, repos=repos, progress=progress)
    return Outcome(
        environment=environment,
        folder=folder,
        lock=resolution.lock,
        state=resolution.state,
        next_steps=next_steps(environment, folder, spack=spack, resolved=resolution.lock is not None, repos=repos),
    )


def _is_to_be_replaced(folder: Path, spack: Spack | None) -> bool:
    """Whether a lock would not install and Spack can make a better one."""
    path = folder / env_folder.LOCK
    return spack is not None and bool(without_wrapper(read_lock(path, str(path))))


def _kept_lock(environment: Environment, folder: Path) -> Resolution:
    path = folder / env_folder.LOCK
    lock = read_lock(path, str(path))
    require_installable(lock, str(path))
    env_folder.write_table(folder, render_table(environment, lock))
    return Resolution(lock=lock, state=f"spack.lock is of these inputs (made by Spack {lock.spack})")


def _unresolved(environment: Environment, folder: Path, spack: Spack | None, request: BuildRequest) -> Resolution:
    """Why there is no lock. Raises ToolFailed if one was requested of a Spack that cannot make it here."""
    if spack is not None:
        pinned = environment.recipe.spack.revision
        why = f"Spack {spack.version} can make this lock only on a node of {environment.system.name}"
        if request.concretize:
            again = build_again(environment, folder)
            hint = f"use Spack {pinned}, which the recipe pins, or run this on a node:\n  {again} --concretize"
            raise ToolFailed(why, hint=hint)
    else:
        why = "not asked for" if request.concretize is False else "Spack is not here"
    stale = "; the spack.lock in the folder is of other inputs" if (folder / env_folder.LOCK).is_file() else ""
    return Resolution(lock=None, state=f"not concretized: {why}{stale}")


def _new_lock(
    environment: Environment,
    folder: Path,
    files: Mapping[str, str],
    *,
    spack: Spack,
    repos: Mapping[str, Path],
    progress: Progress,
) -> Resolution:
    log = folder / LOG
    with progress(f"concretizing {environment.purpose}") as on_step:
        text = resolve(spack, environment, files, repos=repos, log=log, on_step=on_step)
    remove_file(log)
    lock = checked_lock(text, environment, spack)
    table = render_table(environment, lock)
    env_folder.write_lock(folder, text, table, inputs=env_folder.fingerprint(files), spack=spack.version)
    return Resolution(lock=lock, state=f"concretized by Spack {spack.version} ({spack.found_by})")


def _stackinator_recipe(environment: Environment, request: BuildRequest) -> Result:
    from uenvtool.env.stackinator import check_recipe, write_recipe

    version = STACKINATOR[request.format]
    folder = request.output or usual_folder(environment, "stackinator")
    if request.check:
        check_recipe(environment, version, folder)
        return _unchanged(folder)
    written = write_recipe(environment, version, folder, force=request.force, dry_run=request.dry_run)
    newer = "Stackinator 7 needs Spack 1.2; see that the recipe pins it (docs/stackinator.md)"
    return Result(data=written, text="\n".join(written["files"]), warnings=(newer,) if version == 3 else ())


def _unchanged(folder: Path) -> Result:
    return Result(data={"folder": str(folder), "drift": None}, notes=(f"{folder} is what its inputs give",))
