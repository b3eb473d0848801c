"""Finds knowledge files by name or by path, the user's files before the built-in ones."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from uenvtool.core.errors import BadInput, Position, unknown
from uenvtool.core.words import is_within
from uenvtool.knowledge.kinds import CONTAINER, FINDINGS, RECIPE, RULES, SYSTEM, TUNING, Kind
from uenvtool.knowledge.yamltree import content, is_abstract, read

SITE = "UENVTOOL_DOCS"
"""The variable with the address of the published documentation. Without it, no address of a page is printed."""
PAGES = {TUNING.shipped: "variables", RULES.shipped: "rules", FINDINGS.shipped: "findings"}
"""The directories of the reference documentation (tools/site), by the directories of the entries."""
_ADDRESS = re.compile(r"https?://[!-~]+")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


@dataclass(frozen=True, slots=True)
class Location:
    """A knowledge file on disk.

    shown: The path in messages, which can be opened from the current directory.
    logical: The path in generated files, which is the same on every machine. It is relative to the parent directory of
        a user's `recipes/` or `systems/`, or to the top directory of the built-in files.
    unwritten: The content to use instead of the file before the file is written.
    """

    name: str
    path: Path
    logical: str
    unwritten: bytes | None = None

    @property
    def shown(self) -> str:
        return shown(self.path)

    @property
    def is_built_in(self) -> bool:
        return _is_built_in(self.path)

    @property
    def may_act(self) -> bool:
        """Return whether the file's commands and edits are trusted. The current directory may be a stranger's clone."""
        return self.is_built_in or self.path.is_relative_to(config_directory())


@functools.cache
def data_root() -> Path:
    """Return the directory with the built-in recipes/ and knowledge/: in the wheel, or the top of the checkout."""
    package = Path(__file__).resolve().parent.parent
    packed = package / "data"
    return packed if packed.is_dir() else package.parent


def config_directory() -> Path:
    """Return the user's configuration directory (https://specifications.freedesktop.org/basedir-spec)."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base) / "uenvtool"


def search_directories(kind: Kind, *, user_files: bool = True) -> list[tuple[Path, str]]:
    """Return the directories for files of a kind, in order of precedence, with their names in generated files.

    The current directory is omitted if it was deleted or cannot be read, because commands can find names without it.
    """
    places = [(data_root() / kind.shipped, kind.shipped)]
    if user_files:
        places.insert(0, (config_directory() / kind.directory, kind.directory))
        with contextlib.suppress(OSError):
            places.insert(0, (Path.cwd() / kind.directory, kind.directory))
    return places


def shown(path: Path) -> str:
    """Return the path relative to the current directory if it is inside that directory, or else the whole path."""
    try:
        whole, here = os.path.abspath(path), os.getcwd()
    except OSError:  # the current directory was deleted
        return str(path)
    return whole[len(here.rstrip("/")) + 1 :] or "." if is_within(whole, here) else str(path)


def _is_built_in(path: Path) -> bool:
    return is_within(os.path.abspath(path), str(data_root()))


def in_your_own(position: Position | None) -> str:
    """Return the end of a hint that keeps the user from editing a built-in file, which an update would overwrite.

    The end is empty if the position is not in a built-in file.
    """
    if position is None or not _is_built_in(Path(position.file)):
        return ""
    path = PurePath(position.file)
    kind = SYSTEM if SYSTEM.holds(path) else RECIPE
    name = kind.name_of(path)
    return f" in your own {kind.name}, with `extends: {name}`"


def available(kind: Kind, *, user_files: bool = True) -> dict[str, Location]:
    """Return every file of a kind by its name. The user's files hide built-in files of the same name."""
    locations: dict[str, Location] = {}
    for directory, logical in reversed(search_directories(kind, user_files=user_files)):
        locations.update({location.name: location for location in _files_in(directory, logical, kind)})
    return dict(sorted(locations.items()))


