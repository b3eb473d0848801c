"""A packed overlay beside its base in the real uenv client, and in its Slurm plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support import peers
from tests.support.needs import needs
from tests.support.overlays import install, wheel
from tests.support.samples import sampled
from tests.support.slurm import Slurm, running_slurm
from tests.support.uenv import uenv_image

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.xdist_group("slurm"),  # one Slurm a machine
    *needs("mksquashfs"),
]
LOOK = (
    "import importlib.metadata, json, os, sys, inbase, tool; print(json.dumps({'tool': tool.__version__, "
    "'metadata': importlib.metadata.version('tool'), 'inbase': inbase.__version__, 'python': sys.executable, "
    "'prefix': sys.prefix, 'pythonpath': os.environ.get('PYTHONPATH'), 'venv': os.environ.get('VIRTUAL_ENV')}))"
)


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A base image and where it is mounted; wheels; where an overlay will be; the uenv client's folder."""

    image: Path
    mount: Path
    wheels: Path
    tools: Path
    programs: Path

    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "HOME": os.environ["HOME"],
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
        }

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [str(word) for word in words]
        return subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(params=sampled(["PYTHONPATH", "PYTHONUSERBASE"]))
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Stack:
    """A uenv with an older version of the package `tool`, as uenv 2.6 (PYTHONPATH) and 2.9 have their packages."""
    programs = peers.uenv_programs()
    old = [wheel(tmp_path / "old", "tool", "1.0"), wheel(tmp_path / "old", "inbase", "1.0")]
    wheel(tmp_path / "wheels", "tool", "2.0", requires=["inbase"])
    mount = tmp_path / "user-environment"
    image = uenv_image(tmp_path / "stack.squashfs", mount, old, way=request.param)
    mount.mkdir()
    (tmp_path / "user-tools").mkdir()
    wheels, tools = tmp_path / "wheels", tmp_path / "user-tools"
    return Stack(image=image, mount=mount, wheels=wheels, tools=tools, programs=programs)


@pytest.fixture
def uenvtool(tmp_path: Path) -> list[str]:
    """The command of this checkout, whatever the folder and environment it is called in."""
    script = tmp_path / "uenvtool"
    script.write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom uenvtool.__main__ import main\nmain()\n")
    return [sys.executable, str(script)]


@pytest.fixture
def overlay(stack: Stack, uenvtool: list[str], place: Path) -> Path:
    """An overlay with tool 2, made and packed inside of the loaded base."""
    made = stack.run(
        *("uenv", "run", stack.image, "--view=default", "--", *uenvtool),
        *("venv", "mine", "tool==2.0", "--squash", "--mount", stack.tools),
    )
    assert made.returncode == 0, made.stderr
    started = next(line for line in made.stderr.splitlines() if line.strip().startswith("uenv start"))
    assert started.split()[2:] == [f"{stack.image},{place}/mine.squashfs", "--view=default,mine:venv"]
    return place / "mine.squashfs"


def test_the_line_that_was_printed_loads_it_over_its_base(stack: Stack, overlay: Path) -> None:
    loaded = ["uenv", "run", f"{stack.image},{overlay}", "--view=default,mine:venv", "--"]

    for words in (["python", "-c", LOOK], ["python", "-I", "-c", LOOK], ["bash", "-c", f'python -E -c "{LOOK}"']):
        ran = stack.run(*loaded, *words)

        assert ran.returncode == 0, ran.stderr
        found = json.loads(ran.stdout)
        assert (found["tool"], found["metadata"], found["inbase"]) == ("2.0", "2.0", "1.0")
        assert found["prefix"] == found["venv"] == str(stack.tools)
        assert found["pythonpath"] is None


def test_without_its_base_it_says_so(stack: Stack, overlay: Path) -> None:
    ran = stack.run("uenv", "run", overlay, "--view=mine:venv", "--", "python", "-c", LOOK)

    assert ran.returncode == 127
    assert "the base of this overlay is not here" in ran.stderr
    assert str(stack.image) in ran.stderr


