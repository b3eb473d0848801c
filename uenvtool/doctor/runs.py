"""Keeps runs of tests of the network in a file, a line of JSON each, and reads them again, as it reads logs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput, Position
from uenvtool.doctor.log.read import examine_logs
from uenvtool.doctor.network import Run, parsed_run
from uenvtool.image.pack import file_sha256
from uenvtool.knowledge.locate import shown

MOST_BYTES = 1 << 26
START = b'{"date": '
"""How a file of kept runs begins; a log does not."""
WHAT_IS_READ = "the tables of nccl-tests, of PyTorch's all_reduce_bench and of OSU's benchmarks are read"


def kept(path: Path) -> list[Run]:
    """Return the runs that a file keeps, the oldest first. Raises BadInput for a line that keeps none."""
    runs = []
    for number, line in enumerate(files.read_bytes(path, MOST_BYTES).decode(errors="replace").splitlines(), 1):
        run = parsed_run(line)
        if run is None:
            hint = "name a file that `uenvtool doctor LOG --keep FILE` wrote, or a log"
            raise BadInput("no run of a test is kept here", Position(shown(path), number), hint)
        runs.append(replace(run, name=f"{path.name}:{number}"))
    return runs


def keep(path: Path, runs: Sequence[Run]) -> list[Run]:
    """Add runs to a file, and return those that it had. Raises BadInput for a file that keeps other things.

    An image that is a file is kept with its SHA-256.
    """
    runs = [replace(run, image=_with_digest(run.image)) for run in runs]
    with files.locked(path.parent, wait=True, below=False):
        before = kept(path) if path.exists() else []
        content = files.read_bytes(path, MOST_BYTES) if before else b""
        lines = "".join(json.dumps(run.data(), ensure_ascii=False, sort_keys=True) + "\n" for run in runs)
        files.write(path, content + lines.encode(), keep_mode=True)
    return before


def _with_digest(image: str) -> str:
    is_file = image.startswith("/") and Path(image).is_file()
    return f"{image}@sha256:{file_sha256(Path(image))}" if is_file else image


def read_runs(paths: Sequence[Path], *, system: str | None) -> Iterator[Run]:
    """Yield the runs of files that keep some, and those in logs. Raises BadInput for a log without a test."""
    for path in paths:
        if _keeps(path):
            yield from kept(path)
            continue
        found = examine_logs([path], system=system).runs
        if not found:
            raise BadInput("no test of the network is in it", Position(shown(path)), WHAT_IS_READ)
        yield from found


def _keeps(path: Path) -> bool:
    if not path.is_file():
        return False
    with files.opened(path) as stream:
        return stream.read(len(START)) == START
