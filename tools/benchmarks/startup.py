"""Compares the start of commands with Python itself, with another Typer program, and with stack-config."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from side_by_side import Comparison, Place, Way

HELLO = "import typer\n\ndef main(name: str = 'x') -> None:\n    print(name)\n\ntyper.run(main)\n"


def comparisons(place: Place) -> Iterator[Comparison]:
    """Yield the comparison. The goals are ratios to `python -c pass`."""
    hello = place.folder / "hello.py"
    hello.write_text(HELLO)
    job = ("--system", "clariden", "--account", "a", "--image", "u", "--", "python", "t.py")
    ways = [
        Way("python -c pass", place.run(sys.executable, "-c", "pass")),
        Way("uenvtool --version", place.tool("--version"), goal=2),
        Way("uenvtool --help", place.tool("--help"), goal=5),
        Way("uenvtool build pytorch-2.6", place.tool("build", "pytorch-2.6", "--no-concretize", "-o", "env"), goal=10),
        Way("uenvtool job", place.tool("job", *job), goal=8),
        Way("uenvtool doctor", place.tool("doctor"), goal=12),
        Way("Typer: one option, --help", place.run(sys.executable, hello, "--help")),
    ]
    if file := os.environ.get("PYZ", ""):  # a uenvtool.pyz, which its first run unpacks
        place.run(file, "list")()
        ways += [Way("uenvtool list", place.tool("list")), Way("uenvtool.pyz list", place.run(file, "list"))]
    if place.has("stack-config", "a clone of Stackinator, installed with Python 3.12 or newer, on PATH"):
        ways.append(Way("stack-config --help, own Python", place.run("stack-config", "--help")))
    yield Comparison(
        "Start of commands", ways, "An empty home directory, with bytecode compiled by a first run.", rounds=15
    )
