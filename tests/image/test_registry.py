"""What is pushed for an image: as oras lays it out for the uenv client."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uenvtool.core.errors import BadInput
from uenvtool.image.registry import NOT_THERE, artifacts_of, image_sha256

NAMES = st.from_regex(r"meta/([a-z]{1,8}/){0,3}[a-z]{1,8}\.json", fullmatch=True)
SUM = "0123456789abcdef" * 4


@given(st.dictionaries(NAMES, st.binary(max_size=100)), st.integers(0, 1 << 40))
def test_all_that_is_named_is_there_and_the_metadata_belongs_to_the_image(
    contents: dict[str, bytes], size: int
) -> None:
    found = of_image, of_metadata, blobs = artifacts_of(SUM, size, contents)

    image, meta = json.loads(of_image), json.loads(of_metadata)
    assert (image["artifactType"], meta["artifactType"]) == ("application/x-squashfs", "uenv/meta")
    assert image["layers"][0]["annotations"] == {"org.opencontainers.image.title": "store.squashfs"}
    assert image_sha256(of_image) == SUM
    assert meta["subject"]["digest"] == digest(of_image.encode())
    for named in (image["config"], meta["config"], *meta["layers"], meta["subject"]):
        content = blobs[named["digest"].removeprefix("sha256:")]
        assert (digest(content), len(content)) == (named["digest"], named["size"])
    unpacked = gzip.decompress(blobs[meta["layers"][0]["digest"].removeprefix("sha256:")])
    assert meta["layers"][0]["annotations"]["io.deis.oras.content.digest"] == digest(unpacked)
    assert files_of(unpacked) == contents
    assert artifacts_of(SUM, size, contents) == found


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def files_of(archive: bytes) -> dict[str, Any]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        members = [member for member in opened if member.isfile()]
        return {member.name: (opened.extractfile(member) or io.BytesIO()).read() for member in members}


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "{}",
        '{"layers": []}',
        '{"layers": [{"digest": "sha256:../x"}]}',
        '{"layers": [1]}',
        '{"layers": [{},{}]}',
    ],
)
def test_a_manifest_of_something_else_is_refused(manifest: str) -> None:
    with pytest.raises(BadInput, match="not an image that was pushed as one file"):
        image_sha256(manifest)


@pytest.mark.parametrize(
    ("answer", "is_there"),
    [
        ("reading manifest v1 in r/pytorch: manifest unknown", False),
        ("reading manifest v1 in r/pytorch: name unknown: repository name not known to registry", False),
        ("artifact pytorch:v1 not found", False),
        ("unknown: repository r/pytorch not found", False),
        ('error getting credentials - err: exec: "docker-credential-nope": executable file not found in $PATH', None),
        ("error getting credentials - err: credentials not found in native keychain", None),
    ],
)
def test_only_a_registry_says_that_it_has_no_such_image(answer: str, is_there: bool | None) -> None:
    assert bool(NOT_THERE.search(answer)) is (is_there is False)
