"""Diagnosis of hangs from flight recorder dumps, generated in torch's format or written by a real torch."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.support.needs import skip_without
from uenvtool.doctor.dumps import READER, read_dumps

TORCH = os.environ.get("UENVTOOL_TEST_TORCH_PYTHON", "")
ALL = "[0, 1, 2, 3]"


def call(number: int, name: str = "all_reduce", *, line: int = 98, **more: Any) -> dict[str, Any]:
    """Return an unfinished call with the fields of FlightRecorder.cpp."""
    return {
        "frames": [
            {"name": "all_reduce", "filename": "/env/lib/python3.12/site-packages/torch/distributed/c.py", "line": 7},
            {"name": "step", "filename": "/home/me/train.py", "line": line},
        ],
        "record_id": number - 1,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": number,
        "input_sizes": [[8, 4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[8, 4]],
        "output_dtypes": ["Float"],
        "state": "started",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": False,
        "timeout_ms": 600000,
        "is_p2p": False,
        **more,
    }


def done(numbers: Iterable[int], **more: Any) -> list[dict[str, Any]]:
    return [call(number, state="completed", retired=True, line=120, **more) for number in numbers]


def write(folder: Path, ranks: dict[int, list[dict[str, Any]]], config: dict[str, str] | None = None) -> Path:
    """Write the dump of each rank like torch's pickler, with protocol 2 and without classes."""
    folder.mkdir(exist_ok=True)
    groups = {
        name: {"name": name, "desc": {"1": "tensor", "7": "undefined"}.get(name, "default_pg"), "ranks": text}
        for name, text in (config or {"0": ALL}).items()
    }
    for rank, entries in ranks.items():
        data = {"version": "2.10", "pg_config": groups, "pg_status": {}, "entries": entries}
        (folder / f"flight_rank_{rank}").write_bytes(pickle.dumps(data, protocol=2))
    return folder


def found(cli: Cli, folder: Path, code: int = 1) -> list[tuple[str, str]]:
    answer = cli("doctor", "--json", str(folder))
    assert answer.code == code, answer.stderr
    return [(finding["id"], finding["detail"]) for finding in json.loads(answer.stdout)["findings"]]


