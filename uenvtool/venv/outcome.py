"""What came of it: each package from the base, installed or overridden, with what asks for it; as table and data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.check import as_releases
from uenvtool.venv.protect import protected
from uenvtool.venv.requirements import UserRequest
from uenvtool.venv.resolve import Resolution, ResolvedPackage
from uenvtool.venv.versions import canonical, marker_environment, newer, requirements

FROM_BASE, INSTALLED, OVERRIDDEN = "from base", "installed", "overridden"
OLDER, REPLACED, NEW, CHANGED, REMOVED, SAME = "older", "replaced", "new", "changed", "removed", "same"
"""What a run did to a package, in the order of the table."""
HEADINGS = ("package", "version", "how", "asked by", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageRow:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageChange:
    """What a run did to one package. note: what a reader should know of that."""

    row: PackageRow
    change: str
    note: str = ""

    def data(self) -> dict[str, Any]:
        """As data for --json."""
        return {**self.row.data(), "change": self.change, "note": self.note}


def outcome(
    base: Base, new: Mapping[str, Distribution], request: UserRequest, overrides: Sequence[str]
) -> tuple[PackageRow, ...]:
    """The packages that this overlay is about: what is new, and what new packages or the user take of the base."""
    environment = marker_environment(base)
    askers = _origins(request, overrides)
    for name, distribution in sorted(new.items()):
        for requirement in requirements(distribution, environment):
            askers.setdefault(canonical(requirement.name), []).append(name)
    for name, who in _of_extras({**base.packages, **new}, new, request, environment):
        askers.setdefault(name, []).append(who)
    counted = as_releases(base, new)
    rows = [_row(base, name, new[name].version, askers.get(name, ())) for name in new]
    rows += [
        _base_row(base.packages[name], who, counted.get(name, ()))
        for name, who in askers.items()
        if name in base.packages and name not in new
    ]
    return tuple(sorted(rows, key=lambda row: row.name))


def rows_of_resolution(
    base: Base, resolution: Resolution, request: UserRequest, overrides: Sequence[str]
) -> tuple[PackageRow, ...]:
    """The same before anything is installed, from what a resolution says."""
    environment = marker_environment(base)
    origins = _origins(request, overrides)
    new = {package.name for package in resolution.to_install}
    extras = {package.name: found for package in resolution.packages if (found := _extras_of(package))}
    rows = []
    for package in resolution.packages:
        askers_of_it = [name for name in package.via if name in new or name in extras]
        via = [_with_extra(base, name, extras.get(name, ()), package, environment) for name in askers_of_it]
        askers = [*origins.get(package.name, ()), *via]
        if not askers:
            continue  # of the base, and only its own packages want it
        if package.from_base:
            rows.append(_base_row(base.packages[package.name], askers, ()))
        else:
            rows.append(_row(base, package.name or package.line, package.version or "?", askers))
    return tuple(sorted(rows, key=lambda row: row.name))


def changes(
    rows: Sequence[PackageRow], before: Mapping[str, str], newest: Mapping[str, str]
) -> tuple[PackageChange, ...]:
    """What a run did to each package, what needs a look first.

    before: the versions of the overlay that was made again. newest: of what is older than that.
    """
    found = [_change(row, before.get(row.name), newest.get(row.name)) for row in rows]
    effective = {row.name for row in rows if row.how != FROM_BASE}
    for name, version in before.items():
        if name not in effective:
            in_base = next((row for row in rows if row.name == name), None)
            note = f"the base's {in_base.version} is used" if in_base else ""
            row = PackageRow(name=name, version=version, how=REMOVED, asked_by=())
            found.append(PackageChange(row=row, change=REMOVED, note=note))
    order = (OLDER, REPLACED, NEW, CHANGED, REMOVED, SAME)
    return tuple(sorted(found, key=lambda change: (order.index(change.change), change.row.name)))


def table_rows(found: Sequence[PackageChange]) -> list[tuple[str, str, str, str, str]]:
    """For a table under HEADINGS."""
    return [
        (change.row.name, change.row.version, change.row.how, ", ".join(change.row.asked_by), change.note)
        for change in found
    ]


def warnings(base: Base, rows: Sequence[PackageRow]) -> list[str]:
    """What it costs to have replaced protected packages, or to have them beside the base's."""
    if base.is_plain:
        return []
    lines = []
    for row in rows:
        rule = protected(row.name)
        if rule and row.how == OVERRIDDEN:
            lines.append(f"the base's {row.name} {row.base_version} is replaced by {row.version}: {rule.cost}")
        elif rule and row.how == INSTALLED and not row.note:
            lines.append(f"{row.name} {row.version} is not of the base: {rule.cost}")
    return lines


