"""Every rank of a job looks, one reports: through files in a folder that all nodes share, without a server.

A rank says that it has begun, looks, and writes what it saw. Rank 0 waits for all, as long as it may, and reports; all
others stand by, and one of them reports in its place, so that it does not matter which ranks are dead.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.doctor.checks import Fault
from uenvtool.doctor.finding import Examination, Finding
from uenvtool.doctor.nodes import expanded
from uenvtool.doctor.ranks import RankReport, parsed_report, together
from uenvtool.doctor.secrets import without_secrets
from uenvtool.knowledge.finding_reader import load_findings

BEGUN, SEEN, REPORTED = "begun", "json", "reported"
POLL_SECONDS = 0.2
STANDBY_SECONDS = 10.0
"""How much longer than rank 0 the others wait before one of them reports."""
MOST_LOOKS = 500
"""How often in a second all ranks together look if there is a report: they share a disk."""
SAME = re.compile(
    r"(NCCL|FI|MPICH|OFI|TORCH|UCX|OMPI_MCA|PMIX_MCA|NVSHMEM|HSA)_\w+|OMP_NUM_THREADS|MASTER_ADDR|MASTER_PORT"
)
"""Variables that have to be the same on all ranks."""
_TASKS = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?")
_NUMBER = re.compile(r"[0-9]{1,6}\Z")
"""So many digits the number of a rank has: a larger one is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The rank that this process is, of how many, and the node that each one runs on, if the scheduler says so."""

    rank: int
    size: int
    node: str
    nodes: tuple[str, ...] = ()


def place(environ: Mapping[str, str]) -> Place | None:
    """The rank that this is, by Slurm's variables, else by torchrun's or Run:ai's; None if it is none."""
    for rank, size in (("SLURM_PROCID", "SLURM_NTASKS"), ("RANK", "PET_NNODES"), ("RANK", "WORLD_SIZE")):
        if _NUMBER.match(environ.get(rank, "")) and _NUMBER.match(environ.get(size, "")):
            node = environ.get("SLURMD_NODENAME") or platform.node()
            return Place(rank=int(environ[rank]), size=int(environ[size]), node=node, nodes=_nodes(environ))
    return None


