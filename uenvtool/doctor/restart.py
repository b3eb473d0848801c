"""Decides if a job that failed is queued again, by what its output says."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.core.errors import ExitCode
from uenvtool.core.result import Result
from uenvtool.doctor.finding import Examination, worst_first
from uenvtool.doctor.report import plain_line_of, settings_of
from uenvtool.knowledge.finding import BROKEN

ORDER = ("node", "", "stall", "passing")
"""Which fault decides, of several: a broken node explains all else, and code that fails stays as it is."""


def restart(examination: Examination) -> Result:
    """Return the decision as words that a shell reads, a line each; the exit code is NO if it is not queued again.

    The first line says what was found. Then, of a job that is: `reason ID`; the `node NAME` and `rank NUMBER` to be
    left out; `set NAME VALUE`, what the next run has set.
    """
    findings = worst_first(examination.findings)
    broken = [finding for finding in findings if finding.known.severity == BROKEN]
    found = min(broken, key=lambda finding: ORDER.index(finding.known.fault), default=None)
    if found is None or not found.known.fault:
        why = plain_line_of(found) if found else "doctor finds nothing that ends a run"
        return Result(data={"again": False, "why": why}, file=f"stop: {why}", exit_code=ExitCode.NO)
    node = found.known.fault == "node"
    nodes, ranks = (sorted(found.nodes), sorted(found.ranks)) if node else ([], [])
    stalls = [finding for finding in findings if finding.known.fault == "stall"]
    settings = {name: value for stall in stalls for name, value in settings_of(stall.known)} if not node else {}
    lines = [f"again: {plain_line_of(found)}", f"reason {found.known.id}", *_lines(nodes, ranks, settings)]
    data = {"again": True, "why": plain_line_of(found), "reason": found.known.id}
    return Result(data={**data, "nodes": nodes, "ranks": ranks, "settings": settings}, file="\n".join(lines))


def _lines(nodes: list[str], ranks: list[int], settings: dict[str, str]) -> Iterator[str]:
    yield from (f"node {name}" for name in nodes)
    yield from (f"rank {rank}" for rank in ranks)
    yield from (f"set {name} {value}" for name, value in settings.items())
