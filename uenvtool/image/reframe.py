"""Reads the report of a run of ReFrame: an image gets its mark only for tests that ran on it and passed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import AnswerIsNo, BadInput, Position
from uenvtool.core.words import listed

LARGEST_REPORT = 100 << 20
MOST_NAMES = 8


def require_passed(report: Path, image: Path) -> str:
    """Return what a run was, if it began after the image was there and all of its tests passed.

    Source: the reports of ReFrame 4.10 (data version 4.2). Raises AnswerIsNo if a test failed, none ran or they ran
    before; BadInput for a file that is no report.
    """
    place = Position(str(report))
    try:
        data = json.loads(files.read_bytes(report, LARGEST_REPORT))
        session: dict[str, Any] = data["session_info"]
        cases, failures, aborted, skipped = (
            int(session.get(name) or 0) for name in ("num_cases", "num_failures", "num_aborted", "num_skipped")
        )
        begun, version = float(session["time_start_unix"]), str(session.get("version", ""))
        wrong = [str(case["unique_name"]) for case in data["runs"][-1]["testcases"] if case["result"] == "fail"]
    except FileNotFoundError as error:
        raise BadInput("there is no report", place, "reframe --run --report-file=FILE writes one") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise BadInput(f"not a report of ReFrame: {error!r}", place, "reframe --run --report-file=FILE") from error
    if failures or aborted:
        named = f": {listed(wrong, MOST_NAMES)}" if wrong else ""
        raise AnswerIsNo(f"{failures + aborted} of {cases} tests did not pass{named}", place)
    if cases - skipped <= 0:
        raise AnswerIsNo("no test ran", place, "see which the site's features and node types leave: reframe --list")
    if begun < image.stat().st_mtime:
        raise AnswerIsNo(f"the tests began before {image} was there", place, "run them on this image")
    return f"{cases - skipped} tests passed in ReFrame {version}"
