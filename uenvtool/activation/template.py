"""Reads the template of activation scripts, a valid shell script that consists of named sections."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from uenvtool.core import rendezvous
from uenvtool.core.filling import filled

RANK = Path(__file__).parent / "rank.sh"
LONG = 118
"""The target length of a line in the rank program."""


@cache
def sections(template: Path) -> dict[str, str]:
    """Return the sections of a template by name, without the empty line after each section."""
    _, *parts = re.split(r"^#: (\w+)\n", template.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], (part.rstrip("\n") for part in parts[1::2]), strict=True))


@cache
def rank_program() -> str:
    """Return the sh program that sets the rank of an srun task, with its lines joined into a few long ones."""
    lines: list[str] = []
    text = RANK.read_text(encoding="utf-8")
    for line in filled(
        text, RANK=rendezvous.RANK_OF_TASK, TASKS=rendezvous.TASKS_OF_NODE, PORT=rendezvous.PORT_OF_STEP
    ).splitlines():
        if len(lines) > 1 and len(lines[-1]) + len(line) < LONG:
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    return "\n".join(lines)
