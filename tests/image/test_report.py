"""Test the report and the log next to an image."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import Cli, Write
from tests.image.test_store import environment, filled_store
from tests.support.needs import need
from tests.support.programs import program, spack_of_python
from uenvtool import __version__
from uenvtool.core.files import digest
from uenvtool.core.processes import run
from uenvtool.env.installable import Installable

__all__ = ["environment"]


def build_words(environment: Installable, place: Path) -> list[str]:
    """The words that build the image of an installed environment; a stand-in is Spack."""
    store = filled_store(place / "store", environment, when=1e9)
    code = "print('1.1.0' if '--version' in sys.argv else 'all is there'); sys.exit('push' in sys.argv)"
    spack = spack_of_python(place / "spack", code)
    return ["image", "build", str(environment.folder), "--spack", str(spack), "--store", str(store), "-o", "i.squashfs"]


def test_they_say_what_went_in_and_what_came_of_it(environment: Installable, place: Path, cli: Cli) -> None:
    words = build_words(environment, place)

    answers = [cli(*words), cli(*words)]

    assert [answer.code for answer in answers] == [0, 0], answers[0].stderr
    report = json.loads((place / "i.squashfs.build.json").read_text())
    assert report["generator"] == f"uenvtool {__version__}"
    assert report["sha256"] == digest((place / "i.squashfs").read_bytes())
    assert report["environments"][0]["versions"][environment.name] == environment.lock.versions()
    assert report["environments"][0]["sha256"]["spack.lock"] == digest(environment.texts["spack.lock"])
    assert (report["built"], report["from_cache"]) == ([], [])
    assert {name.rpartition("-")[0] for name in report["in_the_store_before"]} <= set(environment.lock.versions())
    assert list(report["seconds"]) == ["resolving", "installing", "packing"]
    assert "all is there" in (place / "i.squashfs.build.log").read_text()
    assert "report and log, next to the image: i.squashfs.build.json and i.squashfs.build.log" in answers[1].stderr


def test_the_report_lists_repositories_that_could_not_be_compared(
    environment: Installable, place: Path, cli: Cli, write: Write
) -> None:
    write("spack_repo/builtin/repo.yaml", "repo:\n  namespace: builtin\n  api: v2.0\n")
    manifest = environment.folder / "spack.yaml"
    pin = "{git: https://host/packages.git, commit: " + 40 * "a" + "}"
    manifest.write_text(f"{manifest.read_text()}  repos: {{builtin: {pin}}}\n")
    words = [*build_words(environment, place), "--repo", f"builtin={place}/spack_repo/builtin"]

    answers = [cli(*words)]
    assert answers[0].code == 0, answers[0].stderr
    reports = [json.loads((place / "i.squashfs.build.json").read_text())]
    write("spack_repo/builtin/packages/mine/package.py", "class Mine: pass\n")
    answers.append(cli(*words))
    reports.append(json.loads((place / "i.squashfs.build.json").read_text()))

    assert answers[1].code == 0, answers[1].stderr
    assert reports[0]["spack"]["commit"] == ""
    assert reports[0]["not_compared"] == reports[1]["not_compared"] != []
    assert reports[0]["not_compared"][0] in " ".join(answers[0].stderr.split())
    states = [report["repos"]["builtin"] for report in reports]
    assert {state["directory"] for state in states} == {str(place / "spack_repo/builtin")}
    assert states[0]["sha256"] != states[1]["sha256"]


def test_a_killed_build_leaves_its_log(environment: Installable, place: Path) -> None:
    need("mksquashfs", "unsquashfs")
    words = build_words(environment, place)
    code = "print('1.1.0' if '--version' in sys.argv else 'building zlib', flush=True)"
    spack_of_python(place / "spack", f"import time\n{code}\nif 'install' in sys.argv: time.sleep(60)")
    log = place / "store/.uenvtool-install/spack.log"

    with subprocess.Popen([sys.executable, "-m", "uenvtool", *words], stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 30
        while "building zlib\n" not in (log.read_text() if log.is_file() else "") and time.monotonic() < deadline:
            time.sleep(0.05)
        running.kill()

    assert log.read_text().startswith("$ ")
    assert log.read_text().endswith("building zlib\n")


def test_they_lie_beside_the_image_also_if_the_cache_takes_nothing(
    environment: Installable, place: Path, cli: Cli
) -> None:
    words = [*build_words(environment, place)[:-1], place / "store/i.squashfs"]  # in the folder that is locked, too

    answer = cli(*words, "--push", place / "cache", "--unsigned")

    assert answer.code == 4
    report = json.loads((place / "store/i.squashfs.build.json").read_text())
    assert report["sha256"] == digest((place / "store/i.squashfs").read_bytes())
    assert "all is there" in (place / "store/i.squashfs.build.log").read_text()
    assert cli(*words).code == 0


def test_what_somebody_put_there_is_refused_before_anything_is_built(
    environment: Installable, place: Path, cli: Cli
) -> None:
    words = build_words(environment, place)
    (place / "i.squashfs.build.log").write_text("mine\n")

    answer = cli(*words)

    assert answer.code == 2
    assert "i.squashfs.build.log was not written by uenvtool" in answer.stderr
    assert (place / "i.squashfs.build.log").read_text() == "mine\n"
    assert not (place / "i.squashfs").exists()


def test_a_shell_sees_the_store_at_the_mount_point_and_holds_its_lock(
    environment: Installable, place: Path, cli: Cli
) -> None:
    words = [*build_words(environment, place)[:-2], "--shell"]
    lines = [f"test -d {environment.mount}/linux-zen && touch {place}/store/mark && spack install", "echo $SPACK_ENV"]
    program(place / "shell", "\n".join(["#!/bin/sh", *lines, f"flock --nonblock {place}/store true || echo held"]))

    done = run([sys.executable, "-m", "uenvtool", *words], env={**os.environ, "SHELL": str(place / "shell")})

    assert done.code == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == ["all is there", f"{place}/store/.uenvtool-install/environment", "held"]
    assert (place / "store/mark").exists()
    assert "--shell packs no image, so --push has no effect" in cli(*words, "--push", "x").stderr
