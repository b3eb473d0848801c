"""Reads a project's requirements: pyproject.toml with extras and groups, and the pip section of an environment.yml."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput, Position, require_known
from uenvtool.core.files import read_bytes
from uenvtool.core.limits import limited
from uenvtool.core.words import canonical

PYPROJECT, UV_LOCK = "pyproject.toml", "uv.lock"
TOML, ENVIRONMENTS = ".toml", (".yml", ".yaml")
FOUND_HERE = (UV_LOCK, "pylock.toml", "requirements.txt", PYPROJECT, "environment.yml", "environment.yaml")
"""The files in the current directory that list requirements, locks first."""
UV_SETTINGS = "uv.toml"
MAX_BYTES = 10_000_000
_OF_PROJECT = {
    *("workspace", "sources", "dev-dependencies", "default-groups", "dependency-groups", "conflicts"),
    *("package", "managed", "build-backend"),
}
"""The keys of [tool.uv] that concern the project itself (https://docs.astral.sh/uv/reference/settings/)."""
_PATHS = {"url", "index-url", "extra-index-url", "find-links", "cache-dir"}
Lines = list[tuple[int, str]]


def is_project(file: str) -> bool:
    """Return whether a -r file is a project file or a lock instead of a requirements file, judging by its name."""
    return file.endswith((TOML, *ENVIRONMENTS)) or Path(file).name == UV_LOCK


def found_here() -> list[str]:
    """Return the files of FOUND_HERE in the current directory."""
    return [name for name in FOUND_HERE if Path(name).is_file()]


def option_of(name: str) -> str:
    """Return the option and value that install the requirements in a file of FOUND_HERE."""
    return f"--from {name}" if is_lock(name) else f"-r {name}"


def project_name(directory: Path) -> str:
    """Return a project's normalized name from its pyproject.toml, or "" if only a build can determine it."""
    try:
        return canonical(_read_toml(directory / PYPROJECT)["project"]["name"])
    except (FileNotFoundError, BadInput, ValueError, KeyError, TypeError):
        return ""


def is_lock(name: str) -> bool:
    """Return whether a file is a lock, judging by its name."""
    return name in (UV_LOCK, "pylock.toml")


def default_groups(project: Path) -> list[str]:
    """Return the groups that `uv sync` installs by default (https://docs.astral.sh/uv/concepts/projects/dependencies)."""
    document = _read_toml(project)
    groups = document.get("dependency-groups", {})
    enabled = document.get("tool", {}).get("uv", {}).get("default-groups", ["dev"])
    return [name for name in groups if enabled == "all" or name in enabled]


def settings_of_project(directory: Path) -> dict[str, Any]:
    """Return a project's uv settings from its uv.toml, or else from [tool.uv] in its pyproject.toml.

    Paths are absolute, and keys that concern the project itself are left out. Raises BadInput with the position if the
    file is invalid.
    """
    for path in (directory / UV_SETTINGS, directory / PYPROJECT):
        if not os.path.lexists(path):
            continue
        document = _read_toml(path)
        settings = document if path.name == UV_SETTINGS else document.get("tool", {}).get("uv")
        if isinstance(settings, dict):
            kept = {name: value for name, value in settings.items() if name not in _OF_PROJECT}
            # The paths of indexes and find-links are relative to the file that sets them.
            return {name: _absolute(name, value, directory.absolute()) for name, value in kept.items()}
    return {}


def _absolute(name: str, value: Any, directory: Path) -> Any:
    if isinstance(value, dict):
        return {key: _absolute(key, item, directory) for key, item in value.items()}
    if isinstance(value, list):
        return [_absolute(name, item, directory) for item in value]
    return str(directory / value) if name in _PATHS and isinstance(value, str) and "://" not in value else value


def project_lines(file: str, text: str, extras: Sequence[str], groups: Sequence[str]) -> tuple[Lines, Lines]:
    """Return a project's requirements, in the form of a requirements file, and its conda specs, with line numbers.

    Raises BadInput with the position if the file is invalid.
    """
    if not file.endswith(ENVIRONMENTS):
        return list(_pyproject(file, text, extras, groups)), []
    return _environment(file, text)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        text = read_bytes(path, MAX_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"invalid TOML: {error}", Position(str(path)), "save the file as UTF-8") from error
    return _toml(str(path), text)


def _toml(file: str, text: str) -> dict[str, Any]:
    import tomlkit

    try:
        with limited(file):
            document: dict[str, Any] = tomlkit.parse(text).unwrap()
    except tomlkit.exceptions.ParseError as error:
        raise BadInput(f"invalid TOML: {error}", Position(file, error.line, error.col + 1)) from error
    except tomlkit.exceptions.TOMLKitError as error:  # a duplicate key, which has no position
        raise BadInput(f"invalid TOML: {error}", Position(file), "fix the file") from error
    return document


def _pyproject(file: str, text: str, extras: Sequence[str], groups: Sequence[str]) -> Iterator[tuple[int, str]]:
    position = Position(file)
    document = _toml(file, text)
    project, named_groups = document.get("project"), document.get("dependency-groups", {})
    if "lock-version" in document or Path(file).name == UV_LOCK:
        raise BadInput("a lock, not a list of requirements", position, f"install it with `--from {file}`")
    if not isinstance(project, dict) and not named_groups:
        is_built = "build-system" in document or Path(file).with_name("setup.py").is_file()
        export_hint = "export a requirements file with the tool that manages the project, and name that file"
        hint = "install the project itself: -e ." if is_built else export_hint
        raise BadInput("the file has no [project] table", position, hint)
    project = project or {}
    if "dependencies" in project.get("dynamic", ()):
        message = "the dependencies are dynamic, so only the project's build can list them"
        raise BadInput(message, position, "install the project itself: -e .")
    optional = project.get("optional-dependencies", {})
    for names, known, kind in ((extras, optional, "extra"), (groups, named_groups, "dependency group")):
        require_known(kind, names, known, position)
    texts = [*project.get("dependencies", ()), *(line for name in extras for line in optional[name])]
    for name in groups:
        texts += _group(name, named_groups, position, ())  # PEP 735
    sources = document.get("tool", {}).get("uv", {}).get("sources", {})
    for requirement in texts:
        line = text[: max(text.find(requirement), 0)].count("\n") + 1
        yield line, _with_source(requirement, sources, Path(file).parent)


def _group(name: str, groups: Mapping[str, Any], position: Position, including: tuple[str, ...]) -> Iterator[str]:
    if name in including or name not in groups:
        message = f"dependency group {name!r} includes itself or is not defined"
        raise BadInput(message, position, "fix include-group in [dependency-groups]")
    for item in groups[name]:
        if isinstance(item, str):
            yield item
        else:
            yield from _group(str(item.get("include-group")), groups, position, (*including, name))


def _with_source(text: str, sources: Mapping[str, Any], directory: Path) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return text  # the parser of requirements reports it
    source = sources.get(requirement.name)
    if not isinstance(source, dict) or not {"git", "url", "path"} & set(source):
        return text
    revision = next((f"@{source[key]}" for key in ("rev", "tag", "branch") if key in source), "")
    subdirectory = f"#subdirectory={source['subdirectory']}" if "subdirectory" in source else ""
    if "path" in source:
        url = (directory.absolute() / source["path"]).resolve().as_uri()
        if source.get("editable"):
            return f"-e {url}"
    else:
        url = f"git+{source['git']}{revision}{subdirectory}" if "git" in source else f"{source['url']}{subdirectory}"
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}{extras} @ {url}{marker}"


