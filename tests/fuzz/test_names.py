"""Names with line ends and shell syntax: refused where they are read, and never code in what is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SMALL, Cli, Write
from uenvtool.activation.activate import text
from uenvtool.activation.shells import shells
from uenvtool.knowledge.settings import settings_for

HOSTILE = [
    "x\ntouch ran",
    "x\r touch ran",
    "x\n",
    "$(touch ran)",
    "`touch ran`",
    "x; touch ran",
    "x'\"",
    "\x1b]0;x\x07",
    "../x",
    "-x",
]


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


@pytest.mark.parametrize("name", ["x\ntouch ran", "$(touch ran)", "x; touch ran"])
@pytest.mark.parametrize(("kind", "folder"), [("recipe", "recipes/{}/recipe.yaml"), ("system", "systems/{}.yaml")])
def test_a_file_of_a_hostile_name_is_refused(cli: Cli, write: Write, kind: str, folder: str, name: str) -> None:
    path = write(folder.format(name), SMALL if kind == "recipe" else "extends: local\ndescription: x\n")

    answer = cli("validate", path)

    assert answer.code == 2
    assert f"cannot be the name of a {kind}" in answer.stderr
    assert cli("list").code == 0


@pytest.mark.parametrize(
    "words", [f"{end} touch ran" for end in ("\n", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "*/", "-->")]
)
def test_free_text_never_ends_a_comment(cli: Cli, write: Write, words: str) -> None:
    """Descriptions and reasons are free text: each writer puts them into comments that they cannot leave."""
    free = quoted_text(f"x{words}")
    write(
        "recipes/mine/recipe.yaml", SMALL.replace("A small recipe.", free).replace("reason: files", f"reason: {free}")
    )

    for options in ([], ["--format", "stackinator"]):
        answer = cli("build", "mine", "--system", "clariden", "--no-concretize", "-o", f"out{len(options)}", *options)
        assert answer.code in (0, 2), answer.stderr

    for path in Path().glob("out*/**/*"):
        if path.is_file() and path.suffix != ".json":
            commands = [
                line for line in path.read_text(errors="replace").splitlines() if line.lstrip().startswith("touch")
            ]
            assert commands == [], path


@pytest.mark.parametrize("shell", shells())
def test_a_hostile_command_line_stays_in_the_header(shell: str) -> None:
    for end in ("\n", "\r", "\x0b", "\x85", "\u2028"):
        script = text(settings_for("clariden"), shell, f"uenvtool{end}touch ran")

        assert not any(line.lstrip().startswith("touch") for line in script.splitlines())


def quoted_text(value: str) -> str:
    return '"' + "".join(f"\\u{ord(char):04x}" for char in value) + '"'
