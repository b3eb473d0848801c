"""The verdict on the tests of a system: pure functions from results to checks, and the nodes to exclude."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from uenvtool.core.words import counted
from uenvtool.doctor.network import GOOD, Measured, Run, figure_of, shown, verdict
from uenvtool.doctor.report import line_of
from uenvtool.knowledge.finding import BROKEN, SLOW
from uenvtool.knowledge.system import Gpu
from uenvtool.trial.results import Test, Trial

SPREAD = 0.05
"""The share by which a node or a pair may be slower than the median of the others."""
MEMORY = 0.1
"""The share by which the memory of a GPU may be below the system's file, because drivers reserve a part."""
EQUAL = 1e-9
"""The relative difference of the loss on one and on several ranks, whose sums have another order."""
TIMED_OUT, NOT_FOUND = 124, 127
UNTESTED = "not tested"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One row of the verdict. nodes: the nodes that cause a wrong verdict, if they are known."""

    test: str
    figure: str = ""
    reference: str = ""
    verdict: str = GOOD
    source: str = ""
    nodes: frozenset[str] = frozenset()

    @property
    def is_wrong(self) -> bool:
        """Return whether the check found a fault."""
        return self.verdict not in (GOOD, "") and not self.verdict.startswith(UNTESTED)


def checks(trial: Trial) -> list[Check]:
    """Return the checks of a system, in the order of their tests."""
    found = [*_devices(trial), *_compared("in a node", trial.named("node-")), *_of_network(trial)]
    found += [*_training(trial), *_compared("pairs of nodes", trial.named("pair-"))]
    return found if trial.has_ended else [*found, Check(test="job", verdict="the job ended before all tests had run")]


def nodes_by_verdict(trial: Trial, found: Sequence[Check]) -> dict[str, str]:
    """Return `Vetted`, `Cordon` or `Unclear` for each node. A fault without a known node makes all nodes unclear."""
    bad = {node for check in found for node in check.nodes}
    others = "Vetted" if bad or not any(check.is_wrong for check in found) else "Unclear"
    return {node: "Cordon" if node in bad else others for node in trial.nodes}


def fault(test: Test) -> str:
    """Return the fault that a test found, or an empty string."""
    if test.skipped:
        return f"{UNTESTED}: {test.skipped} failed"
    findings = [each for each in test.examination.findings if each.known.severity in (BROKEN, SLOW)]
    rows = [(run, row, verdict(run, row)) for run in test.examination.runs for row in run.rows]
    bad = [(row, told) for run, row, told in rows if told not in (GOOD, "")]
    if bad:
        worst = max(bad, key=lambda pair: (bool(pair[0].wrong), pair[0].bytes))
        return f"{worst[1]} at {shown(worst[0].bytes)}"
    if test.code == TIMED_OUT:
        return "the test did not end in time"
    if test.code:
        return line_of(findings[0]) if findings else f"{test.last_line} (exit code {test.code})"
    return next((line_of(each) for each in findings if each.known.id != "no-end"), "")


def _devices(trial: Trial) -> Iterator[Check]:
    gpu, devices = trial.node.gpu, trial.devices
    wrong = [device.node for device in devices if not _has(gpu, device.gpus)]
    if devices:
        yield Check(
            test="GPUs",
            figure=" or ".join(sorted({_shown(device.gpus) for device in devices})),
            reference=f"{gpu.count} x {gpu.model}, {gpu.memory} GB" if gpu else "no GPU",
            verdict="differs from the system's file" if wrong else GOOD,
            source=f"the file of {trial.system.name}",
            nodes=frozenset(wrong if len(wrong) < len(devices) else ()),
        )
    for test in trial.named("devices"):
        silent = [node for node in test.nodes if node not in {device.node for device in devices}]
        failed = f"{', '.join(silent)}: {fault(test) or 'no answer'}" if silent else GOOD
        slowest = max(devices, key=lambda device: device.seconds, default=None)
        figure = f"{slowest.seconds:.1f} s, torch {slowest.torch}" if slowest else ""
        source, bad = slowest.folder if slowest else "", frozenset(silent if devices else ())
        yield Check(test="import torch", figure=figure, verdict=failed, source=source, nodes=bad)


def _has(gpu: Gpu | None, gpus: Sequence[tuple[str, int]]) -> bool:
    if gpu is None:
        return not gpus
    least = gpu.memory * 1e9 * (1 - MEMORY)
    return len(gpus) == gpu.count and all(gpu.model in name and size >= least for name, size in gpus)


def _shown(gpus: Sequence[tuple[str, int]]) -> str:
    if not gpus:
        return "no GPU"
    names = " and ".join(sorted({name for name, _ in gpus}))
    return f"{len(gpus)} x {names}, {min(size for _, size in gpus) / 1e9:.0f} GB"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Measurement:
    """The row of the largest message in a test."""

    test: Test
    run: Run
    row: Measured


def _measurements(tests: Iterable[Test]) -> list[_Measurement]:
    runs = [(test, run) for test in tests for run in test.examination.runs[:1] if run.rows]
    return [_Measurement(test=test, run=run, row=max(run.rows, key=lambda row: row.bytes)) for test, run in runs]


def _group(name: str, tests: Sequence[Test], wrong: str, nodes: Iterable[str] = ()) -> Check:
    measured = _measurements(tests)
    if not measured:
        test = "sendrecv" if tests[0].name == "sendrecv" else "all_reduce"
        return Check(test=f"{test}, {name}", verdict=wrong or GOOD, nodes=frozenset(nodes))
    values = sorted(each.row.busbw for each in measured)
    spread = f" ({values[0]:g} to {values[-1]:g})" if values[0] != values[-1] else ""
    first = measured[0]
    figure = figure_of(first.run, first.row)
    return Check(
        test=f"{first.run.test.removesuffix('_perf')} {shown(first.row.bytes)}, {name}",
        figure=f"{median(values):g} GB/s{spread}",
        reference=f"{figure.busbw:g} GB/s -{figure.tolerance:.0%}" if figure else "",
        verdict=wrong or (GOOD if figure or len(values) > 1 else ""),
        source=figure.source if figure else "",
        nodes=frozenset(nodes),
    )


def _bad_nodes(tests: Sequence[Test]) -> dict[str, str]:
    """Return the fault of each node all of whose tests failed, or were slower than the others, if the others passed."""
    failed = {test.name: wrong for test in tests if (wrong := fault(test))}
    speeds = {each.test.name: each.row.busbw for each in _measurements(tests)}
    bad = {}
    for node in dict.fromkeys(node for test in tests for node in test.nodes):
        own = [test.name for test in tests if node in test.nodes]
        others = [test.name for test in tests if node not in test.nodes]
        usual = median(speeds.get(name, 0.0) for name in others) if len(others) > 1 else 0.0
        most = max(speeds.get(name, 0.0) for name in own)
        if failed.keys() >= {*own} and not failed.keys() >= {*others}:
            bad[node] = failed[own[0]]
        elif not failed and most < usual * (1 - SPREAD):
            bad[node] = f"{1 - most / usual:.0%} slower than the others"
    return bad


def _compared(name: str, tests: Sequence[Test]) -> Iterator[Check]:
    if tests:
        bad = _bad_nodes(tests)
        failed = {" and ".join(test.nodes): wrong for test in tests if (wrong := fault(test))}
        first = next(iter({**bad, **failed}.items()), None)
        yield _group(name, tests, f"{first[0]}: {first[1]}" if first else "", bad)


def _of_network(trial: Trial) -> Iterator[Check]:
    nodes = counted(len(trial.nodes), "node")
    sums = trial.named("sums-")
    bad = [wrong for test in sums if (wrong := fault(test))]
    broken = [test for test in sums if any(row.wrong for run in test.examination.runs for row in run.rows)]
    if broken:
        bad = [f"broken: corrupted data in {len(broken)} of {counted(len(sums), 'run')}"]
    elif len(bad) * 2 <= len(sums) and not any(test.code for test in sums):
        bad = []  # the speed of a small message varies
    if sums:
        yield _group(f"{nodes}, {counted(len(sums), 'run')}", sums, "".join(bad[:1]))
    for test in trial.tests:
        if test.name in ("all_reduce", "sendrecv"):
            missing = f"{UNTESTED}: {test.name}_perf not found" if test.code == NOT_FOUND else ""
            yield _group(nodes, [test], missing or fault(test))


def _training(trial: Trial) -> Iterator[Check]:
    tests = {test.name: test for test in trial.tests if test.name.startswith("training-")}
    one, *both = (tests.get(name) for name in ("training-one-rank", "training-1", "training-2"))
    for test in filter(None, (one, *both)):
        if wrong := fault(test) or ("" if test.losses else "the test printed no loss"):
            yield Check(test="training", verdict=wrong)
            return
    first, second = ((test.losses if test else ()) for test in both)
    if first and second:
        wrong = "" if first == second else f"the loss is {second[-1]!r} with the same seed"
        yield Check(test="training, same seed twice", figure=f"loss {first[-1]:.6g}", verdict=wrong or GOOD)
    if one and first:
        is_equal = len(one.losses) == len(first) and all(map(_is_close, one.losses, first))
        wrong = "" if is_equal else f"the loss is {first[-1]!r} on all ranks"
        yield Check(test="training, one and all ranks", figure=f"loss {one.losses[-1]:.6g}", verdict=wrong or GOOD)


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=EQUAL)
