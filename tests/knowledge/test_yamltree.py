"""Test reading YAML with positions, and rejecting surprising YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from uenvtool.core.errors import BadInput
from uenvtool.knowledge.yamltree import MAX_BYTES, parse

ROOT = Path(__file__).parents[2]


def test_values_carry_their_positions() -> None:
    tree = parse(b"a: 1\nb:\n- x\n- y: z\n", "f.yaml")

    assert str(tree.at(("b", 1, "y")).position) == "f.yaml:4:6"
    assert str(tree.at(("b", 1, "y")).key) == "f.yaml:4:3"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3.10", "3.10"),
        ("2024-09-26", "2024-09-26"),
        ("1.0e5", "1.0e5"),
        ("no", "no"),
        ("012", "012"),
        ("12", 12),
        ("true", True),
        ("null", None),
        ("'true'", "true"),
        ("'12'", "12"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
    ],
)
def test_a_scalar_keeps_its_text_where_yaml_would_change_it(text: str, value: object) -> None:
    assert parse(f"v: {text}\n".encode(), "f.yaml").plain() == {"v": value}


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1:", "'a' is already set at f.yaml:1:1"),
        ("a:\n\tb: 1\n", "f.yaml:2:1:", "spaces"),
        ("a: &x [1]\nb: *x\n", "f.yaml:1:4:", "anchors and aliases"),
        ("a: !!python/object:os.system x\n", "f.yaml:1:4:", "tag"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2:", "not valid YAML"),
        ("- a\n", "f.yaml:1:1:", "name: value"),
        ("", "f.yaml:1:1:", "empty"),
        ("? [a]\n: b\n", "f.yaml:1:3:", "the key of a mapping must be text"),
        ("a: 1\n---\nb: 2\n", "f.yaml:", "a second YAML document starts here"),
        ("a: 1\nb: 'text\nc: 3\n", "f.yaml:2:4:", "not valid YAML: this quote is never closed"),
        ('a: 1\nb: "text\nc: 3\n', "f.yaml:2:4:", "not valid YAML: this quote is never closed"),
        (b"\xef\xbb\xbfa: 1\n", "f.yaml:1:1:", "starts with a byte order mark"),
        (b"ok: 1\nb: \xc3\xa4\xff\n", "f.yaml:2:5:", "byte 0xff is not UTF-8"),
        (b"a: " + b"x" * 5 * MAX_BYTES, "f.yaml:", "larger than 2 MB"),
    ],
)
def test_what_could_surprise_is_refused_with_its_position(text: str | bytes, where: str, what: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(text.encode() if isinstance(text, str) else text, "f.yaml")

    said = str(caught.value)
    assert said.startswith(where)
    assert what in said
    assert "\nhint: " in said


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        parse(data, "f.yaml")
    except BadInput as error:
        places = [problem.position for problem in error.problems]
    else:
        places = []
    assert all(place and place.line >= 1 and place.column >= 1 for place in places)


@pytest.mark.parametrize("path", sorted((ROOT / "knowledge").rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_yaml_reader_accepts_our_files(path: Path) -> None:
    """libyaml accepts plain scalars with `?` in flow mappings, which PyYAML's own parser rejects."""
    for _ in yaml.parse(path.read_text(encoding="utf-8"), yaml.SafeLoader):
        pass
