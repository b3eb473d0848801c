"""What files of knowledge exist, what each holds with all that it inherits, and what is wrong in them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput, ExitCode, Position, Problem, require_known, unknown
from uenvtool.core.result import Result, Table
from uenvtool.core.words import listed, wrapped
from uenvtool.core.yamltext import scalar
from uenvtool.knowledge.kinds import KINDS, LISTED, RECIPE, SYSTEM, WORKAROUNDS, Kind, kind_of, own_file
from uenvtool.knowledge.load import check_file, is_abstract, load_extended
from uenvtool.knowledge.locate import Location, available, locate, shown
from uenvtool.knowledge.place import unknown_targets
from uenvtool.knowledge.recognise import claimed_twice
from uenvtool.knowledge.schema import schema_text
from uenvtool.knowledge.tuning import load_all
from uenvtool.knowledge.yamltree import Node, read, text

SUFFIXES = (".yaml", ".yml")
MOST_NAMES = 3
FIRST = (RECIPE.title, SYSTEM.title)
"""What a user names, and all that is told unasked: the whole is several screens."""


def list_(title: str | None = None) -> Result:
    """Return everything that can be used by its name, or what is of one kind: `recipes`, `systems`, `workarounds`, ...

    Raises BadInput for another kind.
    """
    headings = {**{kind.title: kind.heading for kind in LISTED}, WORKAROUNDS: "sets"}
    require_known("kind", [title] if title is not None else [], headings)
    found = {kind.title: catalogue(kind) for kind in LISTED if title in (None, kind.title)}
    if title in (None, WORKAROUNDS):
        found[WORKAROUNDS] = _workarounds()
    tabled = found if title is not None else {name: found[name] for name in FIRST}
    others = ", ".join(name for name in found if name not in tabled)
    rest = f"`uenvtool list KIND` lists the others: {others}" if others else ""
    return Result(
        data=found,
        tables=tuple(
            Table(
                headings=(name, headings[name], "description"),
                rows=[(entry["name"], entry["for"], entry["description"]) for entry in entries],
            )
            for name, entries in tabled.items()
        ),
        report=lambda width: [[(line, "")] for line in wrapped(rest, width or len(rest))],
    )


def _workarounds() -> list[dict[str, str]]:
    """Return every workaround with what it sets, its symptom and its cost."""
    return [
        {
            "name": known.name,
            "for": listed([setting.name for setting in known.settings], MOST_NAMES),
            "description": f"{known.symptom}; cost: {known.cost}",
            "file": known.position.file,
        }
        for known in load_all().workarounds.values()
    ]


def catalogue(kind: Kind) -> list[dict[str, str]]:
    """Return every file of a kind that can be used by its name; a broken one is listed with what is wrong in it."""
    entries = []
    for location in available(kind).values():
        try:
            if not is_abstract(read(location.path, location.shown)):
                entries.append(_entry(kind, location))
        except BadInput as error:
            problem = str(replace(error.problems[0], hint=None))
            entries.append({"name": location.name, "for": "", "description": problem, "file": location.shown})
    return entries


def _entry(kind: Kind, location: Location) -> dict[str, str]:
    kind.load(str(location.path))
    tree = load_extended(location, kind).tree
    return {
        "name": location.name,
        "for": listed(_texts(tree.get(kind.column or kind.heading)), MOST_NAMES),
        "description": text(tree, "description"),
        "file": location.shown,
    }


def _texts(node: Node | None) -> list[str]:
    if node is None:
        return []
    return list(node.value) if isinstance(node.value, dict) else [str(child.value) for child in node.value]


COLUMN = 60
"""Where the file and line stand, so that values and origins can be read as two columns."""


def show(name: str) -> Result:
    """Return a recipe, system or tuning file by name or path, with all that it inherits. Raises BadInput."""
    tree = resolved(name)
    return Result(data={"values": tree.plain(), "from": provenance(tree)}, file=as_yaml(tree))


def is_path_of_other(name: str) -> bool:
    """Tell if a name is that of something on disk that is no knowledge, as an overlay: no YAML, no recipe's folder."""
    is_yaml = name.endswith(SUFFIXES) or os.path.isfile(Path(name, Path(RECIPE.pattern).name))
    is_known = "/" not in name and any(name in available(kind) for kind in LISTED)
    return os.path.lexists(name) and not is_yaml and not is_known


def schema(name: str) -> Result:
    """Return the schema (Draft 2020-12) of a kind of file. Raises BadInput for another."""
    require_known("schema", [name], [kind.name for kind in KINDS])
    return Result(file=schema_text(name))


def resolved(name: str) -> Node:
    """Return the tree of a file by its name or path. Raises BadInput if there is none."""
    if "/" in name or name.endswith(SUFFIXES):
        location = locate(RECIPE, name)
        kind = kind_of(location.path, read(location.path, location.shown))
    else:
        kinds = [kind for kind in LISTED if name in available(kind)]
        if not kinds:
            known = [known for kind in LISTED for known in available(kind)]
            raise BadInput([unknown("name", name, known, listed_by="uenvtool list")])
        kind = kinds[0]
    return load_extended(locate(kind, name), kind).tree


def provenance(tree: Node) -> dict[str, str]:
    """Return each value's path, as `groups.cuda.specs[0]`, to FILE:LINE."""
    return {path: _origin(node) for path, node in _leaves(tree, "")}


def as_yaml(tree: Node) -> str:
    """Return the tree as YAML with the origin of each value behind it."""
    return "\n".join(_lines(tree, 0))


def _leaves(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    if isinstance(node.value, dict):
        for name, child in node.value.items():
            yield from _leaves(child, f"{path}.{name}" if path else name)
    elif isinstance(node.value, list):
        for index, child in enumerate(node.value):
            yield from _leaves(child, f"{path}[{index}]")
    else:
        yield path, node


def _lines(node: Node, depth: int) -> Iterator[str]:
    space = "  " * depth
    entries = (
        [(f"{scalar(name)}:", child) for name, child in node.value.items()]
        if isinstance(node.value, dict)
        else [("-", child) for child in node.value]
    )
    for lead, child in entries:
        if isinstance(child.value, dict | list) and child.value:
            nested = list(_lines(child, depth + 1))
            if lead == "-":
                yield f"{space}- {nested[0].lstrip()}"
                yield from nested[1:]
            else:
                yield f"{space}{lead}"
                yield from nested
        else:
            line = f"{space}{lead} {_value(child)}"
            yield f"{line.ljust(COLUMN)}  # {_origin(child)}"


def _value(node: Node) -> str:
    if node.value is None:
        return "null"
    if isinstance(node.value, bool):
        return "true" if node.value else "false"
    if isinstance(node.value, dict | list):
        return "{}" if isinstance(node.value, dict) else "[]"
    return str(node.value) if isinstance(node.value, int) else scalar(node.value)


def _origin(node: Node) -> str:
    return f"{node.position.file}:{node.position.line}"


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
        location = locate(kind, str(file.absolute()))
        check_file(kind, location)
        if kind is RECIPE and (home := tree.get("home")):
            locate(SYSTEM, str(home.value), home.position)
    except BadInput as error:
        return list(error.problems)
    if kind is not SYSTEM:
        return []
    return [*unknown_targets(tree), *(() if location.is_built_in else claimed_twice(location.name, tree))]


def _data(problem: Problem) -> dict[str, Any]:
    place = problem.position._asdict() if problem.position else dict.fromkeys(Position._fields)
    return {**place, "message": problem.message, "hint": problem.hint}
