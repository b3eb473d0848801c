"""Jobs of the systems that are files alone: what each site's own pages ask for stands in them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.job.stand_ins import packed_overlay
from tests.support.needs import needs

TRAIN = ("--", "python", "train.py")
GH200_WITHOUT_LL128 = {"NCCL_PROTO": "^LL128", "FI_CXI_RDZV_THRESHOLD": "0", "FI_CXI_RDZV_GET_MIN": "0"}


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
        ours = variables(job(cli, "-s", "isambard-ai"))

        assert len(theirs) == 19
        assert {name: ours.get(name) for name in theirs} == {**theirs, "NCCL_DEBUG": None}  # which prints alone

    def test_the_gh200_of_bristol_do_not_use_ll128_either(self, cli: Cli) -> None:
        assert GH200_WITHOUT_LL128.items() <= variables(job(cli, "-s", "isambard-ai")).items()


class TestLumi:
    def test_masks_of_the_dies_for_srun_and_exclusive_for_torchrun(self, cli: Cli) -> None:
        srun = job(cli, "-s", "lumi", "-A", "project_1", "--launcher", "srun")
        masks = re.findall(r"--cpu-bind=mask_cpu:(\S+)", srun)[0].split(",")

        assert [bin(int(mask, 16)).count("1") for mask in masks] == [7] * 8
        assert sum(int(mask, 16) for mask in masks) & 0x0101010101010101 == 0  # the first core of each is the system's
        assert masks[0] == "fe000000000000"  # die 0 is beside cores 49 to 55
        assert "--numa-binding=exclusive" in job(cli, "-s", "lumi", "-A", "project_1")

    def test_nccl_net_gdr_level_is_removed_since_jobs_hang_with_it(self, cli: Cli) -> None:
        text = job(cli, "-s", "lumi", "-A", "project_1")

        assert "\nunset NCCL_NET_GDR_LEVEL\n" in text
        assert "NCCL_NET_GDR_LEVEL" not in variables(text)
        script = cli("activate", "--system", "lumi").stdout
        assert "ue_remove NCCL_NET_GDR_LEVEL" in script


class TestFrontier:
    def test_nccl_net_is_for_several_nodes(self, cli: Cli) -> None:
        assert variables(job(cli, "-s", "frontier", "-A", "a"))["NCCL_NET"] == "OFI"
        assert "NCCL_NET" not in variables(job(cli, "-s", "frontier", "-A", "a", "-N", "1"))

    def test_an_environment_that_is_a_folder_comes_first(self, cli: Cli, tmp_path: Path) -> None:
        python = tmp_path / "env" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\necho of the environment\n")
        python.chmod(0o755)
        text = job(cli, "-s", "frontier", "-A", "a", "--image", str(python.parent.parent))

        assert "sbcast" not in text
        lines = text[text.index("environment=") : text.index("# A value")]
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


def test_a_system_without_slurm_has_its_variables(cli: Cli, write: Write) -> None:
    write("systems/derecho.yaml", PBS)

    Path("mine.sh").write_text(cli("activate", "--system", "derecho").stdout)
    env = {"PATH": "/usr/bin:/bin", "PBS_JOBID": "17", "UENVTOOL_QUIET": "1"}
    shown = subprocess.run(["bash", "-c", ". ./mine.sh && env"], env=env, capture_output=True, text=True, check=True)

    assert "NCCL_NET=AWS Libfabric\n" in shown.stdout
    assert "FI_CXI_RX_MATCH_MODE=hybrid\n" in shown.stdout


def test_an_option_without_a_value_is_left_out(cli: Cli, write: Write) -> None:
    write("systems/mine.yaml", PBS.replace("name: none", "name: slurm"))

    assert "#SBATCH --time" not in job(cli, "-s", "mine")


@needs("mksquashfs")[0]
@pytest.mark.parametrize(
    "words", [("perlmutter", "-A", "a"), ("isambard-ai", "--runtime", "podman-hpc", "--image", "a")]
)
def test_a_packed_overlay_is_refused_where_nothing_mounts_it(cli: Cli, place: Path, words: tuple[str, ...]) -> None:
    packed_overlay(place, {"in_container": "yes"})

    answer = cli("job", "-s", *words, "--venv", "mine.squashfs", *TRAIN)

    assert answer.code == 2
    assert "mounts no image" in answer.stderr
    assert "unsquashfs -d FOLDER mine.squashfs" in answer.stderr


def test_what_a_system_and_its_local_disk_both_ask_for_is_one_constraint(cli: Cli, write: Write) -> None:
    write(
        "systems/mine.yaml",
        "extends: perlmutter\ndescription: mine\nruntimes: [conda]\njobs:\n  local:\n"
        "    {folder: /local, constraint: disk, reason: fast, source: me 2026}\n",
    )
    text = job(cli, "-s", "mine", "-A", "a", "--image", "env.tar.gz")

    assert re.findall(r"^#SBATCH --constraint=(\S+)", text, re.MULTILINE) == ["gpu&disk"]
