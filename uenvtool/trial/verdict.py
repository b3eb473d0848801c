"""The verdict on the tests of a system: pure functions from results to checks, nodes to exclude, and the output."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from statistics import median

from uenvtool.core.errors import ExitCode
from uenvtool.core.result import Result, Table
from uenvtool.core.words import counted
from uenvtool.doctor.network import GOOD, figure_of, shown
from uenvtool.knowledge.system import HOST, Gpu
from uenvtool.trial.results import NOT_FOUND, UNTESTED, Test, Trial

HEADINGS = ("test", "figure", "reference", "verdict", "source")
RIGHT = "right"
SPREAD = 0.05
"""The share by which a node or a pair may be slower than the median of the others."""
MEMORY = 0.1
"""The share by which the memory of a GPU may be below the system's file, because drivers reserve a part."""
EQUAL = 1e-9
"""The relative difference of the loss on one and on several ranks, whose sums have another order."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One row of the verdict. nodes: the nodes that cause a wrong verdict, if they are known."""

    test: str
    figure: str = ""
    reference: str = ""
    verdict: str = GOOD
    source: str = ""
    nodes: Sequence[str] = ()


def report(trial: Trial) -> Result:
    """Return the output of `uenvtool try`. The exit code is NO if a check found a fault or if no test ran."""
    found = list(_checks(trial))
    tested = [check for check in found if check.verdict and not check.verdict.startswith(UNTESTED)]
    usual = RIGHT if tested and trial.nodes else "wrong: no test ran"
    result = next((f"wrong: {check.test}: {check.verdict}" for check in tested if check.verdict != GOOD), usual)
    bad = {node for check in found for node in check.nodes}
    others = "Vetted" if bad or result == RIGHT else "Unclear"
    nodes = {node: "Cordon" if node in bad else others for node in trial.nodes}
    data = {
        "result": result,
        "system": trial.system.name,
        "checks": [{**asdict(check), "nodes": sorted(check.nodes)} for check in found],
        "nodes": nodes,
        "runs": [run.data() for run in trial.runs],
    }
    table = Table(headings=HEADINGS, rows=[[getattr(check, name) for name in HEADINGS] for check in found])
    lines = ["", *(f"{verdict}: {node}" for node, verdict in nodes.items()), result]
    return Result(
        data=data,
        report=lambda _: [table, *([(line, "")] for line in lines)],
        exit_code=ExitCode.DONE if result == RIGHT else ExitCode.NO,
    )


def _checks(trial: Trial) -> Iterator[Check]:
    yield from _of_devices(trial)
    yield from _of_each("in a node", trial.named("node-"))
    yield from _of_network(trial)
    yield from _of_training(trial)
    yield from _of_each("pairs of nodes", trial.named("pair-"))
    if not trial.has_ended:
        yield Check(test="job", verdict="not all tests have run: the job ended early or still runs")


def _of_devices(trial: Trial) -> Iterator[Check]:
    gpu, devices = trial.node.gpu, trial.devices
    is_known = trial.node.target != HOST  # the file of an unknown machine describes no GPU
    wrong = [device["node"] for device in devices if is_known and not _has(gpu, device)]
    if devices:
        yield Check(
            test="GPUs",
            figure=" or ".join(sorted({device["gpus"] for device in devices})),
            reference=f"{gpu.count} x {gpu.model}, {gpu.memory} GB" if gpu else "no GPU" if is_known else "",
            verdict="differs from the system's file" if wrong else GOOD if is_known else "",
            source=f"the file of {trial.system.name}" if is_known else "",
            nodes=wrong if len(wrong) < len(devices) else (),
        )
    for test in trial.named("devices"):
        silent = [node for node in test.nodes if node not in {device["node"] for device in devices}]
        failed = f"{', '.join(silent)}: {test.fault or 'no answer'}" if silent else GOOD
        slowest = max(devices, key=lambda device: float(device["seconds"].split()[0]), default={})
        figure = ", ".join(slowest[name] for name in ("seconds", "torch") if slowest)
        source, bad = slowest.get("folder", ""), silent if devices else ()
        yield Check(test="import torch", figure=figure, verdict=failed, source=source, nodes=bad)


def _has(gpu: Gpu | None, device: Mapping[str, str]) -> bool:
    if gpu is None or not device["count"]:
        return gpu is None and not device["count"]
    is_model = all(gpu.model in name for name in device["names"].split(" and "))
    return is_model and int(device["count"]) == gpu.count and int(device["memory"]) >= gpu.memory * (1 - MEMORY)


