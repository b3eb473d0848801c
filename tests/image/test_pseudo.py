"""Test that pseudo files are read back as written, with any names."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.image import pseudo
from uenvtool.image.tree import Entry, Tree

NAMES = st.lists(
    st.binary(min_size=1, max_size=12).filter(lambda name: not set(name) & set(b"/\0\n")), min_size=1, max_size=3
).map(b"/".join)
MODES = st.sampled_from([0o644, 0o755])


@given(
    st.dictionaries(NAMES, st.tuples(MODES, st.binary(max_size=9)), max_size=6), st.integers(0, 1 << 40), st.booleans()
)
def test_what_is_written_is_read_as_it_was_meant(
    files: dict[bytes, tuple[int, bytes]], epoch: int, sparse_field: bool
) -> None:
    entries = {name: Entry(kind="f", mode=mode) for name, (mode, _) in files.items()}
    tree = Tree(folder=Path("/"), entries=entries, added={name: content for name, (_, content) in files.items()})

    text = b"".join(pseudo.file_definitions(tree, epoch, sparse_field=sparse_field))

    start, offset = 0, 0
    for name, (mode, content) in files.items():
        found = pseudo.read_definition(text, start)
        assert found is not None
        assert found.name == b"/" + name
        assert found.attributes == (b"R", b"%d" % epoch, b"%o" % mode, b"0", b"0")
        assert (found.size, found.offset) == (len(content), offset)
        assert text[found.end : found.end + 1] == b"\n"
        start, offset = found.end + 1, offset + len(content)
    assert start == len(text)


@given(NAMES)
def test_a_definition_is_one_line(name: bytes) -> None:
    assert b"\n" not in pseudo.quoted(name)
    assert b"\n" not in pseudo.pattern(name)


@pytest.mark.parametrize("quote", [pseudo.quoted, pseudo.pattern])
@pytest.mark.parametrize("name", [b"a\nb", b"x\n/y f 755 0 0 touch /tmp/owned", b"\n"])
def test_a_name_that_would_end_its_line_is_refused(name: bytes, quote: object) -> None:
    with pytest.raises(BadInput, match="contains a line break"):
        quote(name)  # type: ignore[operator]


def test_a_header_ends_after_its_lines_even_if_a_symlink_points_at_a_mark() -> None:
    header = b"/ D 7 755 0 0\nlink S 7 777 0 0 x\n" + pseudo.MARK
    stream = io.BytesIO(header + pseudo.MARK + b"content")

    assert pseudo.read_header(stream, [(b"link", b"x\n" + pseudo.MARK[:-1])]) == header
    assert stream.read() == b"content"


@pytest.mark.parametrize("text", [b"", b"/ D 7 755 0 0\n", b"/ D 7 755 0 0\n#\n# START OF", b"\0" * 100])
def test_a_stream_without_a_mark_is_an_error(text: bytes) -> None:
    with pytest.raises(ToolFailed, match="differ from the expected names"):
        pseudo.read_header(io.BytesIO(text), [])
