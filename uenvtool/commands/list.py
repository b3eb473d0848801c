"""What recipes and systems there are, in a line each."""

from __future__ import annotations

from uenvtool.errors import BadInput
from uenvtool.model.locate import Location, available
from uenvtool.model.reader import is_abstract
from uenvtool.model.recipe_reader import read_recipe
from uenvtool.model.source import read
from uenvtool.model.system_reader import load_system


def catalogue(kind: str) -> list[dict[str, str]]:
    """Every recipe or system that can be used; a broken one is listed with what is wrong in it."""
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


def _entry(kind: str, location: Location) -> dict[str, str]:
    if kind == "recipes":
        recipe = read_recipe(str(location.path))
        supported, description = ", ".join(recipe.uarchs), recipe.description
    else:
        system = load_system(str(location.path))
        supported, description = ", ".join(system.nodes), system.description
    return {"name": location.name, "for": supported, "description": description, "file": location.shown}
