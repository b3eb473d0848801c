"""Asks the ranks of a job that runs where they are: NCCL of what it waits for, py-spy of each Python's line."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.core import tools
from uenvtool.core.errors import UenvtoolError
from uenvtool.core.words import grouped, listed
from uenvtool.doctor import ras
from uenvtool.doctor.finding import Examination, Finding
from uenvtool.doctor.log.scan import Scanner, read_logs
from uenvtool.doctor.log.verdict import examined
from uenvtool.doctor.nodes import folded, ranges
from uenvtool.job.attach import ranks_of
from uenvtool.knowledge.finding import KnownFinding, load_findings

SCRIPTS = Path(__file__).parent / "scripts"
SECONDS = 60
"""How long the nodes may take to answer: srun waits for one that is dead."""
NOT_READ = "lines of rank {ranks}: py-spy did not read them"
NO_RAS, NO_STACKS = "NCCL: no RAS on {node} (2.24 and newer)", "lines of the ranks: no py-spy on the nodes"
ODD, BEHIND, DIFFERS = "rank-elsewhere", "ras-behind", "ras-differs"
_LABELLED = re.compile(r"^ *(\d{1,6}): (.*)$", re.MULTILINE)
_STACK = re.compile(r"^rank (\d{1,6}) on (\S+)\n(.*?)(?=^rank |\Z)", re.MULTILINE | re.DOTALL)
_FRAME = re.compile(r"^\s+(\S+) \((\S+:\d+)\)$", re.MULTILINE)
_PACKAGES = re.compile(r"^torch/|/torch/|(site|dist)-packages/|^threading|^selectors|^socket")


def examine_running(job: str, nodes: Sequence[str]) -> Examination:
    """Return what NCCL's RAS and py-spy say of a job that runs, asked on its nodes by a step beside its own."""
    if shutil.which("srun") is None:
        return Examination(unseen=("the ranks: srun is not here",))
    known = load_findings()
    status = _printed_on(job, ["--nodes=1", "--ntasks=1", f"--nodelist={nodes[0]}"], "ras.sh")
    now = status.rpartition(ras.AGAIN)[2].encode()
    seen = examined(read_logs([("NCCL's RAS", io.BytesIO(now))] if now else [], Scanner(known)), known)
    numbers, stacks = _stacks(job, nodes)
    lines = dict(_lines(stacks))
    by_line = grouped((line, rank) for rank, (_, line) in lines.items())
    alike = sorted(by_line.items(), key=lambda item: len(item[1]))  # the fewest first
    others = [finding for finding in seen.findings if finding.known.id != DIFFERS]  # those that stay behind are told
    behind = ras.behind(status, known.findings[BEHIND])
    findings = [*others, *behind, *_odd(alike, lines, known.findings[ODD])]
    unseen = [] if "Job summary" in status else [NO_RAS.format(node=nodes[0])]
    silent = [rank for rank in numbers if rank not in lines]
    unseen += ([NOT_READ.format(ranks=ranges(silent))] if silent else []) if lines else [NO_STACKS]
    shown = listed([f"rank {ranges(those)} at {line}" for line, those in alike], 4)
    facts = (("lines of the ranks", shown),) if lines else ()
    return Examination(findings=tuple(findings), facts=(*seen.facts, *facts), unseen=tuple(unseen))


def _stacks(job: str, nodes: Sequence[str]) -> tuple[list[int], str]:
    """Return the ranks, and their stacks as py-spy prints them; none where no step tells which processes they are."""
    try:
        ranks = ranks_of(job, os.environ, seconds=SECONDS)
    except UenvtoolError:
        return [], ""
    places = [f"{rank.rank}:{rank.node}:{rank.pid}" for rank in ranks]
    options = [f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}", "--ntasks-per-node=1", "--label"]
    labelled = _LABELLED.findall(_printed_on(job, options, "stacks.sh", *places))
    lines = sorted(labelled, key=lambda line: int(line[0]))  # those of several nodes come mixed
    return [rank.rank for rank in ranks], "".join(f"{text}\n" for _, text in lines)


def _printed_on(job: str, options: Sequence[str], script: str, *arguments: str) -> str:
    """Return what a script of ours prints on nodes of the job, in a step that takes nothing from the others."""
    words = ["srun", f"--jobid={job}", "--overlap", "--mem=0", "--cpu-bind=none", "--quiet", *options]
    text = (SCRIPTS / script).read_text(encoding="utf-8")
    return tools.run(["timeout", str(SECONDS), *words, "bash", "-c", text, script, *arguments]).stdout


def _lines(text: str) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield each rank with its node and the innermost line of the user's own, as py-spy prints them."""
    for rank, node, stack in _STACK.findall(text):
        frames = _FRAME.findall(stack)
        own = [place for _, place in frames if not _PACKAGES.search(place)]
        if frames:
            yield int(rank), (node, (own or [place for _, place in frames])[0])


def _odd(
    alike: Sequence[tuple[str, list[int]]], lines: Mapping[int, tuple[str, str]], known: KnownFinding
) -> Iterator[Finding]:
    """Yield the ranks that are at another line than at least three quarters of all."""
    if len(alike) < 2 or 4 * len(alike[-1][1]) < 3 * len(lines):
        return
    for line, ranks in alike[:-1][:3]:
        nodes = {lines[rank][0] for rank in ranks}
        detail = f"rank {ranges(ranks)} on {folded(nodes)} is at {line}, {len(alike[-1][1])} are at {alike[-1][0]}"
        yield Finding(known=known, detail=detail, nodes=frozenset(nodes), ranks=frozenset(ranks))
