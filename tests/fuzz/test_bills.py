"""Test bills of materials of hostile locks: a valid bill that contains the text as data, or an input error."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hypothesis import given, settings
from hypothesis import strategies as st

from uenvtool.core.errors import BadInput
from uenvtool.image.sbom import sbom

ODD = ["", "\x1b[2J", "a\nb", "</script><script>", "../../etc", "pkg:generic/x@1?a=b#c", "\udcff", "\u202e", "%00", "-"]
TEXT = st.text(max_size=30) | st.sampled_from(ODD)
KEYS = st.sampled_from(["a" * 32, "b" * 32, "c" * 32])
SPECS = st.fixed_dictionaries(
    {
        "name": TEXT,
        "version": TEXT,
        "dependencies": st.lists(st.fixed_dictionaries({"hash": KEYS, "name": TEXT}), max_size=3),
    },
    optional={
        "arch": st.fixed_dictionaries({"target": st.one_of(TEXT, st.just({"name": "x"})), "platform_os": TEXT}),
        "external": st.one_of(st.none(), st.fixed_dictionaries({"path": TEXT})),
    },
)
LOCKS = st.fixed_dictionaries(
    {
        "roots": st.lists(st.fixed_dictionaries({"spec": TEXT, "hash": KEYS}), max_size=3),
        "concrete_specs": st.dictionaries(KEYS, SPECS, max_size=3),
        "spack": st.fixed_dictionaries({"version": TEXT}),
    }
)


@settings(max_examples=100)
@given(LOCKS)
@pytest.mark.slow
def test_a_hostile_lock_gives_a_valid_bill_or_is_refused(lock: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "spack.lock")
        path.write_text(json.dumps(lock))
        try:
            text = sbom(path).file
        except BadInput:
            return
    assert text is not None
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
