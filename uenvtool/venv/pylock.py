"""Writes and reads the lock of an overlay: a pylock.toml (PEP 751) of the installed packages, with the base's name.

Hashes are checked as in pip. If a requirement or constraint has a --hash, or --require-hashes is given, every package
to install needs a pinned version and a hash (https://pip.pypa.io/en/stable/topics/secure-installs/), and the lock lists
only the files with the user's hashes. Packages of the base need no hash.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import AnswerIsNo, BadInput, Position, Problem
from uenvtool.core.words import canonical, grouped
from uenvtool.venv.plan import OverlayPlan
from uenvtool.venv.projects import PYPROJECT
from uenvtool.venv.requirements import UserRequest, UserRequirement
from uenvtool.venv.settings import users_settings
from uenvtool.venv.uv import Uv

LOCK = "pylock.toml"
EMPTY = 'lock-version = "1.0"\ncreated-by = "uenvtool"\npackages = []\n'
LISTS = ("requests", "overrides", "built-on-base")
MAX_BYTES = 50_000_000
YEARS_OLDER = datetime.timedelta(days=2 * 365)
"""How much older than the newest release a compatible one may be if the user requested no version.
For a base with torch 2.6 (2025-01), torchvision 0.21 is 21 months older than the newest, 0.29.2 (PyPI, 2026-11)."""
WHEELS, SINGLE = "wheels", ("sdist", "archive")
"""The keys of a package in a pylock.toml that contain files: a list of files, and keys with one file each (PEP 751)."""
_SHAPE: dict[str, type] = {
    "version": str,
    "marker": str,
    WHEELS: list,
    **dict.fromkeys(("directory", "vcs", *SINGLE), dict),
}
_KINDS: dict[type, str] = {str: "string", list: "list", dict: "table"}
DAMAGED = "make the lock again: it is damaged"


def versions_lock(versions: Mapping[str, str]) -> str:
    """Return a pylock.toml that contains only versions, which uv prefers when it overwrites this lock."""
    tables = (f'[[packages]]\nname = "{name}"\nversion = "{version}"\n' for name, version in versions.items())
    return EMPTY if not versions else EMPTY.replace("packages = []\n", "\n") + "\n".join(tables)


def versions_of(text: str) -> dict[str, str]:
    """Return the versions in a lock by normalized name; a project without a version has an empty string."""
    return {name: str(table.get("version", "")) for name, table in _tables(text)}


def _tables(text: str) -> list[tuple[str, Mapping[str, Any]]]:
    return [(canonical(table["name"]), table) for table in _document(text).get("packages", ())]


@functools.lru_cache(maxsize=4)  # tomlkit needs 0.1 s for a hundred packages
def _document(text: str) -> Mapping[str, Any]:
    import tomlkit

    document: Mapping[str, Any] = tomlkit.parse(text).unwrap()
    return document


def with_absolute_paths(text: str, directory: Path) -> str:
    """Return a lock with absolute paths instead of paths relative to a directory, so that it can be moved."""
    import tomlkit

    if not any(_relative(table) for _, table in _tables(text)):
        return text
    document = tomlkit.parse(text)
    tables: Any = document["packages"]
    for source in (source for table in tables for source in _relative(table)):
        source["path"] = os.path.abspath(directory / source["path"])
    return tomlkit.dumps(document)


def _relative(table: Mapping[str, Any]) -> list[Any]:
    sources = [table[kind] for kind in ("directory", *SINGLE) if kind in table]
    return [source for source in sources if not os.path.isabs(source.get("path", "/"))]


def signed(text: str, plan: OverlayPlan) -> str:
    """Return a lock with a [tool.uenvtool] table that records its base and requirements."""
    values: dict[str, object] = {
        "base": plan.base.fingerprint(),
        "base-name": plan.base.found_base.name,
        "python": plan.base.version,
        "requests": [requirement.recorded for requirement in plan.requested.requirements],
        "overrides": plan.overrides,
        "built-on-base": plan.settings.built_on_base,
    }
    lines = ["", "[tool.uenvtool]", "# To make the same overlay again: uenvtool venv PATH --from pylock.toml"]
    lines += [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
    return text.rstrip("\n") + "\n" + "\n".join(lines) + "\n"


def exported(uv: Uv, plan: OverlayPlan, path: Path) -> Path:
    """Export a project's uv.lock with uv and return the path of the pylock.toml.

    The export contains the requested extras and groups, the default groups and the project itself. In an image, the
    project is not editable. As with `uv sync --locked`, a lock that is older than the project is an error.
    """
    work, request = uv.work / "project", plan.request
    if not path.is_file():
        raise BadInput("file not found", Position(str(path)), "create it with `uv lock`")
    if not path.with_name(PYPROJECT).is_file():
        message, hint = f"the directory of the lock has no {PYPROJECT}", "name the lock in its project's directory"
        raise BadInput(message, Position(str(path)), hint)
    work.mkdir(parents=True, exist_ok=True)
    arguments: list[str | Path] = ["export", "--quiet", "--no-header", "--locked"]
    arguments += ["--no-emit-project"] if request.no_install_project else []
    arguments += ["--no-editable"] if request.image else []
    arguments += ["--project", path.absolute().parent, "--python", plan.base.python]
    arguments += [argument for name in request.extra for argument in ("--extra", name)]
    arguments += [argument for name in request.group for argument in ("--group", name)]
    # Without a project or UV_CONFIG_FILE, uv would search the parent directories for its settings.
    if not uv.settings.project and "UV_CONFIG_FILE" not in uv.settings.environment:
        arguments += ["--config-file", users_settings(uv.settings.environment, work)]
    uv.run([*arguments, "--format", "pylock.toml", "-o", work / LOCK], of_project=True)
    return work / LOCK


def read_lock(path: Path, environment: dict[str, str]) -> tuple[str, dict[str, str | None], dict[str, Any]]:
    """Return the text of a lock with absolute paths, its versions by normalized name, and its [tool.uenvtool] table.

    The versions include only packages for this machine. environment: the marker values. Raises BadInput with the
    position if the file is not a valid lock.
    """
    from packaging.markers import Marker
    from tomlkit.exceptions import ParseError, TOMLKitError

    position = Position(str(path))
    try:
        text = files.read_named(path, MAX_BYTES).decode("utf-8")
        document = _document(text)
    except FileNotFoundError:
        raise BadInput("file not found", position, "name a pylock.toml or uv.lock") from None
    except UnicodeDecodeError as error:
        raise BadInput("not a UTF-8 text file", position, "name a lock: a pylock.toml or uv.lock") from error
    except TOMLKitError as error:
        if isinstance(error, ParseError):
            position = Position(str(path), error.line, error.col + 1)
        raise BadInput(f"invalid TOML: {error}", position, "fix the file, or make the lock again") from error
    packages = document.get("packages")
    if not isinstance(packages, list) or "lock-version" not in document:
        hint = "name a file that has lock-version and [[packages]] (PEP 751)"
        raise BadInput("not a pylock.toml", position, hint)
    if str(document["lock-version"]).split(".")[0] != "1":
        raise BadInput(f"unsupported lock-version {document['lock-version']}", position, "make a lock of version 1.0")
    tool = document.get("tool", {})
    uenvtool_table: dict[str, Any] = tool.get("uenvtool", {}) if isinstance(tool, dict) else {}
    uenvtool_table = uenvtool_table if isinstance(uenvtool_table, dict) else {}
    groups = document.get("default-groups")
    values: dict[str, Any] = {**environment, "extras": frozenset()}
    values["dependency_groups"] = frozenset(map(str, groups if isinstance(groups, list) else ()))
    BadInput.raise_any(_problems(path, text, packages, values))
    if any(not isinstance(uenvtool_table.get(name, []), list) for name in LISTS):
        raise BadInput(f"{', '.join(LISTS)} of [tool.uenvtool] must be lists", position, DAMAGED)
    applicable = [table for table in packages if "marker" not in table or Marker(table["marker"]).evaluate(values)]
    return (
        with_absolute_paths(text, path.parent),
        {canonical(table["name"]): table.get("version") for table in applicable},
        uenvtool_table,
    )


def _problems(path: Path, text: str, packages: Sequence[Any], values: Mapping[str, Any]) -> Iterator[Problem]:
    heads = [number for number, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*packages\s*\]\]", line)]
    for number, table in enumerate(packages):
        position = Position(str(path), heads[number] if len(heads) == len(packages) else 1)
        for message in _problems_of(table, values):
            yield Problem(message, position, DAMAGED)


def _problems_of(table: Any, values: Mapping[str, Any]) -> Iterator[str]:
    from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

    if not isinstance(table, dict):
        yield f"a package must be a table, not {table!r}"
        return
    name = table.get("name")
    if not isinstance(name, str):
        yield "a package has no name" if name is None else f"the name of a package must be a string, not {name!r}"
        return
    for key, kind in _SHAPE.items():
        if key in table and not isinstance(table[key], kind):
            yield f"{name}: {key} must be a {_KINDS[kind]}, not {table[key]!r}"
            return
    shapes: tuple[tuple[str, type], ...] = (("path", str), ("url", str), ("hashes", dict))
    for file in _files_of(table, ("directory", *SINGLE)):
        if not isinstance(file, dict) or any(not isinstance(file.get(key, kind()), kind) for key, kind in shapes):
            yield f"{name}: {file!r} is not a valid entry for a file"
    try:
        _ = "marker" not in table or Marker(table["marker"]).evaluate(dict(values))
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName) as error:
        yield f"{name}: invalid marker {table['marker']!r}: {str(error).splitlines()[0]}"


def without_wheel(text: str) -> frozenset[str]:
    """Return the normalized names of the packages of a lock that must be built from source."""
    return frozenset(name for name, table in _tables(text) if not table.get(WHEELS) and not _is_wheel(table))


def directories(text: str, *, editable: bool) -> dict[str, str]:
    """Return the directories that the packages of a lock are built from, by normalized name.

    editable: whether to include the editable packages, which use the directory itself.
    """
    return {
        name: os.path.normpath(os.path.join(source["path"], source.get("subdirectory", "")))
        for name, table in _tables(text)
        if "path" in (source := table.get("directory", {})) and (editable or not source.get("editable"))
    }


def unchanged(text: str, previous: str) -> frozenset[str]:
    """Return the normalized names of the packages that are equal in two locks and whose files all have hashes."""
    old, new = grouped(_tables(previous)), grouped(_tables(text))
    return frozenset(
        name for name, tables in new.items() if tables == old.get(name) and all(map(_is_of_known_content, tables))
    )


def _is_of_known_content(table: Mapping[str, Any]) -> bool:
    sources = _files_of(table, ("directory", "vcs", *SINGLE))
    return bool(sources) and all(source.get("hashes") for source in sources)


def much_older(text: str, newest: str) -> frozenset[str]:
    """Return the normalized names of the packages that a lock has in versions YEARS_OLDER than those of another lock.

    Packages without upload times are not included.
    """
    dates, newest_dates = uploaded(text), uploaded(newest)
    return frozenset(name for name in dates.keys() & newest_dates if newest_dates[name] - dates[name] >= YEARS_OLDER)


def uploaded(text: str) -> dict[str, datetime.datetime]:
    """Return the upload time of each package by normalized name, if the index provides it (PEP 700)."""
    dates_of = {}
    for name, table in _tables(text):
        times = [file.get("upload-time") for file in _files_of(table)]
        dates = [time for time in times if isinstance(time, datetime.datetime)]
        if dates:
            dates_of[name] = max(dates)
    return dates_of


def _files_of(table: Mapping[str, Any], single: Sequence[str] = SINGLE) -> list[Any]:
    return [*table.get(WHEELS, ()), *(table[kind] for kind in single if kind in table)]


def _is_wheel(table: Mapping[str, Any]) -> bool:
    archive = table.get("archive", {})
    return str(archive.get("url") or archive.get("path") or "").partition("#")[0].endswith(".whl")


def stripped(text: str, names: Collection[str]) -> str:
    """Return a lock without the named packages (normalized names) and without the [tool.uenvtool] table."""
    import tomlkit

    document = tomlkit.parse(text)
    tool = document.get("tool")
    if isinstance(tool, dict):
        tool.pop("uenvtool", None)
        if not tool:
            document.pop("tool")
    kept = tomlkit.aot()
    tables: Any = document["packages"]
    for table in tables:
        if canonical(str(table["name"])) not in names:
            kept.append(table)
    document["packages"] = kept
    return tomlkit.dumps(document)


def restrict_to_hashes(text: str, request: UserRequest) -> str:
    """Return a lock with only the files that have the user's hashes, or unchanged if hashes are not checked.

    Raises BadInput if a package has no hash or pin, and AnswerIsNo if no file of a package has one of its hashes.
    """
    requested = (*request.requirements, *request.constraints)
    # As in pip, one hash enables the check for all packages.
    if not request.require_hashes and not any(requirement.hashes for requirement in requested):
        return text
    import tomlkit

    document = tomlkit.parse(text)
    tables: Any = document["packages"]
    by_name = grouped((requirement.name, requirement) for requirement in requested)
    pairs = [(table, by_name.get(canonical(str(table["name"])), [])) for table in tables]
    BadInput.raise_any(problem for table, requirements in pairs for problem in _unchecked(table, requirements))
    AnswerIsNo.raise_any([problem for table, requirements in pairs for problem in _restrict(table, requirements)])
    return tomlkit.dumps(document)


def _unchecked(table: Mapping[str, Any], requirements: Sequence[UserRequirement]) -> Iterator[Problem]:
    name = canonical(str(table["name"]))
    position = next((requirement.position for requirement in requirements if requirement.position), None)
    reason = "every package needs a hash if one has a hash or if hashes are required"
    if not set(table) & {WHEELS, *SINGLE}:
        hint = f"name a wheel or an archive instead; {reason}"
        yield Problem(f"{name} is a directory or a repository, which has no hash", position, hint)
    elif not any(map(_is_pinned, requirements)):
        origin = "" if requirements else ", required by another package,"
        hint = f"add {name}=={table.get('version')} with its --hash; {reason}"
        yield Problem(f"{name}{origin} is not pinned with ==", position, hint)
    elif not any(requirement.hashes for requirement in requirements):
        yield Problem(f"{name} has no --hash", position, f"add the hash that `pip hash FILE` prints; {reason}")


def _is_pinned(named: UserRequirement) -> bool:
    if named.requirement is None or named.requirement.url:
        return True
    bounds = ((bound.operator, bound.version) for bound in named.requirement.specifier)
    return any(operator in ("==", "===") and not version.endswith(".*") for operator, version in bounds)


def _restrict(table: Any, requirements: Sequence[UserRequirement]) -> Iterator[Problem]:
    allowed = set.intersection(*(set(requirement.hashes) for requirement in requirements if requirement.hashes))
    wheels = table.get(WHEELS, [])
    file_hashes = [value for file in _files_of(table) for value in _hashes(file)]
    for number in reversed(range(len(wheels))):
        if not allowed & set(_hashes(wheels[number])):
            del wheels[number]
    for key in (WHEELS, *SINGLE):
        if key in table and (not wheels if key == WHEELS else not allowed & set(_hashes(table[key]))):
            del table[key]
    if not set(table) & {WHEELS, *SINGLE}:
        position = next((requirement.position for requirement in requirements if requirement.hashes), None)
        package = f"{table['name']} {table.get('version', '')}".rstrip()
        yield Problem(f"{package}: no file has one of the given hashes", position, _hash_hint(file_hashes, allowed))


def _hashes(file: Mapping[str, Any]) -> list[str]:
    return [f"{kind}:{value}" for kind, value in file.get("hashes", {}).items()]


def _hash_hint(file_hashes: Sequence[str], allowed: set[str]) -> str:
    kinds = {value.partition(":")[0] for value in file_hashes}
    if file_hashes and not kinds & {value.partition(":")[0] for value in allowed}:
        return f"give a hash of another kind: the index provides only {', '.join(sorted(kinds))}"
    more = ", ..." if len(file_hashes) > 2 else ""
    shown = f"the index has {', '.join(file_hashes[:2])}{more}" if file_hashes else "the index provides no hashes"
    return f"do not install it if you did not expect this, because the files may have been modified; {shown}"
