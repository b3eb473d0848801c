"""What recipes and systems are made of: pinned git repositories, and package additions of recipes."""

from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput, Position
from uenvtool.knowledge.locate import shown
from uenvtool.knowledge.yamltree import Node


@dataclass(frozen=True, kw_only=True, slots=True)
class GitPin:
    """A git repository at a tag or commit.

    paths: the folders of package repositories in it, if it does not list them itself.
    """

    url: str
    tag: str | None = None
    commit: str | None = None
    paths: tuple[str, ...] = ()

    @property
    def revision(self) -> str:
        """Return the tag, else the commit, else the default branch."""
        return self.tag or self.commit or "HEAD"


@dataclass(frozen=True, slots=True)
class Addition:
    """A file of the recipe's own that an environment gets a copy of: a Spack package that `builtin` lacks or has older.

    path: the file on disk; target: its place below the packages folder of a repository.
    """

    target: str
    path: Path

    def text(self) -> str:
        """Return the file's text. Raises BadInput if it cannot be read as text."""
        try:
            return self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot read it: {error}", Position(shown(self.path)), "save it as UTF-8") from error


def additions_of(folders: list[Path]) -> tuple[Addition, ...]:
    """Return the package files below folders of additions; a file of an earlier folder hides that of a later one.

    Raises BadInput for a link that leads out of its folder.
    """
    found: dict[str, Addition] = {}
    for folder in reversed(folders):
        for path in sorted(folder.rglob("*")):
            if "__pycache__" in path.parts or not path.is_file():
                continue
            target = path.relative_to(folder).as_posix()
            if not path.resolve().is_relative_to(folder.resolve()):
                raise BadInput("leads out of the recipe's folder", Position(shown(path)), "copy the file into it")
            found[target] = Addition(target, path)
    return tuple(found[target] for target in sorted(found))


def inside(folder: Path, node: Node) -> Path:
    """Return the file that a path names within the folder of a recipe.

    Raises BadInput if it leads out of the folder or is not there.
    """
    path = folder / str(node.value)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BadInput(f"{node.value!r} leads out of the recipe's folder", node.position, "copy the file into it")
    if not path.is_file():
        raise BadInput(f"{node.value!r} is not in the recipe's folder", node.position, f"it is looked for in {folder}")
    return path
