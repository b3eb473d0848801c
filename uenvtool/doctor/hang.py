"""Says which rank the others wait for, from what the flight recorders of all ranks kept."""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from uenvtool.core.words import listed
from uenvtool.doctor.dumps import Call, RankDump, read_dumps
from uenvtool.doctor.finding import Examination, Finding
from uenvtool.doctor.nodes import brief_nodes, brief_ranks
from uenvtool.knowledge.finding import KnownFinding, load_findings

BEHIND, GONE, DISAGREE, CROSSED, ALL_WAIT = "rank-behind", "rank-gone", "ranks-disagree", "ranks-crossed", "ranks-wait"
UNEQUAL_IN, UNEQUAL_OUT = ("scatter", "all_to_all"), ("gather", "all_to_all")
"""Collectives in which ranks may rightly take, or give, different sizes (types.py of torch's own reader)."""
WHOLE_JOB = "default_pg"
"""What torch says that the group of all ranks is for."""
_PEERS = re.compile(r"(send|recv) (\d+)(?:->|<-)(\d+)")
MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Group:
    """A process group: its ranks, what it is for, and what each rank with a dump called."""

    name: str
    members: tuple[int, ...]
    calls: Mapping[int, Mapping[int, Call]]

    @property
    def last(self) -> dict[int, int]:
        """Return the number of the last call of each rank."""
        return {rank: max(calls, default=0) for rank, calls in self.calls.items()}


def examine_dumps(paths: Sequence[Path], nodes: Sequence[str] = ()) -> Examination:
    """Return what dumps say together. nodes: of the job, which its ranks fill one after the other."""
    dumps, unread, lost = read_dumps(paths)
    findings = list(judged(dumps, nodes, load_findings().findings, lost))
    facts = [("flight recorder", f"{len(dumps)} ranks")] if dumps else []
    return Examination(findings=tuple(findings), facts=tuple(facts), unseen=tuple(unread))


def judged(
    dumps: Sequence[RankDump], nodes: Sequence[str], known: Mapping[str, KnownFinding], lost: Collection[int] = ()
) -> Iterator[Finding]:
    """Yield who holds the others up: what ranks disagree in, who is behind, who is gone; else that all wait.

    lost: the ranks whose dump cannot be read.
    """
    groups = list(_groups(dumps))
    by_rank = {dump.rank: dump for dump in dumps}
    world = sorted({rank for group in groups for rank in group.members} | {*by_rank, *lost})
    place = _Nodes(len(world), nodes)
    found: list[tuple[str, str, set[int]]] = []
    blocked: dict[int, str] = {}
    late: dict[int, tuple[_Group, int]] = {}
    for group in groups:
        wrong = _disagreement(group, place)
        if wrong:
            found.append((DISAGREE, *wrong))
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
    found += [(BEHIND, *text) for text in _late(first, by_rank, place)]
    found += [
        (BEHIND, f"{place.of([peer])} did not enter what answers {call} of rank {rank}{_at(call)}", {peer})
        for peer, (rank, call) in partners.items()
        if peer not in blocked
    ]
    if late and not first and not found:
        found.append((CROSSED, _crossed(late, blocked, place), set(late)))
    gone = set(world) - set(by_rank)
    if gone and dumps:
        found.append(
            (
                GONE,
                f"{place.of(gone)} left none{' that is whole' * bool(gone & set(lost))}, {len(dumps)} ranks did",
                gone,
            )
        )
    if not found:
        found += [(ALL_WAIT, *text) for text in _all_wait(groups)]
    for name, detail, ranks in found:
        on = frozenset(filter(None, map(place.node, ranks)))
        yield Finding(known=known[name], detail=detail, nodes=on, ranks=frozenset(ranks))


