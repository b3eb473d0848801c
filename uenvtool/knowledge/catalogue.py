"""The commands `list`, `show`, `schema` and `validate` for knowledge files."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput, ExitCode, Position, Problem, require_known, unknown
from uenvtool.core.result import Result, Table
from uenvtool.core.words import counted, listed, wrapped
from uenvtool.core.yamltext import scalar
from uenvtool.knowledge.bind import children
from uenvtool.knowledge.condition import Condition
from uenvtool.knowledge.fabric import unusable_packages
from uenvtool.knowledge.facts import filled
from uenvtool.knowledge.kinds import KINDS, LISTED, RECIPE, SYSTEM, WORKAROUNDS, Kind, kind_of, recipe_file
from uenvtool.knowledge.load import check_file, load_extended
from uenvtool.knowledge.locate import Location, available, locate, shown
from uenvtool.knowledge.mpi import facts_with_mpi
from uenvtool.knowledge.place import missing_rdma, unknown_targets
from uenvtool.knowledge.recipe import Recipe, facts_with_paths, read_recipe
from uenvtool.knowledge.recognise import concrete_systems, duplicate_markers
from uenvtool.knowledge.schema import schema_text
from uenvtool.knowledge.system import load_system
from uenvtool.knowledge.tuning import load_all
from uenvtool.knowledge.yamltree import Node, content, is_abstract, read, text

SUFFIXES = (".yaml", ".yml")
MOST_NAMES = 3
GUESSED = "# guessed:"
"""The beginning of the comments with which `new system` marks the values that it could not detect."""
FIRST = (RECIPE.title, SYSTEM.title)
"""The kinds that `uenvtool list` shows if no kind is given. All kinds together would fill several screens."""
COLUMN = 60
"""The column in which `show` prints the origin of a value, so that values and origins form two columns."""


def list_(title: str | None = None) -> Result:
    """Return the names of all knowledge files, or those of one kind. Raises BadInput if the kind is unknown."""
    headings = {**{kind.title: kind.heading for kind in LISTED}, WORKAROUNDS: "sets"}
    require_known("kind", [title] if title is not None else [], headings)
    listed_entries = {kind.title: catalogue(kind) for kind in LISTED if title in (None, kind.title)}
    if title in (None, WORKAROUNDS):
        listed_entries[WORKAROUNDS] = _workarounds()
    tabled = listed_entries if title is not None else {name: listed_entries[name] for name in FIRST}
    others = ", ".join(name for name in listed_entries if name not in tabled)
    rest = f"use `uenvtool list KIND` to list these kinds: {others}" if others else ""
    return Result(
        data=listed_entries,
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
    """Return an entry for each file of a kind that is not abstract. A broken file has its first problem as text."""
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
    values = children(tree.get(kind.column or kind.heading))
    return {
        "name": location.name,
        "for": listed([name or str(child.value) for name, child in values], MOST_NAMES),
        "description": text(tree, "description"),
        "file": location.shown,
    }


def show(name: str) -> Result:
    """Return a file, by name or path, with everything that it inherits. Raises BadInput if it does not exist."""
    tree = _resolved(name)
    origins = {path: _origin(node) for path, node in _leaves(tree, "")}
    return Result(data={"values": tree.plain(), "from": origins}, file="\n".join(_lines(tree, 0)))


def is_path_of_other(name: str) -> bool:
    """Return whether a name is an existing path that is not a knowledge file, for example an overlay.

    A knowledge file is a YAML file, a directory that contains a recipe, or a known name.
    """
    is_yaml = name.endswith(SUFFIXES) or os.path.isfile(Path(name, Path(RECIPE.pattern).name))
    is_known = "/" not in name and any(name in available(kind) for kind in LISTED)
    return os.path.lexists(name) and not is_yaml and not is_known


def schema(name: str) -> Result:
    """Return the JSON Schema (Draft 2020-12) of a kind of file. Raises BadInput if the kind is unknown."""
    require_known("schema", [name], [kind.name for kind in KINDS])
    return Result(file=schema_text(name))


def _resolved(name: str) -> Node:
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
    space, is_list = "  " * depth, isinstance(node.value, list)
    for name, child in children(node):
        lead = f"{space}-" if is_list else f"{space}{scalar(name)}:"
        if isinstance(child.value, dict | list) and child.value:
            first, *others = _lines(child, depth + 1)
            yield from (f"{lead} {first.lstrip()}", *others) if is_list else (lead, first, *others)
        else:
            value = scalar(child.value) if isinstance(child.value, str) else json.dumps(child.value)
            yield f"{f'{lead} {value}'.ljust(COLUMN)}  # {_origin(child)}"


def _origin(node: Node) -> str:
    return f"{node.position.file}:{node.position.line}"


def validate(paths: Iterable[Path], more: Callable[[str], Iterable[Problem]] | None = None) -> Result:
    """Return the problems in files, or in all files of directories. If there are any, the exit code is USAGE.

    more: A function that returns more problems of the recipe with this path.
    """
    problems_of = {file: _problems_in(file, more) for path in paths for file in _files_of(path)}
    problems = tuple(problem for file_problems in problems_of.values() for problem in file_problems)
    return Result(
        data=[_data(problem) for problem in problems],
        problems=problems,
        notes=tuple(f"{file}: fine{_guesses(file)}" for file, found in problems_of.items() if not found),
        exit_code=ExitCode.USAGE if problems else ExitCode.DONE,
    )


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir() or recipe_file(path).is_file():
        return [path]
    patterns = [pattern for kind in KINDS for pattern in (kind.pattern, f"{kind.directory}/{kind.pattern}")]
    inside = {file for pattern in patterns for file in path.glob(pattern)}
    return sorted(file for file in inside if any(kind.holds(file.absolute()) for kind in KINDS)) or [path]


def _guesses(path: Path) -> str:
    if path.is_dir():
        return ""
    lines = content(path, shown(path)).decode().splitlines()
    marked = [str(number) for number, line in enumerate(lines, 1) if line.lstrip().startswith(GUESSED)]
    return f", with {counted(len(marked), 'guessed value')} (line {listed(marked, MOST_NAMES)})" if marked else ""


def _problems_in(path: Path, more: Callable[[str], Iterable[Problem]] | None) -> list[Problem]:
    file = recipe_file(path) if path.is_dir() else path
    if not file.exists():
        kinds = ", ".join(kind.name for kind in KINDS)
        what = "no knowledge file in this directory" if path.is_dir() else "file not found"
        return [Problem(what, Position(shown(path)), f"name a file of one of these kinds: {kinds}")]
    try:
        tree = read(file, shown(file))
        kind = kind_of(file, tree)
        location = locate(kind, str(file.absolute()))
        check_file(kind, location)
        if kind is RECIPE and (home := tree.get("home")):
            locate(SYSTEM, str(home.value), home.position)
        if kind is RECIPE and not is_abstract(tree):
            named = str(location.path)
            return [*_unfilled(read_recipe(named)), *(more(named) if more else ())]
        return _system_problems(location, tree) if kind is SYSTEM else []
    except BadInput as error:
        return list(error.problems)


def _unfilled(recipe: Recipe) -> list[Problem]:
    """Return a problem for each text with a `${fact}` that has no value in a build on some known system.

    The problem names the first such system.
    """
    problems: dict[Position, Problem] = {}
    for name in concrete_systems():
        with contextlib.suppress(BadInput):  # uenvtool reports an invalid system when the user names it
            system = load_system(name)
            for uarch in filter(recipe.supports, system.nodes):
                facts = facts_with_paths(recipe, system, facts_with_mpi(recipe, system, uarch))
                for text, position, when in _texts(recipe):
                    try:
                        if when.holds(facts):
                            filled(text, facts, position)
                    except BadInput as error:
                        problems.setdefault(position, error.problems[0])
    return list(problems.values())


def _texts(recipe: Recipe) -> Iterator[tuple[str, Position, Condition]]:
    for group in (recipe.variants[name] for name in recipe.global_variants):
        yield from ((value, group.position, group.when) for value in group.values)
    yield from ((root.spec.text, root.position, root.when) for root in recipe.roots)
    for pin in (*recipe.require.values(), *([recipe.python] if recipe.python else [])):
        yield pin.variants, pin.position, pin.when
    yield from ((variable.value or "", variable.position, variable.when) for variable in recipe.view.env)


def _system_problems(location: Location, tree: Node) -> list[Problem]:
    excluded = () if is_abstract(tree) else unusable_packages(load_system(str(location.path)))
    rdma = missing_rdma(load_extended(location, SYSTEM).tree)
    duplicates = () if location.is_built_in else duplicate_markers(location.name, tree)
    return [*excluded, *unknown_targets(tree), *rdma, *duplicates]


def _data(problem: Problem) -> dict[str, Any]:
    place = problem.position._asdict() if problem.position else dict.fromkeys(Position._fields)
    return {**place, "message": problem.message, "hint": problem.hint}
