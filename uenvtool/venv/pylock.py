"""Makes and reads the lock of an overlay: a pylock.toml (PEP 751) of what is installed, with the base that it is for.

Hashes are checked as in pip: if one requirement or constraint has a --hash, or --require-hashes is given, everything
that is installed needs a pinned version and a hash (https://pip.pypa.io/en/stable/topics/secure-installs/), and the
lock is restricted to the files that the user names. What the base has is there already.
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
WHEELS, SINGLE = "wheels", ("sdist", "archive")
"""Where a package of a pylock.toml has its files: a list of them, and single ones (PEP 751)."""
_SHAPE: dict[str, type] = {
    "version": str,
    "marker": str,
    WHEELS: list,
    **dict.fromkeys(("directory", "vcs", *SINGLE), dict),
}
_KINDS: dict[type, str] = {str: "text", list: "list", dict: "table"}
DAMAGED = "it is damaged: make it again"


def listing(versions: Mapping[str, str]) -> str:
    """Write a pylock.toml that names versions alone: uv prefers those of the file that it writes over."""
    tables = (f'[[packages]]\nname = "{name}"\nversion = "{version}"\n' for name, version in versions.items())
    return EMPTY if not versions else EMPTY.replace("packages = []\n", "\n") + "\n".join(tables)


def versions_of(text: str) -> dict[str, str]:
    """Return the versions of what a lock has, by normalized name; an empty one of a project that has none yet."""
    return {canonical(table["name"]): str(table.get("version", "")) for table in _tables(text)}


def _tables(text: str) -> Sequence[Mapping[str, Any]]:
    tables: Sequence[Mapping[str, Any]] = _document(text).get("packages", ())
    return tables


@functools.lru_cache(maxsize=4)
def _document(text: str) -> Mapping[str, Any]:
    """Read a lock; tomlkit takes 0.1 s for a hundred packages, and several things are asked of each."""
    import tomlkit

    document: Mapping[str, Any] = tomlkit.parse(text).unwrap()
    return document


def with_whole_paths(text: str, folder: Path) -> str:
    """Make the paths in a lock whole: they count from its folder, and it is written anew elsewhere."""
    import tomlkit

    if not any(_relative(table) for table in _tables(text)):
        return text
    document = tomlkit.parse(text)
    tables: Any = document["packages"]
    for place in (place for table in tables for place in _relative(table)):
        place["path"] = os.path.abspath(folder / place["path"])
    return tomlkit.dumps(document)


def _relative(table: Mapping[str, Any]) -> list[Any]:
    places = [table[kind] for kind in ("directory", *SINGLE) if kind in table]
    return [place for place in places if not os.path.isabs(place.get("path", "/"))]


def signed(text: str, plan: OverlayPlan) -> str:
    """Add the table that says which base and which requests the lock is for."""
    values: dict[str, object] = {
        "base": plan.base.fingerprint(),
        "base-name": plan.base.found.name,
        "python": plan.base.version,
        "requests": [requirement.recorded for requirement in plan.wanted.requirements],
        "overrides": plan.overrides,
        "built-on-base": plan.settings.built_on_base,
    }
    lines = ["", "[tool.uenvtool]", "# `uenvtool venv PATH --from pylock.toml` makes the same overlay again"]
    lines += [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
    return text.rstrip("\n") + "\n" + "\n".join(lines) + "\n"


def exported(uv: Uv, plan: OverlayPlan, path: Path) -> Path:
    """Let uv write the pylock.toml of a project's uv.lock, with the extras and groups that are asked for.

    It has the default groups and the project itself too, and a lock that is older than the project is refused, as by
    `uv sync --locked`. What goes into an image is not editable.
    """
    folder, request = uv.work / "project", plan.request
    if not path.is_file():
        raise BadInput("no such file", Position(str(path)), "`uv lock` makes it")
    if not path.with_name(PYPROJECT).is_file():
        raise BadInput(f"{PYPROJECT} is not beside it", Position(str(path)), "name the lock in its project's folder")
    folder.mkdir(parents=True, exist_ok=True)
    words: list[str | Path] = ["export", "--quiet", "--no-header", "--locked"]
    words += ["--no-emit-project"] if request.no_install_project else []
    words += ["--no-editable"] if request.image else []
    words += ["--project", path.absolute().parent, "--python", plan.base.python]
    words += [word for name in request.extra for word in ("--extra", name)]
    words += [word for name in request.group for word in ("--group", name)]
    if not uv.settings.project and "UV_CONFIG_FILE" not in uv.settings.environment:  # uv would look above it
        words += ["--config-file", users_settings(uv.settings.environment, folder)]
    uv.run([*words, "--format", "pylock.toml", "-o", folder / LOCK], of_project=True)
    return folder / LOCK


def read_lock(path: Path, environment: dict[str, str]) -> tuple[str, dict[str, str | None], dict[str, Any]]:
    """Read a lock: its text, name to version of what it has for this machine, and what `signed` added, by name.

    The text has whole paths. environment: the values of markers. Raises BadInput with the place if the file is not one.
    """
    from packaging.markers import Marker
    from tomlkit.exceptions import ParseError, TOMLKitError

    place = Position(str(path))
    try:
        text = files.read_named(path, MAX_BYTES).decode("utf-8")
        document = _document(text)
    except FileNotFoundError:
        raise BadInput("no such file", place, "name a pylock.toml") from None
    except UnicodeDecodeError as error:
        raise BadInput("not UTF-8", place, "a lock is TOML text") from error
    except TOMLKitError as error:
        if isinstance(error, ParseError):
            place = Position(str(path), error.line, error.col + 1)
        raise BadInput(f"invalid TOML: {error}", place, "make it again") from error
    packages = document.get("packages")
    if not isinstance(packages, list) or "lock-version" not in document:
        raise BadInput("not a pylock.toml", place, "it needs lock-version and [[packages]] (PEP 751)")
    if str(document["lock-version"]).split(".")[0] != "1":
        raise BadInput(f"unknown lock-version {document['lock-version']}", place)
    tool = document.get("tool", {})
    ours: dict[str, Any] = tool.get("uenvtool", {}) if isinstance(tool, dict) else {}
    ours = ours if isinstance(ours, dict) else {}
    groups = document.get("default-groups")
    values: dict[str, Any] = {**environment, "extras": frozenset()}
    values["dependency_groups"] = frozenset(map(str, groups if isinstance(groups, list) else ()))
    BadInput.raise_any(_damages(path, text, packages, values))
    if any(not isinstance(ours.get(name, []), list) for name in LISTS):
        raise BadInput(f"not a list in [tool.uenvtool]: {', '.join(LISTS)}", place, DAMAGED)
    here = [table for table in packages if "marker" not in table or Marker(table["marker"]).evaluate(values)]
    return (
        with_whole_paths(text, path.parent),
        {canonical(table["name"]): table.get("version") for table in here},
        ours,
    )


def _damages(path: Path, text: str, packages: Sequence[Any], values: Mapping[str, Any]) -> Iterator[Problem]:
    """Find what no package of a lock can be; the place is the line of the package's table."""
    heads = [number for number, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*packages\s*\]\]", line)]
    for number, table in enumerate(packages):
        place = Position(str(path), heads[number] if len(heads) == len(packages) else 1)
        for what in _wrong_in(table, values):
            yield Problem(what, place, DAMAGED)


