"""Terminal output: the result on stdout, everything else on stderr, with colours and progress bars on terminals.

This is the only module that prints. Text from an image, a recipe or a program cannot control the terminal, because
this module escapes every character that a terminal would obey or hide. If the output cannot be delivered (a closed
pipe, another encoding), the exit code still reports whether the work is done. A pipe receives plain, unwrapped text. A
terminal receives text that rich lays out.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from uenvtool.core import processes
from uenvtool.core.errors import ToolFailed
from uenvtool.core.result import Line, Result, Step, Table
from uenvtool.core.words import without_logins, wrapped

if TYPE_CHECKING:
    from rich.table import Table as Grid

USUAL_COLUMNS = 80
LEAST_COLUMN = 30
"""The minimum width of the last column of a table. On a narrower terminal, all columns of the table become narrower."""
BEGINNINGS = {"error:": "red", "warning:": "yellow", "hint:": "dim"}
"""The first words of messages on stderr, and their styles."""

_UNSHOWN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""The Unicode categories that a terminal obeys or hides instead of showing them: controls, formats (writing direction,
zero width, tags), the bytes of a name that is not UTF-8 (PEP 383), and line ends."""
_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
"""The space between two columns of a line."""
_QUOTED = re.compile(r" +[^ (]|@@ |\+|-(?!-\w|: )")
"""The start of a line that is a command or part of a diff. Prose and lines that start with an option do not match."""


