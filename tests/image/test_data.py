"""`uenvtool pack`: one image of a folder of many files, and the lines of a job that mount it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.needs import needs

pytestmark = needs("mksquashfs")


@pytest.fixture
def cache(place: Path) -> Path:
    """A cache of Hugging Face, as its library lays it out: blobs, and links to them."""
    model = place / "hf/hub/models--a--b"
    (model / "blobs").mkdir(parents=True)
    (model / "blobs" / "0123").write_text("weights")
    (model / "snapshots/main").mkdir(parents=True)
    (model / "snapshots/main/model.safetensors").symlink_to("../../blobs/0123")
    return place / "hf"


def test_a_folder_becomes_one_image_with_its_sum_and_says_how_to_use_it(cli: Cli, cache: Path, place: Path) -> None:
    answer = cli("pack", "hf")
    listed = subprocess.run(["unsquashfs", "-d", "", "-ls", "hf.squashfs"], capture_output=True, text=True, check=True)
    summed = subprocess.run(["sha256sum", "-c", "hf.squashfs.sha256"], capture_output=True, text=True, check=False)

    assert answer.code == 0, answer.stderr
    assert summed.stdout == "hf.squashfs: OK\n"
    assert "/hub/models--a--b/snapshots/main/model.safetensors" in listed.stdout
    assert f"--env HF_HOME={cache} --env HF_HUB_OFFLINE=1" in answer.stderr
    assert f"uenvtool job --mount-data hf.squashfs:{cache} -o train.sh" in answer.stderr
    assert sorted(path.name for path in place.iterdir()) == ["hf", "hf.squashfs", "hf.squashfs.sha256"]


@pytest.mark.parametrize("output", ["hf.squashfs", "mine/hf.squashfs"])
def test_the_proposed_check_of_the_sum_works_as_it_is_typed(cli: Cli, cache: Path, place: Path, output: str) -> None:
    (place / "mine").mkdir()

    [command] = re.findall(r"`(.*sha256sum .*)` checks a copy", cli("pack", "hf", "-o", output).stderr)
    summed = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert summed.stdout == "hf.squashfs: OK\n", summed.stderr


def test_what_is_packed_again_replaces_its_image_and_no_other_file(cli: Cli, cache: Path, place: Path) -> None:
    cli("pack", "hf")
    again = cli("pack", "hf", "--json")
    (place / "mine.squashfs").write_text("mine")
    foreign = cli("pack", "hf", "-o", "mine.squashfs")
    (place / "other.squashfs.sha256").write_text("notes of mine")
    beside = cli("pack", "hf", "-o", "other.squashfs")

    assert again.code == 0
    assert json.loads(again.stdout)["mount"] == str(cache)
    assert foreign.code == 2
    assert (place / "mine.squashfs").read_text() == "mine"
    assert beside.code == 2
    assert (place / "other.squashfs.sha256").read_text() == "notes of mine"
    assert not (place / "other.squashfs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pack", "nothing"), "nothing is not a folder"),
        (("pack", "hf", "-o", "hf/x.squashfs"), "lies in what is packed"),
        (("pack", "hf", "--mount", "/a b"), "no runtime can mount that"),
        (("pack", "hf", "--mount", "/a/../b"), "no runtime can mount that"),
    ],
)
def test_what_cannot_be_is_refused(cli: Cli, cache: Path, words: tuple[str, ...], said: str) -> None:
    answer = cli(*words)

    assert answer.code == 2
    assert said in answer.stderr


@pytest.mark.parametrize(
    ("runtime", "image", "line"),
    [
        ("uenv", "a/v1:v1", "#SBATCH --uenv=a/v1:v1,./hf.squashfs:/data/hf"),
        ("ce", "./a.sqsh", '"${PWD}/hf.squashfs:/data/hf:sqsh", # --mount-data'),
    ],
)
def test_a_job_mounts_it(cli: Cli, place: Path, runtime: str, image: str, line: str) -> None:
    (place / "a.sqsh").write_text("")
    words = ("job", "--system", "clariden", "--account", "a", "--runtime", runtime, "--image", image, "-o", "job.sh")

    answer = cli(*words, "--mount-data", "hf.squashfs:/data/hf", "--", "python", "t.py")

    assert answer.code == 0, answer.stderr
    assert line in (place / "job.sh").read_text() + "".join(path.read_text() for path in place.glob("*.toml"))


def test_a_job_whose_data_is_not_here_says_so(cli: Cli, place: Path) -> None:
    (place / "here.squashfs").touch()
    words = ("job", "--system", "clariden", "--account", "a", "--image", "a/v1:v1", "--dry-run")
    names = ("here.squashfs", "gone.squashfs")

    answer = cli(
        *words, *(word for name in names for word in ("--mount-data", f"{name}:/data/{len(name)}")), "--", "true"
    )

    assert [line for line in answer.stderr.splitlines() if "--mount-data" in line] == [
        "warning: --mount-data ./gone.squashfs is not here: the nodes must have it"
    ]


def test_a_container_of_apptainer_mounts_it(cli: Cli, place: Path) -> None:
    (place / "a.sif").write_text("")
    words = ("job", "--system", "olivia", "--account", "a", "--runtime", "apptainer", "--image", "./a.sif")

    answer = cli(*words, "--mount-data", "hf.squashfs:/data/hf", "--", "python", "t.py")

    assert answer.code == 0, answer.stderr
    assert "hf.squashfs:/data/hf:image-src=/" in answer.stdout
