"""The lock of an overlay: a pylock.toml (PEP 751) of what was installed, with the base that it is for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput, Position
from uenvtool.venv.base import Base
from uenvtool.venv.resolve import ResolvedPackage
from uenvtool.venv.uv import Uv
from uenvtool.venv.versions import canonical

LOCK = "pylock.toml"
EMPTY = 'lock-version = "1.0"\ncreated-by = "uenvtool"\npackages = []\n'
MAX_BYTES = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A lock that was read.

    base: the fingerprint of the base that it is for. packages: name to version, None if it has none.
    built_on_base: packages that are built with the base's torch.
    """

    path: Path
    text: str
    base: str | None
    base_name: str
    packages: Mapping[str, str | None]
    requests: tuple[str, ...]
    overrides: tuple[str, ...]
    built_on_base: tuple[str, ...]


def make_lock(uv: Uv, base: Base, packages: Sequence[ResolvedPackage]) -> str:
    """uv's pylock.toml of exactly these packages, without what names the machine that it was made on."""
    folder = uv.work / "lock"
    files.fill(folder, {"packages.txt": "".join(f"{package.line}\n" for package in packages)})
    target = folder / LOCK
    words: list[str | Path] = ["pip", "compile", "--no-deps", "--quiet", "--no-header", "--python", base.python]
    uv.run_again([*words, "--format", "pylock.toml", "-o", target, folder / "packages.txt"])
    return target.read_text(encoding="utf-8")


def signed(
    text: str, base: Base, *, requests: Sequence[str], overrides: Sequence[str], built_on_base: Sequence[str]
) -> str:
    """The lock with the table that says which base and which requests it is for."""
    values: dict[str, object] = {
        "base": base.fingerprint(),
        "base-name": base.found.name,
        "python": base.version,
        "requests": list(requests),
        "overrides": list(overrides),
        "built-on-base": list(built_on_base),
    }
    lines = ["", "[tool.uenvtool]", "# `uenvtool venv PATH --from pylock.toml` makes the same overlay again"]
    lines += [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
    return text.rstrip("\n") + "\n" + "\n".join(lines) + "\n"


def read_lock(path: Path) -> Locked:
    """A lock from disk. Raises BadInput with the place if the file is not one."""
    import tomlkit
    from tomlkit.exceptions import ParseError, TOMLKitError

    try:
        text = files.read_named(path, MAX_BYTES).decode("utf-8")
        document: dict[str, Any] = tomlkit.parse(text).unwrap()
    except FileNotFoundError:
        raise BadInput("no such file", Position(str(path)), "name a pylock.toml") from None
    except UnicodeDecodeError as error:
        raise BadInput("not UTF-8", Position(str(path)), "a lock is TOML text") from error
    except ParseError as error:
        raise BadInput(f"not TOML: {error}", Position(str(path), error.line, error.col + 1), "make it again") from error
    except TOMLKitError as error:
        raise BadInput(f"not TOML: {error}", Position(str(path)), "make it again") from error
    packages = document.get("packages")
    if not isinstance(packages, list) or "lock-version" not in document:
        raise BadInput("not a pylock.toml", Position(str(path)), "it needs lock-version and [[packages]] (PEP 751)")
    if str(document["lock-version"]).split(".")[0] != "1":
        raise BadInput(f"lock-version {document['lock-version']} is not known here", Position(str(path)))
    tool = document.get("tool", {})
    ours = tool.get("uenvtool", {}) if isinstance(tool, dict) else {}
    named = [table for table in packages if isinstance(table, dict) and isinstance(table.get("name"), str)]
    return Locked(
        path=path,
        text=text,
        base=ours.get("base"),
        base_name=str(ours.get("base-name", "")),
        packages={canonical(table["name"]): table.get("version") for table in named},
        requests=tuple(map(str, ours.get("requests", ()))),
        overrides=tuple(map(str, ours.get("overrides", ()))),
        built_on_base=tuple(map(str, ours.get("built-on-base", ()))),
    )


def without_wheel(text: str) -> frozenset[str]:
    """The packages of a lock that have to be built from their source."""
    import tomlkit

    tables = tomlkit.parse(text).unwrap().get("packages", ())
    return frozenset(canonical(table["name"]) for table in tables if "sdist" in table and not table.get("wheels"))


def compiled(text: str) -> frozenset[str]:
    """The packages of a lock that come as a wheel for one kind of machine."""
    import tomlkit

    found = set()
    for table in tomlkit.parse(text).unwrap().get("packages", ()):
        files_of = [*table.get("wheels", ()), *filter(None, [table.get("archive")])]
        places = [str(file.get("url") or file.get("path") or "").partition("#")[0] for file in files_of]
        if any(place.endswith(".whl") and not place.endswith("-any.whl") for place in places):
            found.add(canonical(table["name"]))
    return frozenset(found)


def without(text: str, names: Sequence[str]) -> str:
    """The lock without some packages."""
    import tomlkit

    document = tomlkit.parse(text)
    kept = tomlkit.aot()
    packages: Any = document["packages"]
    for table in packages:
        if canonical(str(table["name"])) not in names:
            kept.append(table)
    document["packages"] = kept
    return tomlkit.dumps(document)


def unsigned(text: str) -> str:
    """The lock without the table of this tool."""
    import tomlkit

    document = tomlkit.parse(text)
    tool = document.get("tool")
    if isinstance(tool, dict):
        tool.pop("uenvtool", None)
        if not tool:
            document.pop("tool")
    return tomlkit.dumps(document)
