"""Test `uenvtool doctor --ranks` and `--job` in a real Slurm with four nodes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import program
from tests.support.project import ROOT
from tests.support.slurm import Slurm

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]  # one Slurm a machine

RANK = """\
#!/bin/bash
case $SLURMD_NODENAME in
  n2) export NCCL_CROSS_NIC=0 ;;
  n3) unset LD_LIBRARY_PATH ;;
esac
case $SLURM_PROCID in
  6) PATH=$HANGING:$PATH ;;
  7) exit 1 ;;
esac
exec uenvtool doctor --ranks --wait 15 "$@"
"""


@pytest.fixture
def environ(place: Path) -> dict[str, str]:
    """Return the variables of a job on Clariden, with NCCL's plugin on the library path and uenvtool on PATH."""
    program(place / "bin" / "uenvtool", f'PYTHONPATH={ROOT} exec {sys.executable} -m uenvtool "$@"')
    program(place / "rank.sh", RANK)
    program(place / "hanging" / "python", "exec sleep 600")
    program(place / "lib" / "libnccl-net.so", "")
    return {
        "PATH": f"{place}/bin:/usr/bin:/bin",
        "CLUSTER_NAME": "clariden",
        "UENV_VIEW": "/u:pytorch:default",
        "UENVTOOL_ROOT": "/nothing",
        "NCCL_NET": "AWS Libfabric",
        "NCCL_CROSS_NIC": "1",
        "LD_LIBRARY_PATH": f"{place}/lib",
        "HANGING": f"{place}/hanging",
        "OMP_NUM_THREADS": "1",
    }


def test_each_of_four_faults_is_named_with_its_node_or_rank(slurm: Slurm, environ: dict[str, str], place: Path) -> None:
    words = ["srun", "--nodes=4", "--ntasks-per-node=2", "--wait=40", "--chdir", str(place), "./rank.sh", "--json"]

    ran = slurm.run(*words, env=environ, cwd=place, timeout=120)

    report = json.loads(ran.stdout)
    found = {(finding["id"], finding["nodes"] or finding["ranks"]): finding["detail"] for finding in report["findings"]}
    assert found[("rank-silent", "n4")] == "rank 6-7", ran.stderr
    assert found[("rank-differs", "2-3")] == "NCCL_CROSS_NIC is 0 on n2 (rank 2-3); elsewhere 1"
    assert found[("plugin-not-found", "n3")] == "NCCL_NET=AWS Libfabric, but libnccl-net.so was not found"
    assert found[("variable-missing", "0-5")]
    assert report["facts"]["ranks"] == "6 of 8 on n[1-3]"


def doctor(slurm: Slurm, environ: dict[str, str], place: Path, job: str) -> tuple[int, Any]:
    """Run doctor outside of a job, and return its exit code and its report, or None."""
    env = {name: environ[name] for name in ("PATH", "UENVTOOL_ROOT")}
    ran = slurm.run("uenvtool", "doctor", "--json", "--job", job, env=env, cwd=place)
    return ran.returncode, json.loads(ran.stdout) if ran.stdout else None


SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --output=job-%j.out
export NCCL_NET_PLUGIN=ofi
#SBATCH --comment=late
echo "n2:9:9 [0] NCCL INFO Using network Socket" "n1:9:9 [0] NCCL INFO Using network Socket"
echo "cxil_map: write error"
exit 3
"""


def test_a_job_is_looked_at_by_its_id(slurm: Slurm, environ: dict[str, str], place: Path) -> None:
    (place / "job.sh").write_text(SCRIPT)
    job = slurm.submit("job.sh", env=environ, cwd=place).stdout.strip()

    code, report = doctor(slurm, environ, place, job)

    findings = {finding["id"]: finding["place"] for finding in report["findings"]}
    assert code == 1
    assert findings["cxil-map"] == f"job-{job}.out:2"
    assert findings["option-behind-command"] == "script:5"
    facts = dict(report["facts"])
    assert (facts["state"], facts["exit code"], facts["nodes"]) == ("FAILED", "3:0", "n[1-2]")
    assert facts["NCCL's network"] == "Socket"


def test_a_job_without_output_is_looked_at_as_far_as_it_goes_and_an_unknown_one_is_bad_input(
    slurm: Slurm, environ: dict[str, str], place: Path
) -> None:
    (place / "job.sh").write_text("#!/bin/bash\n#SBATCH --output=/dev/null\ntrue\n")
    job = slurm.submit("job.sh", env=environ, cwd=place).stdout.strip()

    code, report = doctor(slurm, environ, place, job)

    assert (code, report["findings"]) == (0, [])
    assert [line.partition(":")[0] for line in report["unseen"]] == ["output", "environment"]
    assert doctor(slurm, environ, place, "999999") == (2, None)


HANGS = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=2
srun bash -c 'if [ "$SLURM_PROCID" = 3 ]; then read -r _ < <(sleep 90); else while true; do sleep 90; done; fi'
"""


def test_hang_shows_where_each_rank_of_a_running_job_waits(slurm: Slurm, environ: dict[str, str], place: Path) -> None:
    (place / "hangs.sh").write_text(HANGS)
    job = slurm.run("sbatch", "--parsable", "hangs.sh", env=environ, cwd=place).stdout.strip()
    env = {name: environ[name] for name in ("PATH", "UENVTOOL_ROOT")}
    until = time.monotonic() + 60
    while True:
        ran = slurm.run("uenvtool", "doctor", "--json", "--job", job, "--hang", env=env, cwd=place)
        if ran.returncode == 1 and ran.stdout:
            ranks = json.loads(ran.stdout)["findings"][0]["ranks"]
            if json.loads(ran.stdout)["findings"][0]["id"] == "rank-elsewhere" or time.monotonic() > until:
                break
        assert time.monotonic() < until, ran.stderr
        time.sleep(1)
    slurm.run("scancel", job)

    assert ranks == "3", ran.stdout
