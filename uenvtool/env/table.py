"""`packages.md`: every package of a lock with its version, beside the published one."""

from __future__ import annotations

from uenvtool.env.compare import Match, matches
from uenvtool.env.environment import Environment
from uenvtool.env.lock import Lock
from uenvtool.env.manifest import again, header_lines
from uenvtool.env.reasons import reasons


def render_table(environment: Environment, lock: Lock) -> str:
    """The text of `packages.md`."""
    recipe = environment.recipe
    lines = ["<!--", *header_lines(environment, again(environment)), "-->"]
    lines += [f"# {recipe.name} on {environment.node.uarch}", "", _escaped(recipe.description), ""]
    lines.append(f"Concretized by Spack {lock.spack}: {len(lock.packages)} packages for {environment.architecture}.")
    published = compared(environment, lock)
    if published:
        lines += ["", *_summary(environment, published), *_published(published)]
    lines += ["", *_others(lock, {match.row.package for match in published})]
    return "\n".join(lines) + "\n"


def compared(environment: Environment, lock: Lock) -> list[Match]:
    """Each published row with what the lock has for it; none if the recipe names no table."""
    published = environment.recipe.published
    ours = lock.versions()
    return matches(published.table, ours, reasons(environment, ours)) if published else []


def _summary(environment: Environment, found: list[Match]) -> list[str]:
    present = sum(match.present for match in found)
    same = sum(match.same for match in found)
    published = environment.recipe.published
    return [
        "## Beside the published table",
        "",
        f"Of {len(found)} published rows {present} are present, {same} at the published version.",
        _escaped(f"Published: {published.table.source if published else ''}."),
        "",
    ]


def _published(found: list[Match]) -> list[str]:
    different = [match for match in found if not match.same]
    lines: list[str] = []
    if different:
        lines += ["### Where they differ", "", "| package | published | here | why |", "|---|---|---|---|"]
        for match in different:
            why = match.reason or "no reason on record"
            lines.append(_row(match.row.name, match.row.version, match.ours or "not there", why))
        lines.append("")
    lines += ["### Where they agree", "", "| package | version | Spack package |", "|---|---|---|"]
    lines += [_row(match.row.name, match.row.version, match.row.package) for match in found if match.same]
    return lines


def _others(lock: Lock, published: set[str]) -> list[str]:
    external = {package.name for package in lock.packages if package.external}
    title = "## Beyond the published table" if published else "## Packages"
    lines = [title, "", "| package | version | |", "|---|---|---|"]
    for name, known in lock.versions().items():
        if name not in published:
            lines.append(_row(name, ", ".join(known), "of the system" if name in external else ""))
    return lines


def _row(*cells: str) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _escaped(text: str) -> str:
    """A text as Markdown shows it, whatever it holds."""
    safe = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")
    return " ".join(safe.split())