def _wrong_in(table: Any, values: Mapping[str, Any]) -> Iterator[str]:
    from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

    if not isinstance(table, dict):
        yield f"a package is {table!r}, and no table"
        return
    name = table.get("name")
    if not isinstance(name, str):
        yield "a package has no name" if name is None else f"a package's name is {name!r}, and no text"
        return
    for key, kind in _SHAPE.items():
        if key in table and not isinstance(table[key], kind):
            yield f"{name}: {key} is {table[key]!r}, and no {_KINDS[kind]}"
            return
    shapes: tuple[tuple[str, type], ...] = (("path", str), ("url", str), ("hashes", dict))
    for file in _files_of(table, ("directory", *SINGLE)):
        if not isinstance(file, dict) or any(not isinstance(file.get(key, kind()), kind) for key, kind in shapes):
            yield f"{name}: {file!r} is no file of a package"
    try:
        _ = "marker" not in table or Marker(table["marker"]).evaluate(dict(values))
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName) as error:
        yield f"{name}: its marker {table['marker']!r}: {str(error).splitlines()[0]}"


def without_wheel(text: str) -> frozenset[str]:
    """List the packages of a lock that have to be built from their source."""
    tables = (table for table in _tables(text) if not table.get(WHEELS) and not _is_wheel(table))
    return frozenset(canonical(table["name"]) for table in tables)