def _with_absolute_path(file: str, text: str) -> str:
    # conda runs pip in the directory of the environment file (conda, conda/env/installers/pip.py).
    match = re.fullmatch(r"((?:-e|--editable)[ =]*)?(\.{1,2}(?:[/\[].*)?)", text)
    return f"{match[1] or ''}{Path(file).parent.absolute()}/{match[2]}" if match else text


def _environment(file: str, text: str) -> tuple[Lines, Lines]:
    import yaml

    try:
        with limited(file):
            document = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        position = Position(file, mark.line + 1, mark.column + 1) if mark else Position(file)
        problem = getattr(error, "problem", None) or getattr(error, "reason", error)
        raise BadInput(f"invalid YAML: {problem}", position, "fix the file, or name another one") from error
    pairs = document.value if isinstance(document, yaml.MappingNode) else []
    dependencies = next((value for key, value in pairs if key.value == "dependencies"), None)
    if not isinstance(dependencies, yaml.SequenceNode):
        message = "not a conda environment file: it has no list of dependencies"
        raise BadInput(message, Position(file), "name another file")
    lines: Lines = []
    conda_specs: Lines = []
    for item in dependencies.value:
        if isinstance(item, yaml.ScalarNode):
            conda_specs.append((item.start_mark.line + 1, str(item.value)))
        for key, value in item.value if isinstance(item, yaml.MappingNode) else ():
            if key.value == "pip" and isinstance(value, yaml.SequenceNode):
                pip_lines = ((line.start_mark.line + 1, str(line.value)) for line in value.value)
                lines += [(number, _with_absolute_path(file, line)) for number, line in pip_lines]
    return lines, conda_specs