PAIR: dict[str, Any] = {"process_group": ("1", "tensor"), "pg_id": 1}
STAGES: dict[str, Any] = {"process_group": ("2", "pipe"), "pg_id": 2}
TWO = {"0": "[0, 1]"}
USUAL = [*done((1,)), call(2)]
STEPS = range(1, 41)
AHEAD = [*done((1, 2, 3)), *(call(number) for number in range(4, 100))]
RECEIVE = {"is_p2p": True, "p2p_seq_id": 5}
OF_A_LIBRARY = [
    {"name": "<lambda>", "filename": "", "line": 0},
    {"name": "step", "filename": "/env/lib/python3.12/site-packages/trainer/loop.py", "line": 31},
]
HANGS: dict[str, tuple[dict[int, list[dict[str, Any]]], dict[str, str], str, str]] = {
    "a rank that did not come, with the line of its last call": (
        {rank: [*done((1, 2, 3)), *([call(4)] if rank != 2 else [])] for rank in range(4)},
        {},
        "rank-behind",
        "rank 2 did not enter all_reduce ([8, 4] Float) number 4 of default_pg; last call: all_reduce number 3 at "
        "/home/me/train.py:120; 3 of 4 ranks wait there at /home/me/train.py:98",
    ),
    "a rank without a dump died": (
        dict.fromkeys((0, 1, 3), USUAL),
        {},
        "rank-gone",
        "rank 2 wrote no dump, but 3 ranks did",
    ),
    "a rank that waits for another one is no cause": (
        # rank 0 hangs; rank 1 waits for it in the pair, and so does not come to the others
        {0: done((1,)), 1: [*done((1,)), call(1, **PAIR)], 2: USUAL, 3: USUAL},
        {"0": ALL, "1": "[0, 1]"},
        "rank-behind",
        "rank 0 did not enter",
    ),
    "groups that are entered in another order": (
        {0: [call(1)], 1: [call(1, **PAIR)]},
        {"0": "[0, 1]", "1": "[0, 1]"},
        "ranks-crossed",
        "rank 1 waits in tensor and did not enter collective 1 of default_pg, "
        "rank 0 waits in default_pg and did not enter collective 1 of tensor",
    ),
    "a rank whose recorder no longer has its calls of a group is not behind in it": (
        # The recorder keeps the last 2,000 calls: many in one group push those of the others out. Rank 0 hangs, rank 1
        # waits for it in the pair; what rank 1 called in the whole job is overwritten.
        {
            0: [*done(STEPS), *done(STEPS, **PAIR)],
            1: [*done(range(9, 41), **PAIR), call(41, **PAIR)],
            2: [*done(STEPS), call(41)],
            3: [*done(STEPS), call(41)],
        },
        {"0": ALL, "1": "[0, 1]"},
        "rank-behind",
        "rank 0 did not enter all_reduce ([8, 4] Float) number 41 of default_pg",
    ),
    "however far the others ran ahead": (
        # collectives are enqueued, hundreds of them, while one rank hangs; of each group the last 32 are kept
        {0: AHEAD, 1: done((1, 2, 3)), 2: AHEAD, 3: AHEAD},
        {},
        "rank-behind",
        "rank 1 did not enter call number 4 of default_pg; last call: all_reduce number 3 at /home/me/train.py:120",
    ),
    "a group whose ranks gloo does not write down is of all": (
        {0: [call(1)], 1: []},
        {"": "[0, 1]"},
        "rank-behind",
        "rank 1 did not enter all_reduce ([8, 4] Float) number 1 of default_pg",
    ),
    "other sizes are right where a collective allows them": (
        {rank: [call(1, "all_to_all", input_sizes=[[rank + 1]], output_sizes=[[4 - rank]])] for rank in range(4)},
        {},
        "ranks-wait",
        "",
    ),
    "other sizes are no cause in a call that completed": (
        # as in a gather of unequal parts, of which each rank writes down its own
        {rank: [*done((1,), input_sizes=[[rank + 1]]), *([call(2)] if rank != 3 else [])] for rank in range(4)},
        {},
        "rank-behind",
        "rank 3 did not enter all_reduce",
    ),
    "a group without a description has its number": (
        # torch writes `undefined` for a group that nobody described (distributed_c10d.py, new_group)
        {0: [call(1, process_group=("7", "undefined"), pg_id=7)], 1: []},
        {"7": "[0, 1]"},
        "rank-behind",
        "rank 1 did not enter all_reduce ([8, 4] Float) number 1 of group 7",
    ),
    "the line of a library where all of a program is one, as with `python -m PACKAGE`": (
        {0: [call(1, frames=OF_A_LIBRARY)], 1: []},
        TWO,
        "rank-behind",
        "wait there at /env/lib/python3.12/site-packages/trainer/loop.py:31",
    ),
    "no line where no Python called": (
        {0: [call(1, frames=[])], 1: []},
        TWO,
        "rank-behind",
        "no earlier call; 1 of 2 ranks wait there",
    ),
    "a receive that nobody sends": (
        {0: [*done((1,)), call(0, "recv 0<-1", **RECEIVE)], 1: done((1,))},
        TWO,
        "rank-behind",
        "rank 1 did not enter the matching call for recv 0<-1 ([8, 4] Float) of rank 0 at /home/me/train.py",
    ),
    "the end of a chain of receives": (
        # a pipeline of ranks 1 to 3, which count from 0 in their group; rank 0 waits for rank 1 in another group
        {
            0: [call(1, **PAIR)],
            1: [call(0, "recv 0<-1", record_id=0, **RECEIVE, **STAGES)],
            2: [call(0, "recv 1<-2", record_id=0, **RECEIVE, **STAGES)],
            3: [],
        },
        {"1": "[0, 1]", "2": "[1, 2, 3]"},
        "rank-behind",
        "rank 3 did not enter the matching call for recv 1<-2 ([8, 4] Float) of rank 2 at /home/me/train.py:98",
    ),
    **{
        f"another {what}": (
            {0: USUAL, 1: [*done((1,)), odd], 2: USUAL, 3: USUAL},
            {},
            "ranks-disagree",
            f"number 2 of default_pg: rank 1 in {shown}",
        )
        for what, odd, shown in (
            ("collective", call(2, "broadcast", line=7), "broadcast ([8, 4] Float) at /home/me/train.py:7"),
            ("size", call(2, input_sizes=[[8, 5]], output_sizes=[[8, 5]]), "all_reduce ([8, 5] Float)"),
            ("type", call(2, input_dtypes=["Half"], output_dtypes=["Half"]), "all_reduce ([8, 4] Half)"),
        )
    },
}
"""The calls of each rank, the ranks of each group, the finding, and the start or end of its detail."""


