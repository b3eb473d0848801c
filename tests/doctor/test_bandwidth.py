"""The table of nccl-tests: wrong data is broken, what is slower than it has been is said, all else is good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Answer
from uenvtool.doctor.log.bandwidth import shown

Cli = Callable[..., Answer]
Write = Callable[[str, str | bytes], Path]
HEAD = "# /opt/nccl-tests/all_reduce_perf -b 1M -e 128M\n" + "".join(
    f"#  Rank {rank:2} Group  0 Pid  {rank + 100} on  nid00{rank // 4 + 1} device  {rank % 4} [0x01] NVIDIA GH200\n"
    for rank in range(8)
)
ROW = "{size:12} {count:12}     float     sum      -1   {time}   48.9   {busbw}  {wrong}    2800.1   47.9   83.9    0\n"


def table(*rows: tuple[int, float, str], front: str = "") -> str:
    lines = [
        ROW.format(size=size, count=size // 4, time=2764.3, busbw=busbw, wrong=wrong) for size, busbw, wrong in rows
    ]
    return "".join(front + line for line in (HEAD + "".join(lines)).splitlines(keepends=True))


@pytest.mark.parametrize("front", ["", "[1,0]<stdout>:", "0: "])
def test_a_network_as_fast_as_it_has_been_is_good(cli: Cli, write: Write, front: str) -> None:
    write("job.out", table((1 << 20, 11.0, "0"), (1 << 27, 118.2, "0"), front=front))

    answer = cli("doctor", "--log", "job.out", "--system", "clariden")

    assert answer.code == 0
    assert "bus bandwidth: 118.2 GB/s at 128 MB, of 1 MB to 128 MB" in answer.stdout


def test_a_slow_network_is_held_against_the_figure_and_its_source(cli: Cli, write: Write) -> None:
    write("job.out", table((1 << 20, 11.0, "0"), (1 << 27, 84.6, "0")))

    answer = cli("doctor", "--log", "job.out", "--system", "clariden")

    assert answer.code == 1
    assert "84.6 GB/s at 128 MB, 31% under 122.57 (CSCS documentation, NCCL page, 2025-11)" in answer.stdout
    assert cli("doctor", "--log", "job.out").code == 0  # nobody knows how fast this machine should be


def test_another_number_of_nodes_is_not_compared(cli: Cli, write: Write) -> None:
    write("job.out", table((1 << 27, 84.6, "0")).replace("nid002", "nid001"))

    assert cli("doctor", "--log", "job.out", "--system", "clariden").code == 0


def test_wrong_data_is_broken_with_its_sizes(cli: Cli, write: Write) -> None:
    write("job.out", table((1 << 20, 11.0, "0"), (1 << 25, 0.63, "951005"), (1 << 27, 118.0, "3")))

    answer = cli("doctor", "--log", "job.out", "--system", "clariden")

    assert answer.code == 1
    assert "NCCL delivered wrong numbers: 951005 values of 32 MB, 3 values of 128 MB" in answer.stdout


@pytest.mark.parametrize(("size", "text"), [(8, "8 B"), (1 << 20, "1 MB"), (1 << 33, "8 GB"), (1_500, "1 KB")])
def test_a_size_reads_as_people_name_it(size: int, text: str) -> None:
    assert shown(size) == text
