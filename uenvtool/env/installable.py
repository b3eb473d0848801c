"""A resolved environment on disk, as it is installed: its files, its lock, its mount point and its view."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.value import value_class
from uenvtool.env.environment import REPOSITORY
from uenvtool.env.folder import COMPILER, EXTRA, MODULES
from uenvtool.env.manifest import CONFIGURATION, MANIFEST
from uenvtool.knowledge.lock import LOCK, Lock, read_lock, require_installable

MOUNT = "/user-environment"
"""Where an image is mounted if its system names no other place; uenv's own default."""


@value_class
class Installable:
    """A resolved environment on disk.

    manifest: the `spack:` part of its spack.yaml. mount: where it is installed, and its image mounted.
    views: the names of its views, first that which is loaded if none is named. texts: its files that Spack reads,
    relative name to text.
    """

    folder: Path
    manifest: Mapping[str, Any]
    lock: Lock
    mount: str
    views: tuple[str, ...]
    texts: Mapping[str, str]

    @property
    def description(self) -> str:
        """What its recipe says of itself, in the head of its spack.yaml; "" if it does not."""
        lines = takewhile(lambda line: line.startswith("#"), self.texts[MANIFEST].splitlines())
        _, _, words = "\n".join(line.removeprefix("#").strip() for line in lines).partition("\n\n")
        return " ".join(words.partition(": ")[2].split())

    @property
    def view(self) -> str:
        """The view that is loaded if none is named."""
        return self.views[0]

    def root_of(self, view: str) -> str:
        """Return where a view lies."""
        return f"{self.mount}/env/{view}"

    @property
    def own_texts(self) -> dict[str, str]:
        """Its files without those of the compiler's environment."""
        return {name: text for name, text in self.texts.items() if not name.startswith(f"{COMPILER}/")}

    @property
    def compiler_manifest(self) -> Mapping[str, Any] | None:
        """The `spack:` part of the environment that installs its compiler first; None if the system has one."""
        text = self.texts.get(f"{COMPILER}/{MANIFEST}")
        return None if text is None else _manifest(text)


def read_installable(folder: Path) -> Installable:
    """Return a resolved environment in a folder.

    Raises BadInput if it has no spack.yaml or no lock, AnswerIsNo if the lock would not install.
    """
    import yaml

    try:
        texts = {name: (folder / name).read_text(encoding="utf-8") for name in _names(folder)}
        manifest = _manifest(texts[MANIFEST])
    except (OSError, KeyError, TypeError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"{folder} is no environment of Spack: {error}", Position(str(folder / MANIFEST))) from error
    if LOCK not in texts:
        raise BadInput(f"{folder} has no {LOCK} yet", hint="make it with uenvtool build --concretize")
    lock = read_lock(folder / LOCK, str(folder / LOCK))
    require_installable(lock, str(folder / LOCK))
    views = manifest.get("view")
    return Installable(
        folder=folder,
        manifest=manifest,
        lock=lock,
        mount=_mount(manifest),
        views=tuple(views) if isinstance(views, dict) and views else ("default",),
        texts=texts,
    )


def mount_of(folder: Path) -> str:
    """Return where the image of an environment in a folder is mounted; "" if no environment is there."""
    path = folder / MANIFEST
    return _mount(_manifest(path.read_text(encoding="utf-8"))) if path.is_file() else ""


def _mount(manifest: Mapping[str, Any]) -> str:
    return str(manifest.get("config", {}).get("install_tree", {}).get("root", MOUNT))


def _manifest(text: str) -> Mapping[str, Any]:
    import yaml

    found: Mapping[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)["spack"]
    return found


def _names(folder: Path) -> list[str]:
    """Return the files of an environment that Spack reads, relative to its folder."""
    names = [MANIFEST, LOCK, MODULES, f"{COMPILER}/{MANIFEST}"]
    found = [name for name in names if (folder / name).is_file()]
    folders = (folder / REPOSITORY, folder / CONFIGURATION, folder / EXTRA)
    copied = [path for part in folders for path in sorted(part.rglob("*")) if path.suffix in {".py", ".yaml", ".patch"}]
    return [*found, *(path.relative_to(folder).as_posix() for path in copied)]
