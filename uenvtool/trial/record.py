"""Stores the figures of a trial as the user's own references."""

from __future__ import annotations

import time
from collections.abc import Iterator

from uenvtool.core import files
from uenvtool.core.yamltext import scalar
from uenvtool.doctor.network import figure_of
from uenvtool.knowledge.kinds import REFERENCE
from uenvtool.knowledge.locate import config_directory
from uenvtool.knowledge.reference import Reference, load_references
from uenvtool.trial.results import Trial


def record(trial: Trial) -> str:
    """Add the figures of a trial that have no reference to the user's references, and return a message about the file.

    Raises BadInput or AnswerIsNo if the user's file cannot be read or was not written by uenvtool.
    """
    path = config_directory() / REFERENCE.file(trial.system.name)
    known = load_references(str(path)).figures if path.is_file() else ()
    figures = {(each.test, each.nodes, each.bytes): each for each in (*_measured(trial), *known)}
    if not figures:
        return "there is no figure to store"
    lines = [
        f"description: Figures that `uenvtool try` measured on {trial.system.name}.",
        f"systems: [{trial.system.name}]",
    ]
    lines += [f"gpu: {scalar(trial.node.gpu.model)}"] if trial.node.gpu else []
    lines += ["figures:", *(_row(each) for _, each in sorted(figures.items()))]
    files.write_siblings(path.parent, {path.name: "\n".join([*lines, ""])})
    return f"stored {len(figures)} figures in {path}"


def _measured(trial: Trial) -> Iterator[Reference]:
    source = f"uenvtool try, {time.strftime('%Y-%m-%d')}"
    for test in trial.tests:
        for run in test.examination.runs:
            row = max(run.rows, key=lambda row: row.bytes)
            if run.nodes and run.test and row.busbw and figure_of(run, row) is None and not (test.code or row.wrong):
                yield Reference(test=run.test, nodes=run.nodes, bytes=row.bytes, busbw=row.busbw, source=source)


def _row(figure: Reference) -> str:
    values = {name: getattr(figure, name) for name in ("test", "nodes", "bytes", "busbw", "tolerance")}
    pairs = ", ".join(f"{name}: {value}" for name, value in values.items())
    return f"- {{{pairs}, source: {scalar(figure.source)}}}"