def locate(kind: Kind, name: str, origin: Position | None = None, unwritten: bytes | None = None) -> Location:
    """Return the file of a kind by name. A name that contains `/` or ends with `.yaml` is a path.

    origin: The position of the reference to the file.
    unwritten: The content to use instead of the file at a path. The file need not exist yet.

    Raises BadInput, with the nearest name and the known names, if the file does not exist.
    """
    if "/" in name or name.endswith((".yaml", ".yml")):
        return _by_path(kind, Path(name), origin, unwritten)
    directories = search_directories(kind)
    if location := _first_in(directories, kind, name):
        return _with_valid_name(kind, location, origin)
    for path in (directory / kind.pattern.replace("*", name) for directory, _ in directories):
        if os.path.lexists(path):  # for example a pipe or a broken link, about which `content` raises an error
            content(path, shown(path))
    if origin is None and os.path.lexists(name):
        raise BadInput(
            f"unknown {kind.name} {name!r}", hint=f"to use the file or directory of that name, write ./{name}"
        )
    if kind is RECIPE and origin is None and name in available(CONTAINER):
        writes = "which writes the container files and prints the command that runs a job in the container"
        hint = f"run `uenvtool container {name}`, {writes}"
        raise BadInput(f"{name!r} is a container recipe, not the recipe of a uenv", hint=hint)
    listed_by = f"uenvtool list {kind.title}" if kind.heading else ""
    known = [location.name for location in available(kind).values() if origin or not _is_abstract(location)]
    problem = unknown(kind.name, name, known, origin, listed_by=listed_by)
    raise BadInput([replace(problem, hint=f"{problem.hint}; {how_to_add(kind)}") if kind is SYSTEM else problem])


def locate_next(kind: Kind, location: Location, origin: Position) -> Location:
    """Return the file that a file extends if `extends` has the file's own name: the next one in order of precedence.

    Raises BadInput if no later directory contains a file with this name.
    """
    file, path = kind.pattern.replace("*", location.name), os.path.abspath(location.path)
    directories = search_directories(kind)
    own = next((index for index, (directory, _) in enumerate(directories) if str(directory / file) == path), -1)
    if following := _first_in(directories[own + 1 :], kind, location.name):
        return following
    hint = f"extend another {kind.name}, or delete `extends`"
    raise BadInput(f"`extends: {location.name}` is this file, and there is no built-in file of that name", origin, hint)


def _first_in(directories: Sequence[tuple[Path, str]], kind: Kind, name: str) -> Location | None:
    file = kind.pattern.replace("*", name)
    found = (Location(name, directory / file, f"{logical}/{file}") for directory, logical in directories)
    return next((location for location in found if os.path.isfile(location.path)), None)


def _is_abstract(location: Location) -> bool:
    try:
        return is_abstract(read(location.path, location.shown))
    except BadInput:
        return False  # a broken file of the user, which other commands report


def how_to_add(kind: Kind) -> str:
    """Return a hint with the command that creates a file of a kind, and the directories for such files."""
    directory = str(config_directory() / kind.directory).replace(os.path.expanduser("~"), "~", 1)
    return f"create one with `uenvtool new {kind.name} NAME` in {kind.directory}/ here or in {directory}/"


def _with_valid_name(kind: Kind, location: Location, origin: Position | None) -> Location:
    if _NAME.match(location.name):
        return location
    hint = f"rename the {kind.name}; use letters, digits, `_`, `.` and `-`, and begin with a letter, a digit or `_`"
    raise BadInput(f"{location.name!r} cannot be the name of a {kind.name}", origin, hint)


def _by_path(kind: Kind, path: Path, origin: Position | None, unwritten: bytes | None) -> Location:
    file = PurePath(kind.pattern).name
    has_directory = "/" in kind.pattern
    if has_directory and os.path.isdir(path):
        path = path / file
    if unwritten is None and not os.path.isfile(path):
        raise BadInput(f"file not found: {str(path)!r}", origin, f"name a {kind.name} or the path of its file")
    if has_directory and path.name == file:
        name = Path(os.path.abspath(path)).parent.name
        return _with_valid_name(kind, Location(name, path, kind.file(name), unwritten), origin)
    return _with_valid_name(kind, Location(path.stem, path, f"{kind.directory}/{path.name}", unwritten), origin)


def _files_in(directory: Path, logical: str, kind: Kind) -> Iterator[Location]:
    try:
        paths = sorted(directory.glob(kind.pattern))
    except OSError:  # the directory cannot be read
        return
    for path in paths:
        name = kind.name_of(path)
        if _NAME.match(name):  # a file with an invalid name cannot be used and must not cause errors
            yield Location(name, path, f"{logical}/{path.relative_to(directory).as_posix()}")


def page_of(name: str, file: str) -> str:
    """Return the URL of the documentation of a variable, rule or finding, or an empty string if it has none.

    file: The file that defines it. User-defined entries have no page.
    """
    top = os.environ.get(SITE, "")
    if not _ADDRESS.fullmatch(top):
        return ""
    directory = os.path.dirname(os.path.relpath(file, data_root()))
    return f"{top.rstrip('/')}/reference/{PAGES[directory]}/{name}.html" if directory in PAGES else ""
