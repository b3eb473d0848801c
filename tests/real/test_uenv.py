"""Test a packed overlay with its base in the real uenv client and in its Slurm plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import peers
from tests.support.kills import FROM_HERE
from tests.support.needs import needs
from tests.support.overlays import install, wheel
from tests.support.samples import sampled
from tests.support.slurm import running_slurm
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
    """A base image with its mount point, wheels, the path of an overlay, and the directory of the uenv client."""

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

    def done(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command that must succeed."""
        ran = self.run(*words)
        assert ran.returncode == 0, ran.stderr
        return ran

    def loaded(self, images: str | Path, views: str, *words: str | Path) -> list[str | Path]:
        """Return the arguments that run a command with loaded images."""
        return ["uenv", "run", images, f"--view={views}", "--", *words]

    def pack(self, base: str | Path, uenvtool: list[str]) -> str:
        """Create and pack an overlay with tool 2 in a loaded base, and return the output."""
        words = [*uenvtool, "venv", "mine", "tool==2.0", "--squash", "--mount", self.tools]
        return self.done(*self.loaded(base, "default", *words)).stderr

    def over_base(self, overlay: Path) -> str:
        """Return the images to load together."""
        return f"{self.image},{overlay}"


BOTH = "default,mine:venv"


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
    script = tmp_path / "uenvtool"
    script.write_text(FROM_HERE)
    return [sys.executable, str(script)]


@pytest.fixture
def overlay(stack: Stack, uenvtool: list[str], place: Path) -> Path:
    """Returns an overlay with tool 2 that was created and packed in the loaded base."""
    said = stack.pack(stack.image, uenvtool)
    started = next(line for line in said.splitlines() if line.strip().startswith("uenv start"))
    assert started.split()[2:] == [f"{stack.image},{place}/mine.squashfs", f"--view={BOTH}"]
    return place / "mine.squashfs"


def versions(found: str) -> tuple[str, str, str]:
    """What LOOK printed of tool, of its metadata, and of a package of the base."""
    seen = json.loads(found)
    return seen["tool"], seen["metadata"], seen["inbase"]


def test_the_line_that_was_printed_loads_it_over_its_base(stack: Stack, overlay: Path) -> None:
    for words in (["python", "-c", LOOK], ["python", "-I", "-c", LOOK], ["bash", "-c", f'python -E -c "{LOOK}"']):
        ran = stack.done(*stack.loaded(stack.over_base(overlay), BOTH, *words))

        found = json.loads(ran.stdout)
        assert versions(ran.stdout) == ("2.0", "2.0", "1.0")
        assert found["prefix"] == found["venv"] == str(stack.tools)
        assert found["pythonpath"] is None


def test_doctor_finds_nothing_but_the_session_and_then_just_what_is_wrong(
    stack: Stack, uenvtool: list[str], overlay: Path
) -> None:
    def found(images: str | Path, views: str) -> set[str]:
        ran = stack.run(*stack.loaded(images, views, *uenvtool, "doctor", "--json"))
        return {finding["id"] for finding in json.loads(ran.stdout)["findings"]} - {"inside-uenv-session"}

    assert found(stack.image, "default") == set()
    assert found(stack.over_base(overlay), BOTH) == set()
    assert found(overlay, "mine:venv") == {"overlay-base-missing"}

    wheel(stack.wheels, "more", "1.0")
    stack.done(*stack.loaded(stack.image, "default", *uenvtool, "venv", overlay.with_suffix(""), "more"))
    assert found(stack.over_base(overlay), BOTH) == {"image-older"}


def test_the_option_uenv_loads_the_base_for_the_command(stack: Stack, uenvtool: list[str], place: Path) -> None:
    made = stack.done(*uenvtool, "venv", "mine", "tool==2.0", "--uenv", stack.image)

    assert (place / "mine" / "pyvenv.cfg").read_text().count(str(stack.mount)) >= 1
    line = next(line.strip() for line in made.stderr.splitlines() if line.endswith("mine/bin/python script.py"))
    Path("script.py").write_text(LOOK)
    ran = stack.done(*line.split())  # as it was printed: the uenv is not loaded after the command
    assert versions(ran.stdout) == ("2.0", "2.0", "1.0")


def test_a_base_of_a_repository_is_named_by_its_label_and_loads_by_it(
    stack: Stack, uenvtool: list[str], place: Path
) -> None:
    repository, label = place / "repo", "stack/v1:rc1@here%zen2"
    stack.run("uenv", "repo", "create", repository)
    config = Path(stack.environment()["HOME"], ".config", "uenv", "config")
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"repo = {repository}\n")
    stack.done("uenv", "image", "add", label, stack.image)

    made = stack.pack(label, uenvtool)
    told = stack.run(*uenvtool, "show", "mine.squashfs").stderr

    line = f"uenv start {label},{place}/mine.squashfs --view={BOTH}"
    assert [line in said for said in (made, told)] == [True, True]
    ran = stack.done("uenv", "run", *line.split()[2:], "--", "python", "-c", LOOK)
    assert versions(ran.stdout) == ("2.0", "2.0", "1.0")


