"""Writes what doctor found where a user wants it: a page, the drawing of a test of the network, a file of runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.core.page import page
from uenvtool.core.result import Result
from uenvtool.core.words import grouped
from uenvtool.doctor.finding import Examination, Finding, worst_first
from uenvtool.doctor.network import Run, compared
from uenvtool.doctor.nodes import ranges
from uenvtool.doctor.plot import HEIGHT, WIDTH, shapes, svg
from uenvtool.doctor.request import DoctorRequest
from uenvtool.doctor.runs import WHAT_IS_READ, keep, read_runs

SCRIPT = Path(__file__).parent / "doctor.js"
PAGE, DRAWING = ".html", ".svg"
SHARED = ("id", "severity", "what", "why", "fix", "source", "page", "commands", "count")
"""What findings of one kind share: a page has it once."""
MOST_VALUES = 50
"""So many values of a variable are shown; one that each rank has of its own says nothing."""


def write(examination: Examination, request: DoctorRequest, *, what: str) -> Iterator[str]:
    """Keep the runs, write the file of -o, and yield what was written.

    Raises BadInput without a test of the network in the log, where one is needed, and for a file of somebody else's.
    """
    earlier: list[Run] = []
    if request.keep:
        earlier = keep(request.keep, _some(examination.runs))
        yield f"{request.keep}: kept; earlier runs there: {len(earlier)}"
    if request.output:
        yield _written(request.output, examination, earlier, title=what, force=request.force)


def compare(paths: Sequence[Path], request: DoctorRequest) -> Result:
    """Return runs side by side, and write the file of -o. Raises BadInput for less than two."""
    runs = list(read_runs(paths, system=request.system))
    if len(runs) < 2:
        raise BadInput(
            f"--compare needs two runs, and found {len(runs)}",
            hint="name two or more logs, or a file that --keep wrote",
        )
    notes = []
    if request.output:
        notes.append(_written(request.output, Examination(runs=tuple(runs)), [], title="runs", force=request.force))
    return Result(data={"runs": [run.data() for run in runs]}, tables=tuple(compared(runs)), notes=tuple(notes))


def _some(runs: Sequence[Run]) -> Sequence[Run]:
    if not runs:
        raise BadInput("no test of the network is in the log", hint=WHAT_IS_READ)
    return runs


def _written(output: Path, examination: Examination, earlier: Sequence[Run], *, title: str, force: bool) -> str:
    """Write a page or a drawing, by the name of the file, and return what was written."""
    if output.suffix == DRAWING:
        last = _some(examination.runs)[-1]
        text = svg([run for run in (*earlier, *examination.runs) if run.test == last.test])
    elif output.suffix == PAGE:
        text = page(f"doctor: {title}", page_data(examination, earlier), SCRIPT)
    else:
        raise BadInput(f"-o {output}: its name says what it is", hint="name it FILE.html or FILE.svg")
    files.write_beside(output.parent, {output.name: text}, force=force)
    return f"{output}: open it in a browser"


def _rank_data(examination: Examination, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the ranks as rows (number, node, state, findings by their place), what all have, and what differs."""
    ranks = examination.ranks
    by_rank, by_node = _places(findings)
    by_name: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for view in ranks:
        for name, value in view.values.items():
            by_name[name][value].append(view.rank)
    size = sum(bool(view.values) for view in ranks)
    same = {name: next(iter(of)) for name, of in by_name.items() if len(of) == 1 and size == len(*of.values())}
    return {
        "ranks": [
            [view.rank, view.node, view.state, sorted([*by_rank.get(view.rank, ()), *by_node.get(view.node, ())])]
            for view in ranks
        ],
        "same": sorted(same.items()),
        "differs": [
            [name, [[value, ranges(of)] for value, of in sorted(by_name[name].items(), key=_most)[:MOST_VALUES]]]
            for name in sorted(by_name.keys() - same)
        ],
    }


def _places(findings: Sequence[Finding]) -> tuple[Mapping[int, list[int]], Mapping[str, list[int]]]:
    """Return the places of findings by the ranks that they name, and by the nodes of those that name no rank."""
    by_rank = grouped((rank, place) for place, finding in enumerate(findings) for rank in finding.ranks)
    of_nodes = ((place, finding) for place, finding in enumerate(findings) if not finding.ranks)
    return by_rank, grouped((node, place) for place, finding in of_nodes for node in finding.nodes)


def _most(item: tuple[str, list[int]]) -> int:
    return -len(item[1])


def page_data(examination: Examination, earlier: Sequence[Run] = ()) -> dict[str, Any]:
    """Return what the page shows."""
    runs = [*earlier, *examination.runs]
    findings = worst_first(examination.findings)
    rows = [finding.data() for finding in findings]
    shared = [json.dumps({name: row.pop(name) for name in SHARED}) for row in rows]
    known = {text: number for number, text in enumerate(dict.fromkeys(shared))}
    return {
        "known": [json.loads(text) for text in known],
        "findings": [
            {name: value for name, value in row.items() if value is not None} | {"known": known[text]}
            for row, text in zip(rows, shared, strict=True)
        ],
        **_rank_data(examination, findings),
        "facts": [list(fact) for fact in examination.facts],
        "quotes": [list(line) for line in examination.quotes],
        "unseen": list(examination.unseen),
        "runs": [run.data() for run in runs],
        "drawings": [
            {"test": test, "size": [WIDTH, HEIGHT], "shapes": shapes([run for run in runs if run.test == test])}
            for test in dict.fromkeys(run.test for run in runs)
        ],
    }