def _nodes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The node of each rank of a Slurm step whose ranks fill one node after the other, Slurm's default."""
    names = expanded(environ.get("SLURM_STEP_NODELIST", ""))
    counts = [
        int(count)
        for count, times in _TASKS.findall(environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
        for _ in range(int(times or 1))
    ]
    if len(names) != len(counts) or not environ.get("SLURM_DISTRIBUTION", "block").startswith("block"):
        return ()
    return tuple(name for name, count in zip(names, counts, strict=True) for _ in range(count))


def default_folder(environ: Mapping[str, str]) -> Path:
    """A folder of this step's own, below the current one, which all nodes of a job share.

    Raises BadInput if nothing names the step.
    """
    if not environ.get("SLURM_JOB_ID"):
        raise BadInput("no job is here whose ranks could look", hint="run it under srun, or name --folder")
    step = f"{environ['SLURM_JOB_ID']}.{environ.get('SLURM_STEP_ID', '0')}"
    return Path(f".uenvtool-doctor-{step}").absolute()


def examine_ranks(
    environ: Mapping[str, str], folder: Path, *, seconds: float, look: Callable[[], Examination]
) -> Examination | None:
    """What all ranks saw; None on a rank that does not report.

    look: what this rank does. seconds: how long rank 0 waits for the others. Outside of a job the reports that are in
    the folder are taken as they are.
    """
    here = place(environ)
    if here is None:
        return _collected(folder, None)
    step = _step(environ)
    mark = folder / f"{REPORTED}{step}"
    if mark.exists():
        return None  # it began when all was over
    files.make_folder(folder)
    _write(folder, here.rank, BEGUN, {"node": here.node})
    report = _report(here, environ, look())
    if mark.exists() or not folder.is_dir():
        return None  # it looked for so long
    _write(folder, here.rank, SEEN, report.data())
    if not _is_ours(mark, here, seconds):
        return None
    examination, is_whole = _collected(folder, here), _count(folder) >= here.size
    _clear(folder)
    if is_whole or not step:  # else a rank that comes too late sees by it that there is a report
        files.remove_empty_folder(mark)
    with contextlib.suppress(OSError):  # it is not empty
        files.remove_empty_folder(folder)
    return examination


def _step(environ: Mapping[str, str]) -> str:
    """What tells this run from others in the same folder; empty where nothing does."""
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")
    return "".join(f"-{environ.get(name, 0)}" for name in names) if environ.get(names[0]) else ""


def _is_ours(mark: Path, here: Place, seconds: float) -> bool:
    """Wait, and tell if this rank is the one that reports: rank 0, or without it the first that notices.

    All is over once there is a mark, or what this rank wrote was taken away.
    """
    own = mark.parent / f"{here.rank}.{SEEN}"
    until = time.monotonic() + seconds + (STANDBY_SECONDS if here.rank else 0)
    pause = max(POLL_SECONDS, here.size / MOST_LOOKS) if here.rank else POLL_SECONDS
    while own.exists() and not mark.exists() and time.monotonic() < until:
        if here.rank == 0 and _count(mark.parent) >= here.size:
            break
        time.sleep(min(pause, max(0.0, until - time.monotonic())))
    if not own.exists() or not files.claim(mark):
        return False
    if own.name in os.listdir(mark.parent):
        return True
    files.remove_empty_folder(mark)  # another rank had it, and was done in the same moment
    return False


def _count(folder: Path) -> int:
    """How many ranks have written what they saw; none if the folder is gone."""
    try:
        names = os.listdir(folder)
    except OSError:
        return 0
    return sum(name.endswith(f".{SEEN}") and not name.startswith(".") for name in names)


def _clear(folder: Path) -> None:
    """Remove what the ranks wrote."""
    for name in os.listdir(folder):
        if name.partition(".")[0].isdecimal() and name.endswith((f".{BEGUN}", f".{SEEN}")):
            files.remove_file(folder / name)


def _report(here: Place, environ: Mapping[str, str], seen: Examination) -> RankReport:
    return RankReport(
        rank=here.rank,
        node=here.node,
        faults=tuple(_fault(finding) for finding in seen.findings),
        values={
            **{name: without_secrets(value) for name, value in environ.items() if SAME.fullmatch(name)},
            **dict(seen.facts),
        },
        unseen=seen.unseen,
    )


def _fault(finding: Finding) -> Fault:
    return Fault(finding.known.id, finding.detail, finding.commands)


def _write(folder: Path, rank: int, kind: str, data: object) -> None:
    """Write a rank's file."""
    files.write(folder / f"{rank}.{kind}", json.dumps(data))


def _collected(folder: Path, here: Place | None) -> Examination:
    """What the files in the folder say together. Raises BadInput if it cannot be read."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise BadInput(f"cannot read {folder}: {error.strerror}", hint="name the folder of the reports") from error
    reports, begun = {}, {}
    for name in names:
        number, _, kind = name.partition(".")
        if _NUMBER.match(number) and kind in (SEEN, BEGUN):
            data = _data(folder / name)
            report = parsed_report(data) if kind == SEEN else None
            if report is not None:
                reports[report.rank] = report
            elif kind == BEGUN and isinstance(data, dict):
                begun[int(number)] = str(data.get("node", ""))
    size = here.size if here else max([*reports, *begun], default=-1) + 1
    missing = {rank: begun.get(rank) or _node_of(rank, here) for rank in range(size) if rank not in reports}
    ordered = [reports[rank] for rank in sorted(reports)]
    return together(ordered, missing, load_findings().findings)


def _node_of(rank: int, here: Place | None) -> str:
    return here.nodes[rank] if here and rank < len(here.nodes) else ""


def _data(path: Path) -> object:
    """A file's data; None if it is not whole."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