def show(result: Result, *, as_json: bool = False) -> int:
    """Print a result, with the answer on stdout and everything else on stderr, and return its exit code.

    Raises ToolFailed if the answer cannot be written to stdout, as on a full disk. A closed pipe is not an error.
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
    """Print a message on stderr. Indented lines are commands or quotations, which stay unwrapped."""
    lines = printable(text).split("\n")
    if columns := _columns(sys.stderr):
        fitted = "\n".join(line if _QUOTED.match(line) else _fitted(line, columns) for line in lines)
        _write_stderr(_drawn([_begun(line) for line in fitted.split("\n")], columns))
    else:
        _write_stderr("\n".join(lines) + "\n")


def warn(text: str) -> None:
    """Print a warning on stderr, which the user should act on."""
    note(f"warning: {text}")


def printable(text: str) -> str:
    """Return the text without logins of URLs, and with an escape such as `\\x1b` for each control character."""
    return _escaped(text, _escape)


@contextlib.contextmanager
def progress(title: str) -> Iterator[Step]:
    """Show long work as a live line on a terminal, or else as lines; yield a function that shows the current step."""

    def kept(step: str) -> str:
        # The message after an interruption shows the title and the step.
        processes.doing[:] = [printable(text) for text in (title, step) if text]
        return ": ".join(processes.doing)

    beginning = kept("")
    if not sys.stderr.isatty():
        note(f"{title} ...")
        yield lambda step: note(f"  {step}") if kept(step) else None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    shown = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False, table_column=rest))
    # The terminal prints ^C at the end of a line, which must still fit.
    terminal = Console(stderr=True, width=_columns(sys.stderr) - len("^C "))
    with Progress(*shown, console=terminal, transient=True, expand=True) as bar:
        task = bar.add_task(beginning)

        def show_step(step: str) -> None:
            whole = kept(step)
            has_room = len(whole) <= terminal.width - len("x 0:00:00 ")
            bar.update(task, description=whole if has_room else printable(step))

        yield show_step


def flush() -> None:
    """Write what other code has printed, such as the text of --help, with the error handling of `show`."""
    _write_stdout(b"")


def _answer(result: Result) -> bytes:
    columns = _columns(sys.stdout)
    if result.file:  # unchanged for `>` and eval; only a terminal gets escapes
        text = printable(result.file) if columns else result.file
        return _ended(text).encode("utf-8", "surrogateescape")
    report = list(result.report(columns)) if result.report else []
    if columns:
        lines = [_fitted(line, columns) for line in printable(result.text).split("\n")]
        drawn = ["\n".join(lines), *(_drawn([table], columns) for table in result.tables), _drawn(report, columns)]
    else:
        plain_parts = (
            _aligned(part) if isinstance(part, Table) else "".join(printable(text) for text, *_ in part)
            for part in report
        )
        drawn = [printable(result.text), *map(_aligned, result.tables), "\n".join(plain_parts)]
    text = "\n\n".join(part.rstrip("\n") for part in drawn if part)
    return _ended(text).encode(sys.stdout.encoding or "utf-8", "backslashreplace")


def _json(data: Any) -> bytes:
    import json

    text = json.dumps(data, indent=2, ensure_ascii=False)
    return _ended(_escaped(text, lambda character: json.dumps(character)[1:-1])).encode()


def _cells(table: Table) -> list[list[str]]:
    lines = (table.headings, *table.rows)
    return [[printable(text).replace("\n", "\\n").replace("\t", "\\t") for text in line] for line in lines]


def _aligned(table: Table) -> str:
    lines = _cells(table)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _drawn(parts: Iterable[Line | Table], columns: int) -> str:
    from rich.console import Console
    from rich.text import Text

    # https://no-color.org
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    colours: Any = None if is_plain else "standard"
    drawn = io.StringIO()
    terminal = Console(file=drawn, width=columns, force_terminal=True, color_system=colours)
    for part in parts:
        if isinstance(part, Table):
            terminal.print(_grid(part, columns))
        else:
            terminal.print(Text.assemble(*((printable(text), _look(*look)) for text, *look in part)), soft_wrap=True)
    return "".join(f"{line.rstrip()}\n" for line in drawn.getvalue().split("\n")[:-1])


def _grid(table: Table, columns: int) -> Grid:
    from rich.table import Table as Grid
    from rich.text import Text

    headings, *rows = _cells(table)
    widths = [max(map(len, column)) + 2 for column in zip(headings, *rows, strict=True)]
    has_room = columns - sum(widths[:-1]) >= LEAST_COLUMN
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", expand=has_room)
    for heading in headings:
        grid.add_column(Text(heading), no_wrap=table.cut or has_room, overflow="ellipsis" if table.cut else "fold")
    if has_room:
        last = grid.columns[-1]
        last.ratio, last.no_wrap = 1, table.cut
    elif widths[0] <= columns // 2:  # do not break the name of a row
        grid.columns[0].no_wrap = True
    for row in rows:
        styles = [table.colours.get(row[0], ""), *[""] * (len(row) - 1)]
        looks = [_look(style, table.links.get(cell, "")) for cell, style in zip(row, styles, strict=True)]
        grid.add_row(*map(Text, row, looks))
    return grid


def _look(style: str, address: str = "") -> str:
    return f"{style} link {printable(address)}".strip() if address else style


def _begun(line: str) -> Line:
    word = line.partition(" ")[0]
    return [(word, BEGINNINGS.get(word, "")), (line.removeprefix(word), "")] if line else []


def _fitted(line: str, columns: int) -> str:
    # rich would break paths and commands that a user wants to copy. `wrapped` does not break them.
    if len(line) <= columns:
        return line
    gaps = [gap.end() for gap in _GAP.finditer(line) if gap.end() <= columns - LEAST_COLUMN]
    start = gaps[-1] if gaps else len(line) - len(line.lstrip())
    return "\n".join(wrapped(line[start:], columns, line[:start], " " * (start if gaps else start + 2)))


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    def shown(match: re.Match[str]) -> str:
        return escape(match[0]) if unicodedata.category(match[0]) in _UNSHOWN else match[0]

    return re.sub(r"[^\t\n -~]", shown, without_logins(text))


def _escape(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is not UTF-8
        number -= 0xDC00
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _write_stdout(data: bytes) -> None:
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader needs no more, as with `| head`
        _silence(sys.stdout)
    except OSError as error:
        _silence(sys.stdout)
        why = f"cannot write the result to standard output: {error.strerror or error}"
        raise ToolFailed(why, hint="redirect the output elsewhere; the command itself has completed") from error


def _write_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    # With /dev/null, flushing the rest of the buffer does not fail again.
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _columns(stream: TextIO) -> int:
    if not stream.isatty():
        return 0
    columns = 0
    with contextlib.suppress(OSError, ValueError):
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns)
    return columns if columns > 0 else USUAL_COLUMNS
