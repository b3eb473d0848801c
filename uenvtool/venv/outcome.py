"""Says what came of it: each package from the base, installed or overridden, with what asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from uenvtool.core.words import canonical, grouped
from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.compat import as_releases, marker_environment, newer, protected, requirements
from uenvtool.venv.record import FROM_BASE, INSTALLED, OVERRIDDEN, PackageRow
from uenvtool.venv.requirements import UserRequest

OLDER, REPLACED, NEW, CHANGED, REMOVED, SAME = CHANGES = ("older", "replaced", "new", "changed", "removed", "same")
"""What a run did to a package, in the order of the table."""
HEADINGS = ("package", "version", "how", "asked by", "")


def outcome(
    base: Base,
    new: Mapping[str, Distribution],
    request: UserRequest,
    overrides: Sequence[str],
    foretold: Mapping[str, str] | None = None,
    askers_of: Mapping[str, Sequence[str]] | None = None,
) -> tuple[PackageRow, ...]:
    """List the packages that this overlay is about: what is new, and what new packages or the user take of the base.

    foretold, askers_of: of what a dry run does not install, the versions, and which packages ask for what.
    """
    environment = marker_environment(base)
    pairs = [(wanted.name, wanted.origin) for wanted in request.requirements]
    pairs += [(name, "--override") for name in overrides]
    for name, distribution in sorted(new.items()):
        pairs += [(canonical(found.name), name) for found in requirements(distribution, environment)]
    pairs += [(name, who) for name, every in (askers_of or {}).items() for who in every]
    askers = grouped([*pairs, *_of_extras({**base.packages, **new}, new, request, environment)])
    counted = as_releases(base, new)
    versions = {**(foretold or {}), **{name: package.version for name, package in new.items()}}
    rows = [_row(base.packages.get(name), name, version, askers.get(name, ())) for name, version in versions.items()]
    for name, who_asks in askers.items():
        package = base.packages.get(name)
        if package is not None and name not in versions:
            who = "; ".join(counted.get(name, ())[:2])
            note = f"a vendor's build, counts as its release: {who}" if who else ""
            rows.append(replace(_row(package, name, package.version, who_asks), how=FROM_BASE, note=note))
    return tuple(sorted(rows, key=lambda row: row.name))


def changes(rows: Sequence[PackageRow], before: Mapping[str, str], newest: Mapping[str, str]) -> tuple[PackageRow, ...]:
    """Add what a run did to each package; what needs a look comes first.

    before: the versions of the overlay that was made again. newest: of what is older than that.
    """
    found = [_change(row, before.get(row.name), newest.get(row.name)) for row in rows]
    of_base = {row.name: row.version for row in rows if row.how == FROM_BASE}
    effective = {row.name for row in rows} - set(of_base)
    found += [
        PackageRow(
            name=name,
            version=version,
            how=REMOVED,
            change=REMOVED,
            note=f"the base's {of_base[name]} is used" if name in of_base else "",
        )
        for name, version in before.items()
        if name not in effective
    ]
    return tuple(sorted(found, key=lambda row: (CHANGES.index(row.change), row.name)))


def table_rows(found: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Return packages, as data, as the rows of a table under HEADINGS."""
    return [(row["name"], row["version"], row["how"], ", ".join(row["asked_by"]), row.get("note", "")) for row in found]


def warnings(base: Base, rows: Sequence[PackageRow]) -> Iterator[str]:
    """Say what it costs to have replaced protected packages, or to have them beside the base's."""
    has_torch = "torch" in base.packages
    for row in () if base.is_plain else rows:
        rule = protected(row.name)
        if row.name == "torch" and not has_torch:
            yield f"torch {row.version} is the package index's, which knows neither this machine's GPUs nor its network"
            continue
        if rule and rule.refuse_missing and not has_torch:
            continue  # a library of that torch's own
        if rule and row.how == OVERRIDDEN:
            yield f"the base's {row.name} {row.base_version} is replaced by {row.version}: {rule.cost}"
        elif rule and row.how == INSTALLED and not row.note:
            yield f"{row.name} {row.version} is not of the base: {rule.cost}"


def _change(row: PackageRow, before: str | None, newest: str | None) -> PackageRow:
    if row.how == FROM_BASE or (newest is None and before == row.version):
        return replace(row, change=SAME)
    if newest is not None:
        note = f"older: the newest is {newest}, see what it asks of the base with {row.name}=={newest}"
        return replace(row, change=OLDER, note=f"{note}; {row.note}" if row.note else note)
    if before is not None:
        return replace(row, change=CHANGED, note=f"{'from' if newer(row.version, before) else 'back from'} {before}")
    return replace(row, change=REPLACED if row.how == OVERRIDDEN else NEW)


def _of_extras(
    present: Mapping[str, Distribution],
    new: Mapping[str, Distribution],
    request: UserRequest,
    environment: dict[str, str],
) -> Iterator[tuple[str, str]]:
    """Give what extras ask for: package, and the extra that wants it (`fsspec[http]`), also one of the base's."""
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


def _row(in_base: Distribution | None, name: str, version: str, askers: Sequence[str]) -> PackageRow:
    return PackageRow(
        name=name,
        version=version,
        how=OVERRIDDEN if in_base else INSTALLED,
        asked_by=tuple(dict.fromkeys(askers)),
        base_version=in_base.version if in_base else None,
        note=f"over the base's {in_base.version}" if in_base else "",
    )
