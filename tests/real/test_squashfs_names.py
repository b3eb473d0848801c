"""Test names and links of every kind with the real mksquashfs and unsquashfs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.needs import needs
from tests.support.overlays import unpack
from uenvtool.core.errors import BadInput
from uenvtool.image.pack import pack
from uenvtool.image.programs import find_programs
from uenvtool.image.tree import Tree, walk

pytestmark = [pytest.mark.real, pytest.mark.slow, *needs("mksquashfs")]
KEPT, REPLACED, LEFT_OUT, ADDED, LINK = "kept", "replaced", "left out", "added", "link"
MARK = b"x\n#\n# START OF DATA - DO NOT MODIFY\n#\n"
COMMAND = b"x\ny f 755 0 0 touch owned"
NASTY = st.sampled_from([*b" \t\n\r\v\f\"'\\#*?[]!@+()-=.~$`|;:ax\xe4\xff\x85\xa0", *range(1, 32)])
PARTS = st.one_of(
    st.lists(NASTY, min_size=1, max_size=6).map(bytes),
    st.sampled_from([b"... x", b"#", b" ", b"\\", b"-e", b"@x", b"a D 1 755 0 0", COMMAND.replace(b"/", b"_"), b"*"]),
).filter(lambda part: part not in (b".", b"..") and not set(part) & set(b"/\0"))
FOLDERS = st.sampled_from([b"", b"D/", b"D \\/", b"D\n/", b"... D/", b"#D/"])
NAMES = st.tuples(FOLDERS, PARTS).map(b"".join)
ROLES = st.sampled_from([KEPT, KEPT, REPLACED, LEFT_OUT, ADDED, LINK])


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(NAMES, ROLES, max_size=6), st.sampled_from([b"x", MARK, COMMAND, b"1 2 3", b"\\", b" a "]))
@example({COMMAND: ADDED}, b"x")
@example({b"D\n/y f 755 0 0 touch owned": REPLACED}, b"x")
@example({b"a": LINK, b"b": ADDED}, MARK)
@example({b"*x": REPLACED, b"yx": KEPT, b"... y": LEFT_OUT, b"y": KEPT}, b"x")
@example({b" ": ADDED, b"\r": REPLACED, b"a\r": LEFT_OUT, b"#": REPLACED}, b"x")
def test_a_tree_comes_through_whole_or_is_refused(roles: dict[bytes, str], target: bytes) -> None:
    """`pack` reads every name and byte back itself; what `unpack` makes of it is the second witness."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, scratch = Path(temporary, "tree"), Path(temporary, "scratch")
        scratch.mkdir()
        tree = made(folder, roles, target)
        if any(b"\n" in name and role not in (KEPT, LINK) for name, role in roles.items()):
            with pytest.raises(BadInput, match="contains a line break"):
                pack(find_programs(), tree, Path(temporary, "image"), scratch)
            return
        pack(find_programs(), tree, Path(temporary, "image"), scratch)
        assert unpacked(Path(temporary)) == {name: (entry.kind, entry.target) for name, entry in tree.expected.items()}
        assert sorted(os.listdir(temporary)) == ["image", "out", "scratch", "tree"]
    assert not os.path.lexists("owned")


def made(folder: Path, roles: dict[bytes, str], target: bytes) -> Tree:
    """A folder with what is kept, replaced and left out of it, and what is added to it."""
    root = os.fsencode(folder)
    os.mkdir(root)
    for name, role in roles.items():
        if role == ADDED:
            continue
        os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
        if role == LINK:
            os.symlink(target, os.path.join(root, name))
        else:
            with open(os.path.join(root, name), "wb") as stream:
                stream.write(b"old")
    left_out = {name for name, role in roles.items() if role == LEFT_OUT}
    added = {name: b"new" for name, role in roles.items() if role in (ADDED, REPLACED)}
    return Tree(folder=folder, entries=walk(folder, left_out=left_out), added=added, left_out=left_out)


def unpacked(place: Path) -> dict[bytes, tuple[str, bytes]]:
    unpack(place / "image", place / "out")
    return {name: (entry.kind, entry.target) for name, entry in walk(place / "out").items()}
