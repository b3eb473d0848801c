"""The verdict of `uenvtool try` on the logs of its tests."""

from __future__ import annotations

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.trial.samples import GIB, LOSSES, NODES, PAIRS, THREE, device, losses, perf, written
from uenvtool.core import files

TWO = NODES[:2]
SLOW = {name: perf(pair.split(), {GIB: 140.5}) for name, pair in PAIRS.items() if "n2" in pair.split()}
SLOW_OF_THREE = {name: perf(on.split(), {GIB: 140.5}) for name, on in THREE.items() if "n2" in on.split()}
DEAD = {name: "2" for name, pair in PAIRS.items() if "n3" in pair.split()} | {"node-n3": "1", "sums-1": "1"}
DEAD |= dict.fromkeys([*(f"sums-{run}" for run in range(2, 9)), "all_reduce", "sendrecv", "training-1"], "sums-1")
CRASHED = {name: "rank 9: cudaErrorEccUncorrectable\n" for name, code in DEAD.items() if code.isdecimal()}


def said(cli: Cli, place: Path, **given: Any) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the data for a log directory."""
    answer = cli("try", written(place / "logs" / "try-1", **given), "--json")
    return answer.code, json.loads(answer.stdout)


def verdicts(data: dict[str, Any]) -> dict[str, str]:
    return {check["test"]: check["verdict"] for check in data["checks"]}


def test_a_right_system_has_figures_references_and_sources(cli: Cli, place: Path) -> None:
    answer = cli("try", written(place / "logs" / "try-1", nodes=TWO))

    assert answer.code == 0, answer.stdout
    assert answer.stdout.splitlines()[-3:] == ["Vetted: n1", "Vetted: n2", "right"]
    line = "all_reduce 1 GB, 2 nodes 151.5 GB/s 150 GB/s -10% good cscs-reframe-tests 2f81355"
    assert line in " ".join(answer.stdout.split())


FAULTS: dict[str, tuple[dict[str, Any], str, str, list[str]]] = {
    "slow": (
        {"nodes": TWO, "logs": {"all_reduce": perf(TWO, {GIB: 101.5})}},
        "all_reduce 1 GB, 2 nodes", "32% below at 1 GB", [],
    ),
    "slow at one size": (
        {"nodes": TWO, "logs": {"all_reduce": perf(TWO, {1 << 27: 60.5, GIB: 151.5})}},
        "all_reduce 1 GB, 2 nodes", "51% below at 128 MB", [],
    ),
    "wrong sums in some runs": (
        {"logs": {f"sums-{run}": perf(NODES, {1 << 20: 11.5}, wrong=3) for run in (2, 5)}},
        "all_reduce 1 MB, 4 nodes, 8 runs", "broken: corrupted data in 2 of 8 runs", [],
    ),
    "wrong sums of a large message": (
        {"nodes": TWO, "logs": {"all_reduce": perf(TWO, {1 << 25: 90.5, GIB: 151.5}, wrong=9)}},
        "all_reduce 1 GB, 2 nodes", "broken: NCCL corrupts data at 32 MB", [],
    ),
    "a slow node": ({"logs": SLOW}, "all_reduce 1 GB, pairs of nodes", "n2: 7% slower than the others", ["n2"]),
    "a dead node": (
        {"codes": DEAD, "logs": CRASHED},
        "all_reduce 1 GB, pairs of nodes", "n3: ", ["n3"],
    ),
    "fewer GPUs": (
        {"logs": {"devices": "".join(device(node, 4 - (node == "n4")) for node in NODES)}},
        "GPUs", "differs from the system's file", ["n4"],
    ),
    "less memory": (
        {"logs": {"devices": "".join(device(node, size=101e9 - 30e9 * (node == "n4")) for node in NODES)}},
        "GPUs", "differs from the system's file", ["n4"],
    ),
    "a node without an answer": (
        {"logs": {"devices": "".join(map(device, NODES[:3]))}, "codes": {"devices": "124"}},
        "import torch", "n4: the test did not end in time", ["n4"],
    ),
    "another loss with the same seed": (
        {"logs": {"training-2": losses([*LOSSES[:-1], LOSSES[-1] + 1e-15])}},
        "training, same seed twice", "the loss is ", [],
    ),
    "another loss on all ranks": (
        {"logs": {f"training-{run}": losses([loss * 1.001 for loss in LOSSES]) for run in (1, 2)}},
        "training, one and all ranks", "the loss is ", [],
    ),
    "no number": (
        {"logs": {f"training-{run}": losses([float("nan")] * 20) for run in (1, 2)}},
        "training", "the loss is not a number", [],
    ),
    "an infinite loss": (
        {"logs": {f"training-{run}": losses([float("inf")] * 20) for run in (1, 2)}},
        "training", "the loss is infinite", [],
    ),
    "a loss that is not a valid number": (
        {"logs": {f"training-{run}": "0: step 1/20 loss 1.2.3\n" for run in (1, 2)}},
        "training", "the test printed no loss", [],
    ),
    "no output": (
        {"logs": {"all_reduce": ""}},
        "all_reduce, 4 nodes", "the test printed no bandwidth", [],
    ),
    "a bandwidth that is not a number": (
        {"logs": {"all_reduce": perf(NODES, {GIB: float("nan")})}},
        "all_reduce, 4 nodes", "the test printed no bandwidth", [],
    ),
    "a bandwidth of zero": (
        {"logs": {"sendrecv": perf(NODES, {GIB: 0}, test="sendrecv_perf")}},
        "sendrecv 1 GB, 4 nodes", "the test printed no bandwidth", [],
    ),
    "a bandwidth that is too large for a number": (
        {"nodes": TWO, "logs": {"all_reduce": perf(TWO, {GIB: 151.5}).replace("151.5", "9" * 400)}},
        "all_reduce 1 GB, 2 nodes", "100% below at 1 GB", [],
    ),
    "no output of three sums": (
        {"logs": dict.fromkeys(("sums-1", "sums-3", "sums-5"), "")},
        "all_reduce 1 MB, 4 nodes, 8 runs", "the test printed no bandwidth", [],
    ),
    "a node without output": (
        {"logs": {"node-n2": ""}},
        "all_reduce 1 GB, in a node", "n2: the test printed no bandwidth", ["n2"],
    ),
    "a node that prints a number with thousands of digits": (
        {"logs": {"devices": "".join(map(device, NODES)).replace("n2 has 4", "n2 has " + "4" * 5000)}},
        "import torch", "n2: no answer", ["n2"],
    ),
    "a node whose name is the beginning of another": (
        {"nodes": ("n1", "n10"), "logs": {"devices": device("n10")}},
        "import torch", "n1: no answer", ["n1"],
    ),
    "a slow one of three nodes": (
        {"nodes": NODES[:3], "logs": SLOW_OF_THREE},
        "all_reduce 1 GB, pairs of nodes", "n2: 7% slower than the others", ["n2"],
    ),
    "a job that was ended": ({"end": False}, "job", "not all tests have run: the job ended early or still runs", []),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_node(cli: Cli, place: Path, name: str) -> None:
    given, test, verdict, nodes = FAULTS[name]

    code, data = said(cli, place, **given)

    assert (code, data["result"][:7]) == (1, "wrong: "), data
    assert verdicts(data)[test].startswith(verdict), data
    assert [node for node, word in data["nodes"].items() if word == "Cordon"] == nodes
    assert set(data["nodes"].values()) == ({"Cordon", "Vetted"} if nodes else {"Unclear"})


def test_sums_in_another_order_are_equal(cli: Cli, place: Path) -> None:
    other = losses([loss * (1 + 1e-12) for loss in LOSSES])

    assert said(cli, place, nodes=TWO, logs={"training-one-rank": other})[0] == 0


def test_a_program_that_is_missing_is_not_a_fault(cli: Cli, place: Path) -> None:
    missing = "0: bash: line 1: exec: sendrecv_perf: not found\n"

    code, data = said(cli, place, nodes=TWO, codes={"sendrecv": "127"}, logs={"sendrecv": missing})

    assert code == 0
    assert verdicts(data)["sendrecv, 2 nodes"] == "not tested: sendrecv_perf not found"


def test_a_test_between_nodes_over_tcp_is_wrong(cli: Cli, place: Path) -> None:
    text = "0: n1:9:9 [0] NCCL INFO Using network Socket\n" + perf(TWO, {GIB: 5.5})

    code, data = said(cli, place, nodes=TWO, logs={"all_reduce": text})

    assert code == 1
    assert verdicts(data)["all_reduce 1 GB, 2 nodes"] == "TCP, 96% below at 1 GB"


def test_a_table_after_ten_megabytes_of_output_is_read(cli: Cli, place: Path) -> None:
    text = "n1:9:9 [0] NCCL INFO comm\n" * 400_000 + perf(TWO, {GIB: 50.5})

    code, data = said(cli, place, nodes=TWO, logs={"all_reduce": text})

    assert code == 1
    assert verdicts(data)["all_reduce 1 GB, 2 nodes"] == "66% below at 1 GB"


def test_a_line_of_a_megabyte_is_read_in_seconds(cli: Cli, place: Path) -> None:
    logs = {"devices": "a" * 1_000_000 + "\n" + "".join(map(device, TWO))}

    assert said(cli, place, nodes=TWO, logs=logs)[0] == 0


def test_results_without_a_test_are_not_right(cli: Cli, place: Path) -> None:
    folder = written(place / "logs" / "try-1", nodes=TWO)
    (folder / "results").write_text("on clariden uenv\nend 0 9\n")

    answer = cli("try", folder)

    assert (answer.code, answer.stdout.splitlines()[-1]) == (1, "wrong: no test ran")


def test_the_name_of_a_plot_is_checked_before_the_tests_run(cli: Cli, place: Path) -> None:
    answer = cli("try", "--runtime", "local", "-o", "try.png")

    assert answer.code == 2
    assert "-o 'try.png': the file name must end with .svg" in answer.stderr
    assert [*place.iterdir()] == []


def test_a_run_without_bandwidth_has_a_verdict_and_no_plot(cli: Cli, place: Path) -> None:
    folder = written(place / "logs" / "try-1", nodes=TWO)
    for path in folder.glob("*.log"):
        path.write_text("")

    answer = cli("try", folder, "-o", "try.svg")

    assert "there is no bandwidth to plot" in answer.stderr
    assert answer.stdout.splitlines()[-1].startswith("wrong: ")


def test_a_figure_that_is_wrong_or_too_small_does_not_become_a_reference(cli: Cli, place: Path) -> None:
    tcp = "0: n1:9:9 [0] NCCL INFO Using network Socket\n" + perf(TWO, {GIB: 5.5})
    logs = {"all_reduce": tcp, **{f"node-{node}": perf([node], {GIB: 0.00001}) for node in TWO}}
    logs |= {f"sums-{run}": perf(TWO, {1 << 20: 1e19}) for run in range(1, 9)}
    folder = written(place / "logs" / "try-1", nodes=TWO, system="local", logs=logs)

    cli("try", folder, "--record")

    path = Path.home() / ".config" / "uenvtool" / "references" / "local.yaml"
    assert re.findall("test: [a-z_]+, nodes: [0-9]+", path.read_text()) == ["test: sendrecv_perf, nodes: 2"]
    assert cli("validate", path).code == 0


def test_a_directory_without_results_is_bad_input(cli: Cli, place: Path) -> None:
    (place / "logs").mkdir()

    answer = cli("try", "logs")

    assert answer.code == 2
    assert "'logs' contains no results of `uenvtool try`" in answer.stderr


def test_secrets_in_the_output_of_a_test_are_hidden(cli: Cli, place: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    logs = {"training-1": f"0: failed with {token}\n"}

    code, data = said(cli, place, nodes=TWO, codes={"training-1": "1"}, logs=logs)

    assert code == 1
    assert "failed with" in str(data)
    assert token not in str(data)


def test_figures_without_a_reference_become_your_references(cli: Cli, place: Path) -> None:
    folder = written(place / "logs" / "try-1", nodes=TWO, system="santis")

    stored = cli("try", folder, "--record")

    path = Path.home() / ".config" / "uenvtool" / "references" / "santis.yaml"
    assert f"stored 1 figures in {path}" in " ".join(stored.stderr.split())
    assert "{test: all_reduce_perf, nodes: 1, bytes: 1073741824, busbw: 340.5, tolerance: 0.05" in path.read_text()
    assert cli("validate", path).code == 0
    slow = written(place / "logs" / "try-2", nodes=TWO, system="santis", logs={"node-n2": perf(["n2"], {GIB: 300.5})})
    answer = cli("try", slow, "--json")
    assert verdicts(json.loads(answer.stdout))["all_reduce 1 GB, in a node"] == "n2: 12% below at 1 GB"
    assert json.loads(answer.stdout)["nodes"] == {"n1": "Vetted", "n2": "Cordon"}


def test_a_run_keeps_figures_that_another_run_stores_at_the_same_time(cli: Cli, place: Path) -> None:
    one = written(place / "logs" / "try-1", nodes=TWO, system="local", logs={"all_reduce": ""})
    two = written(place / "logs" / "try-2", nodes=TWO, system="local", logs=dict.fromkeys(PAIRS, ""))
    references = Path.home() / ".config" / "uenvtool" / "references"
    cli("try", one, "--record")
    others = references.rename(place / "others")

    with ThreadPoolExecutor() as threads:
        with files.locked(references, below=False):
            run = threads.submit(cli, "try", two, "--record")
            assert not wait([run], timeout=1).done  # it must read the file only after the other run ended
            shutil.copytree(others, references, dirs_exist_ok=True)
        run.result(timeout=60)

    stored = (others / "local.yaml").read_text()
    assert stored.count("- {test:") >= 1
    assert set(stored.splitlines()) < set((references / "local.yaml").read_text().splitlines())


def test_no_figure_makes_no_file(cli: Cli, place: Path) -> None:
    folder = place / "logs" / "try-1"
    folder.mkdir(parents=True)
    (folder / "results").write_text("on santis uenv\ndevices 0 1 n1\nend 0 9\n")
    (folder / "devices.log").write_text(device("n1"))

    answer = cli("try", folder, "--record")

    assert "there is no figure to store" in answer.stderr
    assert not (Path.home() / ".config").exists()
