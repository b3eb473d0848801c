"""What a user sees: the answer on stdout, everything else on stderr, colour and bars on terminals.

This is the one door to the terminal, and it keeps two promises. Text that was read from an image, a
recipe or a program cannot control the terminal: its control characters are shown as escapes. An
output that nobody can take (a closed pipe, another encoding) does not undo the work: the exit code
says if the work is done.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from uenvtool.core import processes
from uenvtool.core.errors import ToolFailed
from uenvtool.core.result import Result, Step, Table
from uenvtool.core.words import wrapped

BOLD, RED, YELLOW, BLUE, DIM = "1", "31", "33", "34", "2"
BESIDE_WIDTH = len("x 0:00:00 ") + len("^C ")
"""What a live line has beside its text, and what a terminal adds when it is stopped: a full line would stay then."""
USUAL_COLUMNS = 80
LEAST_COLUMN = 30
"""With less room beside the others, the last column of a table stands below them."""
REMARK = "  # "
"""What stands between a command and what is said of it."""
COLOURS = {"red": RED, "yellow": YELLOW, "blue": BLUE, "dim": DIM, "bold": BOLD}
BEGINNINGS = {"error:": RED, "warning:": YELLOW, "hint:": DIM}
"""The first words of what is told on stderr, and their colours."""

_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
"""What a terminal obeys in place of showing it: C0 and C1 controls but tab and newline, changes of the
writing direction, and the bytes of a name that is not UTF-8 (PEP 383). Python takes none of them for printable."""
_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
"""What is between the columns of a line."""
_QUOTED = re.compile(r" +[^ (]|@@ |\+|-(?!-\w|: )")
"""How the lines of commands and of differences begin in what is told; remarks and those with an option do not."""


def show(result: Result, *, as_json: bool = False) -> int:
    """Print a result: the answer on stdout, everything else on stderr. Gives its exit code.

    Raises ToolFailed if stdout cannot take the answer, as on a full disk; a reader that has left is no error.
    """
    _write_stdout(_json(result.data) if as_json else _answer(result))
    for problem in result.problems:
        note(str(problem))
    for line in result.warnings:
        warn(line)
    for line in result.notes:
        note(line)
    if result.next:
        note("\n  ".join(["next:", *(line for command in result.next for line in command.splitlines())]))
    return int(result.exit_code)


def note(text: str = "") -> None:
    """Tell the user something that is not the answer. An indented line is a command, or quoted, and stays whole.

    The remark of a command that is longer than a line has the next one: a terminal would break its words.
    """
    columns = _columns(sys.stderr)
    lines = (
        _remark_below(line, columns) if _QUOTED.match(line) else _fitted(line, columns)
        for line in printable(text).split("\n")
    )
    _write_stderr("\n".join(map(_painted_line, lines)))


def warn(text: str) -> None:
    """Tell the user something that they should act on."""
    note(f"warning: {text}")


def printable(text: str) -> str:
    """Return the text with each character that a terminal would obey written as an escape, such as `\\x1b`."""
    return _without_control(text, lambda found: _escape(found[0]))


def _without_control(text: str, escape: Callable[[re.Match[str]], str]) -> str:
    """Return the text with its control characters escaped. Most have none, and the pattern takes long to compile."""
    if all(line.isprintable() for line in text.split("\n")):
        return text
    return re.sub(_CONTROL, escape, text)


@contextlib.contextmanager
def progress(title: str) -> Iterator[Step]:
    """Show that work goes on: a live line with the elapsed time on a terminal, plain lines elsewhere.

    Yields a function that takes what is being done now.
    """

    def kept(step: str) -> str:
        """Return a step, and keep it for who interrupts the work."""
        processes.doing[:] = [printable(text) for text in (title, step) if text]
        return step

    kept("")
    if sys.stderr is None or not sys.stderr.isatty():
        note(f"{title} ...")
        yield lambda step: note(f"  {kept(step)}")
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def fitted(step: str) -> str:
            free_width = bar.console.width - BESIDE_WIDTH
            whole = printable(f"{title}: {step}" if step else title)
            return whole if len(whole) <= free_width else _cut(printable(step or title), free_width)

        task = bar.add_task(fitted(""))
        yield lambda step: bar.update(task, description=fitted(kept(step)))


def flush() -> None:
    """Hand on what other code has printed, such as the text of --help, as `show` does."""
    _write_stdout(b"")


def _answer(result: Result) -> bytes:
    """Return what goes to stdout. A file's text stays as it is, for `>` and eval; a terminal gets it printable."""
    if result.file:
        text = printable(result.file) if _is_terminal(sys.stdout) else result.file
        return _ended(text).encode("utf-8", "surrogateescape")
    columns = _columns(sys.stdout)
    text = "\n".join(_fitted(line, columns) for line in printable(result.text).split("\n"))
    report = ("".join(_shown(*part) for part in line) for line in (result.report(columns) if result.report else ()))
    parts = [text, *(_aligned(table) for table in result.tables), "\n".join(report)]
    text = "\n\n".join(part.rstrip("\n") for part in parts if part)
    return _ended(text).encode(sys.stdout.encoding or "utf-8", "backslashreplace")


