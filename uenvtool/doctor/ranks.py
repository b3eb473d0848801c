"""Diagnosis of all ranks of a job, which exchange files in a shared directory and need no server.

Each rank writes a file when it begins, examines its shell, and writes its result. Rank 0 waits for all ranks up to a
timeout and reports. If rank 0 does not report, another rank does, so the report does not depend on any single rank.
The files are only parsed as data, because other users may be able to write to the directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.core.limits import limited
from uenvtool.core.rendezvous import SHARED
from uenvtool.core.words import grouped, listed
from uenvtool.doctor.finding import Examination, Finding, cleaned, worst_first
from uenvtool.doctor.nodes import brief_nodes, brief_ranks, expanded
from uenvtool.knowledge.finding import KnownFinding, load_findings
from uenvtool.knowledge.secrets import without_secrets

SUBDIRECTORY = ".uenvtool-doctor"
"""The subdirectory into which the ranks write. In a Slurm step, the job and step IDs are appended to its name."""
BEGUN, SEEN, REPORTED = "begun", "json", "reported"
POLL_SECONDS = 0.2
STANDBY_SECONDS = 10.0
"""The additional time in seconds that the other ranks wait for rank 0 before one of them reports."""
MOST_POLLS = 500
"""The maximum number of polls per second by all ranks together, because they share a disk."""
MOST_BYTES = 4_000_000
"""The maximum size of a rank's report. Larger files are ignored."""
MOST_DETAILS = 12
"""The number of different details up to which a finding is printed once per detail, otherwise once for all."""
SILENT, DIFFERS = "rank-silent", "rank-differs"
SHARED_VARIABLES = re.compile(rf"({SHARED})_\w+|OMP_NUM_THREADS|MASTER_ADDR|MASTER_PORT")
"""The variables that must have the same value on all ranks."""
_TASKS = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?")
_RANK_NUMBER = re.compile(r"[0-9]{1,6}\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class CurrentRank:
    """The rank of this process, the number of ranks, the node of this process, and the node of each rank if known."""

    rank: int
    size: int
    node: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RankReport:
    """The result of one rank.

    faults: the ID and detail of each finding.
    values: the values that must be the same on all ranks.
    unseen: the skipped checks.
    """

    rank: int
    node: str
    faults: tuple[tuple[str, str], ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()


def parsed_report(data: Any) -> RankReport | None:
    """Return the report in JSON data, or None if the data is not a valid report."""
    try:
        if not _RANK_NUMBER.match(str(data["rank"])):
            return None
        return RankReport(
            rank=int(data["rank"]),
            node=str(data["node"]),
            faults=tuple((str(name), str(detail)) for name, detail in data["faults"]),
            values={str(name): str(value) for name, value in data["values"].items()},
            unseen=tuple(map(str, data["unseen"])),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def current_rank(environ: Mapping[str, str]) -> CurrentRank | None:
    """Return the rank of this process from the variables of Slurm, Run:ai or torchrun, or None outside of a rank."""
    for rank, size in (("SLURM_PROCID", "SLURM_NTASKS"), ("RANK", "PET_NNODES"), ("RANK", "WORLD_SIZE")):
        if _RANK_NUMBER.match(environ.get(rank, "")) and _RANK_NUMBER.match(environ.get(size, "")):
            node = environ.get("SLURMD_NODENAME") or platform.node()
            return CurrentRank(rank=int(environ[rank]), size=int(environ[size]), node=node, nodes=_nodes(environ))
    return None


def _nodes(environ: Mapping[str, str]) -> tuple[str, ...]:
    names = list(expanded(environ.get("SLURM_STEP_NODELIST", "")))
    counts = [
        int(count)
        for count, times in _TASKS.findall(environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
        for _ in range(int(times or 1))
    ]
    if len(names) != len(counts) or not environ.get("SLURM_DISTRIBUTION", "block").startswith("block"):
        return ()
    return tuple(name for name, count in zip(names, counts, strict=True) for _ in range(count))


def examine_ranks(
    environ: Mapping[str, str],
    parent: Path | None,
    *,
    seconds: float,
    examine: Callable[[], Examination],
    standby: float = STANDBY_SECONDS,
) -> Examination | None:
    """Return the combined result of all ranks, or None on a rank that does not report.

    Outside of a rank, it reads the files that the ranks left in `parent`.

    parent: a directory that all nodes share. Default: the current directory.
    seconds: the time that rank 0 waits for the other ranks.
    examine: the function that examines this rank.
    standby: the additional time that another rank waits before it reports.

    Raises BadInput if there is neither a Slurm job nor `parent`, or no rank has written to `parent`.
    """
    rank = current_rank(environ)
    if parent is None and (rank is None or not environ.get("SLURM_JOB_ID")):
        raise BadInput("--ranks: not inside a Slurm job", hint="run it under srun, or add --folder")
    parent = (parent or Path()).absolute()
    if rank is None:
        return _collected([path for path in parent.glob(f"{SUBDIRECTORY}*") if path.is_dir()] or [parent], None)
    step = _step(environ)
    directory = parent / f"{SUBDIRECTORY}{step}"
    if (directory / REPORTED).exists():
        return None  # another rank reported before this one began
    directory.mkdir(parents=True, exist_ok=True)
    files.write(directory / f"{rank.rank}.{BEGUN}", json.dumps({"node": rank.node}))
    result = cleaned(examine())
    values = {name: without_secrets(value) for name, value in environ.items() if SHARED_VARIABLES.fullmatch(name)}
    faults = tuple((finding.known.id, finding.detail) for finding in result.findings)
    values.update(result.facts)
    report = RankReport(rank=rank.rank, node=rank.node, faults=faults, values=values, unseen=result.unseen)
    if (directory / REPORTED).exists() or not directory.is_dir():
        return None  # another rank reported in the meantime
    files.write(directory / f"{rank.rank}.{SEEN}", json.dumps(asdict(report)))
    if not _is_reporter(directory, rank, seconds + (standby if rank.rank else 0)):
        return None
    examination, is_whole = _collected([directory], rank), len(_names(directory, [SEEN])) >= rank.size
    _clear(directory, keep_mark=bool(step) and not is_whole)  # the mark tells a late rank that the report is done
    return examination


def _step(environ: Mapping[str, str]) -> str:
    """Return a suffix that distinguishes this Slurm step from others in the same directory, or "" outside of Slurm."""
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    return "".join(f"-{environ.get(name, 0)}" for name in names) if environ.get(names[0]) else ""


def _is_reporter(directory: Path, rank: CurrentRank, seconds: float) -> bool:
    """Wait, and return whether this rank must report: rank 0, or else the first rank whose standby time ends.

    Another rank has reported if the mark exists or this rank's file was removed.
    """
    mark, report = directory / REPORTED, directory / f"{rank.rank}.{SEEN}"
    until = time.monotonic() + seconds
    pause = max(POLL_SECONDS, rank.size / MOST_POLLS) if rank.rank else POLL_SECONDS
    while report.exists() and not mark.exists() and time.monotonic() < until:
        if rank.rank == 0 and len(_names(directory, [SEEN])) >= rank.size:
            break
        time.sleep(min(pause, max(0.0, until - time.monotonic())))
    if not report.exists() or not _claimed(mark):
        return False
    if report.name in os.listdir(directory):
        return True
    mark.rmdir()  # another rank reported and removed its mark just before
    return False


def _claimed(mark: Path) -> bool:
    """Create the mark atomically and return True, or False if another rank, on any node, created it first."""
    try:
        mark.mkdir()
    except (FileExistsError, FileNotFoundError):  # FileNotFoundError: the reporter has removed the directory
        return False
    return True


def _names(directory: Path, kinds: Iterable[str]) -> list[str]:
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [name for name in names if _RANK_NUMBER.match(name.partition(".")[0]) and name.partition(".")[2] in kinds]


def _clear(directory: Path, *, keep_mark: bool) -> None:
    for name in _names(directory, (BEGUN, SEEN)):
        (directory / name).unlink(missing_ok=True)
    if not keep_mark:
        (directory / REPORTED).rmdir()
        with contextlib.suppress(OSError):
            directory.rmdir()


def _collected(directories: Sequence[Path], rank: CurrentRank | None) -> Examination:
    reports, begun = {}, {}
    for path in (directory / name for directory in directories for name in _names(directory, (BEGUN, SEEN))):
        data = _data(path)
        report = parsed_report(data) if path.suffix == f".{SEEN}" else None
        if report is not None:
            reports[report.rank] = report
        elif path.suffix == f".{BEGUN}" and isinstance(data, dict):
            begun[int(path.stem)] = str(data.get("node", ""))
    if not reports and not begun:
        hint = "pass the same --folder as the ranks"
        raise BadInput(f"no rank has written to {str(directories[0])!r}", hint=hint)
    size = rank.size if rank else max([*reports, *begun]) + 1
    nodes = dict(enumerate(rank.nodes)) if rank else {}
    missing = {number: begun.get(number) or nodes.get(number, "") for number in range(size) if number not in reports}
    return combined([reports[number] for number in sorted(reports)], missing, load_findings().findings)


def _data(path: Path) -> object:
    """Return the JSON data of a file, or None if it is incomplete, too large, or not a regular file."""
    try:
        with limited(str(path)):
            return None if path.is_symlink() else json.loads(files.read_bytes(path, MOST_BYTES))
    except (OSError, BadInput, ValueError):
        return None


def combined(
    reports: Sequence[RankReport], missing: Mapping[int, str], known: Mapping[str, KnownFinding]
) -> Examination:
    """Return the combined result of all ranks. missing: the ranks that did not report, with their nodes if known."""
    findings = [*_differing(reports, known), *_shared_findings(reports, known)]
    if missing:
        nodes, ranks = frozenset(filter(None, missing.values())), frozenset(missing)
        findings.insert(0, Finding(known=known[SILENT], detail=f"rank {brief_ranks(ranks)}", nodes=nodes, ranks=ranks))
    unseen = Counter(line for report in reports for line in report.unseen)
    summary = f"{len(reports)} of {len(reports) + len(missing)} on {_nodes_of(reports)}"
    return Examination(
        findings=tuple(worst_first(findings)),
        facts=(("ranks", summary),) if reports else (),
        unseen=tuple(line for line, count in unseen.items() if count == len(reports)),
    )


def _differing(reports: Sequence[RankReport], known: Mapping[str, KnownFinding]) -> Iterator[Finding]:
    for name in sorted({name for report in reports for name in report.values}):
        set_first = sorted(reports, key=lambda report: name not in report.values)
        by_value = grouped((report.values.get(name, "unset"), report) for report in set_first)
        if len(by_value) > 1:
            most_frequent = max(by_value, key=lambda value: len(by_value[value]))
            others = [value for value in by_value if value != most_frequent]
            locations = [
                f"{value} on {_nodes_of(by_value[value])} (rank {brief_ranks([each.rank for each in by_value[value]])})"
                for value in others
            ]
            ranks = frozenset(report.rank for value in others for report in by_value[value])
            detail = f"{name} is {listed(locations, 3)}; elsewhere {most_frequent}"
            yield Finding(known=known[DIFFERS], detail=detail, ranks=ranks)


def _nodes_of(reports: Iterable[RankReport]) -> str:
    return brief_nodes({report.node for report in reports})


def _shared_findings(reports: Sequence[RankReport], known: Mapping[str, KnownFinding]) -> Iterator[Finding]:
    faults = ((name, (detail, report)) for report in reports for name, detail in report.faults if name in known)
    for name, seen in grouped(faults).items():
        by_detail = grouped(seen)
        if len(by_detail) > MOST_DETAILS:
            by_detail = {listed(list(by_detail), 2): [report for _, report in seen]}
        for detail, group in by_detail.items():
            ranks = frozenset(report.rank for report in group)
            nodes = frozenset(report.node for report in group) if len(ranks) < len(reports) else frozenset()
            yield Finding(known=known[name], detail=detail, count=len(group), nodes=nodes, ranks=ranks)