def test_doctor_finds_nothing_but_the_session_and_then_just_what_is_wrong(
    stack: Stack, uenvtool: list[str], overlay: Path
) -> None:
    def found(images: str, views: str) -> set[str]:
        ran = stack.run("uenv", "run", images, f"--view={views}", "--", *uenvtool, "doctor", "--json")
        return {finding["id"] for finding in json.loads(ran.stdout)["findings"]} - {"inside-uenv-session"}

    both = f"{stack.image},{overlay}"
    assert found(str(stack.image), "default") == set()
    assert found(both, "default,mine:venv") == set()
    assert found(str(overlay), "mine:venv") == {"overlay-base-missing"}

    wheel(stack.wheels, "more", "1.0")
    made = stack.run(
        "uenv", "run", stack.image, "--view=default", "--", *uenvtool, "venv", overlay.with_suffix(""), "more"
    )
    assert made.returncode == 0, made.stderr
    assert found(both, "default,mine:venv") == {"image-older"}


def test_the_option_uenv_loads_the_base_for_the_command(stack: Stack, uenvtool: list[str], place: Path) -> None:

    made = stack.run(*uenvtool, "venv", "mine", "tool==2.0", "--uenv", stack.image)

    assert made.returncode == 0, made.stderr
    assert (place / "mine" / "pyvenv.cfg").read_text().count(str(stack.mount)) >= 1
    line = next(line.strip() for line in made.stderr.splitlines() if line.endswith("mine/bin/python script.py"))
    Path("script.py").write_text(LOOK)
    ran = stack.run(*line.split())  # as it was printed: the uenv is not loaded after the command
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["tool"] == "2.0"


def test_a_base_of_a_repository_is_named_by_its_label_and_loads_by_it(
    stack: Stack, uenvtool: list[str], place: Path
) -> None:
    repository = place / "repo"
    stack.run("uenv", "repo", "create", repository)
    config = Path(stack.environment()["HOME"], ".config", "uenv", "config")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"repo = {repository}\n")
    label = "stack/v1:rc1@here%zen2"
    added = stack.run("uenv", "image", "add", label, stack.image)
    assert added.returncode == 0, added.stderr

    made = stack.run(
        *("uenv", "run", label, "--view=default", "--", *uenvtool),
        *("venv", "mine", "tool==2.0", "--squash", "--mount", stack.tools),
    )
    told = stack.run(*uenvtool, "show", "mine.squashfs")

    assert made.returncode == 0, made.stderr
    line = f"uenv start {label},{place}/mine.squashfs --view=default,mine:venv"
    assert line in made.stderr
    assert line in told.stderr
    loaded = stack.run("uenv", "run", *line.split()[2:], "--", "python", "-c", LOOK)
    assert loaded.returncode == 0, loaded.stderr
    assert json.loads(loaded.stdout)["tool"] == "2.0"


def test_a_base_at_another_mount_is_found(stack: Stack, overlay: Path, place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()

    ran = stack.run(
        *("uenv", "run", f"{stack.image}:{elsewhere},{overlay}", "--view=mine:venv", "--", "python", "-c", LOOK)
    )

    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["tool"], found["metadata"], found["inbase"]) == ("2.0", "2.0", "1.0")
    assert ran.stderr == ""