def _json(data: Any) -> bytes:
    import json

    text = json.dumps(data, indent=2, ensure_ascii=False)
    return _ended(_without_control(text, lambda found: f"\\u{ord(found[0]):04x}")).encode()


def _aligned(table: Table) -> str:
    """Return rows as aligned columns under their headings; a terminal gets the last one wrapped or cut."""
    lines = [[_cell(text) for text in line] for line in (table.headings, *table.rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.headings))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    starts = [sum(widths[:number]) + 2 * number for number in range(len(widths))]
    if columns := _columns(sys.stdout):
        heading, *rows = text
        text = [
            _cut(heading, columns),
            *(_cut(row, columns) if table.cut else _below(row, columns, starts) for row in rows),
        ]
    painted = [_with_styles(line, row, starts, table) for line, row in zip(text[1:], lines[1:], strict=True)]
    return "\n".join([_painted(text[0], BOLD, sys.stdout), *painted])


def _with_styles(line: str, row: Sequence[str], starts: Sequence[int], table: Table) -> str:
    for number, (cell, start) in reversed(list(enumerate(zip(row, starts, strict=True)))):
        if line.startswith(cell, start):
            style = "" if number else table.colours.get(cell, "")
            line = line[:start] + _shown(cell, style, table.links.get(cell, "")) + line[start + len(cell) :]
    return line


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: max(width - 3, 0)]}..."


def _fitted(line: str, columns: int) -> str:
    """Return a line for a terminal of so many columns, 0 for a pipe: it goes on below its last column or itself."""
    if not columns or len(line) <= columns:
        return line
    gaps = [gap.end() for gap in _GAP.finditer(line) if gap.end() <= columns - LEAST_COLUMN]
    if gaps:
        return _below(line, columns, gaps[-1:])
    indent = line[: len(line) - len(line.lstrip())]
    return "\n".join(wrapped(line, columns, indent, f"{indent}  "))


def _below(line: str, columns: int, starts: Sequence[int]) -> str:
    """Return a row whose last cell goes on below itself, or stands below the others; starts: where its cells begin."""
    if len(line) <= columns:
        return line
    *others, before = [start for start in starts if start < len(line)]
    if columns - before >= LEAST_COLUMN or not others:
        return "\n".join(wrapped(line[before:], columns, line[:before], " " * before))
    below = wrapped(line[before:], columns, " " * 4, " " * 4)
    return "\n".join([_below(line[:before].rstrip(), columns, others), *below])


def _remark_below(line: str, columns: int) -> str:
    """Return the line of a command or a difference, its remark below it where both do not fit."""
    command, _, remark = line.rpartition(REMARK)
    is_long = 0 < columns < len(line) and line.startswith(" ") and command.strip()
    return f"{command}\n{REMARK}{remark}" if is_long else line


def _cell(text: str) -> str:
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _escape(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is not UTF-8
        number -= 0xDC00
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _write_stdout(data: bytes) -> None:
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has what it wants, as with `| head`
        _silence(sys.stdout)
    except OSError as error:
        _silence(sys.stdout)
        why = f"the answer cannot be written to standard output: {error.strerror or error}"
        raise ToolFailed(why, hint="the work before it is done; send the output elsewhere") from error


def _write_stderr(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    """Let a stream that takes nothing any more lead nowhere, so that its buffer raises no second time."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _shown(text: str, style: str, address: str = "") -> str:
    """Return a text of the answer in its style, and as a link (OSC 8) where it leads to an address."""
    painted = _painted(printable(text), COLOURS.get(style, ""), sys.stdout)
    is_link = address and _shows_styles(sys.stdout)
    return f"\x1b]8;;{printable(address)}\x1b\\{painted}\x1b]8;;\x1b\\" if is_link else painted


def _painted(text: str, code: str, stream: TextIO) -> str:
    """Return a text in a colour, if there is one and the stream shows it (https://no-color.org)."""
    return f"\x1b[{code}m{text}\x1b[0m" if code and _shows_styles(stream) else text


def _shows_styles(stream: TextIO) -> bool:
    return _is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _painted_line(line: str) -> str:
    for word, code in BEGINNINGS.items():
        if line.startswith(word):
            return _painted(word, code, sys.stderr) + line[len(word) :]
    return line


def _columns(stream: TextIO) -> int:
    """Return how wide the terminal of a stream is, 0 if it is none."""
    if not _is_terminal(stream):
        return 0
    columns = 0
    with contextlib.suppress(OSError, ValueError):
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns)
    return columns if columns > 0 else USUAL_COLUMNS


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty()
