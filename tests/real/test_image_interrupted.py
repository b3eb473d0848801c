"""Test that an image build that was killed, failed or ran out of space continues and gives the same image."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.disks import small_disk
from tests.support.image_builds import MARKS, UENVTOOL, build_words, environ, store_of_hello

pytestmark = [*MARKS, pytest.mark.xdist_group("spack")]
KILLS = 20


@pytest.fixture
def cache(cli: Cli, place: Path) -> Path:
    """Returns a build cache with the packages of `hello`, whose image is whole.squashfs."""
    filled = store_of_hello(place / "filled")
    words = build_words("--store", filled, "-o", "whole.squashfs", "--push", place / "cache", "--unsigned")
    assert cli(*words).code == 0
    return place / "cache"


def started(*words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*UENVTOOL, *build_words(*words)],
        env=environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def registered(store: Path) -> Iterator[Path]:
    """Return the package prefixes in Spack's database that are outside of the mount point."""
    database = json.loads((store / ".spack-db" / "index.json").read_text())["database"]["installs"]
    for row in database.values():
        if row["installed"] and row["path"].startswith("/user-environment/"):
            yield store / Path(row["path"]).relative_to("/user-environment")


def test_killed_at_random_moments_it_ends_with_the_same_image(cache: Path, place: Path, cli: Cli) -> None:
    words = ("--store", place / "store", "--cache", cache, "--unsigned", "-o", place / "image.squashfs")
    moments = random.Random(20)
    begun = time.monotonic()
    with started(*words[:1], place / "timed", *words[2:-1], place / "timed.squashfs") as timed:
        timed.communicate()
    whole = time.monotonic() - begun
    ends = []

    for _ in range(KILLS):
        with started(*words) as run:
            try:
                run.wait(moments.uniform(0.05, 1) * whole)
            except subprocess.TimeoutExpired:
                run.send_signal(moments.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        ends.append(run.returncode)
        if run.returncode == 0:  # it was quick: begin again
            shutil.rmtree(place / "store")
            (place / "image.squashfs").unlink()
    answer = cli(*build_words(*words))

    assert sum(code != 0 for code in ends) >= KILLS // 2, ends
    assert answer.code == 0, answer.stderr
    prefixes = list(registered(place / "store"))
    assert len(prefixes) == 15
    assert all((prefix / ".spack" / "spec.json").is_file() for prefix in prefixes)
    verified = json.loads(cli("image", "verify", "timed.squashfs", "image.squashfs", "--json").stdout)
    assert len({report["tree_sha256"] for report in verified}) == 1
    assert cli("image", "verify", "image.squashfs").code == 0
    assert not list(place.glob(".*uenvtool-work"))


def test_a_package_that_does_not_build_is_named_with_the_end_of_its_log(place: Path) -> None:
    """A compiler is killed, as by the kernel without memory, and the next run continues."""
    words = ("--store", place / "store", "-o", place / "image.squashfs")
    with started(*words) as run:
        while run.poll() is None and not killed("make", below=run.pid):
            time.sleep(0.05)
        errors = run.communicate()[1]
    done = len(list(registered(place / "store")))

    again = subprocess.run(
        [*UENVTOOL, *build_words(*words)], env=environ(), capture_output=True, text=True, check=False
    )

    assert run.returncode == 4, errors
    told = re.search(rf"error: .*could not install (?s:.)*see the package's log in {place}/store", errors)
    assert told, errors
    assert "run the command again to continue" in errors[told.start() :]
    assert 0 < done < 15
    assert again.returncode == 0, again.stderr
    assert len(list(registered(place / "store"))) == 15


def killed(name: str, *, below: int) -> bool:
    """Kill a descendant of a process that has this name, if any."""
    parents, names = {}, {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = status.read_text().partition(" (")
        except OSError:
            continue
        command, _, fields = rest.rpartition(") ")
        parents[int(number)], names[int(number)] = int(fields.split()[1]), command
    for number in [number for number, command in names.items() if command == name]:
        above = number
        while above > 1 and above != below:
            above = parents.get(above, 0)
        if above == below:
            os.kill(number, signal.SIGKILL)
            return True
    return False


def test_a_full_disk_is_said_and_the_old_image_stays(cache: Path, place: Path, cli: Cli) -> None:
    (place / "image.squashfs").write_bytes((place / "whole.squashfs").read_bytes())
    before = (place / "image.squashfs").stat()

    with small_disk(place / "disk", "20m") as disk:
        answer = cli(
            *build_words("--store", disk / "store", "--cache", cache, "--unsigned", "-o", place / "image.squashfs")
        )

    assert answer.code == 4
    assert "the disk is full" in answer.stderr
    assert (place / "image.squashfs").stat().st_ino == before.st_ino
