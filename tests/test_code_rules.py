"""Test nine rules of the architecture. ruff tests the rules about banned names (pyproject.toml)."""

from __future__ import annotations

import ast
import collections
import functools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.xdist_group("architecture")  # one process parses each file once
SOURCES = sorted((ROOT / "uenvtool").rglob("*.py"))


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text()


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of a module's syntax tree."""
    return tuple(ast.walk(ast.parse(text_of(path))))


@functools.cache
def imports_of(path: Path) -> set[str]:
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@functools.cache
def calls_in(path: Path) -> set[str]:
    """Return the names of the functions that a module calls, as written in the module."""
    return {ast.unparse(node.func) for node in nodes_of(path) if isinstance(node, ast.Call)}


def test_nothing_prints_but_the_console_and_the_command_line() -> None:
    printing = re.compile(r"sys\.std(out|err)\.(write|buffer\.write)|console\.(?!show$|progress$).*")
    ours = [path for path in SOURCES if path.parent.name != "scripts"]  # those run in other Pythons, without uenvtool
    found = {str(path.relative_to(ROOT)) for path in ours if any(map(printing.fullmatch, calls_in(path)))}

    assert found == {"uenvtool/core/console.py", "uenvtool/cli.py"}


def test_only_the_command_line_knows_the_console() -> None:
    known = re.compile(r"^\s*(from uenvtool\.core\.console|from uenvtool\.core import .*\bconsole\b)", re.MULTILINE)

    knowing = {path.name for path in SOURCES if known.search(text_of(path))}
    assert knowing == {"cli.py", "options.py"}


def test_files_are_written_in_files_alone() -> None:
    writing = re.compile(r"\.write_(text|bytes)\(|(?<!fd)open\([^)]*[\"'][wax]")
    ours = [path for path in SOURCES if path.parent.name != "scripts"]  # those run in other Pythons, without uenvtool
    assert {path.parent.name for path in ours if writing.search(text_of(path))} == {"files"}


def lone_abstractions(trees: Iterable[Iterable[ast.AST]]) -> list[str]:
    """Return the abstract classes that fewer than two classes extend."""
    classes = [node for tree in trees for node in tree if isinstance(node, ast.ClassDef)]
    bases = collections.Counter(ast.unparse(base).rpartition(".")[2] for node in classes for base in node.bases)
    return [node.name for node in classes if "ABC" in map(ast.unparse, node.bases) and bases[node.name] < 2]


def test_an_abstract_class_has_several_implementations() -> None:
    own = ast.parse("class One(ABC): ...\nclass Two(ABC): ...\nclass A(One): ...\nclass B(Two): ...\nclass C(Two): ...")

    assert lone_abstractions([ast.walk(own)]) == ["One"]
    assert lone_abstractions(map(nodes_of, SOURCES)) == []


KNOWS = {
    "core": set(),
    "knowledge": {"core"},
    "env": {"core", "knowledge"},
    "activation": {"core", "knowledge"},
    "image": {"core", "knowledge", "env"},
    "venv": {"core", "knowledge", "image"},
    "check": {"core", "knowledge"},
    "job": {"core", "knowledge", "activation", "venv", "check"},
    "container": {"core", "knowledge", "activation", "job", "venv"},
    "doctor": {"core", "knowledge", "activation", "venv", "check", "job"},
    "trial": {"core", "knowledge", "image", "job", "doctor"},
}
"""The packages that each package may import from."""


@pytest.mark.parametrize("package", KNOWS)
def test_a_package_imports_only_allowed_packages(package: str) -> None:
    paths = (ROOT / "uenvtool" / package).rglob("*.py")
    forbidden = {
        f"{path.name} imports {name}"
        for path in paths
        for name in imports_of(path)
        if name.startswith("uenvtool.") and name.split(".")[1] not in KNOWS[package] | {package}
    }
    assert forbidden == set()


DOCTOR_IMPORTS = {
    "uenvtool.activation.activate",
    "uenvtool.check.submission",
    "uenvtool.job.attach",
    "uenvtool.venv.health",
}
"""The modules that doctor imports from packages other than core and knowledge, one per package."""


def test_doctor_imports_one_module_of_each_other_package() -> None:
    packages = tuple(f"uenvtool.{package}." for package in KNOWS["doctor"] - {"core", "knowledge"})
    imported = {name for path in (ROOT / "uenvtool" / "doctor").rglob("*.py") for name in imports_of(path)}

    assert {name for name in imported if name.startswith(packages)} == DOCTOR_IMPORTS


def test_every_package_is_in_the_table() -> None:
    assert {path.parent.name for path in (ROOT / "uenvtool").glob("*/__init__.py")} == set(KNOWS)


MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in SOURCES}


def modules_that(module: str) -> set[str]:
    """Return the project's modules that a module imports, including imports in functions and for type checkers."""
    found = set()
    for node in nodes_of(MODULES[module]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & MODULES.keys() or {node.module}
    return found & MODULES.keys() - {module}


def test_no_modules_import_each_other_in_a_circle() -> None:
    imported = {module: modules_that(module) for module in MODULES}

    def reached_from(module: str) -> set[str]:
        seen: set[str] = set()
        waiting = [module]
        while waiting:
            new = imported[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    assert [module for module in MODULES if module in reached_from(module)] == []


PARSERS = {"json.loads", "yaml.load", "yaml.compose", "tomlkit.parse", "YAML(typ='safe', pure=True).compose"}
LIMITS = {"limited", "_refusing_others"}
NOT_FOREIGN = {
    # Files of uenvtool.
    *("schema.schema", "secrets.table", "sbatch._table", "uv.failure", "compat.rules", "directory.yaml_data"),
    # The output of programs that uenvtool starts.
    *("hang._ranks_in", "runner.answer_of", "resolve.sorted_lock", "base.label", "base.marked", "attach.ranks_of"),
    *("sbom._data", "record.data"),
    # Texts whose reader calls the function in a limit, or has parsed the text in a limit before.
    *("record._checked", "store._filtered_database", "description._spack_variables"),
    *("document.__init__", "pylock._document", "pylock.with_absolute_paths", "pylock.stripped", "edf._syntax"),
    "pylock.restrict_to_hashes",
}
"""The functions that parse a text outside of a limit, each with its module."""


def unlimited(path: Path) -> set[str]:
    """Return the functions of a module that parse a text outside of a `with limited(...)` block."""
    found = set()

    def search(node: ast.AST, function: str) -> None:
        if (
            isinstance(node, ast.With)
            and {ast.unparse(getattr(item.context_expr, "func", item)) for item in node.items} & LIMITS
        ):
            return
        if isinstance(node, ast.FunctionDef):
            function = node.name
        if isinstance(node, ast.Call) and ast.unparse(node.func) in PARSERS:
            found.add(f"{path.stem}.{function}")
        for child in ast.iter_child_nodes(node):
            search(child, function)

    search(ast.parse(text_of(path)), "")
    return found


def test_every_reader_of_foreign_data_has_a_limit() -> None:
    ours = [path for path in SOURCES if path.parent.name != "scripts"]  # those run in processes with limits
    assert set().union(*map(unlimited, ours)) == NOT_FOREIGN