def _change(row: PackageRow, before: str | None, newest: str | None) -> PackageChange:
    if row.how == FROM_BASE:
        return PackageChange(row=row, change=SAME, note=row.note)
    if newest is not None:
        note = f"older: the newest is {newest}, see what it asks of the base with {row.name}=={newest}"
        return PackageChange(row=row, change=OLDER, note=f"{note}; {row.note}" if row.note else note)
    if before == row.version:
        return PackageChange(row=row, change=SAME, note=row.note)
    if before is not None:
        step = "from" if newer(row.version, before) else "back from"
        return PackageChange(row=row, change=CHANGED, note=f"{step} {before}")
    return PackageChange(row=row, change=REPLACED if row.how == OVERRIDDEN else NEW, note=row.note)


def _origins(request: UserRequest, overrides: Sequence[str]) -> dict[str, list[str]]:
    """Who of the user's words wants a package."""
    found: dict[str, list[str]] = {}
    for wanted in request.requirements:
        found.setdefault(wanted.name, []).append(wanted.origin)
    for name in overrides:
        found.setdefault(canonical(name), []).append("--override")
    return found


def _of_extras(
    present: Mapping[str, Distribution],
    new: Mapping[str, Distribution],
    request: UserRequest,
    environment: dict[str, str],
) -> Iterator[tuple[str, str]]:
    """What extras ask for: package, and the extra that wants it (`fsspec[http]`), also one of the base's."""
    waiting = [(wanted.name, wanted.requirement) for wanted in request.requirements if wanted.requirement]
    for package in new.values():
        waiting += [(canonical(found.name), found) for found in requirements(package, environment)]
    seen = set()
    while waiting:
        name, requirement = waiting.pop()
        for extra in sorted(requirement.extras):
            if (name, extra) in seen or name not in present:
                continue
            seen.add((name, extra))
            without = list(requirements(present[name], environment))
            for found in requirements(present[name], {**environment, "extra": extra}):
                waiting.append((canonical(found.name), found))
                if found not in without:
                    yield canonical(found.name), f"{name}[{extra}]"


def _extras_of(package: ResolvedPackage) -> tuple[str, ...]:
    """The extras of a package that are asked for, as uv writes them: fsspec[full,http] @ file:///..."""
    match = re.match(r"[A-Za-z0-9._-]+\s*\[([^\]]*)\]", package.line)
    return tuple(extra.strip() for extra in match[1].split(",")) if match else ()


def _with_extra(
    base: Base, asker: str, extras: Sequence[str], wanted: ResolvedPackage, environment: dict[str, str]
) -> str:
    """The asker, with the extra through which it asks if it is the base's. extras: its own that are wanted."""
    package = base.packages.get(asker)
    if package is None or wanted.name in {canonical(found.name) for found in requirements(package, environment)}:
        return asker
    for extra in extras:
        with_extra = requirements(package, {**environment, "extra": extra})
        if wanted.name in {canonical(found.name) for found in with_extra}:
            return f"{asker}[{extra}]"
    return asker


def _row(base: Base, name: str, version: str, askers: Sequence[str]) -> PackageRow:
    """The row of a package that lies in the overlay."""
    in_base = base.packages.get(name)
    return PackageRow(
        name=name,
        version=version,
        how=OVERRIDDEN if in_base else INSTALLED,
        asked_by=tuple(dict.fromkeys(askers)),
        base_version=in_base.version if in_base else None,
        note=f"over the base's {in_base.version}" if in_base else "",
    )


def _base_row(package: Distribution, askers: Sequence[str], counted: Sequence[str]) -> PackageRow:
    """The row of a package of the base. counted: who takes a pre-release for its release."""
    note = f"a vendor's pre-release, counts as its release: {'; '.join(counted[:2])}" if counted else ""
    return PackageRow(
        name=package.key,
        version=package.version,
        how=FROM_BASE,
        asked_by=tuple(dict.fromkeys(askers)),
        base_version=package.version,
        note=note,
    )
