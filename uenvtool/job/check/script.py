"""Reads a batch script of bash: its #SBATCH options, variables and commands, in the script and in its steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from uenvtool.job.check.parts import BATCH, STEP, Part, Source
from uenvtool.job.check.words import Command, Piece, body, commands, spelling

SHORT_OPTIONS = {
    "A": "account",
    "C": "constraint",
    "D": "chdir",
    "G": "gpus",
    "J": "job-name",
    "N": "nodes",
    "a": "array",
    "c": "cpus-per-task",
    "d": "dependency",
    "e": "error",
    "n": "ntasks",
    "o": "output",
    "p": "partition",
    "t": "time",
    "w": "nodelist",
}
"""The short options of sbatch and their long names (sbatch(1))."""
_DIRECTIVE = re.compile(r"^#SBATCH[ \t]+(.*)", re.MULTILINE)
_OPTION = re.compile(r"(?:--([a-z][\w-]*)(?:=|[ \t]+(?=[^-#\s]))?|-([A-Za-z])[ \t]*)((?:\"[^\"]*\"|'[^']*'|[^\s\"'])*)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")
_KEYWORDS = frozenset(
    (
        "if",
        "then",
        "else",
        "elif",
        "do",
        "while",
        "until",
        "!",
        "{",
        "}",
        "fi",
        "done",
        "time",
        "exec",
        "nohup",
        "command",
    )
)
_DECLARING = frozenset(("export", "declare", "typeset", "local", "readonly", "env", "setenv"))
_SHELLS = frozenset(("bash", "sh", "zsh", "dash"))
_STEPS = frozenset(("srun", "apptainer", "singularity", "mpirun", "mpiexec", "podman", "docker", "enroot", "uenv"))
_DEEPEST = 4
"""More shells within shells than these are not read."""


def read_script(text: str, shown: str) -> Source:
    """The parts of a batch script, in the order of the file."""
    parts = list(_commands(text, range(len(text)), BATCH, 0))
    top = [part for part in parts if part.kind == "command" and part.scope == BATCH]
    first = top[0].offset if top else len(text)
    parts += _directives(text, first)
    parts += _lines(text)
    if top:
        last = max(top, key=lambda part: part.offset)
        parts.append(Part(kind="last", name=last.name, text=last.text, offset=last.offset))
    parts.sort(key=lambda part: part.offset)
    return Source(shown=shown, text=text, parts=tuple(parts), kinds=_kinds(text, parts))


def _directives(text: str, first_command: int) -> Iterator[Part]:
    """The options of the #SBATCH lines; `late` behind the first command, where sbatch stops reading."""
    for line in _DIRECTIVE.finditer(text):
        kind = "directive" if line.start() < first_command else "late"
        for option in _OPTION.finditer(line[1].split(" #")[0]):
            name, value = _named(option)
            yield Part(kind=kind, name=name, text=value, offset=line.start(1) + option.start())


def options_of(line: str) -> Iterator[tuple[str, str]]:
    """The options in a command line of sbatch, by their long names."""
    return map(_named, _OPTION.finditer(line))


def _named(option: re.Match[str]) -> tuple[str, str]:
    return option[1] or SHORT_OPTIONS.get(option[2], option[2]), option[3].strip("\"'")


def _lines(text: str) -> Iterator[Part]:
    for line in re.finditer(r"^[ \t]*([^#\s].*)", text, re.MULTILINE):
        yield Part(kind="line", name="", text=line[1], offset=line.start(1))


def _commands(text: str, offsets: Sequence[int], scope: str, depth: int) -> Iterator[Part]:
    for command in commands(text):
        yield from _command(text, offsets, scope, depth, command)


