"""Checks one file that a person edits, whatever its kind."""

from __future__ import annotations

from pathlib import Path

from uenvtool.errors import BadInput, Position, Problem
from uenvtool.knowledge import load_recipe
from uenvtool.model.locate import shown
from uenvtool.model.reader import is_abstract
from uenvtool.model.source import Node, read
from uenvtool.model.system_reader import load_system

_OF_SYSTEM = ("nodes", "fabric", "site", "recognise", "runtimes", "scheduler", "mount", "additions")


def problems_in(path: Path) -> list[Problem]:
    """Everything that is wrong in a recipe or system file; nothing where it is fine."""
    file = path / "recipe.yaml" if path.is_dir() else path
    if not file.is_file():
        return [Problem("there is no such file", Position(shown(file)), "name a recipe.yaml or a system's file")]
    try:
        tree = read(file, shown(file))
        if is_abstract(tree):
            _check_abstract(file, tree)
        elif is_system(tree):
            load_system(str(file.absolute()))
        else:
            load_recipe(str(file.absolute()))
    except BadInput as error:
        return list(error.problems)
    return []


def is_system(tree: Node) -> bool:
    """Whether a file is of a system; a file with none of its names is taken for a recipe."""
    return any(tree.get(name) is not None for name in _OF_SYSTEM)


def _check_abstract(file: Path, tree: Node) -> None:
    """An abstract file is checked as far as it goes: its schema."""
    from uenvtool.model.schema import check

    check(tree, "system" if is_system(tree) else "recipe")
