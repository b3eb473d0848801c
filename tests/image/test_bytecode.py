"""Test that bytecode is reproducible, matches its source, and exists only for Python files."""

from __future__ import annotations

import importlib.util
import marshal
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import program
from tests.support.pythons import pythons
from tests.support.samples import sampled
from uenvtool.core.errors import ToolFailed
from uenvtool.image import bytecode

TRAPS = {
    "sets.py": 'A = "x" in {"other_name", "a_name"}\ndef f(y):\n    return y in {"a_name", "other_name"}\n',
    "characters.py": 'A = ["{", "}", "\u00e4", "|"]\ndef f():\n    return "{" + "\u00e4"\n',
    "numbers.py": "A = (1, 1.0, True, 0.0, -0.0, 10**30)\nB = {1: 2}\n",
    "names.py": "def f(a_name, *, other_name=None):\n    return dict(a_name=a_name, other_name=other_name)\n",
    "package/__init__.py": '"""A docstring."""\n',
    "package/inner.py": "import os\nx = 1 if {1, 2, 3} else {True}\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "one"
    for name, text in TRAPS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def gathered(python: Path, folder: Path, names: dict[bytes, int], scratch: Path) -> dict[bytes, bytes]:
    scratch.mkdir()
    return {name: bytes(content) for name, content in bytecode.gather([python], folder, names, scratch).items()}


@pytest.mark.parametrize("version", sampled(pythons()))
def test_bytecode_does_not_depend_on_what_was_compiled_before_it(version: str, tmp_path: Path) -> None:
    python = pythons()[version]
    folder = tmp_path / "json and friends"
    where = subprocess.run(
        [python, "-c", "import json; print(json.__path__[0])"], capture_output=True, text=True, check=True
    )
    library = Path(where.stdout.strip()).parent
    for name in ("json", "email", "html", "asyncio"):
        shutil.copytree(library / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in TRAPS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    names = bytecode.sources(folder, folder)

    forwards = gathered(python, folder, names, tmp_path / "1")
    alone = {}
    for number, name in enumerate([*names][::9]):
        alone.update(gathered(python, folder, {name: 1}, tmp_path / f"alone{number}"))

    assert len(forwards) == len(names) > 50
    assert alone == {name: forwards[name] for name in alone}


def test_the_number_of_workers_does_not_matter(tree: Path, tmp_path: Path) -> None:
    for number in range(2 * bytecode.FEWEST_FILES):
        (tree / f"m{number}.py").write_text(f"x = {number}\n")
    python, names, processors = Path(sys.executable), bytecode.sources(tree, tree), os.sched_getaffinity(0)
    several = gathered(python, tree, names, tmp_path / "a")

    os.sched_setaffinity(0, [min(processors)])
    try:
        one = gathered(python, tree, dict(reversed(names.items())), tmp_path / "b")
    finally:
        os.sched_setaffinity(0, processors)

    assert one == several


def test_two_folders_give_the_same_bytes_and_neither_is_named(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "another folder"
    shutil.copytree(tree, other)

    for folder in (tree, other):
        bytecode.compile_tree(Path(sys.executable), folder)
        for path in folder.rglob("*.pyc"):
            path.write_bytes(path.read_bytes()[16:])  # the header contains the time of the source

    ours = {path.relative_to(tree): path.read_bytes() for path in tree.rglob("*.pyc")}
    assert {path.relative_to(other): path.read_bytes() for path in other.rglob("*.pyc")} == ours
    assert len(ours) == len(TRAPS)
    assert not any(os.fsencode(tmp_path) in content for content in ours.values())


def test_a_changed_source_is_seen_where_bytecode_is_checked_and_not_where_it_is_not(tree: Path, tmp_path: Path) -> None:
    def said(checked: bool) -> str:
        (tree / "m.py").write_text("x = 'old'\n")
        if checked:
            bytecode.compile_tree(Path(sys.executable), tree)
        else:
            for name, content in gathered(Path(sys.executable), tree, {b"m.py": 1}, tmp_path / "scratch").items():
                (tree / os.fsdecode(name)).write_bytes(content)
        (tree / "m.py").write_text("x = 'new one'\n")
        words = [sys.executable, "-B", "-c", "import m; print(m.x)"]
        return subprocess.run(words, cwd=tree, capture_output=True, text=True, check=True).stdout.strip()

    assert (said(True), said(False)) == ("new one", "old")


def test_checked_bytecode_is_turned_into_unchecked_without_compiling_again(tree: Path, tmp_path: Path) -> None:
    names = bytecode.sources(tree, tree)
    fresh = gathered(Path(sys.executable), tree, names, tmp_path / "a")
    bytecode.compile_tree(Path(sys.executable), tree)
    path = Path(importlib.util.cache_from_source(str(tree / "sets.py")))
    marked = path.read_bytes() + b"used again"
    path.write_bytes(marked)

    again = gathered(Path(sys.executable), tree, names, tmp_path / "b")

    name = os.fsencode(path.relative_to(tree))
    assert again.pop(name) == fresh.pop(name) + b"used again"
    assert again == fresh


def test_stale_and_foreign_bytecode_is_not_used(tree: Path, tmp_path: Path) -> None:
    names = bytecode.sources(tree, tree)
    bytecode.compile_tree(Path(sys.executable), tree)
    (tree / "sets.py").write_text("changed = True\n")
    subprocess.run([sys.executable, "-m", "compileall", "-qf", tree / "package"], check=True)

    found = gathered(Path(sys.executable), tree, names, tmp_path / "a")

    tag = os.fsencode(sys.implementation.cache_tag or "")
    assert b"changed" in found[b"__pycache__/sets." + tag + b".pyc"]
    assert os.fsencode(tree) not in found[b"package/__pycache__/inner." + tag + b".pyc"]


def test_bytecode_of_the_current_folder_is_not_taken_for_the_trees(tree: Path, place: Path) -> None:
    """That folder may be somebody else's."""
    shutil.copytree(tree, place, dirs_exist_ok=True)
    bytecode.compile_tree(Path(sys.executable), place)
    for path in place.rglob("*.pyc"):
        path.write_bytes(path.read_bytes() + b"of others")

    bytecode.compile_tree(Path(sys.executable), tree)

    found = [path.read_bytes().endswith(b"of others") for path in tree.rglob("*.pyc")]
    assert found == [False] * len(TRAPS)


def test_what_is_no_python_is_left_alone(tree: Path) -> None:
    (tree / "template.py").write_text("def {{ name }}():\n")
    (tree / "nul.py").write_bytes(b"x = 1\0")
    (tree / "latin.py").write_bytes(b"x = '\xe4'\n")
    (tree / "odd name \u00e9\n'.py").write_text("x = 1\n")
    (tree / "gone.py").symlink_to("nowhere.py")

    bytecode.compile_tree(Path(sys.executable), tree)

    assert len(list(tree.rglob("*.pyc"))) == len(TRAPS) + 1


def test_a_python_that_does_not_run_and_a_folder_that_cannot_be_written_are_told(tree: Path) -> None:
    for said, hint in (("no base here", "load the"), ("Disk quota exceeded", "nothing was changed; your quota on")):
        broken = program(tree / "python", f"echo '{said}' >&2\nexit 127")
        with pytest.raises(ToolFailed, match=f"{said}\nhint: {hint}"):
            bytecode.compile_tree(broken, tree)

    (tree / "__pycache__").write_text("a file in the way")
    with pytest.raises(ToolFailed, match="cannot compile"):
        bytecode.compile_tree(Path(sys.executable), tree)


def test_unchecked_bytecode_is_what_python_itself_compiles_with_the_hash_of_its_source(
    tree: Path, tmp_path: Path
) -> None:
    found = gathered(Path(sys.executable), tree, bytecode.sources(tree, tree), tmp_path / "scratch")

    for name, text in TRAPS.items():
        cached = Path(importlib.util.cache_from_source(str(tree / name))).relative_to(tree)
        content = found[os.fsencode(cached)]
        ours = marshal.loads(content[16:])
        assert content[:4] == importlib.util.MAGIC_NUMBER
        assert content[4:16] == b"\1\0\0\0" + importlib.util.source_hash((tree / name).read_bytes())
        assert ours == compile(text, ours.co_filename, "exec", dont_inherit=True)
