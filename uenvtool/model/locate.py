"""Where knowledge lies: the user's own beside the built-in, found by name or by path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from uenvtool.errors import BadInput, Position, unknown

_FILES = {"recipes": "*/recipe.yaml", "systems": "*.yaml", "tuning": "*.yaml"}


@dataclass(frozen=True, slots=True)
class Location:
    """A recipe or system on disk.

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


def available(kind: str) -> dict[str, Location]:
    """Every recipe or system by name; `kind` is the folder's name. The user's own hide built-in ones."""
    found: dict[str, Location] = {}
    for folder in (data_root(), config_folder(), Path.cwd()):
        found.update({location.name: location for location in _below(folder, kind)})
    return dict(sorted(found.items()))


def locate(kind: str, name: str, asked: Position | None = None) -> Location:
    """The recipe or system of that name; a name with a `/` or `.yaml` is a path.

    Raises BadInput where there is none, with the nearest name and all that exist.
    """
    if "/" in name or name.endswith((".yaml", ".yml")):
        return _by_path(kind, Path(name), asked)
    for folder in (Path.cwd(), config_folder(), data_root()):
        path = folder / kind / (f"{name}/recipe.yaml" if kind == "recipes" else f"{name}.yaml")
        if path.is_file():
            return Location(name, path, str(path.relative_to(folder)))
    raise BadInput([unknown(kind.removesuffix("s"), name, available(kind), asked)])


def _by_path(kind: str, path: Path, asked: Position | None) -> Location:
    if kind == "recipes" and path.is_dir():
        path = path / "recipe.yaml"
    if not path.is_file():
        raise BadInput(f"{path} is not there", asked, f"name a {kind.removesuffix('s')} or the path of its file")
    is_folder = path.name == "recipe.yaml"
    name = Path(os.path.abspath(path)).parent.name if is_folder else path.stem
    return Location(name, path, f"{kind}/{name}/recipe.yaml" if is_folder else f"{kind}/{path.name}")


def _below(folder: Path, kind: str) -> Iterator[Location]:
    for path in sorted((folder / kind).glob(_FILES[kind])):
        name = path.parent.name if kind == "recipes" else path.stem
        yield Location(name, path, str(path.relative_to(folder)))