def test_its_base_is_taken_wherever_it_is_mounted_and_no_other(stack: Stack, overlay: Path, place: Path) -> None:
    elsewhere, root, other = place / "elsewhere", place / "unpacked", place / "other.squashfs"
    elsewhere.mkdir()
    subprocess.run(["unsquashfs", "-q", "-n", "-d", root, stack.image], check=True, capture_output=True)
    install(next(root.glob("env/default/lib/python3*/site-packages")), wheel(place / "old", "more", "1.0"))
    subprocess.run(["mksquashfs", root, other, "-quiet", "-no-progress"], check=True, capture_output=True)
    again = "make the overlay again on this base: uenvtool venv"
    refused = {
        f"{overlay}": ["the base of this overlay was not found", str(stack.image)],
        f"{other}:{elsewhere},{overlay}": [f"the uenv mounted at {elsewhere} is not the base", again],
        f"{other},{overlay}": [f"the uenv mounted at {stack.mount} is not the base", again],
    }

    for images, says in refused.items():
        ran = stack.run(*stack.loaded(images, "mine:venv", "python", "-c", "import tool"))
        assert (ran.returncode, [part for part in says if part not in ran.stderr]) == (1, [])
        assert "Traceback" not in ran.stderr
    moved = stack.done(*stack.loaded(f"{stack.image}:{elsewhere},{overlay}", "mine:venv", "python", "-c", LOOK))
    assert (versions(moved.stdout), moved.stderr) == (("2.0", "2.0", "1.0"), "")
    wanted = ["env", "UENVTOOL_ANY_BASE=1", "python", "-c", "import tool"]
    stack.done(*stack.loaded(f"{other},{overlay}", "mine:venv", *wanted))


def test_an_image_that_is_older_than_its_overlay_says_so_where_it_is_started(
    stack: Stack, overlay: Path, uenvtool: list[str]
) -> None:
    loaded = stack.loaded(stack.over_base(overlay), BOTH, "python", "-c")
    before = stack.done(*loaded, "pass")
    wheel(stack.wheels, "more", "1.0")
    added = stack.done(*stack.loaded(stack.image, "default", *uenvtool, "venv", "mine", "more"))

    after = stack.run(*loaded, "import subprocess, sys; subprocess.run([sys.executable, '-c', ''])")

    assert "mine.squashfs is older than mine; pack it again" in added.stderr
    assert before.stderr == ""
    assert after.stderr.count(f"uenvtool: {overlay} is older than {overlay.with_suffix('')}") == 1


def test_the_slurm_plugin_mounts_both_for_a_step_and_for_a_batch_script_with_nothing_to_source(
    stack: Stack, overlay: Path, tmp_path: Path
) -> None:
    plugin = peers.uenv_plugin()
    folder, job = tmp_path / "slurm", overlay.parent / "job.sh"
    folder.mkdir()
    options = [f"--uenv={stack.over_base(overlay)}", f"--view={BOTH}"]
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in options), f'srun python -c "{LOOK}"']
    job.write_text("\n".join(lines) + "\n")

    with running_slurm(folder, plugin=plugin) as slurm:
        words = ["srun", "--ntasks=2", "--oversubscribe", *options, "python", "-c", LOOK]
        step = slurm.run(*words, env=stack.environment())
        sent = slurm.submit(f"--output={job}.out", str(job), env=stack.environment())

    output = Path(f"{job}.out").read_text()
    assert (step.returncode, sent.returncode) == (0, 0), step.stderr + sent.stderr + output
    found = step.stdout.splitlines()
    assert [versions(line) for line in [*found, output.splitlines()[-1]]] == [("2.0", "2.0", "1.0")] * 3
    assert {json.loads(line)["prefix"] for line in found} == {str(stack.tools)}


def test_a_shell_and_an_editors_python_load_the_base(stack: Stack, uenvtool: list[str], overlay: Path) -> None:
    loose = overlay.with_suffix("")
    shells = [stack.done(*uenvtool, "shell", path, "--", "python", "-c", LOOK) for path in (overlay, loose)]
    editors = stack.done(loose / "bin" / "python-on-base", "-c", LOOK)

    assert [versions(ran.stdout) for ran in (*shells, editors)] == [("2.0", "2.0", "1.0")] * 3
    assert json.loads(shells[1].stdout)["venv"] == str(loose)
