"""Test names with newlines and shell syntax: they are rejected, and never become code in output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SMALL, Cli, Write

HOSTILE = ["x\ntouch ran", "x\r touch ran", "x\n", "$(touch ran)", "`touch ran`", "x; touch ran", "x'\"", "../x", "-x"]
HOSTILE += ["\x1b]0;x\x07"]


def quoted(name: str) -> str:
    """A name as YAML reads it back."""
    return '"' + "".join(f"\\x{ord(char):02x}" for char in name) + '"'


PLACES = {
    "package": lambda name: SMALL.replace("zlib-ng", quoted(name)),
    "pin": lambda name: SMALL + f"require: {{{quoted(name)}: '1'}}\n",
    "preference": lambda name: SMALL + f"prefer: {{{quoted(name)}: '1'}}\n",
    "repository": lambda name: SMALL.replace("repos: {builtin:", f"repos: {{{quoted(name)}:"),
    "address": lambda name: SMALL.replace("https://github.com/spack/spack-packages.git", quoted(name + " x")),
    "tag": lambda name: SMALL.replace("tag: v1.1.0", f"tag: {quoted(name)}"),
    "variant group": lambda name: SMALL.replace("  gpu:", f"  {quoted(name)}:"),
    "view": lambda name: SMALL.replace("view: {", f"view: {{name: {quoted(name)}, "),
    "variable of a view": lambda name: SMALL.replace("view: {", f"view: {{set: {{{quoted(name)}: x}}, "),
    "node type": lambda name: SMALL.replace("[any]", f"[{quoted(name)}]"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("spot", PLACES)
def test_a_hostile_name_in_a_recipe_is_refused_where_it_stands(cli: Cli, write: Write, spot: str, name: str) -> None:
    if spot == "package":
        name = name.rstrip("\n")  # white space around a spec is none of it
    write("recipes/mine/recipe.yaml", PLACES[spot](f"{name} x" if name == "x" else name))

    answer = cli("build", "mine", "--system", "clariden", "--no-concretize", "-o", "out")

    assert answer.code == 2, answer.stderr
    assert "recipes/mine/recipe.yaml:" in answer.stderr
    assert not Path("out").exists()
