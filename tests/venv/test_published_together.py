"""An overlay and its image get their names together; whatever fails, both are what they were."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.support.disks import small_disk
from tests.support.kills import KILLED, killed_before, steps
from tests.support.needs import need
from tests.support.overlays import BaseHere, clean_environment, install, run, wheel
from tests.support.programs import program
from tests.support.samples import sampled
from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import Replacement, publish, workplace

MODULE = "uenvtool.core.files.together"


def state(folder: Path) -> dict[str, str]:
    """Every file below a folder with what is in it; nothing of work that was left."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def renames_with(monkeypatch: pytest.MonkeyPatch, rename: Callable[[Path, Path], None]) -> None:
    """Let publishing alone rename so."""
    monkeypatch.setattr(f"{MODULE}.os", types.SimpleNamespace(**{**vars(os), "rename": rename}))


class TestOverlays:
    """With the whole command."""

    @pytest.fixture
    def here(self, loaded: Loaded, wheels: Path, place: Path, cli: Cli) -> BaseHere:
        """An overlay with its image, and a newer package."""
        need("mksquashfs", "unsquashfs")
        found = loaded("pythonpath")
        install(found.site, wheel(place.parent / "old", "torch", "2.6.0a0+d883142"))
        wheel(wheels, "small", "1.0")
        assert cli("venv", "v", "small", "--squash").code == 0
        wheel(wheels, "small", "1.1")
        return found

    def test_both_are_new_afterwards_and_the_old_ones_are_kept(self, here: BaseHere, cli: Cli, place: Path) -> None:
        old = {name: (place / name).stat().st_ino for name in ("v", "v.squashfs")}

        answer = cli("venv", "v", "--update", "--squash")

        assert answer.code == 0, answer.stderr
        assert {name: (place / name).stat().st_ino for name in ("v.previous", "v.previous.squashfs")} == {
            "v.previous": old["v"],
            "v.previous.squashfs": old["v.squashfs"],
        }
        assert sorted(path.name for path in place.iterdir()) == [
            "v",
            "v.previous",
            "v.previous.squashfs",
            "v.squashfs",
        ]

    @pytest.mark.parametrize("failing", sampled([4, 1, 2, 3, 5, 6, 7]))
    @pytest.mark.parametrize("atomic", [True, False], ids=["exchanged", "one-after-the-other"])
    def test_a_rename_that_fails_leaves_both_and_the_kept_ones_as_they_were(
        self,
        here: BaseHere,
        cli: Cli,
        place: Path,
        monkeypatch: pytest.MonkeyPatch,
        failing: int,
        atomic: bool,
    ) -> None:
        (place / "v.previous").mkdir()
        (place / "v.previous" / "thesis.tex").write_text("kept by the user")
        before = state(place)
        rename, count = os.rename, 0

        def failing_rename(source: Path, target: Path) -> None:
            nonlocal count
            count += 1
            if count == failing:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))
            rename(source, target)

        if not atomic:
            monkeypatch.setattr(f"{MODULE}._exchange", lambda one, other: False)
        renames_with(monkeypatch, failing_rename)

        answer = cli("venv", "v", "--update", "--squash")

        if answer.code == 0:
            assert count < failing
            return
        assert answer.code == 4, answer.stderr
        assert "Input/output error" in answer.stderr
        assert "nothing was changed" in answer.stderr
        assert state(place) == before

    def test_packing_that_fails_leaves_both_and_the_kept_ones(
        self, here: BaseHere, cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert cli("venv", "v", "--update", "--squash").code == 0
        before = state(place)
        real = shutil.which("mksquashfs")
        text = f'case "$*" in *-version*|*-help*) exec {real} "$@";; esac\necho FATAL: no space >&2; exit 1'
        fails = program(place.parent / "programs" / "mksquashfs", text)
        monkeypatch.setenv("PATH", f"{fails.parent}:{os.environ['PATH']}")

        answer = cli("venv", "v", "--update", "--squash")

        assert answer.code == 4, answer.stderr
        assert "mksquashfs failed" in answer.stderr
        assert state(place) == before

    def test_a_disk_that_has_room_for_the_image_alone_keeps_both_old_ones(
        self, here: BaseHere, cli: Cli, place: Path, wheels: Path
    ) -> None:
        with small_disk(place / "disk", "2500k") as disk:
            assert cli("venv", "disk/v", "small==1.0", "--squash").code == 0
            before = state(disk)
            noise = random.Random(4).randbytes(1_400_000)  # does not get smaller when it is packed
            wheel(wheels, "large", "1.0", files={"large/data.bin": noise})

            answer = cli("venv", "disk/v", "large", "--squash")

            assert answer.code == 4, answer.stderr
            assert "No space left" in answer.stderr
            assert "nothing was changed" in answer.stderr
            assert state(disk) == before

    @pytest.mark.slow
    def test_a_run_killed_at_a_step_of_publishing_leaves_whole_ones(
        self, here: BaseHere, cli: Cli, place: Path
    ) -> None:
        """Each is the old one or the new one; if the image is the old one beside the new overlay, `info` says so."""
        words = ("venv", "v", "small", "--squash", "--update")
        names = steps(*words)
        moves = [number for number, name in enumerate(names, 1) if name.startswith("os.rename")][-4:]
        for number in moves:
            assert cli("venv", "v", "small==1.0", "--squash").code == 0

            ended = killed_before(number, *words)

            assert ended in (KILLED, 0)
            version = run(["v/bin/python", "-c", "import small; print(small.__version__)"], clean_environment())
            assert version.stdout.strip() in ("1.0", "1.1"), version.stderr
            told = cli("show", "v")
            packed = cli("show", "v.squashfs", "--json")
            assert packed.code == 0, packed.stderr
            is_same = f'"version": "{version.stdout.strip()}"' in packed.stdout
            assert is_same or "v.squashfs is older than this: pack it again" in told.stderr


class TestPublish:
    """The renames alone."""

    def test_what_was_not_there_is_not_there_after_a_failure(self, place: Path) -> None:
        (place / "work").mkdir()
        (place / "work" / "new").write_text("new")

        with pytest.raises(ToolFailed):
            publish(
                [
                    Replacement(new=place / "work" / "new", target=place / "a"),
                    Replacement(new=place / "missing" / "new", target=place / "b"),
                ]
            )

        assert sorted(path.name for path in place.iterdir()) == ["work"]
        assert (place / "work" / "new").read_text() == "new"

    def test_an_interruption_between_two_names_goes_back(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with workplace(place / "a") as one, workplace(place / "b") as two:
            works = ((one, "a"), (two, "b"))
            for work, name in works:
                (place / name).write_text("old")
                (work / "new").write_text("new")
            rename, count = os.rename, 0

            def interrupted(source: Path, target: Path) -> None:
                nonlocal count
                rename(source, target)
                count += 1
                if count == 1:
                    raise KeyboardInterrupt

            renames_with(monkeypatch, interrupted)
            with pytest.raises(KeyboardInterrupt):
                publish([Replacement(new=work / "new", target=place / name) for work, name in works])

        assert [(place / name).read_text() for name in ("a", "b")] == ["old", "old"]
