"""What a user sees: results on stdout, everything else on stderr, colour and bars on terminals."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from uenvtool.result import Result

BOLD, RED, YELLOW, DIM = "1", "31", "33", "2"


def show(result: Result, *, as_json: bool = False) -> int:
    """Print a result: the answer on stdout, everything else on stderr; its exit code."""
    if as_json:
        result_json(result.data)
    else:
        parts = [result.text, *(table(each.headings, each.rows) for each in result.tables)]
        answer = "\n\n".join(part.rstrip("\n") for part in parts if part)
        if answer:
            _print(answer)
    for line in result.warnings:
        warn(line)
    for line in result.notes:
        note(line)
    if result.next:
        note("next:")
        for line in result.next:
            note("\n".join(f"  {each}" for each in line.splitlines()))
    return int(result.exit_code)


def _print(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def result(text: str) -> None:
    """Print a result: the one thing that goes to stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def result_json(data: Any) -> None:
    """Print a result as JSON."""
    result(json.dumps(data, indent=2, ensure_ascii=False))


def note(text: str = "") -> None:
    """Tell the user something that is not the result."""
    sys.stderr.write(text + "\n")


def warn(text: str) -> None:
    """Tell the user something that they should act on or know of."""
    note(f"{painted('warning:', YELLOW)} {text}")


def failure(text: str) -> None:
    """Print the text of an error."""
    note("\n".join(_painted_line(line) for line in text.splitlines()))


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns under their headings; the last column is left as long as it is."""
    lines = [headings, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    if coloured(sys.stdout):
        text[0] = painted(text[0].rstrip(), BOLD, sys.stdout)
    return "\n".join(line.rstrip() for line in text)


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[str], None]]:
    """Show that work goes on: a live line with the elapsed time on a terminal, plain lines elsewhere.

    Yields a function that takes what is being done now.
    """
    if not sys.stderr.isatty():
        note(f"{title} ...")
        yield lambda step: note(f"  {step}")
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title)
        yield lambda step: bar.update(task, description=f"{title}: {step}")


def painted(text: str, code: str, stream: Any = None) -> str:
    """The text in a colour, where the stream is a terminal and the user has not said no."""
    return f"\x1b[{code}m{text}\x1b[0m" if coloured(stream or sys.stderr) else text


def coloured(stream: Any) -> bool:
    """Whether colour is wanted on a stream (https://no-color.org)."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _painted_line(line: str) -> str:
    for word, code in (("error:", RED), ("hint:", DIM)):
        if line.startswith(word):
            return painted(word, code) + line[len(word) :]
    return line
