"""Diagnosis of hangs, which finds the rank that the others wait for in the flight recorder dumps of all ranks."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from uenvtool.core.words import counted, grouped, listed
from uenvtool.doctor.dumps import Call, RankDump, read_dumps
from uenvtool.doctor.finding import Examination, Finding
from uenvtool.doctor.nodes import brief_nodes, brief_ranks
from uenvtool.knowledge.finding import KnownFinding, load_findings

BEHIND, GONE, DISAGREE, CROSSED, ALL_WAIT = "rank-behind", "rank-gone", "ranks-disagree", "ranks-crossed", "ranks-wait"
UNEQUAL_IN, UNEQUAL_OUT = ("scatter", "all_to_all"), ("gather", "all_to_all")
"""The collectives whose input or output sizes may differ between ranks (types.py of torch's own reader)."""
WHOLE_JOB = "default_pg"
"""The description with which torch marks the group of all ranks."""
_PEERS = re.compile(r"(send|recv) (\d+)(?:->|<-)(\d+)")
MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Group:
    """A process group, with the calls of each rank that has a dump by sequence number."""

    name: str
    members: tuple[int, ...]
    calls: Mapping[int, Mapping[int, Call]]

    @property
    def last(self) -> dict[int, int]:
        return {rank: max(calls, default=0) for rank, calls in self.calls.items()}


def examine_dumps(paths: Sequence[Path], nodes: Sequence[str] = ()) -> Examination:
    """Return the combined diagnosis of dumps. nodes: the nodes of the job in the order of its ranks."""
    dumps, messages, unreadable = read_dumps(paths)
    findings = list(hang_findings(dumps, nodes, load_findings().findings, unreadable))
    facts = [("flight recorder", counted(len(dumps), "rank"))] if dumps else []
    return Examination(findings=tuple(findings), facts=tuple(facts), unseen=tuple(messages))


def hang_findings(
    dumps: Sequence[RankDump], nodes: Sequence[str], known: Mapping[str, KnownFinding], unreadable: Collection[int] = ()
) -> Iterator[Finding]:
    """Yield the causes of a hang: ranks that disagree, are behind, or have no dump, or else that all ranks wait."""
    groups = list(_groups(dumps))
    by_rank = {dump.rank: dump for dump in dumps}
    world = sorted({rank for group in groups for rank in group.members} | {*by_rank, *unreadable})
    node_of = _nodes_of(world, nodes)
    reasons: list[tuple[str, str, set[int]]] = []
    blocked: dict[int, str] = {}
    late: dict[int, tuple[_Group, int]] = {}
    for group in groups:
        disagreement = _disagreement(group, node_of)
        if disagreement:
            reasons.append((DISAGREE, *disagreement))
            continue
        behind = dict(_behind(group, by_rank))
        for rank, number in behind.items():
            late.setdefault(rank, (group, number))
        if behind:
            last = group.last
            least = min(last[rank] for rank in behind)
            ahead = {rank for rank, number in last.items() if number > least}
            blocked |= dict.fromkeys(ahead, group.name)
    partners = dict(_without_partner(dumps))
    blocked |= {rank: call.name for rank, call in partners.values()}
    first = {rank: at for rank, at in late.items() if rank not in blocked}
    reasons += [(BEHIND, *text) for text in _late(first, by_rank, node_of)]
    reasons += [
        (
            BEHIND,
            f"{_named([peer], node_of)} did not enter the matching call for {call} of rank {rank}{_at(call)}",
            {peer},
        )
        for peer, (rank, call) in partners.items()
        if peer not in blocked
    ]
    if late and not first and not reasons:
        crossed = [
            f"{_named([rank], node_of)} waits in {blocked[rank]} and did not enter collective {number} of {group.name}"
            for rank, (group, number) in late.items()
        ]
        reasons.append((CROSSED, listed(crossed, MOST_SHOWN), set(late)))
    gone = set(world) - set(by_rank)
    if gone and dumps:
        dump = "readable dump" if gone & set(unreadable) else "dump"
        reasons.append((GONE, f"{_named(gone, node_of)} wrote no {dump}, but {counted(len(dumps), 'rank')} did", gone))
    if not reasons:
        reasons += [(ALL_WAIT, *text) for text in _all_wait(groups)]
    for name, detail, ranks in reasons:
        on = frozenset(node_of[rank] for rank in ranks if rank in node_of)
        yield Finding(known=known[name], detail=detail, nodes=on, ranks=frozenset(ranks))


def _nodes_of(world: Sequence[int], nodes: Sequence[str]) -> dict[int, str]:
    """Return the node of each rank, if the ranks are spread evenly over the nodes."""
    per_node, others = divmod(len(world), len(nodes) or 1)
    if not nodes or others:
        return {}
    return dict(zip(range(len(world)), (node for node in nodes for _ in range(per_node)), strict=True))


def _named(ranks: Iterable[int], node_of: Mapping[int, str]) -> str:
    ranks = set(ranks)
    nodes = {node_of[rank] for rank in ranks if rank in node_of}
    return f"rank {brief_ranks(ranks)}" + (f" on {brief_nodes(nodes)}" if nodes else "")


@cache
def _ranks_in(json_text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted(int(rank) for rank in json.loads(json_text)))
    except (ValueError, TypeError):
        return ()


def _groups(dumps: Sequence[RankDump]) -> Iterator[_Group]:
    """Yield each group that has calls. Groups with the same name but different ranks are separate groups."""
    world = {rank for dump in dumps for group in dump.groups.values() for rank in (*_ranks_in(group.ranks), dump.rank)}
    whole = {(name, group.ranks) for dump in dumps for name, group in dump.groups.items() if group.calls}
    for name, ranks in sorted(whole):
        same = [(dump, dump.groups[name]) for dump in dumps if name in dump.groups and dump.groups[name].ranks == ranks]
        calls = {dump.rank: group.calls for dump, group in same}
        description = same[0][1].description
        members = set(_ranks_in(ranks)) or (world if description == WHOLE_JOB else set(calls))
        for dump in dumps:  # the dump of a rank that never used the group does not contain it
            if dump.rank in members:
                calls.setdefault(dump.rank, {})
        shown = description if description not in ("", "undefined") else f"group {name}"
        of_members = {rank: by_number for rank, by_number in calls.items() if rank in members}
        yield _Group(shown, tuple(sorted(members)), of_members)


def _behind(group: _Group, dumps: Mapping[int, RankDump]) -> Iterator[tuple[int, int]]:
    """Yield each rank for which others wait, with the sequence number of the call that it did not enter."""
    last = group.last
    top = max(last.values(), default=0)
    for rank, number in last.items():
        if number == top or (number == 0 and not dumps[rank].is_whole):
            continue
        waiting = [calls[number + 1] for calls in group.calls.values() if number + 1 in calls]
        if not waiting or any(call.state != "completed" for call in waiting):
            yield rank, number + 1


def _late(
    late: Mapping[int, tuple[_Group, int]], dumps: Mapping[int, RankDump], node_of: Mapping[int, str]
) -> Iterator[tuple[str, set[int]]]:
    alike: dict[tuple[int, int, str], tuple[_Group, list[int]]] = {}
    for rank, (group, number) in late.items():
        last = dumps[rank].last
        history = f"; last call: {last[2].name} number {last[1]}{_at(last[2])}" if last else "; no earlier call"
        alike.setdefault((id(group), number, history), (group, []))[1].append(rank)  # two groups may have one name
    for (_, number, history), (group, ranks) in itertools.islice(alike.items(), MOST_SHOWN):
        waiting = {rank: calls[number] for rank, calls in group.calls.items() if number in calls}
        call = next(iter(waiting.values()), None)
        named_call = f"{call or 'call'} number {number} of {group.name}"
        others = f"; {len(waiting)} of {len(group.members)} ranks wait there{_at(call)}" if call else ""
        yield f"{_named(ranks, node_of)} did not enter {named_call}{history}{others}", set(ranks)


def _at(call: Call | None) -> str:
    return f" at {call.line}" if call and call.line else ""


def _disagreement(group: _Group, node_of: Mapping[int, str]) -> tuple[str, set[int]] | None:
    """Return a text about the first call whose operation, sizes or types differ, and the ranks in the minority."""
    numbers = sorted({number for calls in group.calls.values() for number in calls})
    for number in numbers:
        calls = {rank: by_number[number] for rank, by_number in group.calls.items() if number in by_number}
        kinds = grouped((_kind(call), rank) for rank, call in calls.items())
        if len(kinds) < 2 or all(call.state == "completed" for call in calls.values()):
            continue
        parts = sorted(kinds.values(), key=len)
        shown = [f"{_named(ranks, node_of)} in {calls[ranks[0]]}{_at(calls[ranks[0]])}" for ranks in parts]
        odd = {rank for ranks in parts[:-1] for rank in ranks}
        return f"number {number} of {group.name}: {listed(shown, MOST_SHOWN)}", odd
    return None


def _kind(call: Call) -> tuple[str, ...]:
    inputs = "" if call.name in UNEQUAL_IN else str(call.inputs)
    outputs = "" if call.name in UNEQUAL_OUT else str(call.outputs)
    return call.name, inputs, outputs


def _without_partner(dumps: Sequence[RankDump]) -> Iterator[tuple[int, tuple[int, Call]]]:
    """Yield each rank that did not match the send or receive of another rank, with the other rank and its call."""
    members = {name: _ranks_in(group.ranks) for dump in dumps for name, group in dump.groups.items()}
    open_calls = {dump.rank: {(name, call.name) for name, call in dump.waits} for dump in dumps}
    for dump in dumps:
        for name, call in dump.waits:
            match, ranks = _PEERS.match(call.name), members.get(name, ())
            if match is None:
                continue
            kind, this, other = match[1], int(match[2]), int(match[3])
            peer = ranks[other] if other < len(ranks) else other
            partner_call = f"recv {other}<-{this}" if kind == "send" else f"send {other}->{this}"
            if peer in open_calls and (name, partner_call) not in open_calls[peer]:
                yield peer, (dump.rank, call)


def _all_wait(groups: Iterable[_Group]) -> Iterator[tuple[str, set[int]]]:
    for group in groups:
        calls = [by_number[max(by_number)] for by_number in group.calls.values() if by_number]
        if calls and all(call.state == "open" for call in calls):
            number = max(group.last.values())
            yield f"{calls[0]} number {number} of {group.name}, {len(calls)} ranks{_at(calls[0])}", set()
