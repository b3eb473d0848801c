"""`uenvtool edit`: packages of a recipe are added, removed and pinned; all else in the file stays."""

from __future__ import annotations

import typer

from uenvtool.cli.options import JSON, RECIPE


def edit(
    recipe: str = RECIPE,
    add: list[str] = typer.Option([], "--add", metavar="SPEC", help="Add a package, or replace its spec."),
    remove: list[str] = typer.Option([], "--remove", metavar="PKG", help="Leave a package out."),
    pin: list[str] = typer.Option([], "--pin", metavar="PKG@VERSION", help="Accept this version alone."),
    reason: str = typer.Option("", "--reason", metavar="TEXT", help="Why, written beside the change."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show the change; write nothing."),
    json_: bool = JSON,
) -> int:
    """Change a recipe's packages in its file, and show the change."""
    from uenvtool import console
    from uenvtool.commands.edit import edit as command
    from uenvtool.commands.edit.changes import Changes

    changes = Changes(add=add, remove=remove, pin=pin, reason=reason)
    return console.show(command.edit(recipe, changes, dry_run=dry_run), as_json=json_)
