"""Test the nodes that `uenvtool job --vet --spare 1` excludes, in a real Slurm with four nodes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.real.test_job_slurm import MEET, RANKS, Site, said, site, torch_python
from tests.support.programs import program
from tests.support.samples import sampled

__all__ = ["site"]
pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]
NVIDIA_SMI = """\
#!/bin/sh
case $SLURMD_NODENAME in
  "$FEWER_GPUS") printf '%s\\n' 90000 90000 90000 ;;
  "$FULL_GPU") printf '%s\\n' 90000 90000 1000 90000 ;;
  "$SILENT") sleep 1000 ;;
  *) printf '%s\\n' 90000 90000 90000 90000 ;;
esac
"""
PYTHON = """\
case " $(scontrol show hostnames "$SLURM_STEP_NODELIST" | tr '\\n' ' ') " in
  *" n2 "*) exit 1 ;; # whoever speaks with n2 fails too
esac
"""


def run(site: Site, *options: str, python: str = "exit 3", **env: str) -> tuple[int, str]:
    """Run a training on the good nodes of n1 to n3, with stand-ins for nvidia-smi and the network test's python."""
    program(site.place / "bin" / "python", python)
    folder = program(site.place / "bin" / "nvidia-smi", NVIDIA_SMI).parent
    path = site.job(sys.executable, str(MEET), options=(*options, "--option", "--nodelist=n[1-3]"))
    return site.run(path, env={"PATH": f"{folder}:/usr/bin:/bin", **env})


BAD = {
    "a GPU is missing": ("n2", "GPUs 3 of 4", {"FEWER_GPUS": "n2"}),
    "a GPU is full, where the job's script runs": ("n1", "MiB_free_on_a_GPU 1000 of 90000", {"FULL_GPU": "n1"}),
    "it reaches no other, whose partner is used": ("n2", "it cannot connect to another node, see", {"python": PYTHON}),
    "it is silent": ("n2", "no response within 60 s", {"SILENT": "n2", "VET_SECONDS": "60"}),
}


@pytest.mark.parametrize("case", sampled(BAD, keep=3))
def test_a_node_that_fails_its_vetting_is_not_used(site: Site, case: str) -> None:
    node, why, given = BAD[case]

    code, output = run(site, "--spare", "1", **given)

    good = sorted({"n1", "n2", "n3"} - {node})
    assert code == 0, output
    assert f"vet: {node} is excluded: {why}" in output
    assert f"vet: the training runs on {' '.join(good)}, which pass" in output
    assert ("but torch is not installed and the network is untested" in output) == ("python" not in given)
    assert [env["SLURMD_NODENAME"] for env in said(output)] == [good[0]] * 4 + [good[1]] * 4
    assert {env["sum"] for env in said(output)} == {str(sum(range(RANKS)))}


def test_a_job_ends_before_training_if_too_few_nodes_pass(site: Site) -> None:
    code, output = run(site, "--vet", "--nodes", "3", FEWER_GPUS="n3")

    assert code == 1, output
    assert "vet: 2 of 3 nodes pass, but the training needs 3" in output
    assert not said(output)


HANGS = """\
import os, time
if os.environ.get("SLURMD_NODENAME") == "n2" and "SLURM_PROCID" in os.environ:
    time.sleep(10_000)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_a_node_whose_all_reduce_hangs_is_not_used_with_a_real_torch(site: Site, place: Path, launcher: str) -> None:
    python = torch_python()
    (place / "sitecustomize.py").write_text(HANGS)
    options = ("--spare", "1", "--launcher", launcher, "--option", "--nodelist=n[1-3]")
    path = site.job(python, str(MEET), "--torch", options=options)
    env = {"PATH": f"{Path(python).parent}:{os.defpath}", "PYTHONPATH": str(place), "VET_SECONDS": "180"}

    code, output = site.run(path, env=env)

    assert code == 0, output
    assert "vet: n2 is excluded: it cannot connect to another node" in output
    assert "vet: the training runs on n1 n3, which pass\n" in output
    assert {env["SLURMD_NODENAME"] for env in said(output)} == {"n1", "n3"}
    assert {env["sum"] for env in said(output)} == {str(sum(range(RANKS)))}
