"""Where knowledge lies: the user's own beside the built-in, found by name or by path."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from uenvtool.core.errors import BadInput, Position, unknown
from uenvtool.knowledge.kinds import CONTAINER, FINDINGS, RECIPE, RULES, SYSTEM, TUNING, Kind
from uenvtool.knowledge.yamltree import content

SITE = "UENVTOOL_DOCS"
"""The variable that names the address at which what `mkdocs build` makes lies; without it nothing has a page."""
PAGES = {TUNING.shipped: "variables", RULES.shipped: "rules", FINDINGS.shipped: "findings"}
"""The folders of the reference (tools/site) by those of the entries."""
_ADDRESS = re.compile(r"https?://[!-~]+")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")


@dataclass(frozen=True, slots=True)
class Location:
    """A file of knowledge on disk.

    shown: the path as messages give it, one that can be opened from the current folder.
    logical: the path below the folder that holds a user's `recipes/` and `systems/`, or below the top of what ships:
    the same on every machine, for generated files. unwritten: what stands for the file before it is written.
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
        """Tell if what it says may be done or pasted: the current folder may be a clone of somebody else's."""
        return self.is_built_in or self.path.is_relative_to(config_folder())


@functools.cache
def data_root() -> Path:
    """Return the folder with the built-in recipes/ and knowledge/: in the wheel, or the checkout's top."""
    package = Path(__file__).resolve().parent.parent
    packed = package / "data"
    return packed if packed.is_dir() else package.parent


def config_folder() -> Path:
    """Return the user's configuration folder (https://specifications.freedesktop.org/basedir-spec)."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base) / "uenvtool"


def search_folders(kind: Kind, *, own: bool = True) -> list[tuple[Path, str]]:
    """Return the folders that may hold files of a kind, each with the part of it that generated files name.

    The first one that has a name counts. own: with the user's own. The current folder is left out if it was deleted, or
    may not be read: no command needs it for a name.
    """
    places = [(data_root() / kind.shipped, kind.shipped)]
    if own:
        places.insert(0, (config_folder() / kind.folder, kind.folder))
        with contextlib.suppress(OSError):
            places.insert(0, (Path.cwd() / kind.folder, kind.folder))
    return places


def shown(path: Path) -> str:
    """Return the path relative to the current folder if it lies below it, else the whole path."""
    try:
        below = _below_folder(os.path.abspath(path), os.getcwd())
    except OSError:  # the current folder was deleted
        below = None
    return str(path) if below is None else below or "."


def _below_folder(path: str, folder: str) -> str | None:
    """Return the rest of an absolute path below a folder; None if it lies elsewhere. pathlib takes far longer."""
    start = folder.rstrip(os.sep) + os.sep
    return path[len(start) :] if f"{path}{os.sep}".startswith(start) else None


def _is_built_in(path: Path) -> bool:
    return _below_folder(os.path.abspath(path), str(data_root())) is not None


def in_your_own(position: Position | None) -> str:
    """Return what a hint adds if the position is in a built-in file of a recipe or system, which an update replaces."""
    if position is None or not _is_built_in(Path(position.file)):
        return ""
    path = PurePath(position.file)
    kind = SYSTEM if SYSTEM.holds(path) else RECIPE
    name = kind.name_of(path)
    return f" in your own {kind.name}, with `extends: {name}`"


def available(kind: Kind, *, own: bool = True) -> dict[str, Location]:
    """Return every file of a kind by its name. The user's own hide built-in ones. own: with the user's own."""
    found: dict[str, Location] = {}
    for folder, logical in reversed(search_folders(kind, own=own)):
        found.update({location.name: location for location in _below(folder, logical, kind)})
    return dict(sorted(found.items()))


def locate(kind: Kind, name: str, origin: Position | None = None, unwritten: bytes | None = None) -> Location:
    """Return the file of that kind and name; a name with a `/` or `.yaml` is a path. origin: the place that names it.

    unwritten: what stands for the file of a path, which need not be there yet.

    Raises BadInput if there is none, with the nearest name and all that exist.
    """
    if "/" in name or name.endswith((".yaml", ".yml")):
        return _by_path(kind, Path(name), origin, unwritten)
    file = kind.pattern.replace("*", name)
    for folder, logical in search_folders(kind):
        if os.path.isfile(folder / file):
            return _refuse_odd(kind, Location(name, folder / file, f"{logical}/{file}"), origin)
    for folder, _ in search_folders(kind):
        path = folder / file
        if os.path.lexists(path):  # a pipe, a link to nowhere: what is wrong with it is said
            content(path, shown(path))
    if origin is None and os.path.lexists(name):
        raise BadInput(f"unknown {kind.name} {name!r}", hint=f"if you mean what lies here: ./{name}")
    if kind is RECIPE and origin is None and name in available(CONTAINER):
        hint = f"`uenvtool container {name}` writes its files, and ends with the command of a job in it"
        raise BadInput(f"{name} is the recipe of a container, not of a uenv", hint=hint)
    listed_by = f"uenvtool list {kind.title}" if kind.heading else ""
    problem = unknown(kind.name, name, available(kind), origin, listed_by=listed_by)
    raise BadInput([replace(problem, hint=f"{problem.hint}; {how_to_add(kind)}") if kind is SYSTEM else problem])


def how_to_add(kind: Kind) -> str:
    """Return the command that makes a file of a kind of one's own, and the folders where it is looked for."""
    folder = str(config_folder() / kind.folder).replace(os.path.expanduser("~"), "~", 1)
    return f"`uenvtool new {kind.name} NAME` makes one: it is looked for in {kind.folder}/ here and {folder}/"


def _refuse_odd(kind: Kind, location: Location, origin: Position | None) -> Location:
    """Return the location again; BadInput if its name, which generated files carry, has characters that names lack."""
    if _NAME.match(location.name):
        return location
    hint = (
        f"a name has letters, digits, `_`, `.` and `-`, and begins with one of the first three: rename the {kind.name}"
    )
    raise BadInput(f"{location.name!r} cannot be the name of a {kind.name}", origin, hint)


def _by_path(kind: Kind, path: Path, origin: Position | None, unwritten: bytes | None) -> Location:
    file = PurePath(kind.pattern).name
    in_folder = "/" in kind.pattern
    if in_folder and os.path.isdir(path):
        path = path / file
    if unwritten is None and not os.path.isfile(path):
        raise BadInput(f"{path} is not there", origin, f"name a {kind.name} or the path of its file")
    if in_folder and path.name == file:
        name = Path(os.path.abspath(path)).parent.name
        return _refuse_odd(kind, Location(name, path, kind.file(name), unwritten), origin)
    return _refuse_odd(kind, Location(path.stem, path, f"{kind.folder}/{path.name}", unwritten), origin)


def _below(folder: Path, logical: str, kind: Kind) -> Iterator[Location]:
    try:
        paths = sorted(folder.glob(kind.pattern))
    except OSError:  # a folder that may not be read holds nothing for us
        return
    for path in paths:
        name = kind.name_of(path)
        if _NAME.match(name):  # another cannot be named, and must not stand in the way
            yield Location(name, path, f"{logical}/{path.relative_to(folder).as_posix()}")


def page_of(name: str, file: str) -> str:
    """Return the address of the page of a variable, rule or finding; empty where it has none.

    file: where it stands. What is in a file of the user's own has no page.
    """
    top = os.environ.get(SITE, "")
    if not _ADDRESS.fullmatch(top):
        return ""
    folder = os.path.dirname(os.path.relpath(file, data_root()))
    return f"{top.rstrip('/')}/reference/{PAGES[folder]}/{name}.html" if folder in PAGES else ""
