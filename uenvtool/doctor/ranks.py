"""Every rank of a job looks, one reports: through files in a folder that all nodes share, without a server.

A rank says that it has begun, looks, and writes what it saw. Rank 0 waits for all, as long as it may, and reports; all
others stand by, and one of them reports in its place, so that it does not matter which ranks are dead. The files lie in
a folder of their own below the one that is named; what another user could write there is data, never a command.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.core.words import listed
from uenvtool.doctor.finding import Examination, Finding, cleaned, worst_first
from uenvtool.doctor.nodes import brief_nodes, brief_ranks, expanded
from uenvtool.knowledge.finding import KnownFinding, load_findings
from uenvtool.knowledge.secrets import without_secrets

OWN_FOLDER = ".uenvtool-doctor"
"""Where the ranks write, below the folder that is named; a step of Slurm's has its number behind it."""
BEGUN, SEEN, REPORTED = "begun", "json", "reported"
POLL_SECONDS = 0.2
STANDBY_SECONDS = 10.0
"""How much longer than rank 0 the others wait before one of them reports."""
MOST_LOOKS = 500
"""How often in a second all ranks together look if there is a report: they share a disk."""
MOST_BYTES = 4_000_000
"""A larger file is no report."""
MOST_DETAILS = 12
"""A finding with more different details is one with a few of them."""
SILENT, DIFFERS = "rank-silent", "rank-differs"
SAME = re.compile(
    r"(NCCL|FI|MPICH|OFI|TORCH|UCX|OMPI_MCA|PMIX_MCA|NVSHMEM|HSA)_\w+|OMP_NUM_THREADS|MASTER_ADDR|MASTER_PORT"
)
"""Variables that have to be the same on all ranks."""
_TASKS = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?")
_NUMBER = re.compile(r"[0-9]{1,6}\Z")
"""So many digits the number of a rank has: a larger one is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """The rank that this process is, of how many, and the node that each one runs on, if the scheduler says so."""

    rank: int
    size: int
    node: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class RankReport:
    """What one rank saw. faults: id and detail. values: what has to be the same everywhere. unseen: what it skipped."""

    rank: int
    node: str
    faults: tuple[tuple[str, str], ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """Return it as data for its file."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"values": dict(self.values)}


def parsed_report(data: Any) -> RankReport | None:
    """Return the report in a file's data; None if it is none."""
    try:
        if not _NUMBER.match(str(data["rank"])):
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


def place(environ: Mapping[str, str]) -> Place | None:
    """Return the rank that this is, by Slurm's variables, else by torchrun's or Run:ai's; None if it is none."""
    for rank, size in (("SLURM_PROCID", "SLURM_NTASKS"), ("RANK", "PET_NNODES"), ("RANK", "WORLD_SIZE")):
        if _NUMBER.match(environ.get(rank, "")) and _NUMBER.match(environ.get(size, "")):
            node = environ.get("SLURMD_NODENAME") or platform.node()
            return Place(rank=int(environ[rank]), size=int(environ[size]), node=node, nodes=_nodes(environ))
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
    folder: Path | None,
    *,
    seconds: float,
    look: Callable[[], Examination],
    standby: float = STANDBY_SECONDS,
) -> Examination | None:
    """Return what all ranks saw; None on a rank that does not report.

    folder: one that all nodes share, by default the current one. seconds: how long rank 0 waits for the others.
    standby: how much longer another rank waits. look: what this rank does. Outside of a job what the ranks left there
    is taken as it is. Raises BadInput if there is neither a job nor a folder.
    """
    here = place(environ)
    if folder is None and (here is None or not environ.get("SLURM_JOB_ID")):
        raise BadInput("no job is here whose ranks could look", hint="run it under srun, or name --folder")
    folder = (folder or Path()).absolute()
    if here is None:
        return _collected([path for path in folder.glob(f"{OWN_FOLDER}*") if path.is_dir()] or [folder], None)
    step = _step(environ)
    own = folder / f"{OWN_FOLDER}{step}"
    if (own / REPORTED).exists():
        return None  # it began when all was over
    own.mkdir(parents=True, exist_ok=True)
    files.write(own / f"{here.rank}.{BEGUN}", json.dumps({"node": here.node}))
    seen = cleaned(look())
    values = {name: without_secrets(value) for name, value in environ.items() if SAME.fullmatch(name)}
    faults = tuple((finding.known.id, finding.detail) for finding in seen.findings)
    values.update(seen.facts)
    report = RankReport(rank=here.rank, node=here.node, faults=faults, values=values, unseen=seen.unseen)
    if (own / REPORTED).exists() or not own.is_dir():
        return None  # it looked for so long
    files.write(own / f"{here.rank}.{SEEN}", json.dumps(report.data()))
    if not _is_ours(own, here, seconds + (standby if here.rank else 0)):
        return None
    examination, is_whole = _collected([own], here), len(_names(own, [SEEN])) >= here.size
    _clear(own, keep_mark=bool(step) and not is_whole)  # by the mark a rank that comes too late sees the report
    return examination


def _step(environ: Mapping[str, str]) -> str:
    """Return what tells this run from others in the same folder; empty where nothing does."""
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    return "".join(f"-{environ.get(name, 0)}" for name in names) if environ.get(names[0]) else ""


