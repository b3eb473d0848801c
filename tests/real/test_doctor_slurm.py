"""`uenvtool doctor --ranks` and `--job` in a real Slurm of four nodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

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
HANGS = "#!/bin/sh\nexec sleep 600\n"


@pytest.fixture
def environ(place: Path) -> dict[str, str]:
    """The variables of a job on Clariden, with NCCL's plugin on the library path and uenvtool on PATH."""
    programs = {
        "bin/uenvtool": f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m uenvtool "$@"\n',
        "rank.sh": RANK,
        "hanging/python": HANGS,
        "lib/libnccl-net.so": "",
    }
    for name, text in programs.items():
        path = place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
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
    words = ["srun", "--nodes=4", "--ntasks-per-node=2", "--wait=20", "--chdir", str(place), "./rank.sh", "--json"]

    ran = slurm.run(*words, env=environ, cwd=place, timeout=120)

    report = json.loads(ran.stdout)
    found = {(finding["id"], finding["nodes"] or finding["ranks"]): finding["detail"] for finding in report["findings"]}
    assert found[("rank-silent", "n4")] == "rank 6-7", ran.stderr
    assert found[("rank-differs", "2-3")] == "NCCL_CROSS_NIC is 0 on n2 (rank 2-3); elsewhere 1"
    assert found[("plugin-not-found", "n3")] == "NCCL_NET=AWS Libfabric, and no libnccl-net.so"
    assert found[("variable-missing", "0-5")]
    assert report["facts"]["ranks"] == "6 of 8 on n[1-3]"


def doctor(slurm: Slurm, environ: dict[str, str], place: Path, *options: str) -> tuple[int, dict[str, object], str]:
    """The exit code, the report and the messages of doctor, outside of a job."""
    env = {name: environ[name] for name in ("PATH", "UENVTOOL_ROOT")}
    ran = slurm.run("uenvtool", "doctor", "--json", *options, env=env, cwd=place)
    return ran.returncode, json.loads(ran.stdout) if ran.stdout else {}, ran.stderr


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
    sent = slurm.run("sbatch", "--parsable", "--wait", "job.sh", env=environ, cwd=place)
    job = sent.stdout.strip()

    code, report, _ = doctor(slurm, environ, place, "--job", job)

    findings = {finding["id"]: finding for finding in report["findings"]}  # type: ignore[attr-defined]
    assert code == 1
    assert findings["cxil-map"]["place"] == f"job-{job}.out:2"
    assert findings["option-behind-command"]["place"] == "script:5"
    facts = dict(report["facts"])  # type: ignore[call-overload]
    assert (facts["state"], facts["exit code"], facts["nodes"]) == ("FAILED", "3:0", "n[1-2]")
    assert facts["NCCL's network"] == "Socket"


def test_a_job_without_output_is_looked_at_as_far_as_it_goes(
    slurm: Slurm, environ: dict[str, str], place: Path
) -> None:
    (place / "job.sh").write_text("#!/bin/bash\n#SBATCH --output=/dev/null\ntrue\n")
    sent = slurm.run("sbatch", "--parsable", "job.sh", env=environ, cwd=place)

    code, report, _ = doctor(slurm, environ, place, "--job", sent.stdout.strip())

    assert (code, report["findings"]) == (0, [])
    assert report["unseen"] == [
        "output: it is not there, or was not named",
        "environment: Slurm keeps none of this job (accounting does, with AccountingStoreFlags=job_env)",
    ]


def test_a_job_that_slurm_does_not_know_is_bad_input(slurm: Slurm, environ: dict[str, str], place: Path) -> None:
    code, _, messages = doctor(slurm, environ, place, "--job", "999999")

    assert code == 2
    assert "hint:" in messages
