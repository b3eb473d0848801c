"""What came of it: each package from the base, installed or overridden, with who asked; as table and data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from uenvtool.overlay.base import Base, Distribution
from uenvtool.overlay.check import as_releases
from uenvtool.overlay.protect import protected
from uenvtool.overlay.requirements import Request
from uenvtool.overlay.versions import canonical, marker_environment, requirements

if TYPE_CHECKING:
    from uenvtool.overlay.resolve import Resolution

FROM_BASE, INSTALLED, OVERRIDDEN = "from base", "installed", "overridden"
HEADINGS = ("package", "version", "how", "asked by", "")


@dataclass(frozen=True, slots=True)
class Row:
    """One package in effect. base_version: what it stands over; note: what a reader should know."""

    name: str
    version: str
    how: str
    asked_by: tuple[str, ...]
    base_version: str | None = None
    note: str = ""

    def data(self) -> dict[str, Any]:
        """As data for --json and the record."""
        return {
            "name": self.name,
            "version": self.version,
            "how": self.how,
            "asked_by": list(self.asked_by),
            "base_version": self.base_version,
            "note": self.note,
        }


def outcome(base: Base, new: Mapping[str, Distribution], request: Request, overrides: Sequence[str]) -> tuple[Row, ...]:
    """The packages that this overlay is about: what is new, and what new packages or the user take of the base."""
    environment = marker_environment(base)
    asked: dict[str, list[str]] = {}
    for each in request.asked:
        asked.setdefault(each.name, []).append(each.origin)
    for name in overrides:
        asked.setdefault(canonical(name), []).append("--override")
    for name, distribution in sorted(new.items()):
        for requirement in requirements(distribution, environment):
            asked.setdefault(canonical(requirement.name), []).append(name)
    for name, who in _of_extras({**base.packages, **new}, new, request, environment):
        asked.setdefault(name, []).append(who)
    counted = as_releases(base, new)
    rows = [_row(base, name, new.get(name), tuple(dict.fromkeys(asked.get(name, ()))), counted) for name in new]
    rows += [
        _row(base, name, None, tuple(dict.fromkeys(who)), counted)
        for name, who in asked.items()
        if name in base.packages and name not in new
    ]
    return tuple(sorted(rows, key=lambda row: row.name))


def _of_extras(
    there: Mapping[str, Distribution], new: Mapping[str, Distribution], request: Request, environment: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """What extras ask for: package, and the extra that wants it (`fsspec[http]`), also one of the base's."""
    waiting = [(each.name, each.requirement) for each in request.asked if each.requirement]
    waiting += [(canonical(found.name), found) for each in new.values() for found in requirements(each, environment)]
    seen = set()
    while waiting:
        name, requirement = waiting.pop()
        for extra in sorted(requirement.extras):
            if (name, extra) in seen or name not in there:
                continue
            seen.add((name, extra))
            without = list(requirements(there[name], environment))
            for found in requirements(there[name], {**environment, "extra": extra}):
                waiting.append((canonical(found.name), found))
                if found not in without:
                    yield canonical(found.name), f"{name}[{extra}]"


def rows_of_resolution(
    base: Base, resolution: Resolution, request: Request, overrides: Sequence[str]
) -> tuple[Row, ...]:
    """The same before anything is installed, from what a resolution says."""
    origins: dict[str, list[str]] = {}
    for each in request.asked:
        origins.setdefault(each.name, []).append(each.origin)
    for name in overrides:
        origins.setdefault(name, []).append("--override")
    rows = []
    for found in resolution.packages:
        asked = tuple(dict.fromkeys((*origins.get(found.name, ()), *found.via)))
        if not asked:
            continue  # of the base, and only its own packages want it
        if found.from_base:
            rows.append(Row(found.name, base.packages[found.name].version, FROM_BASE, asked, found.version))
        else:
            new = Distribution(found.name, found.version or "?", "")
            rows.append(_row(base, found.name or found.line, new, asked, {}))
    return tuple(sorted(rows, key=lambda row: row.name))


def table_rows(rows: Sequence[Row]) -> list[tuple[str, str, str, str, str]]:
    """For console.table under HEADINGS."""
    return [(row.name, row.version, row.how, ", ".join(row.asked_by), row.note) for row in rows]


def warnings(rows: Sequence[Row]) -> list[str]:
    """What it costs to have replaced protected packages."""
    lines = []
    for row in rows:
        rule = protected(row.name)
        if rule and row.how == OVERRIDDEN:
            lines.append(f"the base's {row.name} {row.base_version} is replaced by {row.version}: {rule.cost}")
        elif rule and row.how == INSTALLED and not row.note:
            lines.append(f"{row.name} {row.version} is not of the base: {rule.cost}")
    return lines


def _row(
    base: Base, name: str, new: Distribution | None, asked: tuple[str, ...], counted: Mapping[str, list[str]]
) -> Row:
    there = base.packages.get(name)
    if new is None and there is not None:
        note = ""
        if name in counted:
            note = f"a vendor's pre-release, counts as its release: {'; '.join(counted[name][:2])}"
        return Row(name, there.version, FROM_BASE, asked, there.version, note)
    version = new.version if new else ""
    if there is not None:
        return Row(name, version, OVERRIDDEN, asked, there.version, f"over the base's {there.version}")
    return Row(name, version, INSTALLED, asked)
