"""`packages.md`: every package of a lock with its version, beside the published one and why they differ."""

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
    """A published row and what the lock has for it. ours: the lock's version, or None if it lacks the package."""

    row: Row
    ours: str | None
    reason: str

    @property
    def present(self) -> bool:
        """Whether the lock has the package."""
        return self.ours is not None

    @property
    def same(self) -> bool:
        """Whether the lock has it at the published version."""
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
    """Return each published row with what the lock has for it; none if the recipe names no table.

    That is the published version if the lock has it, else what it has. A package that was published at two versions is
    two rows; equal rows match the same package.
    """
    published, ours = environment.recipe.published, lock.versions()
    if published is None:
        return []
    found = []
    for row in published.table.rows:
        known = ours.get(row.package, ())
        version = row.spack_version if row.spack_version in known else (", ".join(known) or None)
        found.append(Match(row, version, next(_reasons(environment, published, row, bool(known)), "")))
    return found


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
    safe = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")
    return " ".join(safe.split())


def _reasons(environment: Environment, published: Published, row: Row, present: bool) -> Iterator[str]:
    system = environment.system
    facts = facts_with_mpi(environment.recipe, system, environment.node.uarch)
    if row.package in published.differences:
        yield published.differences[row.package].reason
    brought = system.packages.get(row.package)
    if present and brought and brought.decides_version:
        yield f"{system.name}: {brought.reason or 'its own, which the system file names'}"
    for absence in published.absent:
        if not present and row.package in absence.packages and absence.when.holds(facts):
            yield absence.reason
    if row.when.holds(facts) is False:
        yield f"published for {row.when}; {system.name} has {_unlike(row.when, facts)}"


def _unlike(condition: Condition, facts: Facts) -> str:
    wrong = [term.fact for term in condition.terms if term.holds(facts) is False]
    return " and ".join(f"{fact} {facts[fact] or 'none'}" for fact in wrong)
