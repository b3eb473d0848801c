"""Reader for Container Engine environment definition files (EDFs), including invalid TOML, and for a script's EDFs."""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from uenvtool.check.launch import job_shape
from uenvtool.check.parts import OUTER, CheckedFile, Part, lines_of
from uenvtool.check.sbatch import options
from uenvtool.check.values import Values
from uenvtool.knowledge.runtime import script_runtimes

_LINE = re.compile(r"^[ \t]*(?:\[(?P<table>[^\]\n]+)\]|(?P<key>[\w.\"-]+)[ \t]*=[ \t]*)", re.MULTILINE)
_STRING = re.compile(r"\"((?:\\.|[^\"\\\n])*)\"|'([^'\n]*)'")
_ITEM = re.compile(rf"{_STRING.pattern}|#[^\n]*|\]")
"""A string in a list, a comment, or the end of the list."""
_BARE = re.compile(r"[^\s#,\]][^#\n]*")
_SUBMITTED = re.compile(rf"(?:\./|[${OUTER}]\{{?(?:PWD|SLURM_SUBMIT_DIR)\}}?/)+")
"""The spellings of the directory where sbatch is called."""


@dataclass(frozen=True, slots=True)
class StepEdf:
    """An EDF that a step uses, with the offset of the step's srun command and its number of nodes (None if unknown)."""

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
    is_enabled = entries.get("annotations.com.hooks.aws_ofi_nccl.enabled") == "true"
    return entries.get("annotations.com.hooks.netstack.source", "") if is_enabled else None


def step_edfs(source: CheckedFile, read: Callable[[str], tuple[str, str]]) -> list[StepEdf]:
    """Return the EDFs of a script's steps.

    read: a function that returns the file name for messages and the text of a file, both empty if it cannot be read.
    The Container Engine looks up a name without directory or extension in its search path; such an EDF is skipped.
    """
    if "slurm" not in source.kinds or "--environment" not in source.text:
        return []
    values = Values(source.of("variable"))
    job = job_shape(source, values)
    has_size = any(source.of("directive", "nodes", "ntasks"))  # otherwise sbatch's command line may request more nodes
    edfs = []
    for part in source.of("command", "srun", "| srun"):
        given, _ = options(values.expanded(part.argv)[1:])
        name = _SUBMITTED.sub("", "".join(values.expanded([given.get("environment", "")])), count=1)
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
    if text.startswith("[", position):
        items = itertools.takewhile(lambda item: item[0] != "]", _ITEM.finditer(text, position + 1))
        yield from ((item[1] or item[2] or "", item.start() + 1) for item in items if item[0][0] != "#")
    elif string := _STRING.match(text, position):
        yield string[1] or string[2] or "", string.start() + 1
    elif bare := _BARE.match(text, position):
        yield bare[0].strip(), bare.start()


def _is_toml(text: str) -> bool:
    """Return whether a text is valid TOML. Python's own parser is faster than tomlkit's, but Python 3.10 has none."""
    try:
        importlib.import_module("tomllib").loads(text)
    except (ImportError, ValueError, RecursionError):
        return False
    return True


def _syntax(text: str) -> Iterator[Part]:
    """Yield the first syntax error of a file that is not valid TOML."""
    import tomlkit
    from tomlkit.exceptions import ParseError, TOMLKitError

    if _is_toml(text):
        return
    try:
        tomlkit.parse(text)
    except ParseError as error:
        starts = lines_of(text).starts
        offset = min(len(text), starts[min(error.line, len(starts)) - 1] + max(error.col - 1, 0))
        yield Part(kind="syntax", name="", text=str(error).split(" at line")[0], offset=offset, end=offset + 1)
    except TOMLKitError as error:
        yield Part(kind="syntax", name="", text=str(error), offset=0, end=1)