@pytest.mark.parametrize("case", HANGS)
def test_rank_for_which_others_wait_is_named(cli: Cli, place: Path, case: str) -> None:
    ranks, groups, name, words = HANGS[case]

    (first, *others) = found(cli, write(place / "d", ranks, groups or {"0": ALL}))

    assert first[0] == name
    assert first[1].startswith(words) or first[1].endswith(words)
    assert not others


WELL = {
    "all calls are completed": ({rank: done((1, 2)) for rank in range(4)}, ALL),
    # what the others completed, this rank must have entered since
    "a dump that is older than the others": (
        {rank: done((1, 2) if rank == 1 else (1, 2, 3)) for rank in range(4)},
        ALL,
    ),
    # gloo never writes that a call is completed (ProcessGroupGloo.cpp)
    "gloo let go of the call": ({rank: [call(1, state="scheduled", retired=True)] for rank in (0, 1)}, "[0, 1]"),
}


@pytest.mark.parametrize("case", WELL)
def test_dumps_of_a_healthy_run_have_no_finding(cli: Cli, place: Path, case: str) -> None:
    ranks, group = WELL[case]

    assert found(cli, write(place / "d", ranks, {"0": group}), code=0) == []


def test_disagreement_names_both_groups_of_ranks(cli: Cli, place: Path) -> None:
    ((_, detail),) = found(cli, write(place / "d", *HANGS["another size"][:1]))

    assert "rank 0,2-3 in all_reduce ([8, 4] Float) at /home/me/train.py:98" in detail


def test_rank_with_an_empty_dump_is_gone(cli: Cli, place: Path) -> None:
    folder = write(place / "d", {0: [call(1)], 1: [call(1)], 3: [call(1)]})
    (folder / "flight_rank_2").write_bytes(b"")

    assert found(cli, folder) == [("rank-gone", "rank 2 wrote no readable dump, but 3 ranks did")]


