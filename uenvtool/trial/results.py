"""Reads the results of the tests that a job of `uenvtool try` ran."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput
from uenvtool.core.files import read_named
from uenvtool.core.limits import limited
from uenvtool.doctor.files import examine_logs
from uenvtool.doctor.finding import Examination, cleaned
from uenvtool.knowledge.reference import Reference, figures_of
from uenvtool.knowledge.secrets import storable
from uenvtool.knowledge.system import NodeType, System, load_system

RESULTS = "results"
"""The file in the log directory with one line per test."""
MOST_BYTES = 10_000_000
DEVICES, SKIPPED = "devices", "skipped"
_LOSS = re.compile(r"step \d+/\d+ loss (-?[\d.]+(?:e[-+]\d+)?|-?inf|nan)\s*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Test:
    """A test that ran on nodes. examination: doctor's diagnosis of its log. losses: the loss of each training step.

    skipped: the failed test because of which this test did not run.
    """

    name: str
    code: int = 0
    nodes: tuple[str, ...] = ()
    examination: Examination = field(default_factory=Examination)
    losses: tuple[float, ...] = ()
    last_line: str = ""
    skipped: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """The GPUs of a node as pairs of name and bytes, and its torch: version, directory, and seconds of the import."""

    node: str
    gpus: tuple[tuple[str, int], ...]
    torch: str
    folder: str
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """The results of all tests. has_ended: whether the job reached its end."""

    system: System
    node: NodeType
    tests: tuple[Test, ...]
    devices: tuple[Device, ...]
    has_ended: bool = True

    def named(self, start: str) -> list[Test]:
        """Return the tests that ran and whose names begin with a text."""
        return [test for test in self.tests if test.name.startswith(start) and not test.skipped]

    @property
    def nodes(self) -> list[str]:
        """Return all nodes, in the order of the job."""
        return list(dict.fromkeys(name for test in self.tests for name in test.nodes))


def read_trial(folder: Path, system: str | None = None) -> Trial:
    """Return the results in a log directory. Raises BadInput if it has no results or the system does not exist."""
    lines = [line.split() for line in _text(folder / RESULTS).splitlines()]
    if not lines or lines[0][:1] != ["on"] or len(lines[0]) != 3:
        hint = "name the directory in logs/ that a job of `uenvtool try` wrote, such as logs/try-1234"
        raise BadInput(f"{str(folder)!r} contains no results of `uenvtool try`", hint=hint)
    known = load_system(system or lines[0][1])
    devices = tuple(filter(None, map(_device, _text(folder / f"{DEVICES}.log").splitlines())))
    node = node_of(known, [name for device in devices for name, _ in device.gpus])
    figures = figures_of(known, node.uarch, lines[0][2])
    return Trial(
        system=known,
        node=node,
        tests=tuple(_test(folder, words, figures) for words in lines[1:] if len(words) > 3),
        devices=devices,
        has_ended=any(words[0] == "end" for words in lines),
    )


def node_of(system: System, names: Sequence[str]) -> NodeType:
    """Return the first node type whose GPU model is in one of the names of devices, or else the first node type."""
    nodes = list(system.nodes.values())
    return next((each for each in nodes if each.gpu and any(each.gpu.model in name for name in names)), nodes[0])


def _test(folder: Path, words: Sequence[str], figures: Sequence[Reference]) -> Test:
    name, code, _, *nodes = words
    if not code.isdecimal():
        return Test(name=name, skipped=nodes[0])
    path = folder / f"{Path(name).name}.log"
    text = _text(path)
    printed = [line for line in text.splitlines() if line.strip()]
    examination = examine_logs([path], nodes=len(nodes), figures=figures) if text else Examination()
    return Test(
        name=name,
        code=int(code),
        nodes=tuple(nodes),
        examination=cleaned(examination),
        losses=tuple(map(float, _LOSS.findall(text))),
        last_line=storable(printed[-1].strip()) if printed else "no output",
    )


def _device(line: str) -> Device | None:
    with limited(DEVICES), contextlib.suppress(ValueError, LookupError, TypeError):  # a line of another program
        facts: Any = json.loads(line[line.index("{") :])
        gpus = tuple((str(name), int(size)) for name, size in facts["gpus"])
        texts = {"node": facts["node"], "torch": facts["torch"], "folder": str(Path(facts["from"]).parent)}
        return Device(**storable(texts), gpus=gpus, seconds=float(facts["seconds"]))
    return None


def _text(path: Path) -> str:
    try:
        return read_named(path, MOST_BYTES).decode(errors="replace")
    except (BadInput, OSError):
        return ""
