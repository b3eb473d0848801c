"""Diagnosis of all ranks of a job: shared and differing values, silent ranks, and many ranks at once."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Cli
from tests.doctor.test_shell import nothing_else
from uenvtool.doctor.finding import Examination, Finding
from uenvtool.doctor.ranks import SUBDIRECTORY, RankReport, combined, current_rank, examine_ranks, parsed_report
from uenvtool.knowledge.finding import load_findings

__all__ = ["nothing_else"]
KNOWN = load_findings().findings
SEEN = Examination()


def report(rank: int, *faults: tuple[str, str], per_node: int = 4, **values: str) -> RankReport:
    """The report of a rank; four ranks are on a node."""
    return RankReport(rank=rank, node=f"nid{rank // per_node + 1:04}", faults=faults, values=values)


def lines(reports: list[RankReport], missing: dict[int, str] | None = None) -> list[str]:
    return [f"{f.known.id}: {f.detail} {f.where}".strip() for f in combined(reports, missing or {}, KNOWN).findings]


def test_what_all_ranks_have_is_said_once_and_without_nodes() -> None:
    fault = ("threads-over-cores", "64 threads on 8 cores")

    found = combined([report(rank, fault) for rank in range(16)], {}, KNOWN).findings

    assert [(f.known.id, f.nodes, f.count) for f in found] == [("threads-over-cores", frozenset(), 16)]


def test_the_fault_of_one_node_is_said_with_its_name() -> None:
    fault = ("plugin-not-found", "no libnccl-net.so")

    assert lines([report(rank, *([fault] if 8 <= rank < 12 else [])) for rank in range(16)]) == [
        "plugin-not-found: no libnccl-net.so on nid0003"
    ]


def test_variable_that_differs_on_one_node_is_named() -> None:
    other = [report(rank, NCCL_CROSS_NIC="0" if rank == 5 else "1") for rank in range(8)]
    unset = [report(rank, **({} if rank < 4 else {"NCCL_CROSS_NIC": "1"})) for rank in range(12)]

    assert lines(other) == ["rank-differs: NCCL_CROSS_NIC is 0 on nid0002 (rank 5); elsewhere 1"]
    assert lines(unset) == ["rank-differs: NCCL_CROSS_NIC is unset on nid0001 (rank 0-3); elsewhere 1"]


def test_silent_ranks_are_listed_first_with_their_nodes() -> None:
    differing = [report(0, ("core-dumps-on", "x"), NCCL_NET="a"), report(3, NCCL_NET="b")]

    assert [line.partition(":")[0] for line in lines(differing)] == ["rank-differs", "core-dumps-on"]
    assert lines(differing, {1: "nid0002", 2: "nid0003"})[0] == "rank-silent: rank 1-2 on nid[0002-0003]"


def test_details_that_differ_on_every_rank_are_one_finding() -> None:
    reports = [report(rank, ("master-unreachable", f"host{rank}"), per_node=1) for rank in range(100)]

    assert lines(reports) == ["master-unreachable: host0, host1 and 98 more on rank 0-99"]


def step(rank: int, size: int) -> dict[str, str]:
    """Return the variables of a rank in a Slurm step with one rank per node."""
    return {
        "SLURM_JOB_ID": "17",
        "SLURM_STEP_ID": "0",
        "SLURM_NTASKS": str(size),
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NODELIST": f"n[1-{size}]",
        "SLURM_STEP_TASKS_PER_NODE": f"1(x{size})",
    }


def reported(
    folder: Path, alive: Iterable[int], size: int, seconds: float = 2, standby: float = 0.2
) -> list[Examination]:
    """Return the reports of the living ranks, which run at the same time."""

    def rank(number: int) -> Examination | None:
        return examine_ranks(step(number, size), folder, seconds=seconds, standby=standby, examine=lambda: SEEN)

    with ThreadPoolExecutor(size) as pool:
        return [found for found in pool.map(rank, alive) if found]


def test_rank_0_reports_after_all_ranks_and_removes_the_files(place: Path) -> None:
    folder = place / "ranks"

    started = time.monotonic()
    (found,) = reported(folder, range(4), 4, seconds=20)

    assert found.findings == ()
    assert time.monotonic() - started < 10
    assert list(folder.iterdir()) == []


def test_rank_files_contain_no_secret(place: Path) -> None:
    secret = "token=Zq7xK9mP2v"
    seen = Examination(findings=(Finding(known=KNOWN["python-broken"], detail=secret),), facts=(("runs on", secret),))
    environ = {**step(0, 2), "NCCL_NET": secret}
    own = place / f"{SUBDIRECTORY}-17-0-0"
    own.mkdir()
    (own / "1.json").write_text(json.dumps(dataclasses.asdict(report(1, NCCL_NET="b", **{"runs on": "c"}))))

    found = examine_ranks(environ, place, seconds=0, examine=lambda: seen)

    details = [one.detail for one in found.findings] if found else []
    assert len(details) == 3
    assert all(detail.endswith("token=(hidden)") for detail in details), details


@pytest.mark.parametrize(
    ("alive", "silent", "nodes"),
    [
        ([1, 2, 3, 4, 5, 6], "rank 0,7", "n[1,8]"),
        pytest.param([0, 1], "rank 2-7", "n[3-8]", marks=pytest.mark.slow),
        pytest.param([1, 2, 3, 4, 5, 6, 7], "rank 0", "n1", marks=pytest.mark.slow),
        pytest.param([3], "rank 0-2,4-7", "n[1-3,5-8]", marks=pytest.mark.slow),
    ],
)
def test_one_living_rank_reports(place: Path, alive: list[int], silent: str, nodes: str) -> None:
    (found,) = reported(place / "ranks", alive, 8)

    assert [(f.known.id, f.detail, f.where) for f in found.findings] == [("rank-silent", silent, f"on {nodes}")]


def test_late_rank_does_not_report_again(place: Path) -> None:
    folder = place / "ranks"
    assert len(reported(folder, [1, 2], 3, seconds=0)) == 1

    assert reported(folder, [0], 3, seconds=0) == []
    assert [str(path.relative_to(folder)) for path in folder.rglob("*")] == [
        f"{SUBDIRECTORY}-17-0-0",
        f"{SUBDIRECTORY}-17-0-0/reported",
    ]


def test_hanging_rank_does_not_report_again(place: Path) -> None:
    folder = place / "ranks"

    def look() -> Examination:
        assert len(reported(folder, [1], 2, seconds=0)) == 1
        return SEEN

    assert examine_ranks(step(0, 2), folder, seconds=0, examine=look) is None
    restarted = {**step(0, 2), "SLURM_RESTART_COUNT": "1"}
    assert examine_ranks(restarted, folder, seconds=0, examine=lambda: SEEN) is not None


def test_other_files_in_the_directory_are_kept(place: Path) -> None:
    folder = place / "ranks"
    folder.mkdir()
    for name in ("mine.txt", "0.json", "7.json", "2.begun"):
        (folder / name).write_text("mine")

    assert len(reported(folder, range(4), 4)) == 1

    assert {path.name: path.read_text() for path in folder.iterdir()} == dict.fromkeys(
        ("mine.txt", "0.json", "7.json", "2.begun"), "mine"
    )


def test_report_of_another_user_adds_no_command(cli: Cli, place: Path) -> None:
    folder = place / SUBDIRECTORY
    folder.mkdir()
    data = {**dataclasses.asdict(report(0)), "faults": [["core-dumps-on", "x\nrm -rf ~", ["rm -rf ~"]]]}
    (folder / "0.json").write_text(json.dumps(data))
    (folder / "1.json").write_text(json.dumps({**dataclasses.asdict(report(1, ("core-dumps-on", "x\nrm -rf ~")))}))

    answer = cli("doctor", "--ranks", "--folder", place, "--fix")

    assert [line for line in answer.stdout.splitlines() if not line.startswith("#")] == ["ulimit -c 0"]


def test_invalid_report_files_are_ignored(cli: Cli, place: Path) -> None:
    folder = place / SUBDIRECTORY
    folder.mkdir()
    os.mkfifo(folder / "1.json")
    (folder / "2.json").symlink_to("/dev/zero")
    (folder / "0.json").write_text(json.dumps(dataclasses.asdict(report(0))))

    answer = cli("doctor", "--ranks", "--folder", place)

    assert "ranks: 1 of 1 on nid0001" in answer.stdout


@pytest.mark.parametrize(
    ("environ", "seen"),
    [
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURMD_NODENAME": "n1"}, (3, 8)),
        ({"RANK": "1", "PET_NNODES": "2", "WORLD_SIZE": "8"}, (1, 2)),
        ({"RANK": "x", "WORLD_SIZE": "8"}, None),
        ({}, None),
    ],
)
def test_current_rank_is_read_from_scheduler_variables(environ: dict[str, str], seen: tuple[int, int] | None) -> None:
    rank = current_rank(environ)

    assert (rank and (rank.rank, rank.size)) == seen


def test_report_round_trip() -> None:
    here = report(7, ("core-dumps-on", "x"), NCCL_NET="y")

    assert parsed_report(json.loads(json.dumps(dataclasses.asdict(here)))) == here


JSON = st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3))


@given(st.dictionaries(st.sampled_from(["rank", "node", "faults", "values", "unseen"]), JSON) | JSON)
def test_damaged_report_is_rejected(data: object) -> None:
    parsed_report(data)


def test_other_ranks_wait_longer_than_rank_0(place: Path) -> None:
    started = time.monotonic()

    assert len(reported(place / "ranks", [1], 2, seconds=0, standby=0.6)) == 1
    assert time.monotonic() - started >= 0.6
