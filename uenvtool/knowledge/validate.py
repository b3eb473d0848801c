"""Everything that is wrong in the files that a person edits, whatever their kind."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput, ExitCode, Position, Problem
from uenvtool.core.result import Result
from uenvtool.knowledge.kinds import KINDS, RECIPE, SYSTEM, kind_of, own_file
from uenvtool.knowledge.load import check_file
from uenvtool.knowledge.locate import locate, shown
from uenvtool.knowledge.machine import unknown_targets
from uenvtool.knowledge.yamltree import read


def validate(files: Iterable[Path]) -> Result:
    """Return what is wrong in files of knowledge, or in the recipes of folders; the exit code says if anything is."""
    found = {file: problems_in(file) for file in files}
    problems = tuple(problem for wrong in found.values() for problem in wrong)
    return Result(
        data=[_data(problem) for problem in problems],
        problems=problems,
        notes=tuple(f"{file}: fine" for file, wrong in found.items() if not wrong),
        exit_code=ExitCode.USAGE if problems else ExitCode.DONE,
    )


def problems_in(path: Path) -> list[Problem]:
    """Return everything that is wrong in a file of knowledge, or in the recipe of a folder; nothing if it is fine."""
    file = own_file(path) if path.is_dir() else path
    if not file.exists():
        kinds = ", ".join(kind.name for kind in KINDS)
        return [Problem("no such file", Position(shown(file)), f"name a file of one of these kinds: {kinds}")]
    try:
        tree = read(file, shown(file))
        kind = kind_of(file, tree)
        check_file(kind, locate(kind, str(file.absolute())))
        if kind is RECIPE and (home := tree.get("home")):
            locate(SYSTEM, str(home.value), home.position)
    except BadInput as error:
        return list(error.problems)
    return unknown_targets(tree) if kind is SYSTEM else []


def _data(problem: Problem) -> dict[str, Any]:
    place = problem.position._asdict() if problem.position else dict.fromkeys(Position._fields)
    return {**place, "message": problem.message, "hint": problem.hint}
