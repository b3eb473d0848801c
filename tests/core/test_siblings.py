"""Test files that are written next to a user's files: user files stay, pipes work, and groups are complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SMALL
from uenvtool.core.errors import BadInput
from uenvtool.core.files import write_siblings
from uenvtool.core.files.generated import RECORD

JOB = {"job.sh": "srun --environment=./job.toml\n", "job.toml": "image = 'a'\n"}


def test_what_uenvtool_wrote_is_written_again(place: Path) -> None:
    write_siblings(place, JOB)
    write_siblings(place, {**JOB, "job.sh": "new\n"})

    assert {path.name for path in place.iterdir()} == {*JOB, RECORD}
    assert (place / "job.sh").read_text() == "new\n"


@pytest.mark.parametrize("name", JOB)
@pytest.mark.parametrize("force", [False, True])
def test_a_file_of_the_users_stays_and_nothing_is_written(name: str, force: bool, place: Path) -> None:
    (place / name).write_text("mine\n")

    with pytest.raises(BadInput, match=f"{name} was not written by uenvtool"):
        write_siblings(place, JOB, force=force)

    assert {path.name for path in place.iterdir()} == {name}
    assert (place / name).read_text() == "mine\n"


def test_a_changed_file_is_replaced_with_force_and_a_copy_stays(place: Path) -> None:
    for mine in ("mine\n", "mine again\n"):
        write_siblings(place, JOB, force=True)
        (place / "job.sh").write_text(mine)
        with pytest.raises(BadInput, match="has been changed since"):
            write_siblings(place, JOB)

        write_siblings(place, JOB, force=True)

        assert (place / "job.sh").read_text() == JOB["job.sh"]
    assert (place / "job.sh.before").read_text() == "mine\n"
    assert (place / "job.sh.before1").read_text() == "mine again\n"


def test_a_link_is_neither_followed_nor_replaced(place: Path) -> None:
    (place / "mine").write_text("mine\n")
    (place / "job.sh").symlink_to("mine")

    with pytest.raises(BadInput, match="is a symlink"):
        write_siblings(place, JOB, force=True)

    assert (place / "job.sh").is_symlink()
    assert (place / "mine").read_text() == "mine\n"


def test_a_run_killed_at_any_rename_leaves_no_new_file_beside_an_old_one(place: Path) -> None:
    """The script goes first and comes last: it is never there with an EDF of another run."""
    new = {name: f"# new\n{text}" for name, text in JOB.items()}
    code = (
        "import os, sys; from pathlib import Path; from uenvtool.core.files import write_siblings\n"
        "left, real = int(sys.argv[1]), os.replace\n"
        "def replace(*names):\n"
        "    global left\n"
        "    if left == 0: os._exit(9)\n"
        "    left -= 1\n"
        "    real(*names)\n"
        "os.replace = replace\n"
        f"write_siblings(Path('.'), {new!r})\n"
    )
    for renames in range(6):
        write_siblings(place, JOB, force=True)
        done = subprocess.run([sys.executable, "-c", code, str(renames)], cwd=place, check=False)

        found = {name: (place / name).read_text() for name in JOB if (place / name).exists()}
        assert "job.sh" not in found or found in (JOB, new), (renames, found)
        if done.returncode == 0:
            assert found == new
            break
        write_siblings(place, new)
        assert {name: (place / name).read_text() for name in JOB} == new
    else:
        raise AssertionError("it never came to its end")


def test_edits_at_once_are_all_in_the_file(place: Path) -> None:
    recipe = place / "recipes" / "mine" / "recipe.yaml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(SMALL)
    packages = [f"package-{number}" for number in range(4)]

    runs = [
        subprocess.Popen([sys.executable, "-m", "uenvtool", "edit", "mine", "--add", name], stdout=subprocess.DEVNULL)
        for name in packages
    ]

    assert [run.wait() for run in runs] == [0] * len(runs)
    assert [name for name in packages if name not in recipe.read_text()] == []
