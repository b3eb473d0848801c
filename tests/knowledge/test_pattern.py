"""Test that patterns of knowledge files take linear time, and that errors in them have a position."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.conftest import ROOT
from uenvtool.knowledge.kinds import KINDS
from uenvtool.knowledge.pattern import MOST_CHARACTERS, Pattern
from uenvtool.knowledge.schema import schema_text
from uenvtool.knowledge.yamltree import Node, read

LONG = 30_000


def shipped() -> Iterator[tuple[str, str]]:
    """The place and the text of each pattern that ships, by the schemas' `format: regex`."""
    import json

    for kind in KINDS:
        schema = json.loads(schema_text(kind.name))
        for path in sorted((ROOT / kind.shipped).glob(kind.pattern)):
            for node in patterns(schema, schema, read(path, str(path))):
                yield str(node.position), str(node.value)


def patterns(whole: dict[str, Any], schema: dict[str, Any], node: Node) -> Iterator[Node]:
    """The nodes of a tree that the schema calls regular expressions."""
    if "$ref" in schema:
        yield from patterns(whole, whole["$defs"][schema["$ref"].rsplit("/", 1)[1]], node)
    if schema.get("format") == "regex" and isinstance(node.value, str):
        yield node
    for branch in schema.get("anyOf", []):
        yield from patterns(whole, branch, node)
    if isinstance(node.value, dict):
        for name, child in node.value.items():
            inner = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            if isinstance(inner, dict):
                yield from patterns(whole, inner, child)
    if isinstance(node.value, list) and "items" in schema:
        for child in node.value:
            yield from patterns(whole, schema["items"], child)


def test_every_pattern_that_ships_is_taken_and_none_needs_time() -> None:
    """Each one against long runs of its own characters: cubic ones took minutes here."""
    found = list(shipped())
    assert len(found) > 250

    for place, text in found:
        pattern = Pattern(text)
        assert pattern.compiled is not None, place
        literals = [word for word in re.findall(r"[A-Za-z0-9_/ .:-]+", re.sub(r"\\.", " ", text)) if word.strip()]
        for word in sorted(set(literals), key=len)[-2:]:
            pattern.search((word * LONG)[:LONG])  # a pattern that is not linear does not come to its end here


def test_a_byte_that_is_not_utf_8_is_in_nobodys_way() -> None:
    found = Pattern("(?P<word>x+)").search("\udcff\udcfexx")

    assert found is not None
    assert (found["word"], found.start()) == ("xx", 2)


def test_letters_of_words_are_those_of_ascii_and_other_ones_are_characters() -> None:
    assert Pattern(r"\w+").search("éa_9") is not None
    assert Pattern(r"^\w").search("éa") is None
    assert Pattern("^.b").search("éb") is not None


def test_a_text_is_cut() -> None:
    assert Pattern("b").search("a" * MOST_CHARACTERS + "b") is None
    assert Pattern("a+").fullmatch("a" * (MOST_CHARACTERS + 1)) is not None
