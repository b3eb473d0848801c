"""A real registry that keeps images: put there, found, fetched, marked as tested; one that does not answer."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.support.kept_images import ENVIRONMENT, NAME, inputs, packed_image, spack_that_only_has_a_version
from tests.support.needs import needs
from tests.support.registry import running_registry
from uenvtool.core.result import silent
from uenvtool.image.cache import Key, Registry, fetch, named_cache, store

pytestmark = [pytest.mark.real, *needs("mksquashfs", "unsquashfs", "skopeo", "docker-registry")]
KEY = Key(name="hello", inputs="0123456789ab")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The path of a registry under which images are kept."""
    with running_registry(tmp_path / "registry") as host:
        yield f"{host}/deploy/local/any"


def manifest_of(reference: str) -> dict[str, Any]:
    words = ["skopeo", "inspect", "--raw", f"docker://{reference}"]
    data: dict[str, Any] = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    return data


def test_an_image_is_put_there_and_taken_with_its_mark(place: Path, address: str, cli: Cli) -> None:
    registry = named_cache(f"oci://{address}/")
    image = packed_image(place / KEY.file_name, KEY.inputs, {"meta/recipe/spack.lock": "{}\n"})
    sha256 = hashlib.sha256(image.read_bytes()).hexdigest()

    before = fetch([registry], KEY, place / "early.squashfs", silent)
    told = list(store([registry], image, KEY, silent))
    untested = fetch([registry], KEY, place / "untested.squashfs", silent)
    marked = cli("image", "mark-tested", image, "--push-image", f"oci://{address}")
    tested = fetch([registry], KEY, place / "tested.squashfs", silent)

    assert (before.cache, before.warnings, told) == ("", (), [])
    assert untested.cache == f"oci://{address}"
    assert not (place / "untested.squashfs.tested").exists()
    assert marked.code == 0, marked.stderr
    assert tested.warnings == ()
    assert (place / "tested.squashfs.tested").read_text() == f"{sha256}  tested.squashfs\n"
    assert (place / "tested.squashfs").read_bytes() == (place / "untested.squashfs").read_bytes() == image.read_bytes()


def test_it_lies_there_as_the_uenv_client_puts_it(place: Path, address: str) -> None:
    image = packed_image(place / KEY.file_name, KEY.inputs)

    list(store([Registry(address)], image, KEY, silent))

    found = manifest_of(f"{address}/hello:{KEY.inputs}")
    attached = manifest_of(f"{address}/hello:{KEY.inputs}-meta")
    digest = (
        subprocess.run(
            ["skopeo", "manifest-digest", "/dev/stdin"],
            input=json.dumps(found, separators=(",", ":")).encode(),
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .strip()
    )
    assert found["artifactType"] == "application/x-squashfs"
    assert found["layers"][0]["annotations"]["org.opencontainers.image.title"] == "store.squashfs"
    assert attached["artifactType"] == "uenv/meta"
    assert attached["subject"]["digest"] == digest


def test_another_image_of_the_same_inputs_does_not_replace_it(place: Path, address: str) -> None:
    first, second = (packed_image(place / name, KEY.inputs) for name in ("first.squashfs", "second.squashfs"))
    list(store([Registry(address)], first, KEY, silent))

    told = list(store([Registry(address)], second, KEY, silent))
    fetch([Registry(address)], KEY, place / "fetched.squashfs", silent)

    assert told == [f"oci://{address} has another image of these inputs, which stays: another run built it"]
    assert (place / "fetched.squashfs").read_bytes() == first.read_bytes()


def test_an_image_of_other_inputs_under_that_name_is_ignored(place: Path, address: str) -> None:
    list(store([Registry(address)], packed_image(place / "x.squashfs", "f" * 12), KEY, silent))

    fetched = fetch([Registry(address)], KEY, place / "fetched.squashfs", silent)

    assert fetched.cache == ""
    assert "is not an image of these inputs" in fetched.warnings[0]
    assert not (place / "fetched.squashfs").exists()


def test_the_command_takes_it_although_another_registry_does_not_answer(place: Path, address: str, cli: Cli) -> None:
    key = Key(name=NAME, inputs=inputs())
    list(store([Registry(address)], packed_image(place / "x.squashfs", key.inputs), key, silent))
    spack = spack_that_only_has_a_version(place / "spack")
    options = ["--spack", spack, "--store", place / "store", "-o", place / "y.squashfs", "--tag", "hash"]
    places = ["--images", "oci://localhost:1/nobody", "--images", f"oci://{address}"]

    answer = cli("image", "build", ENVIRONMENT, *options, *places, "--json")

    assert answer.code == 0, answer.stderr
    assert "warning: oci://localhost:1/nobody is ignored: skopeo failed: " in answer.stderr
    assert "connection refused" in answer.stderr
    assert json.loads(answer.stdout)["taken_from"] == f"oci://{address}"
    assert (place / "y.squashfs").read_bytes() == (place / "x.squashfs").read_bytes()
    assert "y.squashfs" in os.listdir(place)
