"""Describes the packages of an overlay: from the base, installed or overridden, and the packages that require them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from uenvtool.core.words import canonical, grouped
from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.compat import as_releases, marker_environment, newer, protected, requirements
from uenvtool.venv.record import FROM_BASE, INSTALLED, OVERRIDDEN, PackageRow
from uenvtool.venv.requirements import UserRequest

OLDER, REPLACED, NEW, CHANGED, REMOVED, SAME = CHANGES = ("older", "replaced", "new", "changed", "removed", "same")
"""The changes that a run can make to a package, in the order of the table."""
HEADINGS = ("package", "version", "how", "required by", "")


def outcome(
    base: Base,
    new: Mapping[str, Distribution],
    request: UserRequest,
    overrides: Sequence[str],
    foretold: Mapping[str, str] | None = None,
    askers_of: Mapping[str, Sequence[str]] | None = None,
) -> tuple[PackageRow, ...]:
    """Return the new packages, and the base's packages that they or the user require.

    foretold: the package versions that a dry run would install. askers_of: for each package, the packages that require
    it.
    """
    environment = marker_environment(base)
    pairs = [(requirement.name, requirement.origin) for requirement in request.requirements]
    pairs += [(name, "--override") for name in overrides]
    for name, distribution in sorted(new.items()):
        pairs += [(canonical(dependency.name), name) for dependency in requirements(distribution, environment)]
    pairs += [(name, requirer) for name, requirers in (askers_of or {}).items() for requirer in requirers]
    askers = grouped([*pairs, *_of_extras({**base.packages, **new}, new, request, environment)])
    relying = as_releases(base, new)
    versions = {**(foretold or {}), **{name: package.version for name, package in new.items()}}
    rows = [_row(base.packages.get(name), name, version, askers.get(name, ())) for name, version in versions.items()]
    for name, who_asks in askers.items():
        package = base.packages.get(name)
        if package is not None and name not in versions:
            reliance = "; ".join(relying.get(name, ())[:2])
            note = f"vendor's build, accepted as its release: {reliance}" if reliance else ""
            rows.append(replace(_row(package, name, package.version, who_asks), how=FROM_BASE, note=note))
    return tuple(sorted(rows, key=lambda row: row.name))


def changes(
    rows: Sequence[PackageRow], previous: Mapping[str, str], newest: Mapping[str, str], rebuilt: Collection[str] = ()
) -> tuple[PackageRow, ...]:
    """Return the rows with each package's change in this run, in the order of CHANGES.

    previous: the versions in the old overlay. newest: the newest version of each package for which the run installed an
    older version. rebuilt: the packages whose source has changed.
    """
    changed = [
        _change(row, previous.get(row.name), newest.get(row.name), is_rebuilt=row.name in rebuilt) for row in rows
    ]
    of_base = {row.name: row.version for row in rows if row.how == FROM_BASE}
    effective = {row.name for row in rows} - set(of_base)
    for name, version in previous.items():
        if name not in effective:
            note = f"the base's {of_base[name]} is used" if name in of_base else ""
            changed.append(PackageRow(name=name, version=version, how=REMOVED, change=REMOVED, note=note))
    return tuple(sorted(changed, key=lambda row: (CHANGES.index(row.change), row.name)))


def table_rows(packages: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return the table rows of the packages, for the columns in HEADINGS."""
    fixed = ("name", "version", "how")
    return [(*(row[key] for key in fixed), ", ".join(row["asked_by"]), row.get("note", "")) for row in packages]


def warnings(base: Base, rows: Sequence[PackageRow]) -> Iterator[str]:
    """Yield a warning for each protected package that was replaced or added, with the consequence."""
    has_torch = "torch" in base.packages
    for row in () if base.is_plain else rows:
        rule = protected(row.name)
        if row.name == "torch" and not has_torch:
            yield f"torch {row.version} is from the package index and not built for this machine's GPUs and network"
            continue
        if rule and rule.refuse_missing and not has_torch:
            continue  # a library of the installed torch itself
        if rule and row.how == OVERRIDDEN:
            yield f"the base's {row.name} {row.base_version} is replaced by {row.version}: {rule.cost}"
        elif rule and row.how == INSTALLED and not row.note:
            yield f"{row.name} {row.version} is not from the base: {rule.cost}"


def _change(row: PackageRow, previous: str | None, newest: str | None, *, is_rebuilt: bool) -> PackageRow:
    if row.how == FROM_BASE or (newest is None and previous == row.version):
        return replace(row, change=CHANGED, note="rebuilt") if is_rebuilt else replace(row, change=SAME)
    if newest is not None:
        note = f"older: the newest is {newest}; to see why it does not fit, request {row.name}=={newest}"
        return replace(row, change=OLDER, note=f"{note}; {row.note}" if row.note else note)
    if previous is not None:
        change = "upgraded from" if newer(row.version, previous) else "downgraded from"
        return replace(row, change=CHANGED, note=f"{change} {previous}")
    return replace(row, change=REPLACED if row.how == OVERRIDDEN else NEW)


def _of_extras(
    present: Mapping[str, Distribution],
    new: Mapping[str, Distribution],
    request: UserRequest,
    environment: dict[str, str],
) -> Iterator[tuple[str, str]]:
    # Each pair is a package and the extra that requires it, such as `fsspec[http]`, also an extra of a base package.
    waiting = [(named.name, named.requirement) for named in request.requirements if named.requirement]
    for package in new.values():
        waiting += [(canonical(dependency.name), dependency) for dependency in requirements(package, environment)]
    done = set()
    while waiting:
        name, requirement = waiting.pop()
        for extra in sorted(requirement.extras):
            if (name, extra) in done or name not in present:
                continue
            done.add((name, extra))
            without = list(requirements(present[name], environment))
            for dependency in requirements(present[name], {**environment, "extra": extra}):
                waiting.append((canonical(dependency.name), dependency))
                if dependency not in without:
                    yield canonical(dependency.name), f"{name}[{extra}]"


def _row(in_base: Distribution | None, name: str, version: str, askers: Sequence[str]) -> PackageRow:
    return PackageRow(
        name=name,
        version=version,
        how=OVERRIDDEN if in_base else INSTALLED,
        asked_by=tuple(dict.fromkeys(askers)),
        base_version=in_base.version if in_base else None,
        note=f"replaces the base's {in_base.version}" if in_base else "",
    )
