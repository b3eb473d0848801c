"""Renders `packages.md`, the list of the packages of a lock with the reasons for deviations from published versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from uenvtool.core.words import counted
from uenvtool.env.environment import Environment
from uenvtool.env.manifest import header_lines
from uenvtool.knowledge.lock import Lock
from uenvtool.knowledge.mpi import facts_with_mpi
from uenvtool.knowledge.published import Published, Row


@dataclass(frozen=True, slots=True)
class Match:
    """A row of the published table. ours: the version in the lock, or None if the lock does not have the package."""

    row: Row
    ours: str | None
    reason: str

    @property
    def present(self) -> bool:
        return self.ours is not None

    @property
    def same(self) -> bool:
        return self.ours == self.row.spack_version


def render_table(environment: Environment, lock: Lock) -> str:
    """Return the text of `packages.md`."""
    recipe, count = environment.recipe, counted(len(lock.packages), "package")
    lines = ["<!--", *header_lines(environment), "-->"]
    lines += [f"# {recipe.name} on {environment.node.uarch}", "", _escaped(recipe.description), ""]
    lines.append(f"Concretized by Spack {lock.spack}: {count} for {environment.architecture}.")
    matches = compared(environment, lock)
    if recipe.published and matches:
        lines += ["", *_comparison(recipe.published, matches)]
    lines += ["", *_others(lock, {match.row.package for match in matches})]
    return "\n".join(lines) + "\n"


def compared(environment: Environment, lock: Lock) -> list[Match]:
    """Return each published row with the lock's version, or [] if the recipe names no published table.

    If the lock has several versions of a package, a match prefers the published version. A package that was published
    in two versions has two rows, which may match the same version in the lock.
    """
    published, ours = environment.recipe.published, lock.versions()
    if published is None:
        return []
    matches = []
    for row in published.table.rows:
        known = ours.get(row.package, ())
        version = row.spack_version if row.spack_version in known else (", ".join(known) or None)
        matches.append(Match(row, version, next(_reasons(environment, published, row, bool(known)), "")))
    return matches


def _comparison(published: Published, matches: list[Match]) -> list[str]:
    present = sum(match.present for match in matches)
    different = [match for match in matches if not match.same]
    same = len(matches) - len(different)
    lines = [
        "## Comparison with the published table",
        "",
        f"Of {len(matches)} published rows, {present} are present, and {same} of these have the published version.",
        _escaped(f"Published: {published.table.source}."),
        "",
    ]
    if different:
        lines += ["### Different packages", "", "| package | published | this lock | reason |", "|---|---|---|---|"]
        for match in different:
            reason = match.reason or "no reason on record"
            lines.append(_row(match.row.name, match.row.version, match.ours or "absent", reason))
        lines.append("")
    heads = "| package | published | Spack package | this lock | why the numbers differ |"
    lines += ["### Equal packages", "", heads, "|---|---|---|---|---|"]
    rows = (match.row for match in matches if match.same)
    lines += [_row(row.name, row.version, row.package, row.spack_version, row.reason) for row in rows]
    return lines


def _others(lock: Lock, published: set[str]) -> list[str]:
    external = {package.name for package in lock.packages if package.external}
    title = "## Packages that are not in the published table" if published else "## Packages"
    lines = [title, "", "| package | version | |", "|---|---|---|"]
    for name, known in lock.versions().items():
        if name not in published:
            lines.append(_row(name, ", ".join(known), "provided by the system" if name in external else ""))
    return lines


def _row(*cells: str) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"


def _escaped(text: str) -> str:
    safe = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")
    return " ".join(safe.split())


def _reasons(environment: Environment, published: Published, row: Row, present: bool) -> Iterator[str]:
    system = environment.system
    facts = facts_with_mpi(environment.recipe, system, environment.node.uarch)
    if row.package in published.differences:
        yield published.differences[row.package].reason
    settings = system.packages.get(row.package)
    if present and settings and settings.decides_version:
        yield f"{system.name}: {settings.reason or 'provided by the system, see the system file'}"
    for absence in published.absent:
        if not present and row.package in absence.packages and absence.when.holds(facts):
            yield absence.reason
    if row.when.holds(facts) is False:
        differing = [term.fact for term in row.when.terms if term.holds(facts) is False]
        known = " and ".join(f"{fact} {facts[fact] or 'none'}" for fact in differing)
        yield f"published only for {row.when}, but {system.name} has {known}"
