"""Who printed a line: the node and the rank, as launchers and libraries write them in front of it."""

from __future__ import annotations

import re

_NODE = re.compile(
    r"(?<![\w.\]-])(?=[\w.-]*[A-Za-z])([\w][\w.-]{0,62}):\d+:\d+ \[\d+\]"  # NCCL: HOST:PID:TID [DEVICE]
    r"|\[(?=[\w.-]*[A-Za-z])([\w][\w.-]{0,62}):\d+:\d+(?::\d+)?\]"  # UCX: [HOST:PID:...]
    r"|(?:srun|slurmstepd): error: (?=[\w.-]*[A-Za-z])([\w][\w.-]{0,62}): tasks? "
    r"|MPICH ERROR \[Rank \d+\] \[job id [^\]]*\] \[[^\]]*\] \[([\w.-]{1,63})\]"
)
_NCCL = re.compile(r"(?=[\w.-]*[A-Za-z])(\w[\w.-]{0,62}):\d+:\d+ \[\d+\] ")
_RANK = re.compile(
    r"\[rank ?(\d{1,7})\]"  # torch, torchrun in a job of `uenvtool job`
    r"|\[(?:PG[^\]]{0,80} )?Rank (\d{1,7})\]"  # torch, Cray MPICH
    r"|\[default(\d{1,7})\]:"  # torchrun --tee
    r"|\[\d+,(\d{1,7})\]<std(?:out|err)>"  # mpirun --tag-output
    r"|^\s{0,8}(\d{1,7}): "  # srun --label
    r"|srun: error: [\w.-]+: task (\d{1,7}):"
)


_LABEL = re.compile(
    r"\s*(?:(?:> |\[rank ?\d+\]:?|\[default\d+\]:|\[\d+,\d+\]<std(?:out|err)>:|\d{1,7}: |\[\S+ [\d:.,]+\] "
    r"|(?=[\w.-]*[A-Za-z])\w[\w.-]{0,62}:\d+:\d+ \[\d+\] )\s*){1,3}"
)
ERROR, WARNING, INFORMATION = range(3)
"""The levels of lines."""
_WARNS = re.compile(
    r"\b\w*Warning: |\[WARNING\]|\bWARNING[:\[]|Failed to import \w+ plugin|if it is not a singleton|"
    r"ignore this (?:warning|message)"
)
"""How programs mark what they go on with: Python's warnings and logging, libibverbs. NCCL's WARN is an error."""
_SHELL = re.compile(
    r"^(?:\S*sh|cp|mv|rm|ln|ls|cat|cd|chmod|mkdir|grep|tar|sed|source|export|stat|touch): "
    r"|: line \d+: .*: (?:command not found|No such file|Permission denied)"
)
_INFORMS = re.compile(r"(?<!NCCL )(?<!GTL )(?<![\w/.-])(?:INFO|DEBUG)(?=[:|\]\s])|\[I\] ")
LEVEL_WITHIN = 80
"""In so many characters a logger says of which level a line is."""
_CODE = re.compile(r"\s*(?:-*>?\s*\d+\s+)?(?:raise|assert|print|log(?:ger|ging)?\.\w+|warnings\.warn)\b ?[\w.]*[(\"']")
_MOMENT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T_ ](?P<time>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"  # ISO, as of Slurm, torchrun, logging
    r"|\b[EWIF](?P<date>\d{3,4}) (?P<clock>\d\d:\d\d:\d\d\.\d{1,9})"  # torch: month, day, time
)


def moment(line: str) -> str:
    """Return when a line was printed, in a form that sorts; empty if it does not say so."""
    found = _MOMENT.search(line)
    if found is None:
        return ""
    day, time = found["day"] or found["date"].zfill(4), found["time"] or found["clock"]
    return f"{day} {time.replace(',', '.').ljust(18, '0')}"


def level(line: str) -> int:
    """Return what a line says of itself: that it is but a WARNING, or INFORMATION; else it may be an ERROR."""
    return INFORMATION if _INFORMS.search(line[:LEVEL_WITHIN]) else WARNING if _WARNS.search(line) else ERROR


def is_of_shell(line: str) -> bool:
    """Tell if a shell, or a small program that it ran, says that a command failed."""
    return bool(_SHELL.search(line))


def is_code(line: str) -> bool:
    """Tell if a line is a statement of Python that would print what it holds."""
    return bool(_CODE.match(without_label(line)))


def without_label(line: str) -> str:
    """Return a line without what stands in front of it to say who printed it."""
    label = _LABEL.match(line)
    return line[label.end() :] if label else line


def node(before: str) -> str:
    """Return the node that is named last in what stands before a text; empty if none is."""
    plain = _NCCL.match(before)
    if plain and "[" not in before[plain.end() :]:
        return plain[1]
    return _last(_NODE, before)


def rank(before: str) -> int | None:
    """Return the rank that is named last in what stands before a text; None if none is."""
    found = _last(_RANK, before)
    return int(found) if found else None


def _last(pattern: re.Pattern[str], text: str) -> str:
    name = ""
    for match in pattern.finditer(text):
        name = next(group for group in match.groups() if group)
    return name
