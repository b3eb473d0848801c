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
) -> None:
    """Check recipe, system, tuning and published FILEs: schema, spec syntax, names, versions that must go together."""
    from uenvtool import console
    from uenvtool.commands.validate import problems_in
    from uenvtool.errors import BadInput, Problem

    found: list[Problem] = []
    for file in files:
        problems = problems_in(file)
        found += problems
        if not problems:
            console.note(f"{file}: fine")
    if json_:
        console.result_json(
            [
                {
                    "file": problem.position.file if problem.position else None,
                    "line": problem.position.line if problem.position else None,
                    "column": problem.position.column if problem.position else None,
                    "message": problem.message,
                    "hint": problem.hint,
                }
                for problem in found
            ]
        )
    if found:
        raise BadInput(found)
