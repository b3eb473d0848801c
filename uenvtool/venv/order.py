"""What a user orders with `uenvtool venv`, and the checks that need nothing but its words."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.venv.requirements import checked_names

IMAGE_SUFFIXES = (".squashfs", ".sqfs", ".sqsh", ".squash")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The words of the command line.

    path: the overlay's folder; first_word: how it was written. remove: packages that are no longer wanted.
    built_on_base: packages that are built with the base's torch; an empty name stands for all. allow_older: take
    what the user names in a much older version. lock: the pylock.toml to make it from. squash: the image to write,
    empty for the one beside the overlay, None for none. mount, precedence: None leaves them as they are.
    """

    path: Path
    first_word: str = ""
    packages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    editables: tuple[Path, ...] = ()
    remove: tuple[str, ...] = ()
    base: str | None = None
    no_base: bool = False
    overrides: tuple[str, ...] = ()
    built_on_base: tuple[str, ...] = ()
    allow_older: bool = False
    lock: Path | None = None
    squash: str | None = None
    mount: str | None = None
    update: bool = False
    precedence: str | None = None
    dry_run: bool = False

    @property
    def image(self) -> Path | None:
        """The image to write: as named, else beside the overlay and after it: `.venv` gives venv.squashfs."""
        if self.squash is None:
            return None
        return Path(self.squash) if self.squash else default_image(self.path)

    @property
    def wants_packages(self) -> bool:
        """Tell if it names anything to install."""
        return bool(self.packages or self.files or self.editables)

    @property
    def changes_overlay(self) -> bool:
        """Tell if the overlay has to be made, and not only packed."""
        changes = self.overrides or self.built_on_base or self.remove or self.lock or self.update
        return bool(self.wants_packages or changes)


def check(order: Order) -> None:
    """Raise BadInput if a word of the order cannot be what it stands for."""
    _check_path(order.path)
    if os.pathsep in os.path.abspath(order.path):
        raise BadInput(f"{order.path} has a {os.pathsep!r} in it, which no PATH can hold", hint="choose another name")
    if order.squash and not is_image_name(order.squash):
        hint = f"it ends in {', '.join(IMAGE_SUFFIXES)}"
        raise BadInput(f"--squash {order.squash}: not the name of an image", hint=hint)
    checked_names(order.overrides, "--override", "--override torch, or with a version: --override torch==2.7.0")
    checked_names(order.remove, "--remove", "--remove lightning")
    checked_names([name for name in order.built_on_base if name], "--no-build-isolation", "flash-attn")
    if order.mount is not None:
        _check_mount(order.mount)
    if order.lock and (order.wants_packages or order.remove):
        raise BadInput("--from says all that is installed", hint="add packages afterwards: uenvtool venv PATH PACKAGE")
    if order.base is not None and order.no_base:
        raise BadInput("--base and --no-base contradict each other", hint="give one of them")


def is_image_name(name: str) -> bool:
    """Tell if a name is that of an image: `--squash NAME` takes no other."""
    return name.endswith(IMAGE_SUFFIXES)


def default_image(path: Path) -> Path:
    """The image beside an overlay and after it."""
    name = Path(os.path.abspath(path)).name.lstrip(".") or "venv"
    return path.parent / f"{name}.squashfs"


def _check_path(path: Path) -> None:
    text = str(path)
    if re.search(r"[<>=!~]=|[<>\[]|\.(txt|whl|in|toml)\Z|\A\Z", text) and not path.exists():
        hint = f"the folder comes first: `uenvtool venv .venv '{text}'`; a file of requirements is `-r FILE`"
        raise BadInput(f"{text} is not the name of a folder for an overlay", hint=hint)


def _check_mount(mount: str) -> None:
    if not re.fullmatch(r"(/[\w.+@%-]+)+", mount) or {".", ".."} & set(mount.split("/")):
        raise BadInput(f"--mount {mount}: not an absolute path of plain names", hint="for example --mount /user-tools")