def test_another_base_at_another_mount_is_not_taken(stack: Stack, overlay: Path, place: Path) -> None:
    elsewhere, root = place / "elsewhere", place / "unpacked"
    elsewhere.mkdir()
    subprocess.run(["unsquashfs", "-q", "-n", "-d", str(root), str(stack.image)], check=True, capture_output=True)
    install(next(root.glob("env/default/lib/python3*/site-packages")), wheel(place / "old", "more", "1.0"))
    other = place / "other.squashfs"
    subprocess.run(["mksquashfs", str(root), str(other), "-quiet", "-no-progress"], check=True, capture_output=True)
    images = {"elsewhere": f"{other}:{elsewhere},{overlay}", "in its place": f"{other},{overlay}"}

    ran = {
        name: stack.run("uenv", "run", words, "--view=mine:venv", "--", "python", "-c", "import tool")
        for name, words in images.items()
    }

    for name, mount in (("elsewhere", elsewhere), ("in its place", stack.mount)):
        assert ran[name].returncode == 1
        assert f"another base than this overlay's is mounted at {mount}" in ran[name].stderr
        assert "make the overlay again on this one: uenvtool venv" in ran[name].stderr
        assert "Traceback" not in ran[name].stderr
    wanted = stack.run(
        *("uenv", "run", images["in its place"], "--view=mine:venv", "--", "env", "UENVTOOL_ANY_BASE=1"),
        *("python", "-c", "import tool"),
    )
    assert wanted.returncode == 0, wanted.stderr


def test_an_image_that_is_older_than_its_overlay_says_so_where_it_is_started(
    stack: Stack, overlay: Path, uenvtool: list[str]
) -> None:
    loaded = ["uenv", "run", f"{stack.image},{overlay}", "--view=default,mine:venv", "--"]
    before = stack.run(*loaded, "python", "-c", "pass")
    wheel(stack.wheels, "more", "1.0")
    added = stack.run("uenv", "run", stack.image, "--view=default", "--", *uenvtool, "venv", "mine", "more")

    after = stack.run(*loaded, "python", "-c", "import subprocess, sys; subprocess.run([sys.executable, '-c', ''])")

    assert added.returncode == 0, added.stderr
    assert "mine.squashfs is older than mine: pack it again" in added.stderr
    assert before.stderr == ""
    assert after.stderr.count(f"uenvtool: {overlay} is older than {overlay.with_suffix('')}") == 1


class TestSlurm:
    """The plugin mounts both images for a step."""

    @pytest.fixture
    def slurm(self, tmp_path: Path) -> Iterator[Slurm]:
        plugin = peers.uenv_plugin()
        folder = tmp_path / "slurm"
        folder.mkdir()
        with running_slurm(folder, plugin=plugin) as found:
            yield found

    def test_a_step_has_the_overlay_over_its_base(self, stack: Stack, overlay: Path, slurm: Slurm) -> None:
        options = [f"--uenv={stack.image},{overlay}", "--view=default,mine:venv"]

        ran = slurm.run(
            "srun", "--ntasks=2", "--oversubscribe", *options, "python", "-c", LOOK, env=stack.environment()
        )

        assert ran.returncode == 0, ran.stderr
        found = [json.loads(line) for line in ran.stdout.splitlines()]
        assert [(each["tool"], each["inbase"], each["prefix"]) for each in found] == [
            ("2.0", "1.0", str(stack.tools))
        ] * 2

    def test_a_batch_script_has_it_with_nothing_to_source(self, stack: Stack, overlay: Path, slurm: Slurm) -> None:
        job = overlay.parent / "job.sh"
        job.write_text(
            f"#!/bin/bash\n#SBATCH --uenv={stack.image},{overlay}\n#SBATCH --view=default,mine:venv\n"
            f'srun python -c "{LOOK}"\n'
        )

        sent = slurm.submit(f"--output={job}.out", str(job), env=stack.environment())

        output = Path(f"{job}.out").read_text()
        assert sent.returncode == 0, sent.stderr + output
        assert json.loads(output.splitlines()[-1])["tool"] == "2.0"


def test_a_shell_and_an_editors_python_load_the_base(stack: Stack, uenvtool: list[str], overlay: Path) -> None:
    loose = overlay.with_suffix("")
    shells = [stack.run(*uenvtool, "shell", path, "--", "python", "-c", LOOK) for path in (overlay, loose)]
    editors = stack.run(loose / "bin" / "python-on-base", "-c", LOOK)

    for ran in (*shells, editors):
        assert ran.returncode == 0, ran.stderr
        found = json.loads(ran.stdout)
        assert (found["tool"], found["inbase"]) == ("2.0", "1.0")
    assert json.loads(shells[1].stdout)["venv"] == str(loose)
