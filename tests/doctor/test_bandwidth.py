"""Network tests in a log: verdicts for wrong and slow results, and the plot."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Answer, Cli, Write
from uenvtool.doctor.network import shown

PRINTED = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 1 iters: 20 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid 202829 on  nid005471 device  0 [0009:01:00] NVIDIA GH200 120GB
#  Rank  3 Group  0 Pid 202832 on  nid005471 device  3 [0039:01:00] NVIDIA GH200 120GB
#  Rank  4 Group  0 Pid 154517 on  nid005487 device  0 [0009:01:00] NVIDIA GH200 120GB
#  Rank  7 Group  0 Pid 154520 on  nid005487 device  3 [0039:01:00] NVIDIA GH200 120GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
{rows}# Out of bounds values : 0 OK
"""
"""The output of nccl-tests 2.17.1 on two nodes of Alps (CSCS documentation, NCCL page, 2025-11)."""
WITH_HOOK = """\
           8             2     float     sum      -1    17.93    0.00    0.00      0    17.72    0.00    0.00      0
       65536         16384     float     sum      -1    61.03    1.07    1.88      0    68.45    0.96    1.68      0
     1048576        262144     float     sum      -1    164.3    6.38   11.17      0    187.7    5.59    9.77      0
     8388608       2097152     float     sum      -1    344.5   24.35   42.61      0    345.7   24.27   42.47      0
    33554432       8388608     float     sum      -1    686.5   48.88   85.54      0    686.6   48.87   85.52      0
   134217728      33554432     float     sum      -1   1916.4   70.04  122.57      0   1907.8   70.35  123.11      0
"""
WITHOUT_HOOK = """\
           8             2     float     sum      -1    85.47    0.00    0.00      0    53.44    0.00    0.00      0
       65536         16384     float     sum      -1    325.0    0.20    0.35      0    325.4    0.20    0.35      0
     1048576        262144     float     sum      -1   1502.2    0.70    1.22      0   1478.9    0.71    1.24      0
     8388608       2097152     float     sum      -1   2437.7    3.44    6.02      0   2417.0    3.47    6.07      0
    33554432       8388608     float     sum      -1    17388    1.93    3.38      0    17275    1.94    3.40      0
   134217728      33554432     float     sum      -1    43293    3.10    5.43      0    43396    3.09    5.41      0
"""
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
def test_network_at_its_reference_speed_is_good(cli: Cli, write: Write, front: str) -> None:
    write("job.out", table((1 << 20, 11.0, "0"), (1 << 27, 118.2, "0"), front=front))

    answer = cli("doctor", "--log", "job.out", "--system", "clariden")

    assert answer.code == 0
    assert "bandwidth: all_reduce_perf 118.2 GB/s at 128 MB (tested 1 MB to 128 MB)" in answer.stdout


def test_separate_ranks_are_not_reported_as_a_slow_network(cli: Cli, write: Write) -> None:
    write("job.out", "".join(table((1 << 27, 0.0, "0"), front=f"{task}: ") for task in range(2)))

    answer = cli("doctor", "--log", "job.out", "--system", "clariden", "--json")

    assert answer.code == 1
    assert [found["id"] for found in json.loads(answer.stdout)["findings"]] == ["nccl-test-mismatch"]


def test_slow_network_is_reported_with_reference_and_source(cli: Cli, write: Write) -> None:
    write("job.out", table((1 << 20, 11.0, "0"), (1 << 27, 84.6, "0")))

    answer = cli("doctor", "--log", "job.out", "--system", "clariden")

    assert answer.code == 1
    assert "84.6 GB/s at 128 MB, 31% below 122.57 GB/s (CSCS documentation, NCCL page, 2025-11)" in answer.stdout
    assert cli("doctor", "--log", "job.out").code == 0  # nobody knows how fast this machine should be


def test_another_number_of_nodes_is_not_compared(cli: Cli, write: Write) -> None:
    write("job.out", table((1 << 27, 84.6, "0")).replace("nid002", "nid001"))

    assert cli("doctor", "--log", "job.out", "--system", "clariden").code == 0


