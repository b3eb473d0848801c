"""`uenvtool venv`: a Python overlay on a base, loose or packed; what it is made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import typer

from uenvtool.core.options import JSON, WholeSentences, command, with_verbs
from uenvtool.core.result import Result
from uenvtool.venv.request import ShellRequest, VenvRequest, is_image_name

SQUASH, BUILD = "--squash", "--no-build-isolation"
"""Options that can do without their value."""


def with_empty_values(words: list[str]) -> Iterator[str]:
    """Put an empty value behind each option that can do without one and has none.

    `--squash` takes the next word if it names an image, `--no-build-isolation` if it is not an option.
    """
    options = True
    for word, following in zip(words, [*words[1:], ""], strict=False):
        options = options and word != "--"
        takes_value = {SQUASH: is_image_name(following), BUILD: following[:1] not in ("", "-")}
        yield word if not options or takes_value.get(word, True) else f"{word}="


@command(VenvRequest)
def venv(request: VenvRequest) -> Result:
    """Make a Python environment that wins over its base and keeps the base's torch.

    The base is the loaded uenv, the container, or --base. What the base has and satisfies is used;
    what is missing is installed; what conflicts is an error that says who asks for what.

    `uenvtool venv info IMAGE|PATH` shows what one is made of.
    """
    import os

    from uenvtool.core import console
    from uenvtool.venv.make import make
    from uenvtool.venv.reload import on_named_base

    on_named_base(request, os.environ)
    return make(request, os.environ, console.progress)


def info(
    path: Path = typer.Argument(..., metavar="IMAGE|PATH", help="A packed overlay, or a loose one's folder."),
    json_: bool = JSON,
) -> int:
    """Show an overlay's base, packages, size and settings."""
    from uenvtool.core import console
    from uenvtool.venv.info import info as work

    return console.show(work(path), as_json=json_)


@command(ShellRequest, json=False)
def shell(request: ShellRequest) -> None:
    """Open a shell, or run the command behind `--`, in an overlay on its base, which is loaded if it is not here."""
    import os

    from uenvtool.venv.door import run_there

    run_there(request.path, request.words or (), os.environ)


kernel = typer.Typer(cls=WholeSentences, help="Kernels for Jupyter that start an overlay on its base.")


@kernel.command()
def add(
    path: Path = typer.Argument(..., metavar="PATH", help="An overlay's folder or image, with ipykernel."),
    name: str | None = typer.Option(None, metavar="NAME", help="The kernel's name; default: the overlay's."),
    json_: bool = JSON,
) -> int:
    """Make a kernel of an overlay."""
    import os

    from uenvtool.core import console
    from uenvtool.venv import kernels

    return console.show(kernels.add(path, name, os.environ), as_json=json_)


CLASS = {
    "venv": with_verbs({"info": info}, words=with_empty_values),
    "shell": with_verbs({}, keep_behind=True),
}
"""The classes of the commands; a path of a verb's name is written with a folder: `./info`."""
