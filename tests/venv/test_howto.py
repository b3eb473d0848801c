"""The lines that use a packed overlay."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Cli
from tests.support.programs import program
from tests.support.toml import loads
from uenvtool.image.metadata import ENV, PACKED
from uenvtool.venv import howto
from uenvtool.venv.record import FORMAT, RECORD_IN_IMAGE, OverlayRecord

UENV = {"kind": "uenv", "name": "pytorch", "image": "pytorch/v2.6.0:v1", "view": "default"}
NAMED = {"kind": "named", "name": "/usr/bin/python3"}
CONTAINER = {"kind": "container", "in_container": True}


def lines(image: str, base: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """The lines by the last word of where they belong: in a shell, in a batch script, with Apptainer, ..."""
    return {line["use"].split()[-1]: line for line in howto.uses(Path(image), "my", "/user-tools", base)}


def test_an_overlay_on_a_uenv_is_loaded_beside_it_and_only_with_uenv() -> None:
    found = {use: line["text"] for use, line in lines("/s/my.squashfs", UENV).items()}

    assert found == {
        "shell": "uenv start pytorch/v2.6.0:v1,/s/my.squashfs --view=default,my:venv\npython script.py",
        "script": "#SBATCH --uenv=pytorch/v2.6.0:v1,/s/my.squashfs\n#SBATCH --view=default,my:venv\n"
        "srun python script.py",
    }


@pytest.mark.parametrize(
    ("name", "edf_image", "source"),
    [
        ("nvcr.io/nvidia/pytorch:26.02-py3", "nvcr.io#nvidia/pytorch:26.02-py3", "docker://nvcr.io/nvidia/pytorch:26.02-py3"),
        ("/s/pytorch.sif", "/s/pytorch.sif", "/s/pytorch.sif"),
    ],
)  # fmt: skip
def test_an_overlay_on_a_container_is_mounted_into_it_and_says_what_to_run(
    name: str, edf_image: str, source: str
) -> None:
    found = {use: line["text"] for use, line in lines("/s/my.squashfs", {**CONTAINER, "image": name}).items()}

    assert found == {
        "Engine": f'image = "{edf_image}"\nmounts = ["/s/my.squashfs:/user-tools:sqsh"]\n'
        "# srun --environment=./FILE.toml /user-tools/bin/python script.py",
        "Apptainer": f"apptainer exec --nv -B /s/my.squashfs:/user-tools:image-src=/,ro {source} "
        "/user-tools/bin/python script.py",
        "Singularity": f"singularity exec -B /s/my.squashfs:/user-tools:image-src=/ {source} "
        "/user-tools/bin/python script.py",
    }


def test_no_line_starts_a_container_without_a_name_or_a_client_that_is_not_here() -> None:
    assert not any(line["caveat"] for line in lines("/s/my.squashfs", {**CONTAINER, "image": "/s/a.sif"}).values())
    assert not any(lines("/s/my.squashfs", {**CONTAINER, "kind": kind}) for kind in ("container", "named", "plain"))
    assert not lines("/s/my.squashfs", NAMED)


@pytest.fixture
def client(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A uenv client on PATH."""
    path = program(place / "client" / "uenv", "exit 1")
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    return path


def test_an_overlay_on_a_python_of_the_host_is_loaded_alone(client: Path) -> None:
    found = lines("/s/my.squashfs", NAMED)

    assert found["shell"]["text"] == "uenv start /s/my.squashfs --view=my:venv\npython script.py"
    assert set(found) == {"shell", "script"}


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1))
def test_every_line_gives_the_path_back_as_its_reader_sees_it(name: str) -> None:
    path = f"/s/x{name}.squashfs"
    found = {**lines(path, {"kind": "uenv"}), **lines(path, {**CONTAINER, "image": "/s/pytorch.sif"})}

    assert shlex.split(found["shell"]["text"])[2] == path
    assert shlex.split(found["Apptainer"]["text"])[4] == f"{path}:/user-tools:image-src=/,ro"
    assert loads(found["Engine"]["text"])["mounts"] == [f"{path}:/user-tools:sqsh"]
    assert bool(found["shell"]["caveat"]) == (re.fullmatch(r"[A-Za-z0-9_./-]+", path) is None)


@pytest.mark.parametrize("name", ["a:b", "a,b", "a$b", "a\nb"])
def test_a_path_that_no_mount_can_take_is_said(name: str) -> None:
    image, of_container = f"/s/{name}.squashfs", {**CONTAINER, "image": "/s/pytorch.sif"}
    found = {**lines(image, {"kind": "uenv"}), **lines(image, of_container)}

    assert all("rename or move the image" in line["caveat"] for line in found.values())


def foreign(place: Path, mount: str = "/user-tools", **base: object) -> Path:
    """An image as uenvtool packs one, with other words in it: somebody else's."""
    told = {
        **UENV,
        "python": "/b/bin/python",
        "version": "3.12",
        "folders": ["/none"],
        "load": "uenv start a/b:1 --view=v",
        **base,
    }
    record = OverlayRecord(base=told).data()
    record |= {"format": FORMAT}
    texts = {
        ENV: json.dumps({"name": "my", "mount": mount, "views": {}}),
        PACKED: json.dumps({"mount": mount}),
        RECORD_IN_IMAGE: json.dumps(record),
    }
    for name, text in texts.items():
        (place / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "tree" / name).write_text(text)
    image = place / "foreign.squashfs"
    subprocess.run(["mksquashfs", place / "tree", image, "-quiet", "-no-progress"], check=True)
    return image


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("mount", {"mount": "/user-tools$(touch MARK)"}),
        ("mount", {"mount": "/user-tools\ntouch MARK"}),
        ("base.view", {"view": "v\ntouch MARK"}),
        ("base.image", {"image": "a/b:1\n#SBATCH --wrap=touch"}),
    ],
)
def test_what_no_command_can_name_is_refused_when_it_is_read(
    what: str, words: dict[str, str], place: Path, cli: Cli
) -> None:
    answer = cli("show", str(foreign(place, **words)))

    assert answer.code == 2
    assert re.search(rf"{place}/foreign.squashfs:.*{what}.*\nhint: ", answer.stderr)


WORDS = ("$(touch MARK)", "`touch MARK`", "; touch MARK;", "'; touch MARK; '", "&& touch MARK")


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", ["image", "view", "load"])
@pytest.mark.parametrize("inside", [False, True])
def test_commands_of_somebody_elses_image_run_nothing_of_its_own_when_they_are_pasted(
    name: str, word: str, inside: bool, place: Path, done: Cli
) -> None:
    words = {name: f"uenv start a/b:1 {word}" if name == "load" else f"a{word}"}
    answer = done("show", foreign(place, **words, in_container=inside))

    pasted = [line.strip() for line in f"{answer.stdout}\n{answer.stderr}".splitlines()]
    pasted = [
        line.partition("not available; ")[2].rstrip(")") if "not available; " in line else line for line in pasted
    ]
    commands = [line for line in pasted if re.match(r"(uenv|apptainer|singularity|srun|#SBATCH|python) ?", line)]
    assert commands
    for line in commands:
        subprocess.run(["bash", "-c", line], cwd=place, capture_output=True, check=False, env={"PATH": "/usr/bin:/bin"})
        assert not (place / "MARK").exists(), line
