"""Renders `packages.md`: the packages of a lock, compared with the published versions, with reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from uenvtool.core.words import counted
from uenvtool.env.environment import Environment
from uenvtool.env.manifest import header_lines
from uenvtool.knowledge.condition import Condition, Facts
from uenvtool.knowledge.lock import Lock
from uenvtool.knowledge.mpi import facts_with_mpi
from uenvtool.knowledge.published import Published, Row


@dataclass(frozen=True, slots=True)
class Match:
    """A row of the published table and the lock's version. ours: that version, or None if the lock lacks it."""

    row: Row
    ours: str | None
    reason: str

    @property
    def present(self) -> bool:
        """Whether the lock contains the package."""
        return self.ours is not None

    @property
    def same(self) -> bool:
        """Whether the lock contains the published version."""
        return self.ours == self.row.spack_version


def render_table(environment: Environment, lock: Lock) -> str:
    """Return the text of `packages.md`."""
    recipe = environment.recipe
    lines = ["<!--", *header_lines(environment), "-->"]
    lines += [f"# {recipe.name} on {environment.node.uarch}", "", _escaped(recipe.description), ""]
    lines.append(
        f"Concretized by Spack {lock.spack}: {counted(len(lock.packages), 'package')} for {environment.architecture}."
    )
    published = compared(environment, lock)
    if published:
        lines += ["", *_summary(environment, published), *_published(published)]
    lines += ["", *_others(lock, {match.row.package for match in published})]
    return "\n".join(lines) + "\n"


def compared(environment: Environment, lock: Lock) -> list[Match]:
    """Return each published row with the lock's version, or [] if the recipe names no published table.

    If the lock has several versions, the published one is preferred. A package that was published in two versions has
    two rows. Equal rows match the same package.
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


def _summary(environment: Environment, matches: list[Match]) -> list[str]:
    present = sum(match.present for match in matches)
    same = sum(match.same for match in matches)
    published = environment.recipe.published
    return [
        "## Comparison with the published table",
        "",
        f"Of {len(matches)} published rows, {present} are present, and {same} of these have the published version.",
        _escaped(f"Published: {published.table.source if published else ''}."),
        "",
    ]


def _published(matches: list[Match]) -> list[str]:
    different = [match for match in matches if not match.same]
    lines: list[str] = []
    if different:
        lines += ["### Different packages", "", "| package | published | this lock | reason |", "|---|---|---|---|"]
        for match in different:
            reason = match.reason or "no reason on record"
            lines.append(_row(match.row.name, match.row.version, match.ours or "absent", reason))
        lines.append("")
    lines += ["### Equal packages", "", "| package | version | Spack package |", "|---|---|---|"]
    lines += [_row(match.row.name, match.row.version, match.row.package) for match in matches if match.same]
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
    brought = system.packages.get(row.package)
    if present and brought and brought.decides_version:
        yield f"{system.name}: {brought.reason or 'provided by the system, see the system file'}"
    for absence in published.absent:
        if not present and row.package in absence.packages and absence.when.holds(facts):
            yield absence.reason
    if row.when.holds(facts) is False:
        yield f"published only for {row.when}, but {system.name} has {_differing_facts(row.when, facts)}"


def _differing_facts(condition: Condition, facts: Facts) -> str:
    differing = [term.fact for term in condition.terms if term.holds(facts) is False]
    return " and ".join(f"{fact} {facts[fact] or 'none'}" for fact in differing)
