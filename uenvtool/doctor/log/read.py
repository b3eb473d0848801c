"""What the output of a job says of it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from uenvtool.core.errors import BadInput, Position
from uenvtool.doctor.finding import Examination
from uenvtool.doctor.log.scan import Scanner, read_logs
from uenvtool.doctor.log.verdict import examined
from uenvtool.knowledge.finding import load_findings
from uenvtool.knowledge.locate import shown
from uenvtool.knowledge.recognise import recognised

if TYPE_CHECKING:
    from uenvtool.knowledge.system import Bandwidth

STANDARD_INPUT = Path("-")


def examine_logs(files: Sequence[Path], *, system: str | None = None) -> Examination:
    """Return what the logs say together; `-` is standard input.

    system: whose network a test of it is compared with, by default this one. Raises BadInput for a file that cannot be
    opened, and for a system that does not exist.
    """
    known = load_findings()
    seen = read_logs(_opened(files), Scanner(known))
    return examined(seen, known, _reference(system) if seen.rows.busbw else ())


def _reference(system: str | None) -> Sequence[Bandwidth]:
    """Return how fast the network of a system has been; of one that nobody names nothing is known."""
    from uenvtool.knowledge.system import load_system

    name = system or next(iter(recognised(os.environ) or ()), None)
    return load_system(name).bandwidth if name else ()


def _opened(files: Sequence[Path]) -> Iterator[tuple[str, BinaryIO]]:
    """Yield each log's name and stream, open while it is read."""
    for file in files:
        if file == STANDARD_INPUT:
            yield "standard input", sys.stdin.buffer
            continue
        with contextlib.ExitStack() as stack:
            try:
                kind = file.stat().st_mode
                if stat.S_ISBLK(kind) or (stat.S_ISCHR(kind) and not os.path.samefile(file, os.devnull)):
                    raise OSError(errno.EINVAL, "it is a device")
                stream = stack.enter_context(file.open("rb"))
            except OSError as error:
                raise BadInput(
                    f"cannot read it: {error.strerror}", Position(shown(file)), "name a job's output, or - for a pipe"
                ) from error
            yield shown(file), stream