def test_wrong_values_are_reported_with_their_sizes(cli: Cli, write: Write) -> None:
    write("job.out", table((1 << 20, 11.0, "0"), (1 << 25, 0.63, "951005"), (1 << 27, 118.0, "3")))

    answer = cli("doctor", "--log", "job.out", "--system", "clariden")

    assert answer.code == 1
    assert "NCCL delivers corrupted data: 951005 wrong values at 32 MB, 3 wrong values at 128 MB" in answer.stdout


@pytest.mark.parametrize(("size", "text"), [(8, "8 B"), (1 << 20, "1 MB"), (1 << 33, "8 GB"), (1_500, "1 KB")])
def test_sizes_have_units(size: int, text: str) -> None:
    assert shown(size) == text


TORCH = """- software: torch=2.7.0, cuda=12.8, nccl=(2, 26, 2)

The average bandwidth of all_reduce over {ranks} ranks (5 warmups / 20 trials):

| payload |    busbw   |    algbw   |
| ------: | ---------: | ---------: |
|   64KiB |   1.27GBps |   0.66GBps |
|   16GiB | {busbw:6.2f}GBps | 194.43GBps |
"""
OLD_TORCH = """ The average bandwidth of all_reduce with a {size}GB payload (5 trials, 32 ranks):
 algbw: 52.186 GBps (std: 0.013) (417.5 Gbps)
 busbw: {busbw} GBps (730.6 Gbps)
"""
OSU = """
# OSU MPI-CUDA Bandwidth Test v7.5
# Datatype: MPI_CHAR.
# Size      Bandwidth (MB/s)        Validation
1                       0.09              Pass
nid001:9:9 a line of somebody else's
1048576             {mbps}              Pass
4194304             23974.34              {state}
nid[001-002] 12 34
# OSU MPI-CUDA Allreduce Latency Test v7.5
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
16777216             8630.58           8619.50           8642.46         10
"""
DEBUG = (
    "nid001:9:9 [0] NCCL INFO comm 0x1 rank 0 nranks 8 nNodes 2 \n"
    "nid001:9:9 [0] NCCL INFO NCCL_NET set by environment to {net}.\n"
    "nid001:9:9 [0] NCCL INFO Using network {network}\n"
)


def told(answer: Answer) -> dict[str, Any]:
    return {(run["test"], row["bytes"]): row for run in json.loads(answer.stdout)["runs"] for row in run["rows"]}


def test_each_size_has_a_verdict_and_a_bar(cli: Cli, write: Write) -> None:
    write("job.out", table((8, 0.0, "0"), (1 << 20, 9.0, "0"), (1 << 25, 0.63, "951005"), (1 << 27, 97.0, "0")))

    lines = cli("doctor", "job.out", "-s", "clariden").stdout.splitlines()

    assert "all_reduce_perf us GB/s in place reference verdict" in " ".join(" ".join(lines).split())
    assert [line.split()[:2] for line in lines if line[:1].isdigit()] == [["1", "MB"], ["32", "MB"], ["128", "MB"]]
    small, wrong, large = (line for line in lines if line[:1].isdigit())
    assert "good" in small
    assert "broken: NCCL corrupts data" in wrong
    assert "21% below" in large
    assert large.rstrip().endswith("#" * 11 + "  |")
    assert "2764.3 us at 8 B" in "".join(lines)
    assert "8 B " in cli("doctor", "job.out", "-v").stdout


def test_table_of_an_unnamed_test_is_not_compared_with_mpi(cli: Cli, write: Write) -> None:
    write("job.out", table((1 << 20, 11.0, "0")).partition("\n")[2])

    (run,) = json.loads(cli("doctor", "job.out", "-s", "clariden", "--json").stdout)["runs"]

    assert [figure["busbw"] for figure in run["figures"] if figure["bytes"] == 1 << 20] == [11.17]


