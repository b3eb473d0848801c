"""`uenvtool schema`: the JSON Schema of a kind of file, for editors."""

from __future__ import annotations

import typer


def schema(name: str = typer.Argument(..., metavar="recipe|system|tuning|published", help="The kind of file.")) -> None:
    """Print the JSON Schema (Draft 2020-12) that recipes, systems, tuning or published tables follow."""
    from uenvtool import console
    from uenvtool.errors import BadInput, unknown
    from uenvtool.model.schema import schema_names, schema_text

    if name not in schema_names():
        raise BadInput([unknown("schema", name, schema_names())])
    console.result(schema_text(name))
