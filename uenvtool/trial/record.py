"""Stores the figures of a trial as the user's own references."""

from __future__ import annotations

import time
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.yamltext import scalar
from uenvtool.doctor.network import figure_of
from uenvtool.knowledge.kinds import REFERENCE
from uenvtool.knowledge.locate import config_directory
from uenvtool.knowledge.reference import load_references
from uenvtool.trial.results import Trial

TOLERANCE, LEAST, MOST = 0.05, 0.01, 1e6
"""The tolerance of a measured figure, and the limits of a figure in GB/s, which the file contains without exponent."""


def record(trial: Trial) -> str:
    """Add the figures of a trial that have no reference to the user's references, and return a message about the file.

    Raises BadInput or AnswerIsNo if the user's file cannot be read or was not written by uenvtool.
    """
    path = config_directory() / REFERENCE.file(trial.system.name)
    with files.locked(path.parent, wait=True, below=False):  # another run may be adding figures
        return _added(trial, path)


def _added(trial: Trial, path: Path) -> str:
    figures, source = {}, f"uenvtool try, {time.strftime('%Y-%m-%d')}"
    for run, row in (test.largest for test in trial.tests if test.largest and not test.fault):
        if run.nodes and run.test and LEAST <= row.busbw < MOST and not figure_of(run, row):
            figures[run.test, run.nodes, row.bytes] = (row.busbw, TOLERANCE, source)
    for each in load_references(str(path)).figures if path.is_file() else ():
        figures[each.test, each.nodes, each.bytes] = (each.busbw, each.tolerance, each.source)
    if not figures:
        return "there is no figure to store"
    lines = [
        f"description: Figures that `uenvtool try` measured on {trial.system.name}.",
        f"systems: [{trial.system.name}]",
        *([f"gpu: {scalar(trial.node.gpu.model)}"] if trial.node.gpu else []),
        "figures:",
    ]
    for (test_name, nodes, size), (busbw, tolerance, origin) in sorted(figures.items()):
        values = f"test: {test_name}, nodes: {nodes}, bytes: {size}, busbw: {busbw}, tolerance: {tolerance}"
        lines.append(f"- {{{values}, source: {scalar(origin)}}}")
    files.update_siblings(path.parent, {path.name: "\n".join([*lines, ""])})
    return f"stored {len(figures)} figures in {path}"
