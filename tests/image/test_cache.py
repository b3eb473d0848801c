"""Places that keep images under the hash of their inputs: what is fetched from them, passed over, and put there."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.kept_images import ENVIRONMENT, NAME, inputs, packed_image, spack_that_only_has_a_version
from tests.support.needs import needs
from uenvtool.core.errors import BadInput
from uenvtool.core.result import silent
from uenvtool.image.cache import Folder, Key, Registry, fetch, is_made_of, named_cache, store

pytestmark = needs("mksquashfs", "unsquashfs")
KEY = Key(name="hello", inputs="0123456789ab")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def kept(place: Path) -> Folder:
    """A folder that has the image of KEY."""
    (place / "kept").mkdir()
    packed_image(place / "kept" / KEY.file_name, KEY.inputs)
    return Folder(place / "kept")


def test_the_first_place_that_has_the_image_gives_it(place: Path, kept: Folder) -> None:
    (place / "empty").mkdir()
    target = place / "new" / "image.squashfs"

    fetched = fetch([Folder(place / "empty"), kept], KEY, target, silent)

    assert fetched.cache == str(place / "kept")
    assert fetched.warnings == ()
    assert target.read_bytes() == (kept.path / KEY.file_name).read_bytes()
    assert os.listdir(target.parent) == ["image.squashfs"]


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (b"no image", "not a squashfs image"),
        (None, "is not an image of these inputs"),
    ],
)
def test_what_is_not_an_image_of_these_inputs_is_ignored(place: Path, content: bytes | None, warning: str) -> None:
    (place / "wrong").mkdir()
    wrong = packed_image(place / "wrong" / KEY.file_name, "f" * 12)
    if content is not None:
        wrong.write_bytes(content)

    fetched = fetch([Folder(place / "absent"), Folder(place / "wrong")], KEY, place / "image.squashfs", silent)

    assert fetched.cache == ""
    assert f"{place}/absent is ignored: there is no such folder" in fetched.warnings[0]
    assert f"{place}/wrong is ignored" in fetched.warnings[1]
    assert warning in fetched.warnings[1]
    assert sorted(os.listdir(place)) == ["wrong"]


def test_an_image_cut_short_is_ignored_and_the_old_one_stays(place: Path, kept: Folder) -> None:
    image = kept.path / KEY.file_name
    image.write_bytes(image.read_bytes()[:-5000])
    target = packed_image(place / "image.squashfs", "f" * 12)
    before = target.read_bytes()

    fetched = fetch([kept], KEY, target, silent)

    assert fetched.cache == ""
    assert "cut short" in fetched.warnings[0]
    assert target.read_bytes() == before


def test_the_mark_comes_along_and_one_of_another_image_is_refused(place: Path, kept: Folder) -> None:
    image = kept.path / KEY.file_name
    marker = image.with_name(f"{image.name}.tested")
    target = place / "image.squashfs"
    marker.write_text(f"{'a' * 64}  {image.name}\n")

    wrong = fetch([kept], KEY, target, silent)
    marker.write_text(f"{sha256(image)}  {image.name}\n")
    right = fetch([kept], KEY, target, silent)

    assert "is not the image that was marked as tested" in wrong.warnings[0]
    assert right.cache
    assert (place / "image.squashfs.tested").read_text() == f"{sha256(image)}  image.squashfs\n"


def test_a_place_keeps_the_first_image_of_the_same_inputs(place: Path, kept: Folder) -> None:
    before = sha256(kept.path / KEY.file_name)
    other = packed_image(place / KEY.file_name, KEY.inputs)

    told = list(store([kept, Folder(place / "deep" / "new")], other, KEY, silent))

    assert told == [f"{kept.path} has another image of these inputs, which stays: another run built it"]
    assert sha256(kept.path / KEY.file_name) == before
    assert sha256(place / "deep" / "new" / KEY.file_name) == sha256(other)


@pytest.mark.parametrize(
    "text", ["", "https://site/x", "oci://", "oci://host/path", "oci://a.b/Big", "oci://a.b/x:tag", "oci://a.b//x"]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is no place that keeps images"):
        named_cache(text)


def test_a_name_becomes_one_that_registries_take() -> None:
    registry = Registry("a.b/c")

    names = [registry._reference(Key(name=name, inputs="0")) for name in ("pytorch-2.6", "My Env", "a__B", "é")]

    assert names == ["a.b/c/pytorch-2.6:0", "a.b/c/my-env:0", "a.b/c/a-b:0", "a.b/c/environment:0"]


@pytest.fixture
def words(place: Path) -> list[str | Path]:
    """The words that build an image with a Spack that fails: what must not be built is fetched."""
    spack = spack_that_only_has_a_version(place / "spack")
    return ["image", "build", ENVIRONMENT, "--spack", spack, "--store", place / "store", "-o", place / "image.squashfs"]


def test_the_command_takes_the_image_and_builds_nothing(cli: Cli, place: Path, words: list[str | Path]) -> None:
    (place / "kept").mkdir()
    image = packed_image(place / "kept" / f"{NAME}-{inputs()}.squashfs", inputs())

    answer = cli(*words, "--tag", "hash", "--images", place / "kept", "--push-image", place / "second", "--json")
    again = cli(*words, "--tag", "hash", "--images", place / "kept", "--json")

    assert answer.code == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["taken_from"] == str(place / "kept")
    assert f"from {place}/kept; nothing was built; not marked as tested" in answer.stderr
    assert is_made_of(place / "image.squashfs", inputs())
    assert (place / "second" / image.name).read_bytes() == image.read_bytes()
    assert json.loads(again.stdout)["taken_from"] is None
    assert not (place / "store").exists()


def test_an_image_that_a_place_has_needs_no_spack(cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "kept").mkdir()
    (place / "empty").mkdir()
    packed_image(place / "kept" / f"{NAME}-{inputs()}.squashfs", inputs())
    monkeypatch.delenv("SPACK_ROOT", raising=False)
    words = ["image", "build", ENVIRONMENT, "--store", place / "store", "--tag", "hash", "-o", place / "image.squashfs"]

    without = cli(*words, "--images", place / "empty")
    fetched = cli(*words, "--images", place / "kept", "--json")

    assert without.code == 3
    assert (
        "Spack is not here\nhint: get it, and go on:\n  git clone --depth 1 --branch v1.1.0 https://" in without.stderr
    )
    assert f"uenvtool image build {ENVIRONMENT} -o {place}/image.squashfs --spack ~/spack" in without.stderr
    assert json.loads(fetched.stdout)["taken_from"] == str(place / "kept")
    assert not (place / "store").exists()


def test_without_spack_a_recipe_that_is_not_resolved_says_how_to_get_it(cli: Cli, place: Path) -> None:
    answer = cli("image", "build", "hello", "--system", "local", "-o", place / "image.squashfs")

    assert answer.code == 3
    assert "not resolved: Spack is not here" in answer.stderr
    assert "git clone" in answer.stderr


def test_the_mark_of_another_image_marks_none(cli: Cli, place: Path, words: list[str | Path]) -> None:
    image = packed_image(place / "image.squashfs", inputs())
    assert cli("image", "mark-tested", image, "--json").code == 0
    marked = json.loads(cli(*words, "--tag", "hash", "--json").stdout)["tested"]
    image.unlink()
    packed_image(image, inputs())

    again = cli(*words, "--tag", "hash", "--json")

    assert marked
    assert json.loads(again.stdout)["tested"] is False
    assert "not marked as tested" in again.stderr


def test_without_the_hash_in_its_name_no_place_is_asked(cli: Cli, place: Path, words: list[str | Path]) -> None:
    for option in ("--images", "--push-image"):
        answer = cli(*words, option, place)

        assert answer.code == 2
        assert "add --tag hash" in answer.stderr


def test_without_skopeo_it_says_how_to_get_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    answer = cli("image", "mark-tested", packed_image_of_no_inputs(), "--push-image", "oci://registry.example.org/x")

    assert answer.code == 3
    assert "apt install skopeo" in answer.stderr


def packed_image_of_no_inputs() -> Path:
    """The start of an image: nothing but its first bytes is looked at."""
    path = Path("image.squashfs")
    head = bytearray(96)
    head[:4], head[28:32], head[40:48] = b"hsqs", b"\x04\0\0\0", (96).to_bytes(8, "little")
    path.write_bytes(head)
    return path


def test_a_mark_is_put_into_places_with_its_image(cli: Cli, place: Path) -> None:
    image = packed_image(place / KEY.file_name, KEY.inputs)
    unnamed = packed_image(place / "other.squashfs", KEY.inputs)

    marked = cli("image", "mark-tested", image, "--push-image", place / "kept")
    refused = cli("image", "mark-tested", unnamed, "--push-image", place / "kept")

    assert marked.code == 0, marked.stderr
    assert (place / "kept" / f"{KEY.file_name}.tested").read_text() == f"{sha256(image)}  {KEY.file_name}\n"
    assert refused.code == 2
    assert "--tag hash" in refused.stderr
    assert not (place / "other.squashfs.tested").exists()
