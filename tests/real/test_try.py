"""Test `uenvtool try` in a real Slurm with four nodes, with stand-ins for nccl-tests and with a real torch."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Answer, Cli
from tests.real.test_job_slurm import torch_python
from tests.support.programs import program
from tests.support.samples import sampled
from tests.support.slurm import Slurm
from tests.trial.samples import written
from uenvtool.trial import submit

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]
SYSTEM = """\
description: The Slurm of this test.
site: here
fabric: ethernet
nodes: {gh200: {target: zen4, os: sles15, cores: 288%s}}
runtimes: [conda]
jobs: {runtimes: {conda: {monitor: "sleep 1000"}}}
scheduler: {name: slurm, defaults: {nodes: 2, mem: "100"}}
"""
GPU = ", gpu: {vendor: nvidia, model: GH200, arch: 90, count: 4, memory: 96}"
REFERENCES = """\
description: Figures of this test.
systems: [mine]
figures:
- {test: all_reduce_perf, nodes: 2, bytes: 1073741824, busbw: 150, tolerance: 0.1, source: "this test, 2026"}
- {test: all_reduce_perf, nodes: 4, bytes: 1073741824, busbw: 150, tolerance: 0.1, source: "this test, 2026"}
"""
PERF = """\
nodes=" $(scontrol show hostnames "$SLURM_STEP_NODELIST" | tr '\\n' ' ')"
[ "$SLURMD_NODENAME" != "$DEAD" ] || exit 1
[ "$SLURMD_NODENAME" != "$HANGS" ] || sleep 1000
case $nodes in *" $DEAD "*) sleep 20; exit 1 ;; esac
[ "$SLURM_PROCID" = 0 ] || exit 0
speed=${SPEED:-155.5}
case $nodes in *" $SLOW "*) speed=120.25 ;; esac
echo "# Collective test starting: $(basename "$0")"
rank=0
for node in $nodes; do
  for device in 0 1 2 3; do
    echo "#  Rank  $rank Group  0 Pid  10$rank on  $node device  $device [0x01] NVIDIA GH200"
    rank=$((rank + 1))
  done
done
size=$(($2)) wrong=0
while [ "$size" -le "$4" ]; do
  [ "$size" != 1048576 ] || wrong=${WRONG:-0}
  echo "  $size  $((size / 4))  float  sum  -1  1916.3  70.04  $speed  $wrong  1916.3  70.04  $speed  0"
  size=$((size * 2)) wrong=0
done
echo "# Out of bounds values : 0 OK"
echo "# Avg bus bandwidth    : $speed"
"""
PYTHON = """\
for test do :; done
if [ "$test" = devices ]; then
  count=4
  [ "$SLURMD_NODENAME" != "$FEWER" ] || count=3
  gpus="$count x NVIDIA GH200 120GB, 101 GB"
  echo "$SLURMD_NODENAME has $gpus and torch 2.9.1 from /env/torch, imported in 2.5 s"
  echo "$SLURMD_NODENAME has nccl-tests"
elif [ "$RANK" = 0 ]; then
  for step in $(seq 20); do echo "step $step/20 loss 0.${step}25${LOSS:+$SLURM_STEP_ID}"; done
fi
"""


@pytest.fixture
def try_(slurm: Slurm, cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `uenvtool try` on a system whose programs are stand-ins. The options `env` go into the job."""
    place.chmod(0o755)
    for name, text in (("systems", SYSTEM % GPU), ("references", REFERENCES)):
        (place / name).mkdir()
        (place / name / "mine.yaml").write_text(text)
    program(place / "env" / "bin" / "python", PYTHON)
    for name in ("all_reduce_perf", "sendrecv_perf"):
        program(place / "env" / "bin" / name, PERF)
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    monkeypatch.setattr(submit, "SECONDS", 0.2)

    def run(*words: str, nodes: int = 4, **env: str) -> Answer:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return cli("try", "-s", "mine", "--image", "env", "--nodes", str(nodes), *words)

    return run


def rows(answer: Answer) -> dict[str, str]:
    return {check["test"]: check["verdict"] for check in json.loads(answer.stdout)["checks"]}


def test_a_right_system_is_right(try_: Any, cli: Cli, place: Path) -> None:
    answer: Answer = try_("-o", "try.svg")

    assert answer.code == 0, answer.stdout + answer.stderr
    assert answer.stdout.splitlines()[-5:] == [*(f"Vetted: n{number}" for number in range(1, 5)), "right"]
    assert "pairs of nodes 155.5 GB/s 150 GB/s -10% good this test, 2026" in " ".join(answer.stdout.split())
    (folder,) = (place / "logs").iterdir()
    again = cli("try", folder, "--json")
    assert (again.code, json.loads(again.stdout)["result"]) == (0, "right")
    assert set(rows(again).values()) <= {"good", ""}
    drawn = ElementTree.parse(place / "try.svg").getroot()
    assert [line.get("class") for line in drawn.iter("{http://www.w3.org/2000/svg}polyline")] == ["reference", "run"]


