"""Which rank the others wait for: dumps of the flight recorder as torch writes them, and real ones of a real torch."""

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
from uenvtool.doctor.dumps import READER

TORCH = os.environ.get("UENVTOOL_TEST_TORCH_PYTHON", "")
ALL = "[0, 1, 2, 3]"


def call(number: int, name: str = "all_reduce", *, line: int = 98, **more: Any) -> dict[str, Any]:
    """An entry with the fields of FlightRecorder.cpp, of a rank that is still in it."""
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
    """Write the dump of each rank, as torch's own pickler does: protocol 2, no classes."""
    folder.mkdir(exist_ok=True)
    groups = {
        name: {"name": name, "desc": "tensor" if name == "1" else "default_pg", "ranks": text}
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


def test_a_rank_that_did_not_come_is_named_with_the_line_of_its_last_call(cli: Cli, place: Path) -> None:
    waiting = [*done((1, 2, 3)), call(4)]

    (name, detail) = found(cli, write(place / "d", {0: waiting, 1: waiting, 2: done((1, 2, 3)), 3: waiting}))[0]

    assert name == "rank-behind"
    assert detail == (
        "rank 2 did not enter all_reduce ([8, 4] Float) number 4 of default_pg; its last call: all_reduce number 3 at "
        "/home/me/train.py:120; 3 of 4 ranks wait there at /home/me/train.py:98"
    )


def test_a_rank_without_a_dump_died(cli: Cli, place: Path) -> None:
    waiting = [*done((1,)), call(2)]

    assert found(cli, write(place / "d", {0: waiting, 1: waiting, 3: waiting})) == [
        ("rank-gone", "rank 2 left none, 3 ranks did")
    ]


def test_a_rank_that_died_while_it_wrote_is_gone_too(cli: Cli, place: Path) -> None:
    folder = write(place / "d", {0: [call(1)], 1: [call(1)], 3: [call(1)]})
    (folder / "flight_rank_2").write_bytes(b"")

    assert found(cli, folder) == [("rank-gone", "rank 2 left none that is whole, 3 ranks did")]


@pytest.mark.parametrize(
    ("odd", "shown"),
    [
        (call(2, "broadcast", line=7), "rank 1 in broadcast ([8, 4] Float) at /home/me/train.py:7"),
        (call(2, input_sizes=[[8, 5]], output_sizes=[[8, 5]]), "rank 1 in all_reduce ([8, 5] Float)"),
        (call(2, input_dtypes=["Half"], output_dtypes=["Half"]), "rank 1 in all_reduce ([8, 4] Half)"),
    ],
)
def test_another_collective_size_or_type_is_named(cli: Cli, place: Path, odd: dict[str, Any], shown: str) -> None:
    usual = [*done((1,)), call(2)]

    ((name, detail),) = found(cli, write(place / "d", {0: usual, 1: [*done((1,)), odd], 2: usual, 3: usual}))

    assert name == "ranks-disagree"
    assert detail.startswith(f"number 2 of default_pg: {shown}")
    assert "rank 0,2-3 in all_reduce ([8, 4] Float) at /home/me/train.py:98" in detail


def test_other_sizes_are_right_where_a_collective_allows_them(cli: Cli, place: Path) -> None:
    ranks = {rank: [call(1, "all_to_all", input_sizes=[[rank + 1]], output_sizes=[[4 - rank]])] for rank in range(4)}

    assert [name for name, _ in found(cli, write(place / "d", ranks))] == ["ranks-wait"]


def test_a_rank_that_waits_for_another_one_is_no_cause(cli: Cli, place: Path) -> None:
    """Rank 0 hangs; rank 1 waits for it in the pair, and so does not come to the others."""
    pair = {"process_group": ("1", "tensor"), "pg_id": 1}
    ranks = {0: done((1,)), 1: [*done((1,)), call(1, **pair)], 2: [*done((1,)), call(2)], 3: [*done((1,)), call(2)]}

    folder = write(place / "d", ranks, {"0": ALL, "1": "[0, 1]"})

    ((name, detail),) = found(cli, folder)
    assert name == "rank-behind"
    assert detail.startswith("rank 0 did not enter")


def test_groups_that_are_entered_in_another_order_are_named(cli: Cli, place: Path) -> None:
    pair = {"process_group": ("1", "tensor"), "pg_id": 1}

    ((name, detail),) = found(
        cli, write(place / "d", {0: [call(1)], 1: [call(1, **pair)]}, {"0": "[0, 1]", "1": "[0, 1]"})
    )

    assert name == "ranks-crossed"
    assert detail == (
        "rank 1 waits in tensor and did not enter number 1 of default_pg, "
        "rank 0 waits in default_pg and did not enter number 1 of tensor"
    )


def test_a_rank_whose_recorder_no_longer_has_its_calls_of_a_group_is_not_behind_in_it(cli: Cli, place: Path) -> None:
    """The recorder keeps the last 2,000 calls: many in one group push those of the others out.

    Rank 0 hangs, rank 1 waits for it in the pair; what rank 1 called in the whole job is overwritten.
    """
    pair, steps = {"process_group": ("1", "tensor"), "pg_id": 1}, range(1, 41)
    waiting = [*done(steps), call(41)]
    ranks = {
        0: [*done(steps), *done(steps, **pair)],
        1: [*done(range(9, 41), **pair), call(41, **pair)],
        2: waiting,
        3: waiting,
    }

    ((name, detail),) = found(cli, write(place / "d", ranks, {"0": ALL, "1": "[0, 1]"}))

    assert name == "rank-behind"
    assert detail.startswith("rank 0 did not enter all_reduce ([8, 4] Float) number 41 of default_pg")


def test_a_rank_is_behind_however_far_the_others_ran_ahead(cli: Cli, place: Path) -> None:
    """Collectives are enqueued, hundreds of them, while one rank hangs; of each group the last 32 are kept."""
    ahead = [*done((1, 2, 3)), *(call(number) for number in range(4, 100))]

    ((name, detail),) = found(cli, write(place / "d", {0: ahead, 1: done((1, 2, 3)), 2: ahead, 3: ahead}))

    assert (name, detail) == (
        "rank-behind",
        "rank 1 did not enter call number 4 of default_pg; its last call: all_reduce number 3 at /home/me/train.py:120",
    )


def test_a_dump_that_is_older_than_the_others_accuses_no_rank(cli: Cli, place: Path) -> None:
    """What the others completed, this rank must have entered since."""
    newer = done((1, 2, 3))

    assert found(cli, write(place / "d", {0: newer, 1: done((1, 2)), 2: newer, 3: newer}), code=0) == []


def test_a_group_whose_ranks_gloo_does_not_write_down_is_of_all_ranks(cli: Cli, place: Path) -> None:
    folder = write(place / "d", {0: [call(1)], 1: []}, {"": "[0, 1]"})

    ((name, detail),) = found(cli, folder)

    assert name == "rank-behind"
    assert detail.startswith("rank 1 did not enter all_reduce ([8, 4] Float) number 1 of default_pg")


def test_other_sizes_are_no_cause_in_a_call_that_completed(cli: Cli, place: Path) -> None:
    """As in a gather of unequal parts, of which each rank writes down its own."""
    ranks = {rank: [*done((1,), input_sizes=[[rank + 1]]), *([call(2)] if rank != 3 else [])] for rank in range(4)}

    ((name, detail),) = found(cli, write(place / "d", ranks))

    assert name == "rank-behind"
    assert detail.startswith("rank 3 did not enter all_reduce")


def test_a_group_without_a_description_is_named_by_its_number(cli: Cli, place: Path) -> None:
    """torch writes `undefined` for a group that nobody described (distributed_c10d.py, new_group)."""
    groups = {"7": {"name": "7", "desc": "undefined", "ranks": "[0, 1]"}}
    of_group = {"process_group": ("7", "undefined"), "pg_id": 7}
    (place / "d").mkdir()
    for rank, entries in {0: [call(1, **of_group)], 1: []}.items():
        data = {"version": "2.10", "pg_config": groups, "entries": entries}
        (place / "d" / f"rank_{rank}").write_bytes(pickle.dumps(data, protocol=2))

    ((_, detail),) = found(cli, place / "d")

    assert detail.startswith("rank 1 did not enter all_reduce ([8, 4] Float) number 1 of group 7")


def test_calls_that_gloo_let_go_of_are_no_waiting(cli: Cli, place: Path) -> None:
    """Gloo never writes that a call is completed (ProcessGroupGloo.cpp)."""
    over = [call(1, "all_reduce", state="scheduled", retired=True)]

    assert found(cli, write(place / "d", {0: over, 1: over}, {"0": "[0, 1]"}), code=0) == []


def test_the_line_is_that_of_a_library_where_all_of_a_program_is_one(cli: Cli, place: Path) -> None:
    """As with `python -m PACKAGE`."""
    frames = [
        {"name": "<lambda>", "filename": "", "line": 0},
        {"name": "step", "filename": "/env/lib/python3.12/site-packages/trainer/loop.py", "line": 31},
    ]
    waiting = [call(1, frames=frames)]

    ((_, detail),) = found(cli, write(place / "d", {0: waiting, 1: []}, {"0": "[0, 1]"}))

    assert detail.endswith("wait there at /env/lib/python3.12/site-packages/trainer/loop.py:31")


def test_a_receive_that_nobody_sends_names_the_other_rank(cli: Cli, place: Path) -> None:
    receive = call(0, "recv 0<-1", is_p2p=True, p2p_seq_id=5)

    ((name, detail),) = found(cli, write(place / "d", {0: [*done((1,)), receive], 1: done((1,))}, {"0": "[0, 1]"}))

    assert name == "rank-behind"
    assert detail.startswith(
        "rank 1 did not enter what answers recv 0<-1 ([8, 4] Float) of rank 0 at /home/me/train.py"
    )


def test_of_a_chain_of_receives_the_rank_at_its_end_is_named(cli: Cli, place: Path) -> None:
    """A pipeline of ranks 1 to 3, which count from 0 in their group; rank 0 waits for rank 1 in another group."""
    pair, stages = {"process_group": ("1", "tensor"), "pg_id": 1}, {"process_group": ("2", "pipe"), "pg_id": 2}
    ranks = {
        0: [call(1, **pair)],
        1: [call(0, "recv 0<-1", is_p2p=True, p2p_seq_id=5, record_id=0, **stages)],
        2: [call(0, "recv 1<-2", is_p2p=True, p2p_seq_id=5, record_id=0, **stages)],
        3: [],
    }

    ((name, detail),) = found(cli, write(place / "d", ranks, {"1": "[0, 1]", "2": "[1, 2, 3]"}))

    assert name == "rank-behind"
    assert detail.startswith("rank 3 did not enter what answers recv 1<-2 ([8, 4] Float) of rank 2")


def test_dumps_of_a_run_that_is_well_have_no_finding(cli: Cli, place: Path) -> None:
    assert found(cli, write(place / "d", {rank: done((1, 2)) for rank in range(4)}), code=0) == []


def test_a_pickle_that_names_a_function_is_refused(cli: Cli, place: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
            return os.system, (f"touch {place}/ran",)

    folder = write(place / "d", {0: done((1,)), 1: done((1,))}, {"0": "[0, 1]"})
    (folder / "flight_rank_1").write_bytes(pickle.dumps(Evil(), protocol=2))

    answer = cli("doctor", str(folder))

    assert not (place / "ran").exists()
    assert "it names posix.system" in answer.stdout
    assert "rank 1 left none that is whole" in answer.stdout


def test_a_dump_that_is_made_to_grow_says_little(place: Path) -> None:
    """A pickle holds a text once and names it thousands of times."""
    text = "x" * 1_000_000
    entry = call(1, profiling_name=text, process_group=(text, text), input_sizes=[[1] * 1000] * 1000)
    grown = [{**entry, "collective_seq_id": number // 50} for number in range(5000)]
    groups = {str(number): {"ranks": text, "desc": text} for number in range(5)}
    nested = call(1, profiling_name=[[[text] * 9] * 9] * 9)
    (place / "dump_0").write_bytes(pickle.dumps({"entries": grown, "pg_config": groups}, protocol=2))
    (place / "dump_1").write_bytes(pickle.dumps({"entries": [nested], "pg_config": {}}, protocol=2))

    waits = [call(0, text, is_p2p=True, input_sizes=[[1] * 1000] * 1000)] * 5000
    (place / "dump_2").write_bytes(pickle.dumps({"entries": waits, "pg_config": {}}, protocol=2))

    words = [sys.executable, "-I", READER, *(place / f"dump_{rank}" for rank in range(3))]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    rows = [json.loads(line) for line in printed.splitlines()]

    assert len(printed) < 6_000_000
    assert len(json.dumps(rows[0]["last"])) < 10_000
    assert rows[1]["why"] == "it has a text that is none"


def test_dumps_that_need_more_memory_than_a_reader_has_are_named(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uenvtool.doctor.dumps.MOST_MEMORY", 1 << 20)

    answer = cli("doctor", str(write(place / "d", {0: [call(1)]})))

    assert "flight_rank_0 (its reader ended before it)" in answer.stdout


def test_a_dump_in_json_is_read_too(cli: Cli, place: Path) -> None:
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


def test_a_folder_without_a_dump_is_said(cli: Cli, place: Path) -> None:
    answer = cli("doctor", str(place))

    assert answer.code == 2
    assert "is a folder, and no dump of" in answer.stderr


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
        pytest.skip("pip install torch into a venv, and name its Python in UENVTOOL_TEST_TORCH_PYTHON")
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
