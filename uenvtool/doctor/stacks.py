"""Diagnosis of a running job that hangs, from the place in the code at which each rank waits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from uenvtool.core.errors import AnswerIsNo
from uenvtool.core.words import counted, grouped
from uenvtool.doctor.finding import Examination, Finding
from uenvtool.doctor.nodes import brief_nodes, brief_ranks
from uenvtool.job.attach import output_on_nodes, ranks_of
from uenvtool.knowledge.finding import load_findings

ELSEWHERE, ALL_WAIT = "rank-elsewhere", "ranks-wait-there"
SCRIPT = Path(__file__).parent / "scripts" / "stacks.sh"
STATES = {"R": "runs", "S": "sleeps", "D": "waits for a disk or the network", "T": "is stopped", "Z": "has ended"}
_FRAME = re.compile(r"\s+(?P<name>\S.*?) \((?P<file>[^()]+):(?P<line>\d+)\)")
_LIBRARY = re.compile(
    r"^<|(?:^|/)(?:torch|lib|lightning|accelerate|deepspeed|transformers|multiprocessing)/|-packages/"
)
NO_PY_SPY = "Python frames: py-spy is not installed on the nodes or in the environment of the ranks"


def examine_hang(job: str, environ: Mapping[str, str]) -> Examination:
    """Return where each rank of a running job waits, and the ranks that are in another place than most.

    Raises BadInput, ToolMissing, ToolFailed and AnswerIsNo as `uenvtool attach` does.
    """
    ranks = ranks_of(job, environ)
    if not ranks:
        hint = "wait until the job has started its ranks; a rank has RANK or SLURM_PROCID in its environment"
        raise AnswerIsNo(f"job {job} has no rank that runs as you", hint=hint)
    arguments = [f"{rank.rank}:{rank.pid}:{rank.node}" for rank in ranks]
    output = output_on_nodes(job, ["bash", "-c", SCRIPT.read_text(encoding="utf-8"), "uenvtool", *arguments], environ)
    return examined_stacks(output, expected={rank.rank: rank.node for rank in ranks})


def examined_stacks(output: str, expected: Mapping[int, str]) -> Examination:
    """Return the diagnosis of the output of scripts/stacks.sh. expected: the node of each rank."""
    stacks = list(_stacks(output))
    places = grouped((_place(stack), rank) for rank, _, stack in stacks)
    nodes = {**expected, **{rank: node for rank, node, _ in stacks}}
    if lost := set(expected).difference(rank for rank, _, _ in stacks):
        places["no answer: the process has ended, or its node does not respond"] = sorted(lost)
    is_from_proc = any(stack.startswith("proc ") for _, _, stack in stacks)
    by_size = sorted(places.items(), key=lambda place: len(place[1]))
    where = [(f"rank {brief_ranks(set(ranks))}", place) for place, ranks in reversed(by_size)]
    known = load_findings().findings
    odd = by_size[:-1] if len(by_size) > 1 else []
    if odd:
        place, ranks = odd[0]
        on = frozenset(nodes[rank] for rank in ranks)
        most = f"{counted(len(by_size[-1][1]), 'rank')} in {by_size[-1][0]}"
        detail = f"rank {brief_ranks(set(ranks))} on {brief_nodes(set(on))}: {place}; {most}"
        found = Finding(known=known[ELSEWHERE], detail=detail, nodes=on, ranks=frozenset(ranks))
    else:
        found = Finding(known=known[ALL_WAIT], detail=by_size[0][0], ranks=frozenset(by_size[0][1]))
    return Examination(findings=(found,), facts=tuple(where), unseen=(NO_PY_SPY,) if is_from_proc else ())


def _stacks(output: str) -> Iterator[tuple[int, str, str]]:
    for line in output.split("\n"):
        rank, _, rest = line.partition("\t")
        node, _, stack = rest.partition("\t")
        if rank.isdecimal() and stack:
            yield int(rank), node, stack.replace("\v", "\n")


def _place(stack: str) -> str:
    """Return the innermost frame of the main thread, and the innermost frame in the program's own code."""
    if stack.startswith("proc "):
        _, state, channel, call = stack.split(" ", 3)
        waits = f" in {channel}" if channel not in ("0", "") else ""
        return f"{STATES.get(state, state)}{waits} (system call {call})"
    threads = re.split(r"(?m)^(?=Thread )", stack)
    main = next((thread for thread in threads if '"MainThread"' in thread), threads[-1])
    frames = [(match["name"], match["file"], match["line"]) for match in _FRAME.finditer(main)]
    if not frames:
        return "no Python frame"
    shown = [f"{name} ({file.rpartition('/')[2]}:{line})" for name, file, line in frames]
    own = next((text for text, frame in zip(shown, frames, strict=True) if not _LIBRARY.search(frame[1])), shown[0])
    return shown[0] if own == shown[0] else f"{shown[0]}, called from {own}"
