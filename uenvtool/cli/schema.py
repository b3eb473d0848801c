"""`uenvtool schema`: the JSON Schema of a kind of file, for editors."""

from __future__ import annotations

import typer


def schema(name: str = typer.Argument(..., metavar="recipe|system|tuning|published", help="The kind of file.")) -> None:
    """Print the JSON Schema (Draft 2020-12) that recipes, systems, tuning or published tables follow."""
    from uenvtool import console
    from uenvtool.errors import BadInput, unknown
    from uenvtool.model.kinds import KINDS
    from uenvtool.model.schema import schema_text

    known = [kind.name for kind in KINDS]
    if name not in known:
        raise BadInput([unknown("schema", name, known)])
    console.result(schema_text(name))