def _command(text: str, offsets: Sequence[int], scope: str, depth: int, command: Command) -> Iterator[Part]:
    """The variables that a command sets, itself, and what it has another shell run."""
    words = command.words
    spellings = [spelling(text, word) for word in words]
    start = next((i for i, word in enumerate(spellings) if word not in _KEYWORDS), len(words))
    while start < len(words) and _ASSIGNMENT.match(spellings[start]):
        yield _variable(spellings[start], offsets[words[start][0].start], scope)
        start += 1
    if start == len(words):
        return
    name = spellings[start].rpartition("/")[2] or spellings[start]
    whole = text[words[start][0].start : words[-1][-1].end]
    shown = f"| {name}" if command.pipe else name
    yield Part(kind="command", name=shown, text=whole, offset=offsets[words[start][0].start], scope=scope)
    inner = STEP if name in _STEPS else scope
    rest = list(range(start + 1, len(words)))
    if name in _DECLARING:
        yield from _declared(name, [(spellings[i], offsets[words[i][0].start]) for i in rest], scope)
    if inner == STEP:
        yield from _given(spellings, [offsets[word[0].start] for word in words])
    if depth < _DEEPEST:
        run = _body_of(spellings, start)
        if run is not None:
            yield from _nested(text, words[run], offsets, inner, depth)
        if command.body is not None and (name in _SHELLS or name in _STEPS):
            begin, end = command.body
            yield from _commands(text[begin:end], offsets[begin:end], inner, depth + 1)


def _body_of(spellings: Sequence[str], start: int) -> int | None:
    """The index of the word that a shell runs: behind `bash -c`, or `-lc`."""
    for i in range(start, len(spellings) - 2):
        if spellings[i].rpartition("/")[2] in _SHELLS:
            for j in range(i + 1, len(spellings) - 1):
                if re.fullmatch(r"-[a-z]*c", spellings[j]):
                    return j + 1
    return None


def _nested(text: str, word: Sequence[Piece], offsets: Sequence[int], scope: str, depth: int) -> Iterator[Part]:
    script, places = body(text, word)
    yield from _commands(script, [offsets[place] for place in places], scope, depth + 1)


def _variable(word: str, offset: int, scope: str) -> Part:
    name, _, value = word.partition("=")
    return Part(kind="variable", name=name.rstrip("+"), text=value, offset=offset, scope=scope)


def _declared(name: str, words: Sequence[tuple[str, int]], scope: str) -> Iterator[Part]:
    if name == "setenv" and words:
        value = words[1][0] if len(words) > 1 else ""
        yield _variable(f"{words[0][0]}={value}", words[0][1], scope)
        return
    for word, offset in words:
        if _ASSIGNMENT.match(word):
            yield _variable(word, offset, scope)
        elif name == "env" and not word.startswith("-"):
            return  # the command that env starts


def _given(spellings: Sequence[str], offsets: Sequence[int]) -> Iterator[Part]:
    """The variables that a step gets by `--env NAME=VALUE`."""
    for i, word in enumerate(spellings):
        value = word.partition("=")[2] if word.startswith("--env=") else ""
        if word in ("--env", "-e") and i + 1 < len(spellings):
            value = spellings[i + 1]
        if _ASSIGNMENT.match(value):
            yield _variable(value, offsets[i], STEP)


def _kinds(text: str, parts: Sequence[Part]) -> frozenset[str]:
    """What a script is, and the runtimes that it uses."""
    found = {"script"}
    for part in parts:
        if part.kind == "directive":
            found |= {"slurm"} | ({"uenv"} if part.name in ("uenv", "view") else set())
            found |= {"ce"} if part.name == "environment" else set()
        elif part.kind == "command":
            name = part.name.removeprefix("| ")
            found |= {"slurm"} if name == "srun" else set()
            found |= {"apptainer"} if name in ("apptainer", "singularity") else set()
            found |= {"runai"} if name == "runai" else set()
            if name == "srun":
                found |= {"ce"} if re.search(r"--environment\b", part.text) else set()
                found |= {"uenv"} if re.search(r"--uenv\b", part.text) else set()
                found |= {"apptainer"} if re.search(r"\b(apptainer|singularity)\b", part.text) else set()
    if re.search(r"\b(PET_NNODES|RUNAI_NUM_OF_GPUS)\b", text):
        found.add("runai")
    return frozenset(found)
