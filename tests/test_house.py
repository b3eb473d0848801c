"""The rules of the house that a reader would have to remember."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

SOURCES = sorted((ROOT / "uenvtool").rglob("*.py"))


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def calls_in(path: Path) -> set[str]:
    """What a module calls, as it names it."""
    tree = ast.parse(path.read_text())
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_ruff_looks_at_every_source() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--show-files", "uenvtool"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert {Path(line) for line in shown.splitlines() if line.endswith(".py")} == set(SOURCES)


def test_processes_start_in_tools_alone() -> None:
    assert [path.name for path in SOURCES if "subprocess" in imports_of(path)] == ["tools.py"]


def test_nothing_prints_but_the_console_and_the_entry_point() -> None:
    printing = re.compile(
        r"print|sys\.std(out|err)\.(write|buffer\.write)|typer\.s?echo|console\.(?!show$|progress$).*"
    )
    ours = [path for path in SOURCES if path.parent.name != "scripts"]  # those run in other Pythons, without uenvtool
    found = {str(path.relative_to(ROOT)) for path in ours if any(map(printing.fullmatch, calls_in(path)))}

    assert found == {"uenvtool/console.py", "uenvtool/__main__.py"}


def test_only_the_command_line_knows_the_console() -> None:
    known = re.compile(r"^\s*(from uenvtool\.console|from uenvtool import .*\bconsole\b)", re.MULTILINE)

    assert {path.parent.name for path in SOURCES if known.search(path.read_text())} == {"cli", "uenvtool"}


def test_files_are_written_in_files_alone() -> None:
    writing = re.compile(r"\.write_(text|bytes)\(|(?<!fd)open\([^)]*[\"'][wax]|os\.replace|mkstemp|os\.rename")
    ours = [path for path in SOURCES if path.parent.name != "scripts"]  # those run in other Pythons, without uenvtool
    assert {path.parent.name for path in ours if writing.search(path.read_text())} == {"files"}


KNOWS = {
    "model": {"errors", "model"},
    "spack": {"model", "spack"},
    "activation": {"model", "activation"},
    "overlay": {"model", "overlay", "image"},
    "image": {"image"},
    "job": {"model", "job"},
    "commands": {"commands", "model", "spack", "activation", "overlay", "image", "job"},
}
"""What a part may import beside the doors; cli knows commands and console."""
DOORS = {
    "errors",
    "files",
    "tools",
    "result",
    "console",
    "host",
    "knowledge",
    "quoting",
    "drift",
    "filling",
    "loaded",
    "ending",
}


@pytest.mark.parametrize("part", KNOWS)
def test_a_part_knows_only_what_it_may(part: str) -> None:
    doors = set() if part == "model" else DOORS
    strangers = {
        f"{path.name} imports {name}"
        for path in (ROOT / "uenvtool" / part).rglob("*.py")
        for name in imports_of(path)
        if name.startswith("uenvtool.") and name.split(".")[1] not in KNOWS[part] | doors
    }
    assert strangers == set()


def test_functions_fit_a_screen() -> None:
    long = [
        f"{path.name}:{node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno > 60
    ]
    assert long == []


@pytest.mark.parametrize("module", ["yaml", "jsonschema", "rich", "ruamel", "jinja2", "archspec"])
def test_heavy_libraries_are_not_loaded_for_help(module: str) -> None:
    code = f"import sys, uenvtool.cli; sys.exit({module!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