def unchanged(text: str, before: str) -> frozenset[str]:
    """List the packages that two locks have alike, in files of known content."""
    old, new = (grouped((canonical(table["name"]), table) for table in _tables(each)) for each in (before, text))
    return frozenset(
        name for name, tables in new.items() if tables == old.get(name) and all(map(_is_of_known_content, tables))
    )


def _is_of_known_content(table: Mapping[str, Any]) -> bool:
    places = _files_of(table, ("directory", "vcs", *SINGLE))
    return bool(places) and all(place.get("hashes") for place in places)


def uploaded(text: str) -> dict[str, datetime.datetime]:
    """Return when the files of each package were uploaded, by normalized name, where the index says so (PEP 700)."""
    found = {}
    for table in _tables(text):
        times = [file.get("upload-time") for file in _files_of(table)]
        dates = [time for time in times if isinstance(time, datetime.datetime)]
        if dates:
            found[canonical(table["name"])] = max(dates)
    return found


def _files_of(table: Mapping[str, Any], single: Sequence[str] = SINGLE) -> list[Any]:
    return [*table.get(WHEELS, ()), *(table[kind] for kind in single if kind in table)]


def _is_wheel(table: Mapping[str, Any]) -> bool:
    archive = table.get("archive", {})
    return str(archive.get("url") or archive.get("path") or "").partition("#")[0].endswith(".whl")


def stripped(text: str, names: Collection[str]) -> str:
    """Take some packages, and the table of this tool, out of a lock."""
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
    """Take the files out of a lock whose hashes the user does not name; as it is if hashes are not checked.

    Raises BadInput if a package has no hash or pin, AnswerIsNo if no file of it has a hash that the user names.
    """
    named = (*request.requirements, *request.constraints)
    if not request.require_hashes and not any(wanted.hashes for wanted in named):  # one turns it on for all, as in pip
        return text
    import tomlkit

    document = tomlkit.parse(text)
    tables: Any = document["packages"]
    names = [canonical(str(table["name"])) for table in tables]
    pairs = [
        (table, [wanted for wanted in named if wanted.name == name]) for table, name in zip(tables, names, strict=True)
    ]
    BadInput.raise_any(problem for table, of_it in pairs for problem in _unchecked(table, of_it))
    AnswerIsNo.raise_any([problem for table, of_it in pairs for problem in _restrict(table, of_it)])
    return tomlkit.dumps(document)


def _unchecked(table: Mapping[str, Any], named: Sequence[UserRequirement]) -> Iterator[Problem]:
    name = canonical(str(table["name"]))
    place = next((wanted.position for wanted in named if wanted.position), None)
    because = "hashes are checked, since one is given or required"
    if not set(table) & {WHEELS, *SINGLE}:
        hint = f"{because}: name a wheel or an archive in its place"
        yield Problem(f"{name} is a folder or a repository, which has no hash", place, hint)
    elif not any(map(_is_pinned, named)):
        who = "" if named else ", which something that you name asks for,"
        yield Problem(f"{name}{who} is not pinned with ==", place, f"{because}: {name}=={table.get('version')}")
    elif not any(wanted.hashes for wanted in named):
        yield Problem(f"{name} has no --hash", place, f"{because}: `pip hash FILE` prints it")


def _is_pinned(wanted: UserRequirement) -> bool:
    if wanted.requirement is None or wanted.requirement.url:
        return True
    bounds = ((found.operator, found.version) for found in wanted.requirement.specifier)
    return any(operator in ("==", "===") and not version.endswith(".*") for operator, version in bounds)


def _restrict(table: Any, named: Sequence[UserRequirement]) -> Iterator[Problem]:
    """Take the files out of a package's table that the user does not allow; the problem if none is left."""
    allowed = set.intersection(*(set(wanted.hashes) for wanted in named if wanted.hashes))
    wheels = table.get(WHEELS, [])
    found = [value for file in _files_of(table) for value in _hashes(file)]
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


def _hashes(file: Mapping[str, Any]) -> list[str]:
    return [f"{kind}:{value}" for kind, value in file.get("hashes", {}).items()]


def _why(found: Sequence[str], allowed: set[str]) -> str:
    kinds = {value.partition(":")[0] for value in found}
    if found and not kinds & {value.partition(":")[0] for value in allowed}:
        return f"the index names its files by {', '.join(sorted(kinds))} alone: give that hash"
    shown = f"it has {', '.join(found[:2])}{', ...' if len(found) > 2 else ''}" if found else "the index names none"
    return f"{shown}; if you did not expect that, somebody has changed the package: do not install it"