def test_pickle_with_a_function_is_rejected(cli: Cli, place: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
            return os.system, (f"touch {place}/ran",)

    folder = write(place / "d", {0: done((1,)), 1: done((1,))}, {"0": "[0, 1]"})
    (folder / "flight_rank_1").write_bytes(pickle.dumps(Evil(), protocol=2))

    answer = cli("doctor", str(folder))

    assert not (place / "ran").exists()
    assert "the dump references posix.system" in answer.stdout
    assert "rank 1 wrote no readable dump" in answer.stdout


def test_expanding_dump_has_a_small_summary(place: Path) -> None:
    """A pickle can contain a text once and refer to it thousands of times."""
    text = "x" * 1_000_000
    entry = call(1, profiling_name=text, process_group=(text, text), input_sizes=[[1] * 1000] * 1000)
    grown = [{**entry, "collective_seq_id": number // 50} for number in range(5000)]
    groups = {str(number): {"ranks": text, "desc": text} for number in range(5)}
    nested = call(1, profiling_name=[[[text] * 9] * 9] * 9)
    (place / "dump_0").write_bytes(pickle.dumps({"entries": grown, "pg_config": groups}, protocol=2))
    (place / "dump_1").write_bytes(pickle.dumps({"entries": [nested], "pg_config": {}}, protocol=2))

    waits = [call(0, text, is_p2p=True, input_sizes=[[1] * 1000] * 1000)] * 5000
    (place / "dump_2").write_bytes(pickle.dumps({"entries": waits, "pg_config": {}}, protocol=2))

    words = [sys.executable, "-I", READER, "60", *(place / f"dump_{rank}" for rank in range(3))]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    rows = [json.loads(line) for line in printed.splitlines()]

    assert len(printed) < 6_000_000
    assert len(json.dumps(rows[0]["last"])) < 10_000
    assert rows[1]["why"] == "expected a text, got list"


def test_dumps_that_exceed_the_memory_limit_are_reported(place: Path) -> None:
    dumps = list(write(place / "d", {0: [call(1)]}).iterdir())

    assert read_dumps(dumps, 1 << 20)[1] == ["flight_rank_0: the reader process ended early"]


def test_json_dump_is_read(cli: Cli, place: Path) -> None:
    folder = place / "d"
    folder.mkdir()
    for rank, entries in {0: [call(1)], 1: []}.items():
        data = {"entries": entries, "pg_config": {"0": {"desc": "default_pg", "name": "0", "ranks": "[0, 1]"}}}
        (folder / f"rank_{rank}").write_text(json.dumps(data, separators=(",", ":")))

    ((name, detail),) = found(cli, folder)
    assert (name, detail.partition(" of default_pg")[0]) == (
        "rank-behind",
        "rank 1 did not enter all_reduce ([8, 4] Float) number 1",
    )


PROGRAM = """
import os, sys, threading, time
import torch, torch.distributed as dist
import torch._C._distributed_c10d as c10d
mode, folder = sys.argv[1:]
dist.init_process_group("gloo")
rank = dist.get_rank()
for _ in range(3):
    dist.all_reduce(torch.ones(8, 4))
def dump():
    text = c10d._dump_fr_trace()
    with open(f"{folder}/.{rank}", "wb") as out:
        out.write(text)
    os.rename(f"{folder}/.{rank}", f"{folder}/flight_rank_{rank}")
def waiting():
    time.sleep(5)
    dump()
    open(f"{folder}/done_{rank}", "w").close()
threading.Thread(target=waiting, daemon=True).start()
if mode == "sleeps" and rank == 1:
    time.sleep(1000)
elif mode == "died" and rank == 1:
    os._exit(3)
try:
    if mode == "other" and rank == 1:
        dist.broadcast(torch.ones(8, 4), 0)
    dist.all_reduce(torch.ones(8, 4))
except RuntimeError:  # gloo sees at once that the other rank is gone
    pass
time.sleep(1000)
"""


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize(
    ("mode", "name"), [("sleeps", "rank-behind"), ("died", "rank-gone"), ("other", "ranks-disagree")]
)
def test_dumps_of_a_real_torch(cli: Cli, place: Path, mode: str, name: str) -> None:
    if not TORCH:
        skip_without("a real torch", "pip install it into a venv, and name its Python in UENVTOOL_TEST_TORCH_PYTHON")
    (place / "d").mkdir()
    (place / "program.py").write_text(PROGRAM)
    environ = {
        **os.environ,
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(20000 + os.getpid() % 9000),
    }
    words = [TORCH, str(place / "program.py"), mode, str(place / "d")]
    ranks = [subprocess.Popen(words, env={**environ, "RANK": str(rank)}) for rank in range(2)]
    wanted = [place / "d" / f"done_{rank}" for rank in range(1 if mode == "died" else 2)]
    while not all(path.exists() for path in wanted):
        assert all(process.poll() is None for process in ranks[: len(wanted)])
        time.sleep(0.2)
    for process in ranks:
        process.kill()
        process.wait()

    assert [found_name for found_name, _ in found(cli, place / "d")] == [name]