@pytest.mark.parametrize(("size", "verdict"), [(1 << 27, "TCP, 96% below"), (1 << 28, "TCP")])
def test_tcp_is_named(cli: Cli, write: Write, size: int, verdict: str) -> None:
    write("job.out", DEBUG.format(net="Socket", network="Socket") + table((size, 5.43, "0")))

    found = told(cli("doctor", "job.out", "-s", "clariden", "--json"))

    assert found["all_reduce_perf", size]["verdict"] == verdict


@pytest.mark.parametrize("words", ["Using network Socket", "Assigned NET plugin Socket to comm"])
@pytest.mark.parametrize("system", ["rcp", "clariden"])
def test_tcp_in_the_log_of_one_host_is_slow(cli: Cli, write: Write, words: str, system: str) -> None:
    write("pod.out", f"job-0:9:9 [0] NCCL INFO {words}\n")

    found = json.loads(cli("doctor", "pod.out", "-s", system, "--json").stdout)["findings"]

    assert [(one["id"], one["severity"]) for one in found] == [("nccl-tcp-in-pod", "slow")]


def test_pytorch_all_reduce_bench_is_read(cli: Cli, write: Write) -> None:
    write("new.out", TORCH.format(ranks=32, busbw=61.2))
    write("old.out", OLD_TORCH.format(size=17.179869184, busbw=91.325))

    new = cli("doctor", "new.out", "-s", "clariden", "--json")

    assert told(new)["all_reduce_bench", 1 << 34]["verdict"] == "33% below"
    assert json.loads(new.stdout)["runs"][0]["nodes"] == 8
    assert told(cli("doctor", "old.out", "-s", "clariden", "--json"))["all_reduce_bench", 1 << 34]["verdict"] == "good"
    write("few.out", TORCH.format(ranks=6, busbw=61.2))
    assert told(cli("doctor", "few.out", "-s", "clariden", "--json"))["all_reduce_bench", 1 << 34]["verdict"] == ""


def test_osu_benchmarks_are_read(cli: Cli, write: Write) -> None:
    write("osu.out", DEBUG.format(net="x", network="Y") + OSU.format(mbps=12000.5, state="Fail"))

    answer = cli("doctor", "osu.out", "-s", "clariden", "--json")

    found = told(answer)
    assert found["osu_bw", 1 << 20]["verdict"] == "50% below"
    assert found["osu_bw", 1 << 22]["verdict"] == "broken: MPI corrupts data"
    assert found["osu_allreduce", 1 << 24]["time"] == 8630.58
    assert {row[1] for row in found} == {1, 1 << 20, 1 << 22, 1 << 24}
    assert {finding["id"] for finding in json.loads(answer.stdout)["findings"]} == {"mpi-wrong-data", "network-slow"}


def test_plot_shows_run_and_reference(cli: Cli, write: Write, place: Path) -> None:
    write("a&b.out", table((8, 0.0, "0"), (1 << 20, 11.0, "0"), (1 << 27, 118.0, "0")))

    assert cli("doctor", "a&b.out", "-s", "clariden", "-o", "busbw.svg").code == 0
    before = (place / "busbw.svg").read_bytes()
    assert cli("doctor", "a&b.out", "-s", "clariden", "-o", "busbw.svg").code == 0

    drawn = ElementTree.parse(place / "busbw.svg").getroot()
    assert [line.get("class") for line in drawn.iter("{http://www.w3.org/2000/svg}polyline")] == ["reference", "run"]
    assert any("a&b.out" in (text.text or "") for text in drawn.iter("{http://www.w3.org/2000/svg}text"))
    assert (place / "busbw.svg").read_bytes() == before


def test_tables_of_several_tests_are_separated(cli: Cli, write: Write) -> None:
    write("with.log", PRINTED.format(rows=WITH_HOOK))
    write("without.log", PRINTED.format(rows=WITHOUT_HOOK))

    good, slow = (told(cli("doctor", name, "-s", "clariden", "--json")) for name in ("with.log", "without.log"))

    assert {row["verdict"] for (_, size), row in good.items() if size >= 1 << 20} == {"good"}
    assert slow["all_reduce_perf", 1 << 27]["verdict"] == "96% below"
    assert "85.47 us at 8 B" in cli("doctor", "without.log").stdout
