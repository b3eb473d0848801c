"""Test that an overlay's packages have priority over its base's, for every way to start Python and every path."""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.conftest import Cli, Loaded
from tests.support.overlays import LAYOUTS, BaseHere, base, clean_environment, install, run, seen, wheel
from tests.support.programs import program
from tests.support.pythons import newest, pythons
from uenvtool.venv.base import find, read_base
from uenvtool.venv.overlay import create, python_wrapper

LOOK = """
import importlib.metadata, json, sys
def main():
    import inbase, tool
    print(json.dumps({
        "tool": tool.__version__, "inbase": inbase.__version__, "file": tool.__file__,
        "metadata": importlib.metadata.version("tool"), "prefix": sys.prefix,
        "base metadata": importlib.metadata.version("inbase"),
    }))
"""
RIGHT = {"tool": "2.0", "metadata": "2.0", "inbase": "1.0", "base metadata": "1.0"}
MAIN = "from tool.look import main\nmain()\n"
SUBPROCESS = "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '-m', 'tool']))\n"
SPAWN = """
import multiprocessing
from tool.look import main
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=main)
    child.start()
    child.join()
    raise SystemExit(child.exitcode)
"""
RUN = """
import subprocess, sys
def main():
    sys.exit(subprocess.call([sys.executable, "-u", *sys.argv[1:]]))
if __name__ == "__main__":
    main()
"""


def versions_and_layouts(quick: int) -> list[ParameterSet]:
    """Every version of Python with every layout, marked `slow` but for the first layouts, each with one version."""
    versions = list(pythons())
    unmarked = {(versions[-1 - i % len(versions)], layout) for i, layout in enumerate(LAYOUTS[:quick])}
    return [
        pytest.param(pair, marks=() if pair in unmarked else pytest.mark.slow, id="-".join(pair))
        for pair in itertools.product(versions, LAYOUTS)
    ]


def tool_wheel(folder: Path, version: str) -> Path:
    files = {"tool/look.py": LOOK, "tool/__main__.py": MAIN}
    return wheel(folder, "tool", version, files=files, scripts={"tool-look": "tool.look:main"})


def fill_base(here: BaseHere, wheels: Path) -> None:
    """Give a base tool 1, inbase 1 and a torch that starts workers; tool 2 can be installed."""
    old = wheels.parent / "old"
    torch = {"torch/distributed/__init__.py": "", "torch/distributed/run.py": RUN}
    commands = {"torchrun": "torch.distributed.run:main"}
    install(
        here.site,
        tool_wheel(old, "1.0"),
        wheel(old, "inbase", "1.0"),
        wheel(old, "torch", "2.6.0a0+d883142", files=torch, scripts=commands),
    )
    tool_wheel(wheels, "2.0")


@pytest.fixture
def overlay(loaded: Loaded, wheels: Path, done: Cli, request: pytest.FixtureRequest) -> tuple[BaseHere, Path]:
    """tool 2 over a base that has tool 1 and inbase 1 and a torch that starts workers."""
    version, layout = request.param
    here = loaded(layout, version)
    fill_base(here, wheels)
    done("venv", "my venv", "tool==2.0")
    return here, Path("my venv").absolute()


def ways(python: Path, work: Path) -> dict[str, list[str | Path]]:
    """Every way of starting a Python program."""
    for name, text in {"script.py": MAIN, "sub.py": SUBPROCESS, "spawn.py": SPAWN}.items():
        (work / name).write_text(text)
    folder = python.parent
    return {
        "script": [python, work / "script.py"],
        "python3": [folder / "python3", work / "script.py"],
        "-c": [python, "-c", MAIN],
        "-m": [python, "-m", "tool"],
        "console script": [folder / "tool-look"],
        "subprocess": [python, work / "sub.py"],
        "spawn": [python, work / "spawn.py"],
        "-E": [python, "-E", "-m", "tool"],
        "-I": [python, "-I", "-m", "tool"],
        "-s": [python, "-s", "-m", "tool"],
        "torch.distributed.run": [python, "-m", "torch.distributed.run", work / "script.py"],
        "torchrun": [folder / "torchrun", work / "script.py"],
    }


@pytest.mark.parametrize("overlay", versions_and_layouts(quick=1), indirect=True)
def test_the_overlay_wins_however_python_is_started(overlay: tuple[BaseHere, Path], place: Path) -> None:
    here, folder = overlay
    decoy = place / "decoy"
    install(decoy, tool_wheel(place / "decoys", "0.1"))
    moved = place / "elsewhere" / "moved venv"
    moved.parent.mkdir()
    folder.rename(moved)

    for way, answer in looks(moved, here, place, decoy).items():
        assert {name: answer[name] for name in RIGHT} == RIGHT, way
        assert Path(answer["prefix"]) == moved, way
        assert Path(answer["file"]).is_relative_to(moved), way


def looks(folder: Path, here: BaseHere, work: Path, decoy: Path) -> dict[str, dict[str, str]]:
    """What each way sees: with the base's variables, with a decoy before them, and with none."""
    plain = clean_environment(PATH="/usr/bin:/bin")
    loaded = {**plain, **here.environment}
    exported = [str(decoy), *filter(None, [here.environment.get("PYTHONPATH")])]
    found = {}
    for way, words in ways(folder / "bin" / "python", work).items():
        found[f"{way}, base loaded"] = seen(words, loaded, work)
        found[f"{way}, decoy"] = seen(words, {**loaded, "PYTHONPATH": os.pathsep.join(exported)}, work)
    found["nothing loaded"] = seen([folder / "bin" / "python", "-m", "tool"], plain, work)
    return found


@pytest.mark.parametrize("overlay", [(newest(), "pythonpath")], indirect=True)
def test_an_overlay_whose_base_is_gone_says_so_in_one_line(overlay: tuple[BaseHere, Path]) -> None:
    here, folder = overlay
    here.root.rename(here.root.with_name("unmounted"))

    completed = run([folder / "bin" / "python", "-c", "pass"], clean_environment())

    assert completed.returncode == 1
    assert re.fullmatch(r".*uenv start /images/stack.squashfs --view=default\n", completed.stderr)
    assert run([folder / "bin" / "tool-look"], clean_environment()).stderr == completed.stderr


def test_a_home_with_another_standard_library_is_left_for_the_next(loaded: Loaded, place: Path) -> None:
    here = loaded("pythonpath")
    other = base(place, "conda", here.python, here.version)
    found = read_base(find(None, os.environ), os.environ)

    create(place / "v", replace(found, homes=(f"{other.root}/bin", *found.homes)))

    assert f"home = {found.homes[0]}\n" in (place / "v/pyvenv.cfg").read_text()


@pytest.mark.parametrize("name", ["@MISSING@", "@BASE@", "it's", "a b", '"', "@SITE@"])
def test_a_base_of_any_name_keeps_the_quoting_of_the_wrapper(place: Path, name: str) -> None:
    present = program(place / name / "python3", "echo started")
    for interpreter in (present, place / name / "gone"):
        wrapper = program(place / "wrapper", python_wrapper(str(interpreter), "load 'it'"))

        ran = run([wrapper], clean_environment())

        if interpreter == present:
            assert (ran.returncode, ran.stdout) == (0, "started\n"), ran.stderr
        else:
            told = f"uenvtool: the base of this overlay was not found: {interpreter}; load it first: load 'it'\n"
            assert (ran.returncode, ran.stderr) == (1, told)
