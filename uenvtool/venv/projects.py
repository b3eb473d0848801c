"""Reads what a project asks for: its pyproject.toml with extras and groups, the pip part of an environment.yml."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput, Position, require_known
from uenvtool.core.files import read_bytes
from uenvtool.core.words import canonical

PYPROJECT, UV_LOCK = "pyproject.toml", "uv.lock"
TOML, ENVIRONMENTS = ".toml", (".yml", ".yaml")
FOUND_HERE = ("requirements.txt", UV_LOCK, "pylock.toml", PYPROJECT, "environment.yml", "environment.yaml")
"""What says which packages a folder needs."""
UV_SETTINGS = "uv.toml"
MAX_BYTES = 10_000_000
_OF_PROJECT = {
    *("workspace", "sources", "dev-dependencies", "default-groups", "dependency-groups", "conflicts"),
    *("package", "managed", "build-backend"),
}
"""What [tool.uv] says of the project itself (https://docs.astral.sh/uv/reference/settings/)."""
_PLACES = {"url", "index-url", "extra-index-url", "find-links", "cache-dir"}
Lines = list[tuple[int, str]]


def is_project(place: str) -> bool:
    """Tell if a file that is named with -r is a project's or a lock: requirements files have any other name."""
    return place.endswith((TOML, *ENVIRONMENTS)) or Path(place).name == UV_LOCK


def found_here() -> list[str]:
    """Return the files by which the current folder says what it needs, the best first."""
    here = [name for name in FOUND_HERE if Path(name).is_file()]
    return sorted(here, key=lambda name: not is_lock(name))


def option_of(name: str) -> str:
    """Return the option that takes such a file."""
    return f"--from {name}" if is_lock(name) else f"-r {name}"


def project_name(folder: Path) -> str:
    """Read a project's normalized name from its pyproject.toml without building it; empty if it is not there."""
    import tomlkit

    try:
        document = tomlkit.parse(read_bytes(folder / PYPROJECT, MAX_BYTES).decode("utf-8")).unwrap()
        return canonical(document["project"]["name"])
    except (FileNotFoundError, BadInput, ValueError, KeyError, TypeError):
        return ""


def is_lock(name: str) -> bool:
    """Tell if a file is a lock, and no list of requirements."""
    return name in (UV_LOCK, "pylock.toml")


def default_groups(project: Path) -> list[str]:
    """Return the dependency groups that `uv sync` takes unasked (https://docs.astral.sh/uv/concepts/projects/dependencies)."""
    document = _toml(str(project), project.read_text(encoding="utf-8"))
    known = document.get("dependency-groups", {})
    named = document.get("tool", {}).get("uv", {}).get("default-groups", ["dev"])
    return [name for name in known if named == "all" or name in named]


def settings_of_project(folder: Path) -> dict[str, Any]:
    """Return uv's settings of a project: those of its uv.toml, else [tool.uv] of its pyproject.toml, with whole paths.

    What is not about where packages come from is left out. Raises BadInput with the place.
    """
    for path in (folder / UV_SETTINGS, folder / PYPROJECT):
        if not os.path.lexists(path):
            continue
        try:
            text = read_bytes(path, MAX_BYTES).decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(f"invalid TOML: {error}", Position(str(path)), "mend it") from error
        found = _toml(str(path), text)
        tool = found if path.name == UV_SETTINGS else found.get("tool", {}).get("uv")
        if isinstance(tool, dict):
            kept = {name: value for name, value in tool.items() if name not in _OF_PROJECT}
            return {name: _absolute(name, value, folder.absolute()) for name, value in kept.items()}
    return {}


def _absolute(name: str, value: Any, folder: Path) -> Any:
    """Return a setting with its relative paths made whole: indexes and find-links count from their file."""
    if isinstance(value, dict):
        return {key: _absolute(key, found, folder) for key, found in value.items()}
    if isinstance(value, list):
        return [_absolute(name, found, folder) for found in value]
    return str(folder / value) if name in _PLACES and isinstance(value, str) and "://" not in value else value


def project_lines(place: str, text: str, extras: Sequence[str], groups: Sequence[str]) -> tuple[Lines, Lines]:
    """Read a project's requirements with their lines, as a requirements file would have them; and conda's specs.

    Raises BadInput with the place.
    """
    if not place.endswith(ENVIRONMENTS):
        return list(_pyproject(place, text, extras, groups)), []
    return _environment(place, text)


def _toml(place: str, text: str) -> dict[str, Any]:
    import tomlkit

    try:
        document: dict[str, Any] = tomlkit.parse(text).unwrap()
    except tomlkit.exceptions.ParseError as error:
        raise BadInput(f"invalid TOML: {error}", Position(place, error.line, error.col + 1)) from error
    except tomlkit.exceptions.TOMLKitError as error:  # of a name that is here twice, which has no place
        raise BadInput(f"invalid TOML: {error}", Position(place), "mend it") from error
    return document


def _pyproject(place: str, text: str, extras: Sequence[str], groups: Sequence[str]) -> Iterator[tuple[int, str]]:
    at = Position(place)
    document = _toml(place, text)
    project, named_groups = document.get("project"), document.get("dependency-groups", {})
    if "lock-version" in document or Path(place).name == UV_LOCK:
        raise BadInput("it is a lock, and no list of requirements", at, f"`--from {place}` makes what it says")
    if not isinstance(project, dict) and not named_groups:
        is_built = "build-system" in document or Path(place).with_name("setup.py").is_file()
        other = "export a requirements file with the tool that it is for"
        raise BadInput("it has no [project] table", at, "install the project: -e ." if is_built else other)
    project = project or {}
    if "dependencies" in project.get("dynamic", ()):
        raise BadInput("its dependencies are dynamic: only its build knows them", at, "install the project: -e .")
    optional = project.get("optional-dependencies", {})
    for wanted, known, what in ((extras, optional, "extra"), (groups, named_groups, "dependency group")):
        require_known(what, wanted, known, at)
    texts = [*project.get("dependencies", ()), *(line for name in extras for line in optional[name])]
    for name in groups:
        texts += _group(name, named_groups, at, ())
    sources = document.get("tool", {}).get("uv", {}).get("sources", {})
    for requirement in texts:
        line = text[: max(text.find(requirement), 0)].count("\n") + 1
        yield line, _with_source(requirement, sources, Path(place).parent)


def _group(name: str, groups: Mapping[str, Any], at: Position, above: tuple[str, ...]) -> Iterator[str]:
    """Read a dependency group with those that it includes (PEP 735)."""
    if name in above or name not in groups:
        raise BadInput(f"dependency group {name!r} includes itself, or is unknown", at, "see [dependency-groups]")
    for item in groups[name]:
        if isinstance(item, str):
            yield item
        else:
            yield from _group(str(item.get("include-group")), groups, at, (*above, name))


def _with_source(text: str, sources: Mapping[str, Any], folder: Path) -> str:
    """Name the place of a requirement that [tool.uv.sources] takes from elsewhere; an index is uv's setting there."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return text  # said where it is read
    source = sources.get(requirement.name)
    if not isinstance(source, dict) or not {"git", "url", "path"} & set(source):
        return text
    revision = next((f"@{source[key]}" for key in ("rev", "tag", "branch") if key in source), "")
    subdirectory = f"#subdirectory={source['subdirectory']}" if "subdirectory" in source else ""
    if "path" in source:
        place = (folder.absolute() / source["path"]).resolve().as_uri()
        if source.get("editable"):
            return f"-e {place}"
    else:
        place = f"git+{source['git']}{revision}{subdirectory}" if "git" in source else f"{source['url']}{subdirectory}"
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}{extras} @ {place}{marker}"


def _beside(place: str, text: str) -> str:
    """Return a requirement whose path counts from the environment's file, where conda starts pip.

    Source: conda, conda/env/installers/pip.py.
    """
    found = re.fullmatch(r"((?:-e|--editable)[ =]*)?(\.{1,2}(?:[/\[].*)?)", text)
    return f"{found[1] or ''}{Path(place).parent.absolute()}/{found[2]}" if found else text


def _environment(place: str, text: str) -> tuple[Lines, Lines]:
    """Read the pip part of a conda environment, and the specs of what conda would install."""
    import yaml

    try:
        document = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        position = Position(place, mark.line + 1, mark.column + 1) if mark else Position(place)
        problem = getattr(error, "problem", None) or getattr(error, "reason", error)
        raise BadInput(f"invalid YAML: {problem}", position, "mend it, or name another file") from error
    pairs = document.value if isinstance(document, yaml.MappingNode) else []
    listed = next((value for key, value in pairs if key.value == "dependencies"), None)
    if not isinstance(listed, yaml.SequenceNode):
        raise BadInput(
            "not an environment of conda: it has no list of dependencies", Position(place), "name another file"
        )
    lines: Lines = []
    of_conda: Lines = []
    for item in listed.value:
        if isinstance(item, yaml.ScalarNode):
            of_conda.append((item.start_mark.line + 1, str(item.value)))
        for key, value in item.value if isinstance(item, yaml.MappingNode) else ():
            if key.value == "pip" and isinstance(value, yaml.SequenceNode):
                lines += [(entry.start_mark.line + 1, _beside(place, str(entry.value))) for entry in value.value]
    return lines, of_conda
