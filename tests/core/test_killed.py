"""Killed at any system call, a run that generates files leaves what the next one completes, and --check sees."""

from __future__ import annotations

import re
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import SMALL
from tests.env.test_build import LOCK
from tests.support.forked import Server, server
from tests.support.needs import need
from tests.support.programs import program
from tests.support.trees import snapshot

CALLS = "openat,write,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,link,linkat,fsync,fchmod,flock"
"""What changes a disk. Reading changes nothing, so that a kill there is as one at the next of these."""
STAND_IN = """
import sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("1.1.0 (abcdef)"))
env = sys.argv[sys.argv.index("-e") + 1]
made_of = "1.12" if "1.12" in open(env + "/spack.yaml").read() else "1.14"
print("==> Concretized 2 specs")
open(env + "/spack.lock", "w").write(LOCK.replace("1.14.5", made_of))
"""
KILLED = -signal.SIGKILL
SYSTEM = "extends: rcp\ndescription: {}\n"


def calls_in(server: Server, folder: str, words: list[str]) -> Iterator[tuple[str, int]]:
    """Each system call of a run on a folder, by its name and number among those of that name; not of what it starts."""
    counted: dict[str, int] = {}
    opened = False
    for line in server.trace(words, CALLS):
        found = re.match(r"(\w+)\(", line)
        if not found:
            continue
        name = found[1]
        counted[name] = counted.get(name, 0) + 1
        opened = opened or (folder in line and name != "openat") or (folder in line and "O_DIRECTORY" in line)
        if opened and (name != "openat" or "O_CREAT" in line):
            yield name, counted[name]


def killed_at(server: Server, name: str, number: int, words: list[str]) -> None:
    """Kill a run before that system call. Without -f: what it starts would be killed at a call of that number too."""
    injected = ["-o", "/dev/null", "-e", f"trace={CALLS}", "-e", f"inject={name}:signal=SIGKILL:when={number}"]
    assert server.run(words, injected)[0] == KILLED, (name, number)


def prepared(server: Server, command: str, place: Path, old: Path) -> tuple[list[str], list[str]]:
    """Write what is then changed into `old`; the words that write the new inputs into `env`, and that check it.

    The new inputs change a file, add one in a folder of its own, and give one no more; `bare` has no additions any
    more, so that a folder goes. `lock` has a lock made too, by a stand-in of Spack.
    """
    if command == "activate":
        inputs = place / "systems"
        inputs.mkdir()
        (inputs / "gone.yaml").write_text(SYSTEM.format("gone"))
        (inputs / "changed.yaml").write_text(SYSTEM.format("before"))
        assert server.run(["activate", "--write", "-o", str(old)])[0] == 0
        (inputs / "gone.yaml").rename(inputs / "new.yaml")
        (inputs / "changed.yaml").write_text(SYSTEM.format("after"))
        return ["activate", "--write", "-o", "env"], ["activate", "--check", "-o", "env"]
    inputs = place / "recipes" / "small"
    (inputs / "packages" / "gone").mkdir(parents=True)
    (inputs / "packages" / "gone" / "package.py").write_text("class Gone: pass\n")
    (inputs / "recipe.yaml").write_text(SMALL)
    how = ["--spack", str(stand_in(place))] if command == "lock" else ["--no-concretize"]
    assert server.run(["build", "small", *how, "-o", str(old)])[0] == 0
    if command == "bare":
        shutil.rmtree(inputs / "packages")
    else:
        (inputs / "packages" / "gone").rename(inputs / "packages" / "fresh")
    changed = SMALL.replace("A small", "Another small").replace("hdf5@1.14", "hdf5@1.12")
    (inputs / "recipe.yaml").write_text(changed)
    return ["build", "small", *how, "-o", "env"], ["build", "small", "--check", "-o", "env"]


def stand_in(place: Path) -> Path:
    """A Spack whose lock says what it was made of."""
    return program(place / "fake/bin/spack", f"#!{sys.executable}\nLOCK = {LOCK!r}\n{STAND_IN}").parents[1]


def put_back(kept: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kept, folder)


@pytest.mark.build
@pytest.mark.xdist_group("kills")
@pytest.mark.parametrize("command", ["build", "bare", "lock", "activate"])
def test_killed_at_every_system_call_the_next_run_gives_the_exact_result(place: Path, command: str) -> None:
    need("strace")
    with server() as running:
        old, folder = place / "old", place / "env"
        words, check = prepared(running, command, place, old)
        put_back(old, folder)
        assert running.run(words)[0] == 0
        expected, before = snapshot(folder), snapshot(old)
        assert expected != before
        put_back(old, folder)
        calls = list(calls_in(running, "env", words))
        assert len(calls) > 20

        mixes = 0
        for name, number in calls:
            put_back(old, folder)
            killed_at(running, name, number, words)
            if files_of(folder) not in (files_of(old), files_of_snapshot(expected)):
                mixes += 1
                code, drift = running.run(check)
                assert code == 1, (name, number)
                assert command == "lock" or "did not end" in drift, (name, number)
            assert running.run(words)[0] == 0, (name, number)
            assert snapshot(folder) == expected, (name, number)
            assert "did not end" not in running.run(check)[1], (name, number)
        assert mixes > 3
        print(command, len(calls), "calls,", mixes, "mixes")


def files_of_snapshot(found: dict[str, bytes | str | None]) -> dict[str, bytes]:
    """The files but those that are not in place yet."""
    return {name: content for name, content in found.items() if isinstance(content, bytes) and "-part" not in name}


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a folder but those that are not in place yet."""
    return files_of_snapshot(snapshot(folder))
