"""The commands `venv`, `shell` and `show`, and the group `kernel`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from uenvtool.core.options import Commands, Json, WithProgram, WithSingleValues, command
from uenvtool.core.result import Result
from uenvtool.venv.request import ShellRequest, VenvRequest, is_image_name

SQUASH, BUILD = "--squash", "--no-build-isolation"
"""The options of `venv` whose value may be omitted."""


def with_empty_values(arguments: list[str]) -> Iterator[str]:
    """Yield the arguments, with an empty value added to the options SQUASH and BUILD where they have no value.

    `--squash` takes the next argument as its value if that is an image name. `--no-build-isolation` takes it unless it
    is an option.
    """
    before_separator = True
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=False):
        before_separator = before_separator and argument != "--"
        takes_value = {SQUASH: is_image_name(following), BUILD: following[:1] not in ("", "-")}
        yield argument if not before_separator or takes_value.get(argument, True) else f"{argument}="


class _WithEmptyValues(WithSingleValues):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(with_empty_values(args)))


app = Commands()
kernel = Commands(help="Manage Jupyter kernels that start an overlay on its base.")
app.add_typer(kernel, name="kernel")


@app.command(cls=_WithEmptyValues)
@command(VenvRequest)
def venv(request: VenvRequest) -> Result:
    """Create or change an overlay, which is a virtual environment on a base.

    The base is the loaded uenv, this container, or the Python of --base. Packages
    of the overlay take precedence over the base's, except that torch stays the
    base's. Requirements that the base satisfies are not installed again. If
    requirements conflict, the error shows which package requires which version.

    Temporary files are written next to PATH and the image. If PATH is on a
    node-local disk, only the image of --squash FILE is on a shared filesystem.

    `uenvtool show PATH` shows an overlay's base and packages.
    """
    from uenvtool.core import console
    from uenvtool.venv.base import on_named_base
    from uenvtool.venv.make import make

    on_named_base(request, os.environ)
    return make(request, os.environ, console.progress, console.warn)


@app.command(cls=WithProgram)
@command(ShellRequest, json=False)
def shell(request: ShellRequest) -> None:
    """Open a shell in an overlay, or run the command after `--` in it.

    The overlay's base is loaded first if it is not loaded yet.
    """
    from uenvtool.venv.launch import run_in_overlay

    run_in_overlay(request.path, request.words, os.environ)


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|SYSTEM|PATH", help="A name, or the path of a file or an overlay (packed or not)."
        ),
    ],
    json_: Json = False,
) -> int:
    """Show a recipe, a system or an overlay.

    For a recipe or system, each value is printed with its file and line,
    including inherited values. For a packed or unpacked overlay, the base,
    packages, size and settings are printed.
    """
    from uenvtool.core import console
    from uenvtool.knowledge import catalogue
    from uenvtool.venv.info import info

    is_overlay = catalogue.is_path_of_other(name) or is_image_name(name)
    result = info(Path(name)) if is_overlay else catalogue.show(name)
    return console.show(result, as_json=json_)


@kernel.command()
def add(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="The directory or image of an overlay that has ipykernel.")
    ],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name that Jupyter shows. Default: the overlay's.")
    ] = None,
    json_: Json = False,
) -> int:
    """Add a Jupyter kernel that starts an overlay."""
    from uenvtool.core import console
    from uenvtool.venv.launch import add_kernel

    return console.show(add_kernel(path, name, os.environ), as_json=json_)