FAULTS: dict[str, tuple[dict[str, str], str, str]] = {
    "slow everywhere": ({"SPEED": "101.5"}, "32% below at 1 GB", "Unclear: n1"),
    "wrong sums of one size": ({"WRONG": "17"}, "corrupted data", "Unclear: n1"),
    "a dead node": ({"DEAD": "n3"}, "n3: ", "Cordon: n3"),
    "a slow node": ({"SLOW": "n2"}, "n2: 20% below at 1 GB", "Cordon: n2"),
    "a GPU is missing": ({"FEWER": "n4"}, "differs from the system's file", "Cordon: n4"),
    "another loss with the same seed": ({"LOSS": "1"}, "with the same seed", "Unclear: n1"),
}


@pytest.mark.parametrize("fault", sampled(FAULTS, keep=6))
def test_a_fault_is_found_and_its_node_excluded(try_: Any, fault: str) -> None:
    env, verdict, node = FAULTS[fault]

    answer: Answer = try_(**env)

    lines = answer.stdout.splitlines()
    assert answer.code == 1, answer.stdout + answer.stderr
    assert lines[-1].startswith("wrong: ")
    assert verdict in answer.stdout
    assert node in lines
    cordoned = [line for line in lines if line.startswith("Cordon: ")]
    assert cordoned == [node] * node.startswith("Cordon")
    assert ("Vetted: n1" in lines) == node.startswith("Cordon")


def test_the_dead_one_of_two_nodes_is_found(try_: Any) -> None:
    answer: Answer = try_(nodes=2, DEAD="n2")

    assert answer.code == 1
    assert answer.stdout.splitlines()[-3:-1] == ["Vetted: n1", "Cordon: n2"], answer.stdout


def test_no_wait_returns_and_the_results_are_read_later(try_: Any, slurm: Slurm, cli: Cli) -> None:
    answer: Answer = try_("--no-wait", nodes=2)

    assert answer.code == 0, answer.stderr
    number = answer.stdout.strip()
    assert f"next: uenvtool try logs/try-{number}" in " ".join(answer.stderr.split())
    early = cli("try", f"logs/try-{number}")
    assert early.code in (1, 2)
    slurm.exit_code(number)
    assert cli("try", f"logs/try-{number}").stdout.endswith("\nright\n")


FORKED = """\
import os, sys
import torch, torch.distributed

source, file, world, port = sys.argv[1:]
os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), 1)
for rank in range(int(world)):
    if os.fork() == 0:
        os.environ.update(
            RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=world, MASTER_ADDR="localhost", MASTER_PORT=port
        )
        sys.argv = ["-c", "train"]
        exec(compile(open(source).read(), "try.python", "exec"), {"__name__": "__main__"})
        os._exit(0)
sys.exit(any(os.wait()[1] for _ in range(int(world))))
"""


@pytest.mark.nightly
def test_real_torch_trains_to_one_loss(cli: Cli, place: Path) -> None:
    """Each run imports torch once and forks its ranks, because eight imports take minutes on two cores."""
    python, source = torch_python(), ROOT / "uenvtool" / "job" / "templates" / "try.python"
    logs = {}
    for number, (name, world) in enumerate({"training-one-rank": 1, "training-1": 8, "training-2": 8}.items()):
        words = [python, "-c", FORKED, str(source), name, str(world), str(29100 + number)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=500)
        assert done.returncode == 0, done.stderr
        logs[name] = (place / name).read_text()

    found = rows(cli("try", written(place / "logs" / "try-1", logs=logs), "--json"))

    assert found["training, same seed twice"] == found["training, one and all ranks"] == "good"
    assert logs["training-1"] == logs["training-2"] != logs["training-one-rank"]
    assert len(logs["training-1"].splitlines()) == 20


@pytest.mark.nightly
def test_real_torch_trains_to_the_same_loss_on_one_and_on_four_ranks(try_: Any, place: Path) -> None:
    """Each of four ranks imports torch in each of seven tests, which takes most of the time."""
    python = torch_python()
    (place / "systems" / "mine.yaml").write_text(SYSTEM % "")
    for path in (place / "env" / "bin").iterdir():
        path.unlink()
    program(place / "env" / "bin" / "python", f'exec "{python}" "$@"')

    answer: Answer = try_(
        "--json",
        "--time",
        "60",
        "--option",
        "--ntasks-per-node=2",
        "--option",
        "--cpus-per-task=1",
        nodes=2,
        TRY_SECONDS="900",
    )

    found = rows(answer)
    assert found["training, same seed twice"] == found["training, one and all ranks"] == "good"
    assert "all_reduce_bench 4 MB, 2 nodes" in found
