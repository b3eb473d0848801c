"""Reads the results of the tests that a job of `uenvtool try` ran."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.core.files import read_named
from uenvtool.doctor.files import examine_logs
from uenvtool.doctor.finding import Examination, cleaned
from uenvtool.doctor.network import GOOD, Measured, Run, shown, verdict
from uenvtool.doctor.report import line_of
from uenvtool.knowledge.finding import BROKEN, SLOW
from uenvtool.knowledge.reference import Reference, figures_of
from uenvtool.knowledge.secrets import storable
from uenvtool.knowledge.system import NodeType, System, load_system

RESULTS = "results"
"""The file in the log directory with one line per test."""
MOST_BYTES = 10_000_000
TIMED_OUT, NOT_FOUND = 124, 127
UNTESTED, INFINITE = "not tested", {float("inf"), float("-inf")}
_LOSS = re.compile(r"step \d+/\d+ loss (-?\d+(?:\.\d+)?(?:e[-+]\d+)?|-?inf|nan)\s*$", re.MULTILINE)
_DEVICES = re.compile(
    r"^(?: *\d+: )?(?P<node>\S+) has (?P<gpus>(?P<count>\d{1,9}) x (?P<names>.{1,999}), (?P<memory>\d{1,9}) GB|no GPU)"
    r" and (?P<torch>torch \S+) from (?P<folder>.+), imported in (?P<seconds>\d+\.\d+ s)$",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Test:
    """A test that ran on nodes, or on none if it was skipped.

    fault: the problem that the test found, or an empty string. run: the measured bandwidths. losses: the loss of each
    training step.
    """

    name: str
    code: int = 0
    nodes: tuple[str, ...] = ()
    fault: str = ""
    run: Run | None = None
    losses: tuple[float, ...] = ()

    @property
    def largest(self) -> tuple[Run, Measured] | None:
        """Return the run and its row of the largest message, or None if nothing was measured."""
        return (self.run, max(self.run.rows, key=lambda row: row.bytes)) if self.run and self.run.rows else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """The results of all tests. devices: the GPUs and the torch of each node. has_ended: whether the job ended."""

    system: System
    node: NodeType
    tests: tuple[Test, ...]
    devices: tuple[Mapping[str, str], ...]
    has_ended: bool = True

    def named(self, start: str) -> list[Test]:
        """Return the tests that ran and whose names begin with a text."""
        return [test for test in self.tests if test.name.startswith(start) and test.nodes]

    @property
    def nodes(self) -> list[str]:
        """Return all nodes, in the order of the job."""
        return list(dict.fromkeys(name for test in self.tests for name in test.nodes))

    @property
    def runs(self) -> list[Run]:
        """Return the measurements of all tests."""
        return [test.run for test in self.tests if test.run]


def read_trial(folder: Path, system: str | None = None) -> Trial:
    """Return the results in a log directory. Raises BadInput if it has no results or the system does not exist."""
    results = read_named(folder / RESULTS, MOST_BYTES) if os.path.isfile(folder / RESULTS) else b""
    lines = [line.split() for line in results.decode(errors="replace").splitlines()]
    if not lines or lines[0][:1] != ["on"] or len(lines[0]) != 3:
        hint = "name the directory in logs/ that a job of `uenvtool try` wrote, such as logs/try-1234"
        raise BadInput(f"{str(folder)!r} contains no results of `uenvtool try`", hint=hint)
    known = load_system(system or lines[0][1])
    devices = tuple(storable(match.groupdict("")) for match in _DEVICES.finditer(_text(folder / "devices.log")))
    names = " ".join(device["names"] for device in devices)
    types = list(known.nodes.items())
    uarch, node = next((pair for pair in types if pair[1].gpu and pair[1].gpu.model in names), types[0])
    figures = figures_of(known, uarch, lines[0][2])
    tests = tuple(_test(folder, words, figures) for words in lines[1:] if len(words) > 3)
    has_ended = any(words[0] == "end" for words in lines)
    return Trial(system=known, node=node, tests=tests, devices=devices, has_ended=has_ended)


def _test(folder: Path, words: Sequence[str], figures: Sequence[Reference]) -> Test:
    name, code, _, *nodes = words
    if not code.isdecimal():
        return Test(name=name, fault=f"{UNTESTED}: {nodes[0]} failed")
    path = folder / f"{Path(name).name}.log"
    text, number = _text(path), int(code[:9])
    found = cleaned(examine_logs([path], nodes=len(nodes), figures=figures)) if os.path.isfile(path) else Examination()
    run, losses = next(iter(found.runs), None), tuple(map(float, _LOSS.findall(text)))
    fault = _fault(number, found, text) or _silence(name, run, losses)
    return Test(name=name, code=number, nodes=tuple(nodes), fault=fault, run=run, losses=losses)


def _silence(name: str, run: Run | None, losses: Sequence[float]) -> str:
    """Return the fault of a test that ended without a result, because it printed nothing or too much."""
    if name.startswith("training-"):
        return "the loss is infinite" if INFINITE & {*losses} else "" if losses else "the test printed no loss"
    has_bandwidth = run is not None and any(row.busbw for row in run.rows)
    return "" if has_bandwidth or name == "devices" else "the test printed no bandwidth"


def _fault(code: int, examination: Examination, text: str) -> str:
    findings = [each for each in examination.findings if each.known.severity in (BROKEN, SLOW)]
    rows = [(row, verdict(run, row)) for run in examination.runs for row in run.rows]
    bad = [(bool(row.wrong), row.bytes, told) for row, told in rows if told not in (GOOD, "")]
    if bad:
        _, size, told = max(bad)
        return f"{told} at {shown(size)}"
    if code == TIMED_OUT:
        return "the test did not end in time"
    if code and not findings:
        last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")
        return f"{storable(last)} (exit code {code})"
    return next((line_of(each) for each in findings if code or each.known.id != "no-end"), "")


def _text(path: Path) -> str:
    try:
        return read_named(path, MOST_BYTES).decode(errors="replace")
    except (BadInput, OSError):
        return ""
