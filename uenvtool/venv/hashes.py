"""Hashes of packages as pip checks them: a lock is confined to the files that the user names.

If one requirement or constraint has a --hash, or --require-hashes is given, everything that is installed needs a
pinned version and a hash (https://pip.pypa.io/en/stable/topics/secure-installs/). What the base has is there already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from uenvtool.core.errors import AnswerIsNo, BadInput, Problem
from uenvtool.venv.requirements import UserRequest, UserRequirement
from uenvtool.venv.resolve import ResolvedPackage
from uenvtool.venv.versions import canonical

WHEELS, SINGLE = "wheels", ("sdist", "archive")
"""Where a package of a pylock.toml has its files: a list of them, and single ones (PEP 751)."""


def checks_hashes(request: UserRequest) -> bool:
    """Tell if hashes are checked: one hash turns it on for all packages, as in pip."""
    return request.require_hashes or any(wanted.hashes for wanted in (*request.requirements, *request.constraints))


def confined(text: str, request: UserRequest, packages: Sequence[ResolvedPackage]) -> str:
    """The lock of a request with only those files whose hashes the user names; as it is if hashes are not checked.

    packages: what is locked. Raises BadInput if a package has no hash or pin, AnswerIsNo if no file of it has a
    hash that the user names.
    """
    if not checks_hashes(request) or not text:
        return text
    import tomlkit

    document = tomlkit.parse(text)
    tables: Any = document["packages"]
    askers = {package.name: package.via for package in packages}
    pairs = [(table, _named(canonical(str(table["name"])), request)) for table in tables]
    unchecked = [problem for table, named in pairs for problem in _unchecked(table, named, askers)]
    if unchecked:
        raise BadInput(unchecked)
    wrong = [problem for table, named in pairs for problem in _confine(table, named)]
    if wrong:
        raise AnswerIsNo(wrong)
    return tomlkit.dumps(document)


def _named(name: str, request: UserRequest) -> list[UserRequirement]:
    """What the user says of a package."""
    return [wanted for wanted in (*request.requirements, *request.constraints) if wanted.name == name]


def _unchecked(
    table: Mapping[str, Any], named: Sequence[UserRequirement], askers: Mapping[str, Sequence[str]]
) -> Iterator[Problem]:
    """What keeps a package from being checked."""
    name = canonical(str(table["name"]))
    place = next((wanted.position for wanted in named if wanted.position), None)
    because = "hashes are checked, since one is given or required"
    if not set(table) & {WHEELS, *SINGLE}:
        hint = f"{because}: name a wheel or an archive in its place"
        yield Problem(f"{name} is a folder or a repository, which has no hash", place, hint)
    elif not any(map(_is_pinned, named)):
        who = f", which {', '.join(askers.get(name) or ('a requirement',))} asks for," if not named else ""
        yield Problem(
            f"{name}{who} is not pinned with ==", place, f"{because}: {name}=={table.get('version', 'VERSION')}"
        )
    elif not any(wanted.hashes for wanted in named):
        yield Problem(f"{name} has no --hash", place, f"{because}: `pip hash FILE` prints it")


def _is_pinned(wanted: UserRequirement) -> bool:
    if wanted.requirement is None or wanted.requirement.url:
        return True
    return any(
        specifier.operator in ("==", "===") and not specifier.version.endswith(".*")
        for specifier in wanted.requirement.specifier
    )


def _confine(table: Any, named: Sequence[UserRequirement]) -> Iterator[Problem]:
    """Take the files out of a package's table that the user does not allow; the problem if none is left."""
    allowed = set.intersection(*(set(wanted.hashes) for wanted in named if wanted.hashes))
    found = [file_hash for file in _files(table) for file_hash in _hashes(file)]
    wheels = table.get(WHEELS, [])
    for number in reversed(range(len(wheels))):
        if not allowed & set(_hashes(wheels[number])):
            del wheels[number]
    for key in (WHEELS, *SINGLE):
        if key in table and (not wheels if key == WHEELS else not allowed & set(_hashes(table[key]))):
            del table[key]
    if not set(table) & {WHEELS, *SINGLE}:
        place = next((wanted.position for wanted in named if wanted.hashes), None)
        what = f"{table['name']} {table.get('version', '')}".rstrip()
        yield Problem(f"{what}: none of its files has a hash that you name", place, _why(found, allowed))


def _files(table: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from table.get(WHEELS, ())
    yield from (table[key] for key in SINGLE if key in table)


def _hashes(file: Mapping[str, Any]) -> list[str]:
    return [f"{kind}:{value}" for kind, value in file.get("hashes", {}).items()]


def _why(found: Sequence[str], allowed: set[str]) -> str:
    """What to do about hashes that differ."""
    kinds = {hash_.partition(":")[0] for hash_ in found}
    if found and not kinds & {hash_.partition(":")[0] for hash_ in allowed}:
        return f"the index names its files by {', '.join(sorted(kinds))} alone: give that hash"
    shown = f"it has {', '.join(found[:2])}{', ...' if len(found) > 2 else ''}" if found else "the index names none"
    return f"{shown}; if you did not expect that, somebody has changed the package: do not install it"
