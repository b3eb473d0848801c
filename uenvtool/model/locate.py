"""Where knowledge lies: the user's own beside the built-in, found by name or by path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from uenvtool.errors import BadInput, Position, unknown
from uenvtool.model.kinds import Kind


@dataclass(frozen=True, slots=True)
class Location:
    """A file of knowledge on disk.

    shown: the path as messages give it, one that the reader can open from where they are.
    logical: the path below the folder that holds `recipes/` and `systems/`, the same on every
    machine, for generated files.
    """

    name: str
    path: Path
    logical: str

    @property
    def shown(self) -> str:
        return shown(self.path)


def data_root() -> Path:
    """The folder with the built-in recipes/, systems/, ...: in the wheel, or the checkout's top."""
    package = Path(__file__).resolve().parent.parent
    packed = package / "data"
    return packed if packed.is_dir() else package.parent


def config_folder() -> Path:
    """The user's configuration folder (https://specifications.freedesktop.org/basedir-spec)."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(base) / "uenvtool"


def shown(path: Path) -> str:
    """The path relative to the current folder where it lies below it, else whole."""
    with_cwd = Path(os.path.abspath(path))
    try:
        return str(with_cwd.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def from_root(path: str) -> str:
    """A path as `recipes/NAME/recipe.yaml` where it is of the built-in knowledge, else as it is."""
    root = f"{data_root()}{os.sep}"
    return path.removeprefix(root)


def in_your_own(kind: Kind, position: Position | None) -> str:
    """What a hint adds if the position is in a built-in file, which an update replaces."""
    if position is None or not Path(os.path.abspath(position.file)).is_relative_to(data_root()):
        return ""
    name = kind.name_of(PurePath(position.file))
    return f", in a {kind.name} of your own with `extends: {name}`"


def available(kind: Kind) -> dict[str, Location]:
    """Every file of a kind by its name. The user's own hide built-in ones."""
    found: dict[str, Location] = {}
    for folder in (data_root(), config_folder(), Path.cwd()):
        found.update({location.name: location for location in _below(folder, kind)})
    return dict(sorted(found.items()))


def locate(kind: Kind, name: str, origin: Position | None = None) -> Location:
    """The file of that kind and name; a name with a `/` or `.yaml` is a path. origin: where it is named.

    Raises BadInput if there is none, with the nearest name and all that exist.
    """
    if "/" in name or name.endswith((".yaml", ".yml")):
        return _by_path(kind, Path(name), origin)
    for folder in (Path.cwd(), config_folder(), data_root()):
        path = folder / kind.file(name)
        if path.is_file():
            return Location(name, path, kind.file(name))
    raise BadInput([unknown(kind.name, name, available(kind), origin)])


def _by_path(kind: Kind, path: Path, origin: Position | None) -> Location:
    file = PurePath(kind.pattern).name
    in_folder = "/" in kind.pattern
    if in_folder and path.is_dir():
        path = path / file
    if not path.is_file():
        raise BadInput(f"{path} is not there", origin, f"name a {kind.name} or the path of its file")
    if in_folder and path.name == file:
        name = Path(os.path.abspath(path)).parent.name
        return Location(name, path, kind.file(name))
    return Location(path.stem, path, f"{kind.folder}/{path.name}")


def _below(folder: Path, kind: Kind) -> Iterator[Location]:
    for path in sorted((folder / kind.folder).glob(kind.pattern)):
        yield Location(kind.name_of(path), path, path.relative_to(folder).as_posix())
