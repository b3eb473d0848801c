"""Diagnosis of the files that a job wrote: its logs and the dumps of PyTorch's flight recorder."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.files import is_stream, opened_named
from uenvtool.doctor.dumps import dumps_among
from uenvtool.doctor.finding import Examination, worst_first
from uenvtool.doctor.hang import examine_dumps
from uenvtool.doctor.log.scan import Scanner, read_logs
from uenvtool.doctor.log.verdict import examined, with_end, with_quotes
from uenvtool.doctor.network import TCP
from uenvtool.knowledge.finding import load_findings
from uenvtool.knowledge.locate import shown
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.reference import Reference, figures_of
from uenvtool.knowledge.system import load_system

STANDARD_INPUT = Path("-")
SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm", ".pbs", ".job", ".py")
"""The suffixes of scripts. A script with another suffix is recognised by its executable bit."""
FRESH_SECONDS = 60
"""A log that was modified within this time may belong to a running job."""


def require_logs(paths: Sequence[Path]) -> None:
    """Raise BadInput if a file is a script or all logs are empty, because "no problems found" would be misleading."""
    sizes = []
    for path in paths:
        if path == STANDARD_INPUT or is_stream(path) or path.is_dir():
            return
        with _open(path) as stream:
            is_script = path.suffix in SCRIPTS or os.access(path, os.X_OK)
            if is_script and stream.read(2) == b"#!":
                hint = "pass the job's output, by default slurm-ID.out, or check the script with `uenvtool check`"
                raise BadInput("not a log but a script", Position(shown(path)), hint)
            sizes.append(os.fstat(stream.fileno()).st_size)
    if not any(sizes):
        hint = "wait for output, or pass the file that `scontrol show job ID` prints as StdOut"
        raise BadInput("the log is empty", Position(str(paths[0])), hint)


def examine_files(paths: Sequence[Path], *, system: str | None = None, nodes: Sequence[str] = ()) -> Examination:
    """Return the diagnosis of logs and dumps. From a directory, only the dumps are read.

    nodes: the nodes of the job in the order of its ranks.

    Raises BadInput if a file cannot be opened, a directory contains no dump, or the system does not exist.
    """
    dumps = dumps_among(path for path in paths if path != STANDARD_INPUT)
    logs = [path for path in paths if path not in dumps and not path.is_dir()]
    if not dumps and not logs:
        hint = "pass the logs in it, or write dumps with `uenvtool job --workaround flight-recorder`"
        raise BadInput(f"the directory {str(paths[0])!r} contains no dump of PyTorch's flight recorder", hint=hint)
    of_logs = examine_logs(logs, system=system, nodes=len(nodes)) if logs else Examination()
    if not dumps:
        return of_logs
    of_dumps = examine_dumps(dumps, nodes)
    findings = tuple(worst_first([*of_logs.findings, *of_dumps.findings]))
    facts, unseen = of_logs.facts + of_dumps.facts, of_logs.unseen + of_dumps.unseen
    return replace(of_logs, findings=findings, facts=facts, unseen=unseen)


def examine_logs(
    files: Sequence[Path], *, system: str | None = None, nodes: int = 0, figures: Sequence[Reference] | None = None
) -> Examination:
    """Return the combined diagnosis of logs; `-` is standard input.

    system: the system whose references a network test is compared with. Default: this machine's system.
    nodes: the number of nodes of the job, if known.
    figures: the references to use instead of those of the system.

    Raises BadInput if a file cannot be opened or the system does not exist.
    """
    known = load_findings()
    sightings = read_logs(_opened(files), Scanner(known))
    is_tcp = TCP in sightings.facts.get("network", ())
    is_test = (sightings.rows.by_test or is_tcp) and figures is None
    reference, gpus, fabric = _reference(system) if is_test else (figures or (), 0, "")
    if fabric and is_tcp and "fabric" not in sightings.facts:  # NCCL's lines about TCP do not show the fabric
        sightings.fact("fabric", fabric, "")
    examination = with_quotes(examined(sightings, known, reference, gpus, nodes), sightings, known)
    age = min((time.time() - file.stat().st_mtime for file in files if file.is_file()), default=FRESH_SECONDS)
    is_fresh = 0 <= age < FRESH_SECONDS
    if not is_fresh:
        examination = with_end(examination, sightings, known)
    looked_at = examination.looked_at + (f", modified {age:.0f} s ago, so the job may still be running" * is_fresh)
    written = files[0].stat().st_mtime if files[0].is_file() else time.time()
    date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(written))
    runs = tuple(replace(run, name=files[0].name, date=date) for run in examination.runs)
    return replace(examination, looked_at=looked_at, runs=runs)


def _reference(system: str | None) -> tuple[Sequence[Reference], int, str]:
    """Return the references of a system, its GPUs per node (0 if they differ), and its fabric."""
    name = system or next(iter(recognised(os.environ) or ()), None)
    if name is None:
        return (), 0, ""
    known = load_system(name)
    counts = {node.gpu.count for node in known.nodes.values() if node.gpu}
    return figures_of(known), counts.pop() if len(counts) == 1 else 0, known.fabric


def _opened(files: Sequence[Path]) -> Iterator[tuple[str, BinaryIO]]:
    for file in files:
        if file == STANDARD_INPUT:
            yield "standard input", sys.stdin.buffer
            continue
        with _open(file) as stream:
            yield shown(file), stream


@contextlib.contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    try:
        with opened_named(path) as stream:
            yield stream
    except FileNotFoundError:
        raise BadInput(
            "file not found", Position(shown(path)), "pass a job's output, or - for standard input"
        ) from None
