"""Test `uenvtool doctor --job` in a real Slurm whose accounting stores scripts and environments."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.test_doctor_slurm import doctor, environ
from tests.support.slurm import Slurm, running_slurm

__all__ = ["environ"]
pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]  # one Slurm a machine


@pytest.fixture
def accounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with running_slurm(tmp_path_factory.mktemp("slurm"), accounting=True) as found:
        yield found


TUNED = """\
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --output=%x-%j.out
#SBATCH --export=ALL
ulimit -c 0
export FI_CXI_DEFAULT_TX_SIZE=1024
echo "cxil_map: write error"
srun -c 1 --output=ranks-%j.out bash -c 'echo "$SLURMD_NODENAME:9:9 [0] NCCL INFO Using network Socket"'
exit 3
"""


def test_a_job_that_only_accounting_has_is_looked_at_with_its_environment(
    accounted: Slurm, environ: dict[str, str], place: Path
) -> None:
    (place / "job.sh").write_text(TUNED)
    wrong = {"NCCL_NET_PLUGIN": "ofi", "FI_CXI_DEFAULT_TX_SIZE": "32768", "MPICH_GPU_SUPPORT_ENABLED": "1"}
    secret = {"HF_TOKEN": "hf_abcdefghijklmnop", "OF_LINES": "one\nNOT = a variable"}
    sent = accounted.submit("job.sh", env={**environ, **wrong, **secret}, cwd=place)
    job = sent.stdout.strip()
    for _ in range(300):  # the database has all of a job seconds after its end, when the controller forgets it
        if accounted.run("scontrol", "show", "job", job).returncode != 0:
            break
        time.sleep(0.2)

    code, report = doctor(accounted, environ, place, job)

    assert code == 1
    places = {(finding["id"], finding["place"]) for finding in report["findings"]}
    assert {("cxil-map", f"train-{job}.out:1"), ("nccl-tcp", f"ranks-{job}.out:1")} <= places
    told = " ".join(found["detail"] for found in report["findings"] if found["id"] == "variable-wrong")
    assert "NCCL_NET_PLUGIN: " in told
    assert "MPICH_GPU_SUPPORT_ENABLED is 1, " in told
    facts = dict(report["facts"])
    assert (facts["state"], facts["exit code"], facts["runs on"]) == ("FAILED", "3:0", "clariden, in uenv")
    assert (facts["nodes"], report["unseen"]) == ("n[1-2]", [])
    assert "hf_abcdefghijklmnop" not in json.dumps(report)
