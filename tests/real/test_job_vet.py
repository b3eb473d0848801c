"""The nodes that `uenvtool job --vet --spare 1` looks at before training starts, in a real Slurm of four nodes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.real.test_job_slurm import MEET, RANKS, Site, said, site, torch_python

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
#!/bin/sh
case " $(scontrol show hostnames "$SLURM_STEP_NODELIST" | tr '\\n' ' ') " in
  *" n2 "*) exit 1 ;; # whoever speaks with n2 fails too
esac
"""


def run(site: Site, *options: str, python: str = "#!/bin/sh\nexit 3\n", **env: str) -> tuple[int, str]:
    """Run a training on good nodes of n1 to n3, with stand-ins for nvidia-smi and the python of the network test."""
    programs = site.place / "bin"
    programs.mkdir()
    for name, text in (("nvidia-smi", NVIDIA_SMI), ("python", python)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    path = site.job(sys.executable, str(MEET), options=(*options, "--option", "--nodelist=n[1-3]"))
    return site.run(path, env={"PATH": f"{programs}:/usr/bin:/bin", **env})


@pytest.mark.parametrize(
    ("bad", "why"),
    [({"FEWER_GPUS": "n2"}, "GPUs 3 of 4"), ({"FULL_GPU": "n1"}, "MiB_free_on_a_GPU 1000 of 90000")],
    ids=["a GPU is missing", "a GPU is full, on the node where the job's script runs"],
)
def test_a_node_that_fails_its_vetting_is_not_used(site: Site, bad: dict[str, str], why: str) -> None:
    code, output = run(site, "--spare", "1", **bad)

    (node,) = bad.values()
    good = sorted({"n1", "n2", "n3"} - {node})
    assert code == 0, output
    assert f"vet: {node} is left out: {why}\n" in output
    assert f"vet: training runs on {' '.join(good)}, which pass, but not for the network: there is no torch" in output
    assert [env["SLURMD_NODENAME"] for env in said(output)] == [good[0]] * 4 + [good[1]] * 4
    assert {env["sum"] for env in said(output)} == {str(sum(range(RANKS)))}


def test_a_node_that_reaches_no_other_is_not_used_and_its_partner_is(site: Site) -> None:
    code, output = run(site, "--spare", "1", python=PYTHON)

    assert code == 0, output
    assert "vet: n2 is left out: it does not reach another node, see logs/meet-" in output
    assert [env["SLURMD_NODENAME"] for env in said(output)] == ["n1"] * 4 + ["n3"] * 4


def test_a_job_ends_before_training_if_too_few_nodes_pass(site: Site) -> None:
    code, output = run(site, "--vet", "--nodes", "3", FEWER_GPUS="n3")

    assert code == 1, output
    assert "vet: 2 of 3 nodes pass, and training needs 3" in output
    assert not said(output)


@pytest.mark.nightly
def test_a_node_that_is_silent_is_not_used(site: Site) -> None:
    code, output = run(site, "--spare", "1", SILENT="n2", VET_SECONDS="60")

    assert code == 0, output
    assert "vet: n2 is left out: it said nothing in 60 s" in output
    assert {env["SLURMD_NODENAME"] for env in said(output)} == {"n1", "n3"}


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
    assert "vet: n2 is left out: it does not reach another node" in output
    assert "vet: training runs on n1 n3, which pass\n" in output
    assert {env["SLURMD_NODENAME"] for env in said(output)} == {"n1", "n3"}
    assert {env["sum"] for env in said(output)} == {str(sum(range(RANKS)))}