def _is_ours(own: Path, here: Place, seconds: float) -> bool:
    """Wait, and tell if this rank is the one that reports: rank 0, or without it the first that notices.

    All is over once there is a mark, or what this rank wrote was taken away.
    """
    mark, mine = own / REPORTED, own / f"{here.rank}.{SEEN}"
    until = time.monotonic() + seconds
    pause = max(POLL_SECONDS, here.size / MOST_LOOKS) if here.rank else POLL_SECONDS
    while mine.exists() and not mark.exists() and time.monotonic() < until:
        if here.rank == 0 and len(_names(own, [SEEN])) >= here.size:
            break
        time.sleep(min(pause, max(0.0, until - time.monotonic())))
    if not mine.exists() or not _claimed(mark):
        return False
    if mine.name in os.listdir(own):
        return True
    mark.rmdir()  # another rank had it, and was done in the same moment
    return False


def _claimed(mark: Path) -> bool:
    """Make the mark; False if another rank made it before. Of many that try, on any node, one does."""
    try:
        mark.mkdir()
    except (FileExistsError, FileNotFoundError):  # the latter: the folder around it is gone, it is over
        return False
    return True


def _names(own: Path, kinds: Iterable[str]) -> list[str]:
    """Return the names of the ranks' files; none if the folder is gone."""
    try:
        names = os.listdir(own)
    except OSError:
        return []
    return [name for name in names if _NUMBER.match(name.partition(".")[0]) and name.partition(".")[2] in kinds]


def _clear(own: Path, *, keep_mark: bool) -> None:
    for name in _names(own, (BEGUN, SEEN)):
        (own / name).unlink(missing_ok=True)
    if not keep_mark:
        (own / REPORTED).rmdir()
        with contextlib.suppress(OSError):
            own.rmdir()


def _collected(folders: Sequence[Path], here: Place | None) -> Examination:
    """Return what the files in the folders say together. Raises BadInput if there are none."""
    reports, begun = {}, {}
    for path in (folder / name for folder in folders for name in _names(folder, (BEGUN, SEEN))):
        data = _data(path)
        report = parsed_report(data) if path.suffix == f".{SEEN}" else None
        if report is not None:
            reports[report.rank] = report
        elif path.suffix == f".{BEGUN}" and isinstance(data, dict):
            begun[int(path.stem)] = str(data.get("node", ""))
    if not reports and not begun:
        raise BadInput(f"no rank has written to {folders[0]}", hint="name the folder that the ranks were given")
    size = here.size if here else max([*reports, *begun]) + 1
    nodes = dict(enumerate(here.nodes)) if here else {}
    missing = {rank: begun.get(rank) or nodes.get(rank, "") for rank in range(size) if rank not in reports}
    return together([reports[rank] for rank in sorted(reports)], missing, load_findings().findings)


def _data(path: Path) -> object:
    """Return a file's data; None if it is not whole, or no file of a sensible size."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def together(
    reports: Sequence[RankReport], missing: Mapping[int, str], known: Mapping[str, KnownFinding]
) -> Examination:
    """Return what all ranks saw. missing: the ranks that did not report, each with its node, if that is known."""
    findings = [*_differing(reports, known), *_found(reports, known)]
    if missing:
        nodes, ranks = frozenset(filter(None, missing.values())), frozenset(missing)
        findings.insert(0, Finding(known=known[SILENT], detail=f"rank {brief_ranks(ranks)}", nodes=nodes, ranks=ranks))
    unseen = Counter(line for report in reports for line in report.unseen)
    seen = f"{len(reports)} of {len(reports) + len(missing)} on {_nodes_of(reports)}"
    return Examination(
        findings=tuple(worst_first(findings)),
        facts=(("ranks", seen),) if reports else (),
        unseen=tuple(line for line, count in unseen.items() if count == len(reports)),
    )


def _differing(reports: Sequence[RankReport], known: Mapping[str, KnownFinding]) -> Iterator[Finding]:
    """Yield each value that not all ranks have: the fewer ranks are named."""
    by_name: dict[str, dict[str, list[RankReport]]] = defaultdict(lambda: defaultdict(list))
    for report in reports:
        for name, value in report.values.items():
            by_name[name][value].append(report)
    for name, by_value in sorted(by_name.items()):
        if sum(map(len, by_value.values())) < len(reports):
            by_value["unset"] += [report for report in reports if name not in report.values]
        if len(by_value) > 1:
            usual = max(by_value, key=lambda value: len(by_value[value]))
            others = [value for value in by_value if value != usual]
            shown = listed([f"{value} {_place_of(by_value[value])}" for value in others], 3)
            odd = frozenset(report.rank for value in others for report in by_value[value])
            yield Finding(known=known[DIFFERS], detail=f"{name} is {shown}; elsewhere {usual}", ranks=odd)


def _place_of(reports: Sequence[RankReport]) -> str:
    return f"on {_nodes_of(reports)} (rank {brief_ranks([report.rank for report in reports])})"


def _nodes_of(reports: Iterable[RankReport]) -> str:
    return brief_nodes({report.node for report in reports})


def _found(reports: Sequence[RankReport], known: Mapping[str, KnownFinding]) -> Iterator[Finding]:
    """Yield each finding once, with the nodes that have it if not all have."""
    by_id: dict[str, dict[str, list[RankReport]]] = defaultdict(lambda: defaultdict(list))
    for report in reports:
        for name, detail in report.faults:
            if name in known:
                by_id[name][detail].append(report)
    for name, by_detail in by_id.items():
        groups: Iterable[tuple[str, list[RankReport]]] = by_detail.items()
        if len(by_detail) > MOST_DETAILS:
            groups = [(listed(list(by_detail), 2), [report for those in by_detail.values() for report in those])]
        for detail, those in groups:
            ranks = frozenset(report.rank for report in those)
            nodes = frozenset(report.node for report in those) if len(ranks) < len(reports) else frozenset()
            yield Finding(known=known[name], detail=detail, count=len(those), nodes=nodes, ranks=ranks)