def _group(name: str, tests: Sequence[Test], wrong: str, nodes: Iterable[str] = ()) -> Check:
    """Return the check of tests with one size and one number of nodes."""
    measured = [test.largest for test in tests if test.largest]
    if not measured:
        test = "sendrecv" if tests[0].name == "sendrecv" else "all_reduce"
        return Check(test=f"{test}, {name}", verdict=wrong or GOOD, nodes=[*nodes])
    values = sorted(row.busbw for _, row in measured)
    spread = f" ({values[0]:g} to {values[-1]:g})" if values[0] != values[-1] else ""
    run, row = measured[0]
    figure = figure_of(run, row)
    return Check(
        test=f"{run.test.removesuffix('_perf')} {shown(row.bytes)}, {name}",
        figure=f"{median(values):g} GB/s{spread}",
        reference=f"{figure.busbw:g} GB/s -{figure.tolerance:.0%}" if figure else "",
        verdict=wrong or (GOOD if figure or len(values) > 1 else ""),
        source=figure.source if figure else "",
        nodes=[*nodes],
    )


def _bad_nodes(tests: Sequence[Test]) -> Iterator[tuple[str, str]]:
    """Yield the fault of each node all of whose tests failed, or were slower than the others, if the others passed."""
    speeds = {test.name: test.largest[1].busbw for test in tests if test.largest}
    for node in dict.fromkeys(node for test in tests for node in test.nodes):
        own = [test for test in tests if node in test.nodes]
        others = [test for test in tests if node not in test.nodes]
        usual = median(speeds.get(test.name, 0.0) for test in others) if len(own) + len(others) > 2 and others else 0.0
        most = max(speeds.get(test.name, 0.0) for test in own)
        if all(test.fault for test in own) and not all(test.fault for test in others):
            yield node, own[0].fault
        elif not any(test.fault for test in tests) and most < usual * (1 - SPREAD):
            yield node, f"{1 - most / usual:.0%} slower than the others"


def _of_each(name: str, tests: Sequence[Test]) -> Iterator[Check]:
    if tests:
        bad = dict(_bad_nodes(tests))
        failed = {" and ".join(test.nodes): test.fault for test in tests if test.fault}
        wrong = next((f"{where}: {fault}" for where, fault in {**bad, **failed}.items()), "")
        yield _group(name, tests, wrong, bad)


def _of_network(trial: Trial) -> Iterator[Check]:
    nodes, sums = counted(len(trial.nodes), "node"), trial.named("sums-")
    if sums:
        bad = [test.fault for test in sums if test.fault]
        broken = [test for test in sums if test.run and any(row.wrong for row in test.run.rows)]
        corrupted = f"broken: corrupted data in {len(broken)} of {counted(len(sums), 'run')}"
        is_noise = len(bad) * 2 <= len(sums) and all(test.run and not test.code for test in sums)
        wrong = corrupted if broken else "" if is_noise else "".join(bad[:1])  # the speed of a small message varies
        yield _group(f"{nodes}, {counted(len(sums), 'run')}", sums, wrong)
    for test in trial.tests:
        if test.name in ("all_reduce", "sendrecv"):
            missing = f"{UNTESTED}: {test.name}_perf not found" if test.code == NOT_FOUND else ""
            yield _group(nodes, [test], missing or test.fault)


def _of_training(trial: Trial) -> Iterator[Check]:
    tests = [test for test in trial.tests if test.name.startswith("training-")]
    if fault := next((test.fault for test in tests if test.fault), ""):
        yield Check(test="training", verdict=fault)
        return
    losses = {test.name: test.losses for test in tests}
    one, first, second = (losses.get(f"training-{name}", ()) for name in ("one-rank", "1", "2"))
    if first and second:
        same = GOOD if first == second else f"the loss is {second[-1]!r} with the same seed"
        yield Check(test="training, same seed twice", figure=f"loss {first[-1]:.6g}", verdict=same)
    if one and first:
        is_equal = all(math.isclose(*pair, rel_tol=EQUAL) for pair in zip_longest(one, first, fillvalue=math.inf))
        wrong = "" if is_equal else f"the loss is {first[-1]!r} on all ranks"
        yield Check(test="training, one and all ranks", figure=f"loss {one[-1]:.6g}", verdict=wrong or GOOD)
