"""Ranks of a job together: what is the same once, what differs with its nodes, who is silent, quickly also for many."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Answer
from tests.doctor.test_here import nothing_else
from uenvtool.commands.doctor.ranks import examine_ranks, place
from uenvtool.doctor.checks import Fault
from uenvtool.doctor.finding import Examination
from uenvtool.doctor.ranks import RankReport, parsed_report, together
from uenvtool.model.finding_reader import load_findings

__all__ = ["nothing_else"]
Cli = Callable[..., Answer]
KNOWN = load_findings().findings
SEEN = Examination()


def report(rank: int, *faults: Fault, per_node: int = 4, **values: str) -> RankReport:
    """The report of a rank; four ranks are on a node."""
    return RankReport(rank=rank, node=f"nid{rank // per_node + 1:04}", faults=faults, values=values)


def lines(reports: list[RankReport], missing: dict[int, str] | None = None) -> list[str]:
    return [f"{f.known.id}: {f.detail} {f.where}".strip() for f in together(reports, missing or {}, KNOWN).findings]


def test_what_all_ranks_have_is_said_once_and_without_nodes() -> None:
    fault = Fault("threads-over-cores", "64 threads on 8 cores")

    found = together([report(rank, fault) for rank in range(16)], {}, KNOWN).findings

    assert [(f.known.id, f.nodes, f.count) for f in found] == [("threads-over-cores", frozenset(), 16)]


def test_the_fault_of_one_node_is_said_with_its_name() -> None:
    fault = Fault("plugin-not-found", "no libnccl-net.so")

    assert lines([report(rank, *([fault] if 8 <= rank < 12 else [])) for rank in range(16)]) == [
        "plugin-not-found: no libnccl-net.so on nid0003"
    ]


def test_a_variable_that_one_node_has_otherwise_or_not_at_all_is_named() -> None:
    other = [report(rank, NCCL_CROSS_NIC="0" if rank == 5 else "1") for rank in range(8)]
    unset = [report(rank, **({} if rank < 4 else {"NCCL_CROSS_NIC": "1"})) for rank in range(12)]

    assert lines(other) == ["rank-differs: NCCL_CROSS_NIC is 0 on nid0002; elsewhere 1 on rank 5"]
    assert lines(unset) == ["rank-differs: NCCL_CROSS_NIC is unset on nid0001; elsewhere 1 on rank 0-3"]


def test_ranks_that_are_silent_are_named_with_their_nodes_before_all_else() -> None:
    assert lines([report(0)], {1: "nid0002", 2: "nid0003"}) == ["rank-silent: rank 1-2 on nid[0002-0003]"]


def test_a_detail_that_differs_on_every_rank_is_one_finding() -> None:
    reports = [report(rank, Fault("host-unresolved", f"host{rank}"), per_node=1) for rank in range(100)]

    assert lines(reports) == ["host-unresolved: host0, host1 and 98 more on rank 0-99"]


def test_ten_thousand_ranks_are_one_report(cli: Cli, place: Path) -> None:
    folder = place / "ranks"
    folder.mkdir()
    values = {f"NCCL_VARIABLE_{number}": "value" for number in range(40)}
    fault = Fault("core-dumps-on", "without limit")
    for rank in range(10_000):
        mine = {**values, "NCCL_NET": "Socket" if rank == 7_777 else "AWS Libfabric"}
        if rank != 9_000:
            data = RankReport(rank=rank, node=f"nid{rank // 4:06}", faults=(fault,), values=mine).data()
            (folder / f"{rank}.json").write_text(json.dumps(data))

    answer = cli("doctor", "--ranks", "--folder", folder)

    assert answer.code == 1
    assert [line.split()[1] for line in answer.stdout.splitlines()[3:]] == [
        "rank-silent",
        "rank-differs",
        "core-dumps-on",
    ]
    assert "NCCL_NET is Socket on nid001944; elsewhere AWS Libfabric" in answer.stdout


def test_rank_0_waits_for_the_others_and_leaves_nothing(place: Path) -> None:
    folder = place / "ranks"
    environ = {"SLURM_NTASKS": "3", "SLURM_STEP_NODELIST": "n[1-3]", "SLURM_STEP_TASKS_PER_NODE": "1(x3)"}
    assert examine_ranks({**environ, "SLURM_PROCID": "1"}, folder, seconds=0, look=lambda: SEEN) is None

    found = examine_ranks({**environ, "SLURM_PROCID": "0"}, folder, seconds=0.5, look=lambda: SEEN)

    assert found is not None
    assert [(f.known.id, f.detail, f.where) for f in found.findings] == [("rank-silent", "rank 2", "on n3")]
    assert not folder.exists()


def test_the_last_rank_reports_if_rank_0_does_not(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uenvtool.commands.doctor.ranks.STANDBY_SECONDS", 0.2)
    environ = {"SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_STEP_NODELIST": "n[1-2]"}

    found = examine_ranks({**environ, "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}, place / "r", seconds=0, look=lambda: SEEN)

    assert found is not None
    assert [(f.detail, f.where) for f in found.findings] == [("rank 0", "on n1")]


def test_files_of_others_in_the_folder_are_left_alone(place: Path) -> None:
    folder = place / "ranks"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")

    examine_ranks({"SLURM_NTASKS": "1", "SLURM_PROCID": "0"}, folder, seconds=0, look=lambda: SEEN)

    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("environ", "seen"),
    [
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURMD_NODENAME": "n1"}, (3, 8)),
        ({"RANK": "1", "PET_NNODES": "2", "WORLD_SIZE": "8"}, (1, 2)),
        ({"RANK": "x", "WORLD_SIZE": "8"}, None),
        ({}, None),
    ],
)
def test_the_rank_is_the_schedulers(environ: dict[str, str], seen: tuple[int, int] | None) -> None:
    here = place(environ)

    assert (here and (here.rank, here.size)) == seen


def test_outside_of_a_job_the_ranks_have_to_be_named(cli: Cli) -> None:
    answer = cli("doctor", "--ranks")

    assert answer.code == 2
    assert "hint: run it under srun, or name --folder" in answer.stderr


def test_a_report_is_what_was_written() -> None:
    here = report(7, Fault("core-dumps-on", "x", ("ulimit -c 0",)), NCCL_NET="y")

    assert parsed_report(json.loads(json.dumps(here.data()))) == here


JSON = st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3))


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["rank", "node", "faults", "values", "unseen"]), JSON) | JSON)
def test_a_damaged_report_is_none(data: object) -> None:
    parsed_report(data)