class _Nodes:
    """Names ranks, with their nodes where the job says so."""

    def __init__(self, size: int, nodes: Sequence[str]) -> None:
        self._each = size // len(nodes) if nodes and size % len(nodes) == 0 else 0
        self._nodes = nodes

    def node(self, rank: int) -> str:
        """Return the node of a rank; empty if it is not known."""
        return self._nodes[rank // self._each] if self._each and rank // self._each < len(self._nodes) else ""

    def of(self, ranks: Iterable[int]) -> str:
        """Return the ranks and their nodes as a text."""
        ranks = set(ranks)
        nodes = set(filter(None, map(self.node, ranks)))
        on = f" on {brief_nodes(nodes)}" if nodes else ""
        return f"rank {brief_ranks(ranks)}{on}"


@cache
def _numbers(text: str) -> tuple[int, ...]:
    """Return the ranks in a list as torch writes it; nothing if it is none."""
    try:
        found = json.loads(text)
        return tuple(sorted(int(rank) for rank in found))
    except (ValueError, TypeError):
        return ()


def _groups(dumps: Sequence[RankDump]) -> Iterator[_Group]:
    """Yield each group in which something was called; one name may stand for several, which have other ranks."""
    world = {rank for dump in dumps for group in dump.groups.values() for rank in (*_numbers(group.ranks), dump.rank)}
    whole = {(name, group.ranks) for dump in dumps for name, group in dump.groups.items() if group.calls}
    for name, ranks in sorted(whole):
        own = [(dump, dump.groups[name]) for dump in dumps if name in dump.groups and dump.groups[name].ranks == ranks]
        calls = {dump.rank: group.calls for dump, group in own}
        desc = own[0][1].desc
        members = set(_numbers(ranks)) or (world if desc == WHOLE_JOB else set(calls))
        for dump in dumps:  # a rank that never came to the group does not know it
            if dump.rank in members:
                calls.setdefault(dump.rank, {})
        shown = desc if desc not in ("", "undefined") else f"group {name}"
        yield _Group(shown, tuple(sorted(members)), {rank: its for rank, its in calls.items() if rank in members})


def _behind(group: _Group, dumps: Mapping[int, RankDump]) -> Iterator[tuple[int, int]]:
    """Yield each rank that others wait for, with the number of the call that it did not enter."""
    last = group.last
    top = max(last.values(), default=0)
    for rank, number in last.items():
        if number == top or (number == 0 and not dumps[rank].is_whole):
            continue
        waiting = [calls[number + 1] for calls in group.calls.values() if number + 1 in calls]
        if not waiting or any(call.state != "completed" for call in waiting):
            yield rank, number + 1


def _late(
    late: Mapping[int, tuple[_Group, int]], dumps: Mapping[int, RankDump], place: _Nodes
) -> Iterator[tuple[str, set[int]]]:
    alike: dict[tuple[int, int, str], tuple[_Group, list[int]]] = {}
    for rank, (group, number) in late.items():
        last = dumps[rank].last
        own = f"; its last call: {last[2].name} number {last[1]}{_at(last[2])}" if last else "; it called nothing yet"
        alike.setdefault((id(group), number, own), (group, []))[1].append(rank)  # two groups may have one name
    for (_, number, own), (group, ranks) in itertools.islice(alike.items(), MOST_SHOWN):
        waiting = {rank: calls[number] for rank, calls in group.calls.items() if number in calls}
        what = next(iter(waiting.values()), None)
        whole = f"{what or 'call'} number {number} of {group.name}"
        others = f"; {len(waiting)} of {len(group.members)} ranks wait there{_at(what)}" if what else ""
        yield f"{place.of(ranks)} did not enter {whole}{own}{others}", set(ranks)


def _at(call: Call | None) -> str:
    return f" at {call.line}" if call and call.line else ""


def _disagreement(group: _Group, place: _Nodes) -> tuple[str, set[int]] | None:
    """Return the first call in which the ranks of a group differ: in what is called, its sizes or types."""
    numbers = sorted({number for calls in group.calls.values() for number in calls})
    for number in numbers:
        kinds: dict[object, list[int]] = defaultdict(list)
        calls = {rank: its[number] for rank, its in group.calls.items() if number in its}
        for rank, call in calls.items():
            taken, given = (
                str(call.taken) * (call.name not in UNEQUAL_IN),
                str(call.given) * (call.name not in UNEQUAL_OUT),
            )
            kinds[call.name, taken, given].append(rank)
        if len(kinds) < 2 or all(call.state == "completed" for call in calls.values()):
            continue
        parts = sorted(kinds.values(), key=len)
        shown = [f"{place.of(ranks)} in {calls[ranks[0]]}{_at(calls[ranks[0]])}" for ranks in parts]
        odd = {rank for ranks in parts[:-1] for rank in ranks}
        return f"number {number} of {group.name}: {listed(shown, MOST_SHOWN)}", odd
    return None


def _without_partner(dumps: Sequence[RankDump]) -> Iterator[tuple[int, tuple[int, Call]]]:
    """Yield each rank that does not answer a send or receive in which another waits, with that."""
    members = {name: _numbers(group.ranks) for dump in dumps for name, group in dump.groups.items()}
    open_calls = {dump.rank: {(name, call.name) for name, call in dump.waits} for dump in dumps}
    for dump in dumps:
        for name, call in dump.waits:
            found, ranks = _PEERS.match(call.name), members.get(name, ())
            if found is None:
                continue
            kind, own, other = found[1], int(found[2]), int(found[3])
            peer = ranks[other] if other < len(ranks) else other
            answer = f"recv {other}<-{own}" if kind == "send" else f"send {other}->{own}"
            if peer in open_calls and (name, answer) not in open_calls[peer]:
                yield peer, (dump.rank, call)


def _crossed(late: Mapping[int, tuple[_Group, int]], blocked: Mapping[int, str], place: _Nodes) -> str:
    """Return who waits for whom, where each is behind in one group and waits in another."""
    parts = [
        f"{place.of([rank])} waits in {blocked[rank]} and did not enter number {number} of {group.name}"
        for rank, (group, number) in late.items()
    ]
    return listed(parts, MOST_SHOWN)


def _all_wait(groups: Iterable[_Group]) -> Iterator[tuple[str, set[int]]]:
    for group in groups:
        calls = [its[max(its)] for its in group.calls.values() if its]
        if calls and all(call.state == "open" for call in calls):
            number = max(group.last.values())
            yield f"{calls[0]} number {number} of {group.name}, {len(calls)} ranks{_at(calls[0])}", set()
