"""Trees that are kept beside the program spare the parser, and stand for exactly the text that they were made of."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from uenvtool.knowledge import source
from uenvtool.knowledge.kinds import KINDS
from uenvtool.knowledge.recognise import signs_of
from uenvtool.knowledge.source import Node, compiled, parse

TEXT = b"a: 1\nb:\n- x\n- y: 'z'\nc: {d: null, e: true}\n"
SHIPPED = sorted({path for kind in KINDS for path in (ROOT / kind.shipped).rglob("*.yaml")})


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the trees, empty; without one of its files the parser is asked, which is not there."""
    folder = tmp_path / "compiled"
    folder.mkdir()
    monkeypatch.setattr(source, "COMPILED", folder)
    parse.cache_clear()
    return folder


def keep(folder: Path, data: bytes) -> Path:
    name, content = compiled(data)
    (folder / name).write_text(content)
    return folder / name


def as_nodes(node: Node) -> object:
    """A tree with all that a node says, its type and those of its positions too."""
    value = node.value
    if isinstance(value, dict):
        value = {name: as_nodes(child) for name, child in value.items()}
    elif isinstance(value, list):
        value = [as_nodes(child) for child in value]
    return type(node), type(value), value, repr(node.position), repr(node.key)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_tree_that_is_kept_is_the_one_that_the_parser_gives(
    path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = path.read_bytes()
    parsed = parse(data, "f.yaml")
    keep(kept, data)
    parse.cache_clear()
    monkeypatch.setitem(sys.modules, "yaml", None)  # an import of it fails

    assert as_nodes(parse(data, "f.yaml")) == as_nodes(parsed)


def test_a_changed_file_is_read_anew_although_a_tree_of_its_name_is_there(kept: Path) -> None:
    old = keep(kept, TEXT)
    changed = TEXT.replace(b"x", b"w")
    old.rename(kept / compiled(changed)[0])  # as if both texts had one checksum

    assert parse(changed, "f.yaml").at(("b", 0)).value == "w"


def test_a_tree_of_another_reader_does_not_count(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_this_reader", lambda: 1)
    text, tree = json.loads(compiled(TEXT)[1])
    tree[0]["a"][0] = "of another reader"
    (kept / compiled(TEXT)[0]).write_text(json.dumps([text, tree]))
    assert parse(TEXT, "f.yaml").plain()["a"] == "of another reader"
    parse.cache_clear()
    monkeypatch.undo()
    monkeypatch.setattr(source, "COMPILED", kept)

    assert parse(TEXT, "f.yaml").plain()["a"] == 1


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"{", b"null", b"1", b"[]", b'["a: 1"]', b"\xff", b'[1, 2]', b"[" * 100_000,
        json.dumps([TEXT.decode(), None]).encode(),
        json.dumps([TEXT.decode(), [{"a": 1}, 1, 1]]).encode(),
        json.dumps([TEXT.decode(), [{"a": []}, 1, 1]]).encode(),
    ],
    ids=lambda damage: repr(damage[:40]),
)  # fmt: skip
def test_a_damaged_file_is_passed_over(kept: Path, damage: bytes) -> None:
    keep(kept, TEXT).write_bytes(damage)

    assert parse(TEXT, "f.yaml").plain() == {"a": 1, "b": ["x", {"y": "z"}], "c": {"d": None, "e": True}}


def test_a_file_cut_anywhere_is_passed_over(kept: Path) -> None:
    file = keep(kept, TEXT)
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        parse.cache_clear()
        assert parse(TEXT, "f.yaml").plain()["a"] == 1


def test_what_cannot_be_read_is_passed_over_and_reading_keeps_nothing(kept: Path) -> None:
    (kept / compiled(TEXT)[0]).mkdir()

    assert parse(TEXT, "f.yaml").plain()["a"] == 1
    assert [path.is_dir() for path in kept.iterdir()] == [True]


def test_what_the_build_keeps_is_what_ships_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    (tmp_path / "00000000.json").write_text("of a text that is no more")

    importlib.import_module("trees").write(tmp_path)

    names = {path.name for path in tmp_path.iterdir()}
    texts = [path.read_bytes() for path in SHIPPED]
    signs = filter(None, map(signs_of, texts))
    assert {compiled(text)[0] for text in (*texts, *signs)} <= names
    assert "00000000.json" not in names
