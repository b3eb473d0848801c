"""Stores and images that nobody used for long: which are shown, which are removed, and what stays."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Answer, Cli, Write
from tests.support.kept_images import packed_image
from tests.support.needs import needs
from uenvtool.core.errors import ToolFailed
from uenvtool.image import prune
from uenvtool.image.metadata import PACKED

pytestmark = needs("mksquashfs", "unsquashfs")
HASHES = ("0123456789ab", "123456789abc", "23456789abcd")


def aged(path: Path, days: int) -> Path:
    at = time.time() - days * 24 * 60 * 60
    for file in [path, *(path.rglob("*") if path.is_dir() else ())]:
        os.utime(file, (at, at))
    return path


def a_store(path: Path, days: int) -> Path:
    """A store as `image build` leaves it, of one package, that was last used so many days ago."""
    prefix = path / "linux-x86_64" / "zlib-1-abc"
    for folder in (".uenvtool-install/environment", ".spack-db", "bin", "env/._default", prefix.relative_to(path)):
        (path / folder).mkdir(parents=True)
    (path / ".uenvtool-install/environment/spack.lock").write_text("{}")
    (prefix / "library").write_bytes(os.urandom(50_000))
    rows = {"abc": {"path": f"/user-environment/{prefix.relative_to(path)}"}, "ext": {"path": "/usr"}}
    (path / ".spack-db/index.json").write_text(json.dumps({"database": {"installs": rows}}))
    return aged(path, days)


@pytest.fixture
def stores(place: Path) -> Path:
    """Three stores of one name, of 100, 50 and 1 days, and one of another name."""
    for number, days in zip(HASHES, (100, 50, 1), strict=True):
        a_store(place / "stores" / f"hello-{number}", days)
    a_store(place / "stores" / f"other-{HASHES[0]}", 100)
    return place / "stores"


def found(answer: Answer) -> dict[str, Any]:
    assert answer.code == 0, answer.stderr
    return {Path(row["path"]).name: row for row in json.loads(answer.stdout)["found"]}


def test_of_two_that_were_used_on_one_day_the_later_one_is_the_newest(cli: Cli, place: Path) -> None:
    early, late = (a_store(place / "stores" / f"hello-{number}", 40) for number in HASHES[:2])
    os.utime(late / ".uenvtool-install", (time.time(), time.time() - 40 * 24 * 60 * 60 + 60))

    rows = found(cli("image", "prune", place / "stores", "--json"))

    assert {name: row["kept"] for name, row in rows.items()} == {early.name: None, late.name: "newest of hello"}


@pytest.mark.parametrize("kind", ["kernel", "squashfuse"])
def test_an_image_that_is_mounted_by_another_name_stays(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (place / "my disk").mkdir()
    (place / "link").symlink_to("my disk")
    image = aged(packed_image(place / "my disk" / f"hello-{HASHES[0]}.squashfs", "0"), 100)
    device, mounts = place / "block/loop0/loop", place / "mounts"
    device.mkdir(parents=True)
    (device / "backing_file").write_text(f"{image}\n" if kind == "kernel" else "\n")
    (place / "block/loop1/loop/backing_file").mkdir(parents=True)  # cannot be read
    escaped = str(image).replace(" ", "\\040")
    mounts.write_text("" if kind == "kernel" else f"{escaped} /m fuse.squashfuse ro 0 0\n")
    monkeypatch.setattr(prune, "BLOCK_DEVICES", place / "block")
    monkeypatch.setattr(prune, "MOUNTS", mounts)

    rows = found(cli("image", "prune", place / "link", "--keep", "0", "--delete", "--json"))

    assert [row["kept"] for row in rows.values()] == ["mounted here"]
    assert image.is_file()


def test_it_shows_what_would_go_and_removes_nothing(cli: Cli, stores: Path) -> None:
    rows = found(cli("image", "prune", stores, "--json"))
    shown = cli("image", "prune", stores)

    assert {name: row["kept"] for name, row in rows.items()} == {
        "hello-0123456789ab": None,
        "hello-123456789abc": None,
        "hello-23456789abcd": "used lately",
        "other-0123456789ab": "newest of other",
    }
    assert "2 of 4 would be removed, 0.1 MB" in shown.stdout
    assert re.search(r"next:\n  uenvtool image prune \S+/stores --older 30 --keep 1 --delete\n", shown.stderr)
    assert len(os.listdir(stores)) == 4


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ((), ["hello-23456789abcd", "other-0123456789ab"]),
        (("--older", "60"), ["hello-123456789abc", "hello-23456789abcd", "other-0123456789ab"]),
        (("--keep", "0"), ["hello-23456789abcd"]),
        (("--keep", "2"), ["hello-123456789abc", "hello-23456789abcd", "other-0123456789ab"]),
        (("--older", "0", "--keep", "0"), []),
    ],
)
def test_with_delete_they_are_gone(cli: Cli, stores: Path, words: tuple[str, ...], left: list[str]) -> None:
    answer = cli("image", "prune", stores, "--delete", *words)

    assert answer.code == 0, answer.stderr
    assert sorted(os.listdir(stores)) == left


def test_the_stores_of_the_site_or_the_users_own_are_looked_at_if_none_is_named(
    cli: Cli, stores: Path, write: Write, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setenv("UENVTOOL_SITE", str(write("site.yaml", f"stores: {stores}\n")))
    of_the_site = found(cli("image", "prune", "--json"))
    monkeypatch.delenv("UENVTOOL_SITE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    a_store(place / "cache" / "uenvtool" / "stores" / "mine", 3)

    assert len(of_the_site) == 4
    assert list(found(cli("image", "prune", "--json"))) == ["mine"]


def test_somebody_who_never_built_has_no_store(cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))

    answer = cli("image", "prune")

    assert answer.code == 0
    assert f"no store is in {place}/cache/uenvtool/stores" in answer.stdout


def test_what_is_not_ours_or_in_use_stays(cli: Cli, place: Path) -> None:
    spacks = a_store(place / "all" / "spacks-own", 100)
    (spacks / ".uenvtool-install/environment/spack.lock").unlink()
    shared = a_store(place / "all" / "shared", 100)
    (shared / "data-of-mine").write_text("years of work")
    broken = a_store(place / "all" / "broken", 100)
    (broken / ".spack-db/index.json").write_text("{")
    queued = a_store(place / "all" / "queued", 100)
    (queued / ".uenvtool-install/job.json").write_text('{"job": "7", "image": "x"}')
    aged(queued, 100)
    a_store(place / "elsewhere", 100)
    (place / "all" / "link").symlink_to(place / "elsewhere")
    before = sorted(path.relative_to(place) for path in place.rglob("*"))

    answer = cli("image", "prune", place / "all", "--keep", "0", "--delete", "--json")

    assert {name: row["kept"] for name, row in found(answer).items()} == {
        "shared": "holds what is not ours: data-of-mine",
        "broken": "its database cannot be read",
        "queued": "job 7 of it: unknown",
    }
    assert sorted(path.relative_to(place) for path in place.rglob("*")) == before


def test_a_store_that_cannot_be_removed_is_an_error_in_a_line(
    cli: Cli, stores: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ToolFailed("the disk is read-only", hint="name another place")

    monkeypatch.setattr("uenvtool.image.prune.files.move", refuse)

    answer = cli("image", "prune", stores, "--delete")

    assert answer.code == 4
    assert "not removed: the disk is read-only  store" in answer.stdout


def test_an_image_that_cannot_be_removed_is_an_error_in_a_line(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    aged(packed_image(place / f"hello-{HASHES[0]}.squashfs", 0), 100)
    monkeypatch.setattr("uenvtool.image.prune.files.remove_file", refuse)

    answer = cli("image", "prune", place, "--keep", "0", "--delete")

    assert answer.code == 4
    assert "not removed: [Errno 13] Permission denied" in answer.stdout


def test_a_store_that_a_run_holds_stays(cli: Cli, place: Path) -> None:
    store = a_store(place / "held", 100)
    code = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_SH); print(); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        holder.stdout.readline()
        rows = found(cli("image", "prune", store, "--keep", "0", "--delete", "--json"))
        holder.communicate("\n")

    assert rows["held"]["kept"] == "a run works on it"
    assert store.is_dir()


def test_images_that_it_packed_go_with_their_marks_and_no_others(cli: Cli, place: Path) -> None:
    folder = place / "images"
    folder.mkdir()
    for number, days in zip(HASHES, (100, 50, 1), strict=True):
        image = packed_image(folder / f"hello-{number}.squashfs", number)
        (folder / f"{image.name}.tested").write_text("x")
        aged(image, days)
    theirs = packed_image(folder / "stackinator.squashfs", "", {PACKED: "{}"})
    aged(theirs, 100)
    aged((folder / "no-image.squashfs"), 100) if (folder / "no-image.squashfs").write_text("text") else None
    for tree in folder.glob("*.tree"):
        subprocess.run(["rm", "-r", tree], check=True)

    answer = cli("image", "prune", folder, "--delete")

    assert answer.code == 0, answer.stderr
    left = [f"hello-{HASHES[2]}.squashfs", f"hello-{HASHES[2]}.squashfs.tested", "no-image.squashfs"]
    assert sorted(os.listdir(folder)) == [*left, "stackinator.squashfs"]


def test_a_removal_that_was_killed_is_ended_by_the_next_one(cli: Cli, place: Path) -> None:
    half = a_store(place / "stores" / "hello-0123456789ab.uenvtool-removed", 100)
    (half / "linux-x86_64/zlib-1-abc/library").unlink()
    aged(half, 100)

    assert cli("image", "prune", place / "stores", "--delete").code == 0
    assert os.listdir(place / "stores") == []
