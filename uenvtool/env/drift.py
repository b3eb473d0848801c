"""If a committed environment is what its inputs give: its files, its lock, the table of the lock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from uenvtool.core import drift, files
from uenvtool.env import folder as env_folder
from uenvtool.env.environment import Environment
from uenvtool.env.lock import read_lock, without_wrapper
from uenvtool.env.manifest import render
from uenvtool.env.next_steps import build_again
from uenvtool.env.table import render_table


def check_environment(environment: Environment, folder: Path) -> None:
    """Raise AnswerIsNo, with the diff, if an environment on disk is not what its inputs give."""
    expected = render(environment)
    drift.check(
        folder,
        {**expected, **_expected_table(environment, folder)},
        again=build_again(environment, folder),
        left_over=files.left_over(folder, {*expected, env_folder.LOCK, env_folder.TABLE}),
        remarks=[*env_folder.did_not_end(folder), *_remarks_on_lock(folder, env_folder.fingerprint(expected))],
    )


def _expected_table(environment: Environment, folder: Path) -> dict[str, str]:
    """The table of the lock in a folder, by its name; nothing if there is no lock."""
    path = folder / env_folder.LOCK
    return {env_folder.TABLE: render_table(environment, read_lock(path, str(path)))} if path.is_file() else {}


def _remarks_on_lock(folder: Path, inputs: str) -> Iterator[str]:
    path = folder / env_folder.LOCK
    if not path.is_file():
        yield f"{path} is missing; make it with uenvtool build --concretize"
        return
    if not env_folder.lock_is_of(folder, inputs):
        yield f"{path} is of other inputs, or was changed; make it again with uenvtool build"
    if unwrapped := without_wrapper(read_lock(path, str(path))):
        yield f"{path} has no compiler-wrapper for {len(unwrapped)} packages, which would find none of their libraries"
