"""The commands `venv`, `shell` and `show`, and the group `kernel`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from uenvtool.core.options import Json, WithProgram, command
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


class WithEmptyValues(TyperCommand):
    """The command `venv`, of which two options can do without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words, each of these options with a value."""
        return super().parse_args(ctx, list(with_empty_values(args)))


app = typer.Typer()
kernel = typer.Typer(help="Kernels for Jupyter that start an overlay on its base.")
app.add_typer(kernel, name="kernel")


@app.command(cls=WithEmptyValues)
@command(VenvRequest)
def venv(request: VenvRequest) -> Result:
    """Make a Python environment that wins over its base and keeps the base's torch.

    The base is the loaded uenv, the container, or --base. What the base has and
    satisfies is used; what is missing is installed; what conflicts is an error
    that says who asks for what.

    The work is done beside PATH and beside the image. With PATH on the node's
    own disk only the image of --squash FILE is written to a shared one.

    `uenvtool show PATH` shows what one is made of.
    """
    import os

    from uenvtool.core import console
    from uenvtool.venv.discovery import on_named_base
    from uenvtool.venv.make import make

    on_named_base(request, os.environ)
    return make(request, os.environ, console.progress, console.warn)


@app.command(cls=WithProgram)
@command(ShellRequest, json=False)
def shell(request: ShellRequest) -> None:
    """Open a shell, or run the command behind `--`, in an overlay on its base, which is loaded if it is not here."""
    import os

    from uenvtool.venv.launch import run_there

    run_there(request.path, request.words, os.environ)


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="RECIPE|SYSTEM|PATH", help="A name, or the path of a file or an overlay, also packed."),
    ],
    json_: Json = False,
) -> int:
    """Show a recipe or system with all that it inherits, each value with its file and line; or an overlay.

    Of an overlay, loose or packed: its base, packages, size and settings.
    """
    from uenvtool.core import console
    from uenvtool.knowledge import catalogue
    from uenvtool.venv.info import info

    is_overlay = catalogue.is_path_of_other(name) or is_image_name(name)
    result = info(Path(name)) if is_overlay else catalogue.show(name)
    return console.show(result, as_json=json_)


@kernel.command()
def add(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="An overlay's folder or image, with ipykernel.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name that Jupyter shows; default: the overlay's.")
    ] = None,
    json_: Json = False,
) -> int:
    """Make a kernel of an overlay."""
    import os

    from uenvtool.core import console
    from uenvtool.venv.launch import add_kernel

    return console.show(add_kernel(path, name, os.environ), as_json=json_)
