"""Test jobs of the systems in knowledge/systems against the requirements on their sites' pages."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.job.stand_ins import packed_overlay
from tests.support.programs import program

TRAIN = ("--", "python", "train.py")


def job(cli: Cli, *words: str) -> str:
    answer = cli("job", *words, *TRAIN)
    assert answer.code == 0, answer.stderr
    return answer.stdout


def variables(text: str) -> dict[str, str]:
    """What the job exports if the user has set nothing."""
    return dict(re.findall(r'^export (\w+)="\$\{\w+-(.*)\}"', text, re.MULTILINE))


class TestIsambard:
    def test_every_variable_of_the_sites_file_is_there_with_its_value(self, cli: Cli) -> None:
        said = json.loads(cli("explain", "--all", "--json").stdout)
        site = {entry["name"]: {row[0]: row[2] for row in entry["says"]} for entry in said if "name" in entry}
        theirs = {name: says["isambard"] for name, says in site.items() if "isambard" in says}
        ours = variables(job(cli, "-s", "isambard-ai", "--runtime", "apptainer", "--image", "docker://nvcr.io/a:1"))

        assert len(theirs) == 19
        assert {name: ours.get(name) for name in theirs} == {**theirs, "NCCL_DEBUG": None}  # which prints alone


class TestFrontier:
    def test_an_environment_that_is_a_folder_comes_first(self, cli: Cli, tmp_path: Path) -> None:
        program(tmp_path / "env" / "bin" / "python", "echo of the environment")
        text = job(cli, "-s", "frontier", "-A", "a", "--image", str(tmp_path / "env"))

        assert "sbcast" not in text
        lines = text[text.index("environment=") : text.index("# Lines with")]
        ran = subprocess.run(["bash", "-ec", f"{lines}\npython"], capture_output=True, text=True, check=True)
        assert ran.stdout == "of the environment\n"


PBS = """
description: Derecho, of which each job is one of PBS.
site: NCAR
fabric: slingshot
runtimes: [modules]
scheduler: {name: none}
tuning: [slingshot, cuda, pytorch, nccl]
nodes:
  a100: {target: zen3, os: sles15, cores: 64, gpu: {vendor: nvidia, model: A100, arch: 80, count: 4}}
"""


LOADS = "jobs: {runtimes: {modules: {modules: [pytorch]}}}\n"


def test_a_system_without_slurm_has_its_variables(cli: Cli, write: Write) -> None:
    write("systems/derecho.yaml", PBS)

    Path("mine.sh").write_text(cli("activate", "--system", "derecho").stdout)
    env = {"PATH": "/usr/bin:/bin", "PBS_JOBID": "17", "UENVTOOL_QUIET": "1"}
    shown = subprocess.run(["bash", "-c", ". ./mine.sh && env"], env=env, capture_output=True, text=True, check=True)

    assert "NCCL_NET=AWS Libfabric\n" in shown.stdout
    assert "FI_CXI_RX_MATCH_MODE=hybrid\n" in shown.stdout


def test_an_option_without_a_value_is_left_out(cli: Cli, write: Write) -> None:
    write("systems/mine.yaml", PBS.replace("name: none", "name: slurm") + LOADS)

    assert "#SBATCH --time" not in job(cli, "-s", "mine")


@pytest.mark.parametrize(
    "words", [("perlmutter", "-A", "a"), ("isambard-ai", "--runtime", "podman-hpc", "--image", "a")]
)
def test_a_packed_overlay_is_refused_where_nothing_mounts_it(cli: Cli, place: Path, words: tuple[str, ...]) -> None:
    packed_overlay(place, {"in_container": "yes"})

    answer = cli("job", "-s", *words, "--venv", "mine.squashfs", *TRAIN)

    assert answer.code == 2
    assert "cannot mount a packed overlay" in answer.stderr
    assert "unsquashfs -d DIR mine.squashfs" in answer.stderr
