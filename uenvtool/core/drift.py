"""What is committed, compared with what its inputs give now: the one door for every `--check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from uenvtool.core.errors import AnswerIsNo, Problem


def check(
    folder: Path,
    expected: Mapping[str, str],
    *,
    again: str,
    left_over: Iterable[str] = (),
    remarks: Iterable[str] = (),
) -> None:
    """Raise AnswerIsNo, with the diff, if a folder is not what its inputs give.

    expected: relative name to text. left_over: names in the folder that the inputs do not give.
    remarks: what else is not as it should be, a line each. again: the command that makes the folder
    anew.
    """
    found = "".join(
        [
            *differences(expected, folder),
            *(f"{line}\n" for line in remarks),
            *(f"{folder / name} is left over\n" for name in sorted(left_over)),
        ]
    )
    if found:
        raise AnswerIsNo([Problem(f"{folder} is not what its inputs give\n{found.rstrip()}", hint=again)])


def differences(expected: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Yield a unified diff of each expected file, relative name to text, that the folder has otherwise."""
    import difflib

    for name, text in expected.items():
        path = folder / name
        content = path.read_bytes() if path.is_file() else None
        if content == text.encode():
            continue
        present = "" if content is None else content.decode(errors="replace")
        yield from difflib.unified_diff(
            _lines(present),
            _lines(text),
            "/dev/null" if content is None else f"{path} (as it is)",
            f"{path} (from its inputs)",
        )
        if present == text:  # bytes that are not UTF-8 read as the same characters
            yield f"{path} is not UTF-8\n"


def _lines(text: str) -> list[str]:
    """Return the lines of a text, each ended; the last one says so if the text does not end it."""
    *ended, rest = text.split("\n")
    lines = [f"{line}\n" for line in ended]
    return [*lines, f"{rest}\n", "\\ No newline at end of file\n"] if rest else lines
