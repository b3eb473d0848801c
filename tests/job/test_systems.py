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


BOTH = """
description: A cluster with Slurm and Kubernetes.
site: Ours
fabric: roce
runtimes: [apptainer, runai]
scheduler: {name: slurm, defaults: {partition: gpu, nodes: 4, time: "01:00:00"}}
tuning: [roce, pytorch, nccl]
nodes:
  h200: {target: x86_64_v4, os: ubuntu22.04, cores: 96, gpu: {vendor: nvidia, model: H200, arch: 90, count: 8}}
  a100: {target: x86_64_v3, os: ubuntu22.04, cores: 64, gpu: {vendor: nvidia, model: A100, arch: 80, count: 4}}
jobs:
  required: [account]
  options: {constraint: {value: gpus, reason: selects nodes}}
  partitions:
    gpu: {nodes: 4, time: "04:00:00", uarch: a100, source: ours}
  runtimes:
    runai: {scheduler: {name: kubernetes, defaults: {nodes: 3, gpus-per-node: 2}}, annotations: {}, resources: {r: 1}}
"""


@pytest.mark.parametrize(
    ("own", "pods"),
    [
        ("", "3 pods with 2 GPUs"),
        ("scheduler: {name: kubernetes, defaults: {nodes: 3, gpus-per-node: 2}}, ", "1 pod with 8 GPUs"),
    ],
)
def test_each_runtime_of_a_file_with_two_schedulers_has_its_own(cli: Cli, write: Write, own: str, pods: str) -> None:
    write("systems/mine.yaml", BOTH.replace(own, "", 1) if own else BOTH)
    assert cli("validate", "systems/mine.yaml").code == 0

    slurm = job(cli, "-s", "mine", "-A", "a", "--image", "docker://a/b:1")
    of_pods = job(cli, "-s", "mine", "--runtime", "runai", "--image", "a/b:1", "--name", "j")

    assert "#SBATCH --partition=gpu" in slurm
    assert "#SBATCH --gpus-per-node=4" in slurm
    assert f"# {pods} per pod" in of_pods
    refused = cli("job", "-s", "mine", "--runtime", "runai", "--image", "a/b:1", "--partition", "gpu", *TRAIN)
    assert refused.code == 2
    script = cli("activate", "--system", "mine", "--runtime", "runai").stdout
    assert "UENVTOOL_RANK" not in script
    assert "UENVTOOL_RANK" in cli("activate", "--system", "mine", "--runtime", "apptainer").stdout


def test_a_runtime_of_slurm_on_a_cluster_of_kubernetes_names_its_scheduler(cli: Cli, write: Write) -> None:
    text = "extends: rcp\nruntimes: [runai, apptainer]\n"
    words = ("-s", "mine", "--runtime", "apptainer", "--image", "docker://a/b:1")
    write("systems/mine.yaml", text)
    refused = cli("job", *words, *TRAIN)
    own = "jobs: {runtimes: {apptainer: {scheduler: {name: slurm}}}}"
    write("systems/mine.yaml", f"{text}{own}\n")

    assert refused.code == 2
    assert f"add `{own}` to the file of mine" in refused.stderr
    assert "#SBATCH --nodes=" in job(cli, *words)
