"""Checks one file that a person edits, whatever its kind."""

from __future__ import annotations

from pathlib import Path

from uenvtool.errors import BadInput, Position, Problem
from uenvtool.model.extend import load_extended
from uenvtool.model.kinds import KINDS, kind_of
from uenvtool.model.locate import locate, shown
from uenvtool.model.reader import is_abstract
from uenvtool.model.source import read


def problems_in(path: Path) -> list[Problem]:
    """Everything that is wrong in a file of knowledge, or in the recipe of a folder; nothing if it is fine."""
    file = path / "recipe.yaml" if path.is_dir() else path
    if not file.is_file():
        kinds = ", ".join(kind.name for kind in KINDS)
        return [Problem("there is no such file", Position(shown(file)), f"name a file of one of these kinds: {kinds}")]
    try:
        _load(file)
    except BadInput as error:
        return list(error.problems)
    return []


def _load(file: Path) -> None:
    """Read a file as what its kind is; an abstract one, which lacks parts, as far as its schema goes."""
    tree = read(file, shown(file))
    kind = kind_of(file, tree)
    if is_abstract(tree):
        load_extended(locate(kind, str(file.absolute())), kind)
    else:
        kind.load(str(file.absolute()))
