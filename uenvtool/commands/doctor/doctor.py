"""What is slow or wrong: chooses what is looked at, and reports."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from uenvtool.commands.doctor.report import report
from uenvtool.result import Result


def doctor(
    *,
    logs: Sequence[Path] = (),
    system: str | None = None,
    runtime: str | None = None,
    recipe: str | None = None,
    fix: bool = False,
    verbose: bool = False,
) -> Result:
    """The report on logs if there are some, else on this shell.

    Raises BadInput for a file that cannot be opened and for a name that does not exist.
    """
    if logs:
        from uenvtool.commands.doctor.log import examine_logs

        what = "the log" if len(logs) == 1 else f"{len(logs)} logs"
        return report(examine_logs(logs), what=what, fix=fix, verbose=verbose)
    from uenvtool.commands.doctor.here import examine_here

    here = examine_here(os.environ, system=system, runtime=runtime, recipe=recipe)
    return report(here, what="what could be looked at here", fix=fix, verbose=verbose)
