"""What the lines of a log come to: the findings that hold, and what the run used on which nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from uenvtool.doctor.finding import Examination, Finding, worst_first
from uenvtool.doctor.log.sightings import Sighting, Sightings
from uenvtool.doctor.log.tail import ENOUGH, Tail, is_told, kind_of, last_words, quotes, warnings
from uenvtool.doctor.log.words import INFORMATION, MANY, PLAIN, WARNING, Words
from uenvtool.doctor.network import Run, faults, figures_for, summary
from uenvtool.doctor.nodes import brief_nodes, brief_ranks, folded
from uenvtool.knowledge.condition import Condition, Facts
from uenvtool.knowledge.finding import BROKEN, RISK, Known, KnownFinding
from uenvtool.knowledge.system import Bandwidth

WATCHDOG = "watchdog-timeout"
"""The finding whose detail says who is behind."""
EXCEPTION, FAILED, ENDED = SIGNS = ("exception", "failed", "ended")
"""The findings whose detail says who failed first, the one that says most of it first."""
UNCLEAR, WENT_ON, TIME_LIMIT, STALL = "unclear", "went-on", "time-limit", "stall"
OWN = ("network", "nodes", "ranks")
"""The facts that a run has a field for."""
COUNTS = ("nodes", "nodes-at-least")
"""The facts that say how many nodes there are."""


def examined(
    seen: Sightings, known: Known, reference: Sequence[Bandwidth] = (), gpus: int = 0, nodes: int = 0
) -> Examination:
    """Return the findings of what was seen, the worst and of those the first one first, and the facts.

    What the run went on behind stands after what it did not. reference, gpus: how fast the network of
    the system has been, and how many GPUs a node of it has. nodes: of the job, if the log does not say so.
    """
    alternatives = _alternatives(seen)
    shown = sorted(_shown(seen, known, alternatives), key=lambda one: one.precedence)
    found = [_finding(_mendable(one.known, alternatives), one.sighting, seen) for one in shown]
    findings = _as_warned(found, [one.known.id for one in shown if one.is_but_warned], seen)
    facts = dict(_facts(seen, known))
    others = {name: facts[name] for name in facts if name not in (known.facts[own].label for own in OWN)}
    runs = tuple(_runs(seen, others, reference, gpus, int(alternatives[0].get("nodes") or 0) or nodes))
    for name, detail in (fault for run in runs for fault in faults(run)):
        wrong = known.findings[name]
        if {found.known.id for found in findings} & {*wrong.hidden_by}:
            continue
        explained = {name, *SIGNS} if wrong.severity == BROKEN else {name}
        findings = [found for found in findings if found.known.id not in explained or not found.place]
        findings.append(Finding(known=wrong, detail=detail))
    return Examination(
        findings=tuple(worst_first(findings)),
        facts=(*facts.items(), *(("bandwidth", f"{run.test} {summary(run)}".strip()) for run in runs)),
        looked_at=f"{seen.lines:,} line{'s' if seen.lines != 1 else ''}",
        unseen=(*seen.unread, *_unseen(seen)),
        runs=runs,
    )


def with_last_words(found: Examination, seen: Sightings, known: Known) -> Examination:
    """Return what was found in whole logs, with what these say by themselves of a failure.

    Where no finding gives a cause, the line at the end that says most stands for one. Beside findings stand the first
    one's line and a few more, if they say what no finding does. Without a finding stands of what the log warns.
    """
    found = _with_failure(found, seen, known)
    if not found.findings and not found.runs:
        return replace(found, quotes=tuple((one.place, one.text) for one in warnings(seen.tails)))
    failed = [one for one in found.findings if one.known.severity == BROKEN or one.known.id == UNCLEAR]
    if not failed:
        return found
    kinds = [kind_of(one.detail) for one in found.findings]
    first = [(one.place, one.text) for one in failed[:1] if one.text and not is_told(one.text, kinds)]
    kinds += [kind_of(text) for _, text in first]
    sighting = seen.findings.get(failed[0].known.id)
    before = sighting.first.around if sighting else None  # where the end of its log does not have it
    is_far = before and sighting and before.offset < seen.tails[sighting.first.order[0] - 1].offset
    ended = seen.findings.get(ENDED)
    if ended and ended.first.around and failed[0].known.id in (FAILED, ENDED):
        last = ended.first.around.printed_before(ended.first.order[1])  # often the cause, in words that nobody knows
        first = [*((one.place, one.text) for one in last if not is_told(one.text, kinds)), *first]
        kinds += [kind_of(one.text) for one in last]
    more = quotes([*([before] if before and is_far else []), *seen.tails], kinds)
    places = dict(first)  # of a long line each shows another part
    return replace(found, quotes=(*first, *((one.place, one.text) for one in more if one.place not in places)))


def _with_failure(found: Examination, seen: Sightings, known: Known) -> Examination:
    """Return what was found, with the line at the end of a log that says most of a failure that no finding explains.

    A plain one stands for FAILED and ENDED that say less; of a run of which nothing else is broken it is FAILED, and a
    line that may mean nothing is UNCLEAR.
    """
    broken = [one for one in found.findings if one.known.severity == BROKEN]
    if any(one.known.id not in (FAILED, ENDED) or seen.words.weight(one.detail) >= PLAIN for one in broken):
        return found
    last = None if any(one.known.id == WENT_ON for one in found.findings) else last_words(seen.tails)
    least = PLAIN if any(one.known.id == FAILED for one in broken) else PLAIN - 1
    if last is None or (broken and last.weight <= least):
        return found
    name = FAILED if broken or last.is_last else UNCLEAR
    added = Finding(known=known.findings[name], detail=last.text, place=last.place)
    return replace(found, findings=tuple(worst_first([added, *(one for one in found.findings if one not in broken)])))


def _runs(
    seen: Sightings, facts: Mapping[str, str], reference: Sequence[Bandwidth], gpus: int, nodes: int
) -> Iterator[Run]:
    """Yield each test of the network with its figures; where no line names the nodes, all GPUs of each are taken."""
    ranks = max([seen.rows.ranks, *seen.numbers("ranks")])
    nodes = nodes or (ranks // gpus if gpus and ranks % gpus == 0 else 0)
    shared: dict[str, Any] = {"nodes": nodes, "ranks": ranks, "hosts": folded(seen.hosts), "facts": facts}
    shared["network"] = " and ".join(sorted(seen.facts.get("network", ())))
    shared["variables"] = dict(sorted(seen.variables.items()))
    for test, rows in seen.rows.by_test.items():
        ordered = tuple(rows[size] for size in sorted(rows))
        yield Run(test=test, rows=ordered, figures=figures_for(reference, test, nodes), **shared)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Held:
    """A finding that the log shows, its lines, the number of the first, and the ends of logs from the last on."""

    known: KnownFinding
    sighting: Sighting
    order: tuple[int, int]
    ends: Sequence[tuple[Tail, int]]

    @property
    def is_but_warned(self) -> bool:
        """Tell if all its lines are but warnings, or less; that something waits is information too."""
        level, known = self.sighting.level, self.known
        return (level == WARNING and known.fault != STALL) or (
            level == INFORMATION and not known.fault and not known.ends
        )

    def went_on(self, steps: int = ENOUGH) -> bool:
        """Tell if the run made so many steps behind it."""
        return all(tail.went_on_after(at, steps) for tail, at in self.ends)

    def is_passed(self, words: Words) -> bool:
        """Tell if a run went on, and well, behind what could have ended it.

        A shell goes on by itself behind a command that failed: there many lines of any kind say so.
        """
        known = self.known
        if known.ends or not (known.fallback or known.severity == BROKEN):
            return False
        is_shell = known.id == FAILED or words.has(self.sighting.first.text, "shell")
        is_weak = (known.fallback and known.id != ENDED) or self.is_but_warned
        went_on = self.went_on(ENOUGH if is_weak else MANY)
        went_on = went_on or (is_shell and all(tail.goes_on_after(at) for tail, at in self.ends))
        return went_on and not any(tail.last_words(at) for tail, at in self.ends)

    def is_hidden_by(self, other: _Held) -> bool:
        """Tell if it follows from another finding; from a fallback a cause follows only if that came first."""
        if other.known.id not in self.known.hidden_by or (other.known.fallback and other.went_on(MANY)):
            return False
        return self.known.fallback or not other.known.fallback or other.order < self.order

    @property
    def precedence(self) -> tuple[bool, tuple[int, int]]:
        """The first in the log comes first, but for what a run went on behind."""
        return not self.known.ends and self.went_on(MANY), self.order


def _shown(seen: Sightings, known: Known, alternatives: Sequence[Facts]) -> list[_Held]:
    """Return the findings that hold and follow from no other one; of fallbacks the first, if any.

    A fallback counts where nothing is broken, or only what was warned of.
    Where the run went on behind all that failed, WENT_ON stands for it. A rank that failed, and for which the others
    waited until the time limit, is named beside that.
    """
    passed: list[_Held] = []
    holding: list[_Held] = []
    for name, sighting in seen.findings.items():
        if name not in seen.refuted and _holds(known.findings[name].when, alternatives):
            ends = [(seen.tails[log - 1], offset) for log, offset in sighting.last.items()]
            one = _Held(known=known.findings[name], sighting=sighting, order=sighting.first.order, ends=ends)
            (passed if one.is_passed(seen.words) else holding).append(one)
    shown = [one for one in holding if not any(map(one.is_hidden_by, holding))]
    fallbacks = [one for one in shown if one.known.fallback]
    causes = [one for one in shown if not one.known.fallback]
    broken = [one for one in causes if one.known.severity == BROKEN and not one.is_but_warned]
    if [one.known.id for one in broken] == [TIME_LIMIT]:
        waited_for = [one for one in fallbacks if one.known.id == EXCEPTION and one.order < broken[0].order]
        causes += [one for one in waited_for if not one.went_on()]
    if broken:
        return causes
    if causes:  # a sign that is but a warning too says no more than they do
        fallbacks = [one for one in fallbacks if not one.is_but_warned]
    notes = [one for one in passed if one.known.fault != STALL]
    if fallbacks:
        causes.append(min(fallbacks, key=lambda one: (one.precedence, one.known.id in SIGNS)))
    elif notes:
        causes.append(replace(min(notes, key=lambda one: one.order), known=known.findings[WENT_ON]))
    return causes


def _as_warned(findings: list[Finding], warned: Collection[str], seen: Sightings) -> list[Finding]:
    """Return findings with those lowered to a risk that a program only warned of.

    They stay where the log shows that it failed, and no other one says why; what does not say why stands behind them.
    """
    broken = [one for one in findings if one.known.severity == BROKEN]
    others = [one for one in broken if one.known.id not in warned]
    says_why = any(one.known.id == EXCEPTION for one in others)
    if len(others) == len(broken):
        return findings
    last = last_words(seen.tails)
    if all(one.known.fallback for one in others) and not says_why and (others or (last and last.is_last)):
        return [*(one for one in findings if one not in others), *others]
    lowered = [one for one in broken if one not in others]
    return [replace(one, known=replace(one.known, severity=RISK)) if one in lowered else one for one in findings]


def _holds(when: Condition, alternatives: Sequence[Facts]) -> bool:
    return any(when.holds(facts) is True for facts in alternatives)


def _mendable(known: KnownFinding, alternatives: Sequence[Facts]) -> KnownFinding:
    """Return what is known of a finding without a workaround whose condition the log does not show."""
    is_mended = known.workaround is None or _holds(known.workaround.when, alternatives)
    return known if is_mended else replace(known, workaround=None)


def _finding(known: KnownFinding, sighting: Sighting, seen: Sightings) -> Finding:
    first, details = sighting.first, sorted(sighting.details, key=lambda detail: -sighting.details[detail])
    details = [one for one in details if not any(one != other and one in other for other in details)]
    detail = ", ".join(" ".join(one.split()) for one in details[:3])
    is_generic = known.id in SIGNS
    if known.id == WATCHDOG:
        detail = _watchdog_detail(sighting, seen)
    elif is_generic:
        detail = _first_to_fail(sighting)
    elif known.severity == BROKEN:
        detail = detail or seen.words.without_label(first.text)
    return Finding(
        known=known,
        detail=detail,
        place=first.place,
        text=first.text,
        count=sighting.count,
        nodes=frozenset() if is_generic else frozenset(sighting.nodes),
        ranks=frozenset() if is_generic else frozenset(sighting.ranks),
    )


def _first_to_fail(sighting: Sighting) -> str:
    first, others = sighting.first, sighting.ranks - {sighting.first.rank}
    who = f"rank {first.rank}" if first.rank is not None else "the run"
    where = f" on {first.node}" if first.node else ""
    then = f"; then rank {brief_ranks(others)}" if others else ""
    return f"{who}{where} failed first, with: {' '.join((first.detail or first.text).split())}{then}"


def _watchdog_detail(sighting: Sighting, seen: Sightings) -> str:
    """Return the collective, and who is behind: ranks that began fewer, else those that did not wait with others."""
    parts = sorted(seen.collectives, key=lambda name: -seen.collectives[name])[:3]
    world = max(seen.numbers("ranks"), default=0)
    late = seen.behind()
    if late:
        parts.append(f"rank {brief_ranks(late)} is behind")
    elif sighting.ranks and max(sighting.ranks) < world <= 1_000_000 and len(sighting.ranks) < world:
        absent = set(range(world)) - sighting.ranks
        parts.append(f"rank {brief_ranks(absent)} of {world} did not wait there")
    return ", ".join(parts)


def _unseen(seen: Sightings) -> Iterator[str]:
    for name, sighting in seen.findings.items():
        if sighting.is_full:
            yield f"{name} is looked at in part: its first {sighting.count:,} lines"


def _alternatives(seen: Sightings) -> list[Facts]:
    """Return the facts as conditions ask for them: one set for each network that was used.

    nodes: the largest communicator's, else the number of nodes that NCCL printed from.
    """
    shared: dict[str, str | None] = {name: min(values) for name, values in seen.facts.items() if len(values) == 1}
    counts = list(seen.numbers(*COUNTS))
    if counts or seen.hosts:
        shared["nodes"] = str(max([*counts, len(seen.hosts)]))
    networks = seen.facts.get("network") or {}
    return [{**shared, "network": value} for value in networks] or [shared]


def _facts(seen: Sightings, known: Known) -> Iterator[tuple[str, str]]:
    for name, fact in known.facts.items():
        values: Mapping[str, set[str]] = seen.facts.get(name) or {}
        if fact.label and values:
            parts = [f"{value} on {brief_nodes(nodes)}" if nodes else value for value, nodes in sorted(values.items())]
            yield fact.label, "; ".join(parts if len(parts) > 1 else values)
    if len(seen.facts.get("network", ())) and "gpudirect" not in seen.facts:
        yield known.facts["gpudirect"].label, "not seen"
