"""`uenvtool diff`: what two recipes, environments, locks or published tables do not share."""

from __future__ import annotations

import typer

from uenvtool.cli.options import JSON


def diff(
    before: str = typer.Argument(..., metavar="A", help="A recipe, environment folder, spack.lock or published table."),
    after: str = typer.Argument(..., metavar="B", help="What to compare it with; it can be of another kind."),
    json_: bool = JSON,
) -> None:
    """Compare the packages of A and B: added, removed, changed. Exit 1 where they differ."""
    from uenvtool import console
    from uenvtool.commands.contents import contents
    from uenvtool.errors import ExitCode
    from uenvtool.spack.compare import changes

    found = changes(contents(before), contents(after))
    if json_:
        console.result_json(
            [
                {"package": each.package, "change": each.kind, "before": each.before, "after": each.after}
                for each in found
            ]
        )
    elif found:
        rows = [(each.kind, each.package, ", ".join(each.before), ", ".join(each.after)) for each in found]
        console.result(console.table(("change", "package", before, after), rows))
    else:
        console.note("the same packages at the same versions")
    if found:
        raise typer.Exit(int(ExitCode.NO))
