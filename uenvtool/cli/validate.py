"""`uenvtool validate`: everything that is wrong in recipes, systems and other files of knowledge."""

from __future__ import annotations

from pathlib import Path

import typer

from uenvtool.cli.options import JSON


def validate(
    files: list[Path] = typer.Argument(
        ..., metavar="FILE...", help="Recipe, system, tuning or published files, or a recipe's folder."
    ),
    json_: bool = JSON,
) -> int:
    """Check files: schema, spec syntax, names, versions that must go together."""
    from uenvtool import console
    from uenvtool.commands import validate as command

    return console.show(command.validate(files), as_json=json_)
