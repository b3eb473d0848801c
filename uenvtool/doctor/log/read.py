"""What the output of a job says of it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from uenvtool.core.errors import BadInput, Position
from uenvtool.doctor.finding import Examination
from uenvtool.doctor.log.scan import Scanner, read_logs
from uenvtool.doctor.log.verdict import examined
from uenvtool.knowledge.finding import load_findings
from uenvtool.knowledge.locate import shown

STANDARD_INPUT = Path("-")


def examine_logs(files: Sequence[Path]) -> Examination:
    """What the logs say together; `-` is standard input. Raises BadInput for a file that cannot be opened."""
    known = load_findings()
    return examined(read_logs(_opened(files), Scanner(known)), known)


def _opened(files: Sequence[Path]) -> Iterator[tuple[str, BinaryIO]]:
    """Each log's name and stream, open while it is read."""
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
