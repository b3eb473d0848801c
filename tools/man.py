"""Writes the man pages of the commands: `python tools/man.py DIRECTORY`. hook.py adds them to a wheel."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
_CODE = re.compile(r"`([^`]+)`")
_OPTION = re.compile(r"(?<!\S)--?[A-Za-z][\w-]*")


def write(folder: Path) -> list[Path]:
    """Write a page for the program and for each command, and return the paths."""
    sys.path.insert(0, str(TOP))
    from uenvtool.cli import contexts

    found = {context.command_path: context for context in contexts()}
    for name in found:
        (folder / f"{_dashed(name)}.1").write_text("\n".join(_page(name, found)) + "\n")
    return sorted(folder.glob("*.1"))


def _page(name: str, found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a page as man(7) macros, without a date, so that a wheel always has the same bytes."""
    from uenvtool import __version__

    context, depth = found[name], name.count(" ")
    command, help = context.command, context.command.help or ""
    yield f'.TH "{_dashed(name).upper()}" 1 "" "uenvtool {__version__}" "User Commands"'
    yield from [".SH NAME", _text(f"{_dashed(name)} - {_about(name, found)}")]
    yield from [".SH SYNOPSIS", f".B {_roff(name)}", _text(" ".join(command.collect_usage_pieces(context)))]
    yield ".SH DESCRIPTION"
    for number, paragraph in enumerate(help.split("\n\n")):
        yield from [*([".PP"] if number else []), _text(paragraph)]
    yield from _parameters(command, context)
    if below := [other for other in found if other.startswith(f"{name} ") and other.count(" ") == depth + 1]:
        yield ".SH COMMANDS"
        for other in below:
            yield from [".TP", _reference(other), _text(_about(other, found))]
    if command.epilog:
        yield from [".SH EXIT STATUS", _text(command.epilog.partition(": ")[2])]
    if depth:
        yield from [".SH SEE ALSO", _reference(name.rpartition(" ")[0])]


def _about(name: str, found: dict[str, Any]) -> str:
    """Return the sentence that describes a command in the list of commands, or the first paragraph of its help."""
    from uenvtool.cli import COMMANDS

    words = name.split()
    listed = COMMANDS[words[1]].summary if len(words) == 2 else ""
    return " ".join((listed or (found[name].command.help or "").partition("\n\n")[0]).split()).rstrip(".")


def _reference(name: str) -> str:
    return f".BR {_roff(_dashed(name))} (1)"


def _parameters(command: Any, context: Any) -> Iterator[str]:
    """Yield the arguments and options, each with its help."""
    sections: dict[str, list[str]] = {}
    for parameter in command.get_params(context):
        if record := parameter.get_help_record(context):
            words, text = record
            kind = "ARGUMENTS" if parameter.param_type_name == "argument" else "OPTIONS"
            sections.setdefault(kind, []).extend([".TP", _text(words, _OPTION), _text(text)])
    for title, lines in sections.items():
        yield from [f".SH {title}", *lines]


def _text(text: str, bold: re.Pattern[str] = _CODE) -> str:
    """Return a text as lines that roff does not treat as requests, with the matches of a pattern in bold."""
    parts, end = [], 0
    for found in bold.finditer(text):
        parts += [_roff(text[end : found.start()]), rf"\fB{_roff(found[bold.groups])}\fR"]
        end = found.end()
    whole = "".join([*parts, _roff(text[end:])])
    lines = textwrap.wrap(" ".join(whole.split()), 78, break_long_words=False, break_on_hyphens=False)
    return "\n".join(rf"\&{line}" if line.startswith((".", "'")) else line for line in lines)


def _roff(text: str) -> str:
    """Return a text in which the characters that are special in roff are escaped."""
    return text.replace("\\", "\\e").replace("-", "\\-")


def _dashed(name: str) -> str:
    return name.replace(" ", "-")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    print("\n".join(map(str, write(Path(sys.argv[1])))))  # noqa: T201  this is a script
