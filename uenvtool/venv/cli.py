"""`uenvtool venv`: a Python overlay on a base, loose or packed; what it is made of; unpacked again."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import typer

from uenvtool.core.verbs import with_verbs
from uenvtool.knowledge.options import JSON

SQUASH, BUILD = "--squash", "--no-build-isolation"
"""Options that can do without their value."""


class Precedence(str, Enum):
    """What makes the overlay win."""

    site = "site"
    pythonpath = "pythonpath"


BASE = typer.Option(
    None, "--base", metavar="PYTHON", help="The base's Python; default: the loaded uenv's, else this container's."
)
IMAGE = typer.Option(
    None, SQUASH, metavar="[FILE]", help="Pack it into one image too; default: beside PATH and named after it."
)
OVERRIDE = typer.Option(
    [],
    "--override",
    metavar="NAME",
    help="Replace the base's package, also a protected one; NAME or NAME==VERSION.",
)
PRECEDENCE = typer.Option(
    None, "--precedence", help="pythonpath: for a Python that reads no .pth files; default: as it is, else site."
)
MOUNT = typer.Option(
    None, "--mount", metavar="DIR", help="Where the image will be mounted; default: as it is, else /user-tools."
)


REMOVE = typer.Option([], "--remove", metavar="NAME", help="No longer install this package, nor what only it needs.")
BUILT_ON_BASE = typer.Option(
    [],
    BUILD,
    metavar="[PACKAGE]",
    help="Build it from source with the base's torch; without a name: all that is built.",
)
ALLOW_OLDER = typer.Option(
    False, "--allow-older", help="Take what you name in a much older version if the base needs that."
)
NO_BASE = typer.Option(False, "--no-base", help="A plain environment on the Python here; it installs its own torch.")
VERBOSE = typer.Option(False, "--verbose", "-v", help="List every package, not only those that change.")


def with_empty_values(words: list[str]) -> Iterator[str]:
    """The words, an empty value behind each option that can do without one and has none.

    `--squash` takes the next word if it names an image, `--no-build-isolation` if it is not an option.
    """
    from uenvtool.venv.order import is_image_name

    options = True
    for word, following in zip(words, [*words[1:], ""], strict=True):
        options = options and word != "--"
        takes_value = {SQUASH: is_image_name(following), BUILD: following[:1] not in ("", "-")}
        yield word if not options or takes_value.get(word, True) else f"{word}="


def venv(
    path: str = typer.Argument(".venv", metavar="PATH", help="The overlay's folder."),
    packages: list[str] = typer.Argument([], metavar="[PACKAGE]...", help="Requirements, wheels, archives, folders."),
    requirements: list[str] = typer.Option([], "--requirements", "-r", metavar="FILE|URL", help="A requirements file."),
    editables: list[Path] = typer.Option([], "--editable", "-e", metavar="DIR", help="A project to install editable."),
    remove: list[str] = REMOVE,
    base: str | None = BASE,
    no_base: bool = NO_BASE,
    uenv: str | None = typer.Option(None, "--uenv", metavar="IMAGE", help="Load this uenv for the command first."),
    view: str = typer.Option("default", "--view", metavar="VIEW", help="The view to load with --uenv."),
    edf: str = typer.Option("", "--edf", metavar="FILE", help="Run it in a container of this EDF."),
    podman: bool = typer.Option(False, "--podman", help="With --edf: by podman; default: by srun where that is."),
    squash: str | None = IMAGE,
    override: list[str] = OVERRIDE,
    built_on_base: list[str] = BUILT_ON_BASE,
    allow_older: bool = ALLOW_OLDER,
    from_: Path | None = typer.Option(None, "--from", metavar="LOCK", help="Make what a pylock.toml says."),
    update: bool = typer.Option(False, "--update", help="Take newer versions; keep the old overlay and image."),
    precedence: Precedence | None = PRECEDENCE,
    mount: str | None = MOUNT,
    dry_run: bool = typer.Option(False, "--dry-run", help="Resolve and print the outcome; make nothing."),
    verbose: bool = VERBOSE,
    json_: bool = JSON,
) -> int:
    """Make a Python environment that wins over its base and keeps the base's torch.

    The base is the loaded uenv, the container, or --base. What the base has and satisfies is used;
    what is missing is installed; what conflicts is an error that says who asks for what.

    Also: `uenvtool venv info IMAGE|PATH` shows what one is made of, `uenvtool venv unpack IMAGE [PATH]`
    makes an image loose again.
    """
    import os

    from uenvtool.core import console
    from uenvtool.venv.make import make
    from uenvtool.venv.order import Order
    from uenvtool.venv.reload import on_named_base

    on_named_base(uenv, view, edf, Path(path), podman=podman, environ=os.environ)
    order = Order(
        path=Path(path),
        first_word=path,
        packages=tuple(packages),
        files=tuple(requirements),
        editables=tuple(editables),
        remove=tuple(remove),
        base=base,
        no_base=no_base,
        overrides=tuple(override),
        built_on_base=tuple(built_on_base),
        allow_older=allow_older,
        lock=from_,
        squash=squash,
        mount=mount,
        update=update,
        precedence=precedence.value if precedence else None,
        dry_run=dry_run,
    )
    return console.show(make(order, os.environ, console.progress, verbose=verbose), as_json=json_)


def info(
    path: Path = typer.Argument(..., metavar="IMAGE|PATH", help="A packed overlay, or a loose one's folder."),
    json_: bool = JSON,
) -> int:
    """Show an overlay's base, packages, size and settings."""
    from uenvtool.core import console
    from uenvtool.venv.info import info as command

    return console.show(command(path), as_json=json_)


def unpack(
    image: Path = typer.Argument(..., metavar="IMAGE", help="A packed overlay."),
    path: Path | None = typer.Argument(None, metavar="PATH", help="The folder to make; default: IMAGE's name."),
    base: str | None = typer.Option(None, metavar="PYTHON", help="Makes the bytecode; default: the loaded base's."),
    json_: bool = JSON,
) -> int:
    """Make a packed overlay loose again, at PATH, which must not be there yet."""
    import os

    from uenvtool.core import console
    from uenvtool.venv.unpack import unpack as command

    return console.show(command(image, path, base, os.environ), as_json=json_)


CLASS = with_verbs({"info": info, "unpack": unpack}, words=with_empty_values)
"""The class of the command; a path of a verb's name is written with a folder: `./info`."""
