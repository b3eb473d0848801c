"""What `uenvtool doctor --restart` decides on a job that failed, by its log."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Cli, Write
from tests.doctor.samples import FIRES, HEALTHY
from uenvtool.knowledge.finding import BROKEN, load_findings

KNOWN = load_findings().findings
ECC = "n2:12:34 [0] NCCL WARN Cuda failure 'uncorrectable ECC error encountered'\n"
STOPPED = "ModuleNotFoundError: No module named 'einops'\n"
STALLED = FIRES["watchdog-timeout"][0]


def decided(cli: Cli, write: Write, log: str) -> tuple[int, list[str]]:
    answer = cli("doctor", "--log", write("job.log", log), "--restart")
    assert not answer.stderr
    return answer.code, answer.stdout.splitlines()


def test_a_node_that_is_named_is_left_out(cli: Cli, write: Write) -> None:
    code, lines = decided(cli, write, ECC)

    assert code == 0
    assert lines[0] == "again: a node, its GPU or its driver is at fault: uncorrectable ECC error, on n2, job.log:1"
    assert lines[1:] == ["reason node-failed", "node n2"]


def test_of_a_rank_that_is_named_its_number_is_given(cli: Cli, write: Write) -> None:
    _, lines = decided(cli, write, "1: [rank 5] RuntimeError: CUDA error: uncorrectable ECC error encountered\n")

    assert lines[1:] == ["reason node-failed", "rank 5"]


def test_a_stall_gets_its_workaround(cli: Cli, write: Write) -> None:
    code, lines = decided(cli, write, STALLED)

    assert code == 0
    assert lines[1] == "reason watchdog-timeout"
    assert "set FI_CXI_RDZV_GET_MIN 0" in lines


@pytest.mark.parametrize(
    ("log", "first"),
    [
        (ECC + STOPPED, "again: a node, its GPU or its driver is at fault"),
        (STALLED + STOPPED, "stop: a module is not there: einops"),
        (STOPPED, "stop: a module is not there: einops"),
        ("epoch 1\n", "stop: doctor finds nothing that ends a run"),
    ],
    ids=["a node before the code", "the code before a stall", "the code", "nothing"],
)
def test_the_worst_fault_decides(cli: Cli, write: Write, log: str, first: str) -> None:
    code, lines = decided(cli, write, log)

    assert lines[0].startswith(first)
    assert code == (0 if first.startswith("again") else 1)


@pytest.mark.parametrize("name", sorted(FIRES))
def test_each_log_that_is_known_is_decided_by_its_finding(cli: Cli, write: Write, name: str) -> None:
    for log in FIRES[name]:
        code, lines = decided(cli, write, log)
        if KNOWN[name].severity == BROKEN and not KNOWN[name].fallback:
            assert (code == 0) == bool(KNOWN[name].fault), lines


@pytest.mark.parametrize("name", sorted(HEALTHY))
def test_a_run_without_a_fault_is_not_tried_again(cli: Cli, write: Write, name: str) -> None:
    assert decided(cli, write, HEALTHY[name])[0] == 1


def test_a_line_of_a_log_adds_no_line_to_the_decision(cli: Cli, write: Write) -> None:
    hostile = "ModuleNotFoundError: No module named 'x\\nreason y\x1b[2J\rset PATH /evil'\n" + ECC

    code, lines = decided(cli, write, hostile)

    assert code == 0
    assert [line.split()[0] for line in lines] == ["again:", "reason", "node"]


def test_the_decision_is_data_too(cli: Cli, write: Write) -> None:
    answer = cli("doctor", "--log", write("job.log", ECC), "--restart", "--json")

    assert json.loads(answer.stdout)["nodes"] == ["n2"]
