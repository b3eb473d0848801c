"""docs/architecture.md, gone through as it stands: what it names exists, and following it needs no Python."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Answer
from tests.support.project import ROOT

Cli = Callable[..., Answer]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def instructions() -> dict[str, tuple[str, str, str]]:
    """What to add, to the cells of its row: what to copy, where to, and the commands."""
    table = PAGE.split("| to add |")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {name: (copy, to, then) for name, copy, to, then in rows}


def commands(then: str, name: str) -> Iterator[list[str]]:
    """The commands of a row, with the name filled in."""
    for command in re.findall(r"`(uenvtool [^`]+)`", then):
        yield command.replace("NAME", name).replace("RECIPE", "hello").split()[1:]


def copied(what: str, name: str) -> Path:
    """Do what the first two cells of a row say, in the current folder."""
    copy, to, _ = instructions()[what]
    source, target = re.findall(r"`([^`]+/[^`]+)`", copy)[0], re.findall(r"`([^`]+)`", to)[0].replace("NAME", name)
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / source, path)
    return path


RUNTIMES = pytest.mark.skipif(not (ROOT / "runtimes").is_dir(), reason="runtimes are no files yet")


@pytest.mark.parametrize("what", [pytest.param(w, marks=RUNTIMES) if w == "a runtime" else w for w in instructions()])
def test_what_an_instruction_copies_exists(what: str) -> None:
    for name in re.findall(r"`([\w./-]+\.(?:yaml|py))`", instructions()[what][0]):
        assert (ROOT / name).is_file(), name


def test_the_rooms_of_the_page_are_the_rooms_of_the_program() -> None:
    table = PAGE.split("| room |")[1].split("\n\n")[0]
    named = set(re.findall(r"^\| `(\w+)/`", table, re.MULTILINE))

    folders = {path.parent.name for path in (ROOT / "uenvtool").glob("*/__init__.py")}
    assert folders == named


def test_a_new_system_is_one_file(cli: Cli) -> None:
    path = copied("a system", "mine")
    path.write_text(re.sub(r"recognise:\n(- .*\n)+", "", path.read_text()))

    for command in commands(instructions()["a system"][2], "mine"):
        answer = cli(*command, *(["--uarch", "a100"] if command[0] == "build" else []))
        assert answer.code == 0, answer.stderr
    assert "mine" in cli("list", "systems").stdout
    assert "x86_64_v3" in cli("build", "hello", "--system", "mine", "--uarch", "a100", "--dry-run").stdout


def test_a_new_variable_is_an_entry_of_a_file_that_a_system_names(cli: Cli) -> None:
    path = copied("a variable", "mine")
    path.write_text(path.read_text().replace("NCCL_NET:", "MY_VARIABLE:"))
    system = Path("systems/mine.yaml")
    system.parent.mkdir()
    system.write_text("extends: rcp\ndescription: mine\nfabric: infiniband\ntuning: [mine]\n")

    for command in commands(instructions()["a variable"][2].replace("VARIABLE", "MY_VARIABLE"), "mine"):
        assert cli(*command).code == 0, command
    assert "MY_VARIABLE" in cli("activate", "--system", "mine", "--uarch", "a100").stdout


@RUNTIMES
def test_a_new_runtime_is_one_file(cli: Cli) -> None:
    copied("a runtime", "mine")

    for command in commands(instructions()["a runtime"][2], "mine"):
        assert cli(*command).code == 0, command
    system = Path("systems/mine.yaml")
    system.parent.mkdir()
    system.write_text("extends: olivia\ndescription: mine\nruntimes: [mine]\n")
    assert cli("validate", system).code == 0


def test_a_new_image_and_a_new_component_are_one_file_each(cli: Cli) -> None:
    image = copied("an image", "mine")
    copied("a component", "mine")
    image.write_text(image.read_text() + "components: {gdrcopy: 2.5.1, xpmem: 3bcab55, mine: 1.20.1}\n")

    for what in ("an image", "a component"):
        for command in commands(instructions()[what][2], "mine"):
            answer = cli(*command)
            assert answer.code == 0, answer.stderr
    assert "FROM toolchain AS build-mine" in Path("containers/mine/Containerfile").read_text()


def test_a_new_shell_is_a_module_and_its_template(tmp_path: Path) -> None:
    shutil.copytree(ROOT, tmp_path / "copy", ignore=shutil.ignore_patterns(".*", "tests", "envs", "docs"))
    folder = tmp_path / "copy" / "uenvtool" / "activation" / "shells"
    text = (folder / "fish.py").read_text(encoding="utf-8")
    (folder / "pike.py").write_text(
        text.replace('("fish",)', '("pike",)').replace('".fish"', '".pike"'), encoding="utf-8"
    )
    shutil.copy(folder / "fish.fish", folder / "pike.pike")
    tool = [sys.executable, "-m", "uenvtool"]

    script = subprocess.run(
        [*tool, "activate", "--system", "local", "--shell", "pike"],
        cwd=tmp_path / "copy", capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    written = subprocess.run([*tool, "activate", "--write", "-o", "new"], cwd=tmp_path / "copy", check=True)

    assert "activate/local.pike" in script
    assert written.returncode == 0
    assert (tmp_path / "copy" / "new" / "clariden.pike").is_file()
    if shutil.which("fish"):
        lines = f"source {tmp_path}/copy/new/local.pike; set -q uenvtool_deactivate; functions -q uenvtool_deactivate"
        assert subprocess.run(["fish", "--no-config", "-c", lines], check=False).returncode == 0
