"""Renders the verdict on a system: the table, a line per node, and the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from uenvtool.core.errors import ExitCode
from uenvtool.core.result import Result, Table
from uenvtool.doctor.network import figure_of
from uenvtool.trial.results import Trial
from uenvtool.trial.verdict import UNTESTED, Check, checks, nodes_by_verdict

HEADINGS = ("test", "figure", "reference", "verdict", "source")
RIGHT = "right"


def report(trial: Trial, notes: Sequence[str] = ()) -> Result:
    """Return the output of `uenvtool try`. The exit code is NO if a check found a fault or if no test ran."""
    found = checks(trial)
    wrong = next((check for check in found if check.is_wrong), None)
    result = f"wrong: {wrong.test}: {wrong.verdict}" if wrong else RIGHT
    if not any(check.verdict and not check.verdict.startswith(UNTESTED) for check in found):
        result = "wrong: no test ran"
    nodes = nodes_by_verdict(trial, found)
    data = {
        "result": result,
        "system": trial.system.name,
        "checks": [
            {name: getattr(check, name) for name in HEADINGS} | {"nodes": sorted(check.nodes)} for check in found
        ],
        "nodes": nodes,
        "runs": [run.data() for test in trial.tests for run in test.examination.runs],
    }
    lines = [f"{verdict}: {node}" for node, verdict in nodes.items()]
    return Result(
        data=data,
        report=lambda _: [_table(found), *([(line, "")] for line in ("", *lines, result))],
        notes=(*notes, *_without_reference(trial)),
        exit_code=ExitCode.DONE if result == RIGHT else ExitCode.NO,
    )


def _table(found: Iterable[Check]) -> Table:
    rows = [tuple(getattr(check, name) for name in HEADINGS) for check in found]
    return Table(headings=HEADINGS, rows=rows)


def _without_reference(trial: Trial) -> list[str]:
    runs = [run for test in trial.tests for run in test.examination.runs]
    if any(figure_of(run, row) for run in runs for row in run.rows) or not runs:
        return []
    return [
        "no reference is known for these nodes; `uenvtool try DIR --record` stores these figures as your references"
    ]
