"""Reads Container Engine environment definition files (EDFs), also invalid TOML, and finds those of a script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from uenvtool.check.launch import job_shape, options
from uenvtool.check.parts import OUTER, CheckedFile, Part
from uenvtool.check.values import Values
from uenvtool.knowledge.runtime import script_runtimes

_LINE = re.compile(r"^[ \t]*(?:\[(?P<table>[^\]\n]+)\]|(?P<key>[\w.\"-]+)[ \t]*=[ \t]*)", re.MULTILINE)
_STRING = re.compile(r"\"((?:\\.|[^\"\\\n])*)\"|'([^'\n]*)'")
_BARE = re.compile(r"[^\s#,\]][^#\n]*")
ENVIRONMENT = "environment"
"""The srun option that names an EDF."""
_SUBMITTED = re.compile(rf"(?:\./|[${OUTER}]\{{?(?:PWD|SLURM_SUBMIT_DIR)\}}?/)+")
"""The spellings of the directory where sbatch is called."""


@dataclass(frozen=True, slots=True)
class StepEdf:
    """An EDF that a step uses.

    offset: the offset of the step's srun command.
    nodes: the number of nodes of the step, None if unknown.
    """

    offset: int
    nodes: int | None
    file: CheckedFile


def read_edf(text: str, shown: str) -> CheckedFile:
    """Return an EDF with one part per value and per list item, named after the table and key."""
    kinds = frozenset(("edf", *(runtime.name for runtime in script_runtimes() if "edf" in runtime.forms)))
    return CheckedFile(shown=shown, text=text, parts=(*_syntax(text), *_entries(text)), kinds=kinds)


def netstack_of(edf: CheckedFile) -> str | None:
    """Return the `netstack.source` of an EDF's NCCL hook: "" if it is not set, and None if the hook is not enabled."""
    entries = {part.name: part.text for part in edf.of("entry")}
    if entries.get("annotations.com.hooks.aws_ofi_nccl.enabled") != "true":
        return None
    return entries.get("annotations.com.hooks.netstack.source", "")


def step_edfs(source: CheckedFile, read: Callable[[str], tuple[str, str]]) -> list[StepEdf]:
    """Return the EDFs of a script's steps.

    read: a function that returns the file name for messages and the text of a file, both empty if it cannot be read.
    The Container Engine looks up a name without directory or extension in its search path; such an EDF is skipped.
    """
    if "slurm" not in source.kinds or f"--{ENVIRONMENT}" not in source.text:
        return []
    values = Values(source)
    job = job_shape(source, values)
    has_size = any(source.of("directive", "nodes", "ntasks"))  # otherwise sbatch's command line may request more nodes
    edfs = []
    for part in source.of("command", "srun", "| srun"):
        given, _ = options(values.expanded(part.argv)[1:])
        name = _SUBMITTED.sub("", "".join(values.expanded([given.get(ENVIRONMENT, "")])), count=1)
        shown, text = read(name) if "/" in name or name.endswith(".toml") else ("", "")
        if text:
            nodes = values.number(given["nodes"].split("-")[0]) if "nodes" in given else job.nodes if has_size else None
            edfs.append(StepEdf(part.offset, nodes, read_edf(text.replace("\r\n", "\n"), shown)))
    return edfs


def _entries(text: str) -> Iterator[Part]:
    table = ""
    match = _LINE.search(text)
    while match:
        if match["table"]:
            table, position = f"{match['table'].strip()}.", match.end()
        else:
            name = table + match["key"].replace('"', "")
            position = match.end()
            for value, offset in _values(text, position):
                yield Part(kind="entry", name=name, text=value, offset=offset, end=offset + len(value))
                position = max(position, offset + len(value))
        match = _LINE.search(text, position)


def _values(text: str, position: int) -> Iterator[tuple[str, int]]:
    """Yield the text and offset of a value, or of each item if the value is a list."""
    if text[position : position + 1] == "[":
        end = position + 1
        while end < len(text) and text[end] != "]":
            string = _STRING.match(text, end)
            if string:
                yield string[1] or string[2] or "", string.start() + 1
                end = string.end()
            elif text[end] == "#":
                newline = text.find("\n", end)
                end = len(text) if newline < 0 else newline
            else:
                end += 1
        return
    string = _STRING.match(text, position)
    bare = _BARE.match(text, position)
    if string:
        yield string[1] or string[2] or "", string.start() + 1
    elif bare:
        yield bare[0].strip(), bare.start()


def _syntax(text: str) -> Iterator[Part]:
    """Yield the first syntax error of a file that is not valid TOML."""
    import tomlkit
    from tomlkit.exceptions import ParseError, TOMLKitError

    try:
        tomlkit.parse(text)
    except ParseError as error:
        offset = _offset(text, error.line, error.col)
        yield Part(kind="syntax", name="", text=str(error).split(" at line")[0], offset=offset, end=offset + 1)
    except TOMLKitError as error:
        yield Part(kind="syntax", name="", text=str(error), offset=0, end=1)


def _offset(text: str, line: int, column: int) -> int:
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    return min(len(text), starts[min(line, len(starts)) - 1] + max(column - 1, 0))
