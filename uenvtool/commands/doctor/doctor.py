"""What is slow or wrong: chooses what is looked at, and reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uenvtool.commands.doctor.log import examine_logs
from uenvtool.commands.doctor.report import report
from uenvtool.result import Result


def doctor(*, logs: Sequence[Path] = (), fix: bool = False, verbose: bool = False) -> Result:
    """The report on logs. Raises BadInput for a file that cannot be opened."""
    what = "the log" if len(logs) == 1 else f"{len(logs)} logs"
    return report(examine_logs(logs), what=what, fix=fix, verbose=verbose)
