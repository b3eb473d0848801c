"""Files that a job left: its output, and the dumps of PyTorch's flight recorder."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.files import is_stream, opened_named
from uenvtool.doctor.dumps import dumps_among
from uenvtool.doctor.finding import Examination, joined
from uenvtool.doctor.hang import examine_dumps
from uenvtool.doctor.log.scan import Scanner, read_logs
from uenvtool.doctor.log.verdict import examined, with_last_words
from uenvtool.doctor.network import TCP
from uenvtool.knowledge.finding import load_findings
from uenvtool.knowledge.locate import shown
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.system import Bandwidth, load_system

STANDARD_INPUT = Path("-")
SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm", ".pbs", ".job", ".py")
"""What the names of scripts end in; one of another name may be executed."""
FRESH_SECONDS = 60
"""A log that was written to in the last so many seconds may be that of a job that runs."""


def refuse_no_log(paths: Sequence[Path]) -> None:
    """Raise BadInput for a script, and if no log that a user names has a byte: that nothing is wrong would mislead."""
    sizes = []
    for path in paths:
        if path == STANDARD_INPUT or is_stream(path) or path.is_dir():
            return
        with _open(path) as stream:
            is_script = path.suffix in SCRIPTS or os.access(path, os.X_OK)
            if is_script and stream.read(2) == b"#!":
                hint = "`uenvtool check` reads batch scripts; of a job give its output, by default slurm-ID.out"
                raise BadInput("this is a script, not what a job printed", Position(shown(path)), hint)
            sizes.append(os.fstat(stream.fileno()).st_size)
    if not any(sizes):
        hint = "the job has written nothing yet, or writes elsewhere: `scontrol show job ID` names its StdOut"
        raise BadInput("the log is empty", Position(str(paths[0])), hint)


def examine_files(paths: Sequence[Path], *, system: str | None = None, nodes: Sequence[str] = ()) -> Examination:
    """Return what logs and dumps say together; of a folder its dumps are read.

    nodes: of the job, which its ranks fill one after the other. Raises BadInput for what cannot be opened, for a folder
    without a dump, and for a system that does not exist.
    """
    dumps = dumps_among(path for path in paths if path != STANDARD_INPUT)
    logs = [path for path in paths if path not in dumps and not path.is_dir()]
    if not dumps and not logs:
        hint = "name the logs in it; dumps are what `uenvtool job --workaround flight-recorder` makes the ranks write"
        raise BadInput(f"{paths[0]} is a folder, and no dump of PyTorch's flight recorder is in it", hint=hint)
    parts = [examine_logs(logs, system=system, nodes=len(nodes))] if logs else []
    if dumps:
        parts.append(examine_dumps(dumps, nodes))
    return joined(parts)


def examine_logs(files: Sequence[Path], *, system: str | None = None, nodes: int = 0) -> Examination:
    """Return what the logs say together; `-` is standard input.

    system: whose network a test of it is compared with, by default this one. nodes: of the job, if it is known.
    Raises BadInput for a file that cannot be opened, and for a system that does not exist.
    """
    known = load_findings()
    seen = read_logs(_opened(files), Scanner(known))
    is_tcp = TCP in seen.facts.get("network", ())
    reference, gpus, fabric = _reference(system) if seen.rows.by_test or is_tcp else ((), 0, "")
    if fabric and is_tcp and "fabric" not in seen.facts:  # TCP's own words do not show it
        seen.fact("fabric", fabric, "")
    found = with_last_words(examined(seen, known, reference, gpus, nodes), seen, known)
    age = min((time.time() - file.stat().st_mtime for file in files if file.is_file()), default=FRESH_SECONDS)
    looked_at = found.looked_at + (f", written to {age:.0f} s ago: the job may still run" * (0 <= age < FRESH_SECONDS))
    return replace(found, looked_at=looked_at, runs=tuple(replace(run, **_origin(files)) for run in found.runs))


def _origin(files: Sequence[Path]) -> dict[str, Any]:
    """Return the name of the log of a run, and when it was written; of a pipe that is now."""
    path = files[0]
    seconds = path.stat().st_mtime if path.is_file() else time.time()
    return {"name": path.name, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))}


def _reference(system: str | None) -> tuple[Sequence[Bandwidth], int, str]:
    """Return how fast the network of a system has been, the GPUs of a node, if all have as many, and its fabric."""
    name = system or next(iter(recognised(os.environ) or ()), None)
    if name is None:
        return (), 0, ""
    known = load_system(name)
    counts = {node.gpu.count for node in known.nodes.values() if node.gpu}
    return known.bandwidth, counts.pop() if len(counts) == 1 else 0, known.fabric


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
        raise BadInput("no such file", Position(shown(path)), "name a job's output, or - for a pipe") from None
