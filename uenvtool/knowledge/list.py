"""What files of each kind of knowledge exist, in a line each."""

from __future__ import annotations

from uenvtool.core.errors import BadInput, require_known
from uenvtool.core.result import Result, Table
from uenvtool.core.words import listed, wrapped
from uenvtool.knowledge.kinds import LISTED, RECIPE, SYSTEM, Kind
from uenvtool.knowledge.load import is_abstract, load_extended
from uenvtool.knowledge.locate import Location, available
from uenvtool.knowledge.yamltree import Node, read, text

MOST_NAMES = 3
FIRST = (RECIPE.title, SYSTEM.title)
"""What a user names, and all that is told unasked: the whole is several screens."""


def list_(title: str | None = None) -> Result:
    """Return everything that can be used by its name, or what is of one kind: `recipes`, `containers`, `systems`, ...

    Raises BadInput for another kind.
    """
    kinds = {kind.title: kind for kind in LISTED}
    require_known("kind", [title] if title is not None else [], kinds)
    found = {name: catalogue(kind) for name, kind in kinds.items() if title in (None, name)}
    tabled = found if title is not None else {name: found[name] for name in FIRST}
    others = ", ".join(name for name in found if name not in tabled)
    rest = f"`uenvtool list KIND` lists the others: {others}" if others else ""
    return Result(
        data=found,
        tables=tuple(
            Table(
                headings=(name, kinds[name].heading, "description"),
                rows=[(entry["name"], entry["for"], entry["description"]) for entry in entries],
            )
            for name, entries in tabled.items()
        ),
        report=lambda width: [[(line, "")] for line in wrapped(rest, width or len(rest))],
    )


def catalogue(kind: Kind) -> list[dict[str, str]]:
    """Return every file of a kind that can be used by its name; a broken one is listed with what is wrong in it."""
    entries = []
    for location in available(kind).values():
        try:
            if not is_abstract(read(location.path, location.shown)):
                entries.append(_entry(kind, location))
        except BadInput as error:
            entries.append(
                {"name": location.name, "for": "", "description": str(error.problems[0]), "file": location.shown}
            )
    return entries


def _entry(kind: Kind, location: Location) -> dict[str, str]:
    """Return one line. Raises BadInput if the file is broken."""
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
