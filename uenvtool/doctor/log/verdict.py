"""What the lines of a log come to: the findings that hold, and what the run used on which nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from uenvtool.doctor.finding import Examination, Finding, worst_first
from uenvtool.doctor.log.sightings import Sighting, Sightings
from uenvtool.doctor.log.tail import ENOUGH, Tail, is_told, kind_of, last_words, quotes
from uenvtool.doctor.log.words import INFORMATION, MANY, PLAIN, WARNING
from uenvtool.doctor.network import Run, faults, figures_for, summary
from uenvtool.doctor.nodes import folded, ranges
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.finding import BROKEN, RISK, Known, KnownFinding

if TYPE_CHECKING:
    from uenvtool.knowledge.system import Bandwidth

WATCHDOG = "watchdog-timeout"
"""The finding whose detail says who is behind."""
SIGNS = ("exception", "failed", "ended")
"""The findings whose detail says who failed first, the one that says most of it first."""
ENDS = ("killed", "cancelled", "interrupted", "nccl-remote-died", "worker-process-died")
"""The findings that say that a process ended, whatever others print afterwards."""
UNCLEAR, FAILED, ENDED = "unclear", "failed", "ended"
WENT_ON, TIME_LIMIT, STALL = "went-on", "time-limit", "stall"
OWN = ("network", "nodes", "ranks")
"""The facts that a run has a field for."""
COUNTS = ("nodes", "nodes-at-least")
"""The facts that say how many nodes there are."""


def examined(
    seen: Sightings, known: Known, reference: Sequence[Bandwidth] = (), gpus: int = 0, nodes: int = 0
) -> Examination:
    """Return the findings of what was seen, the worst and of those the first one first, and the facts.

    reference, gpus: how fast the network of the system has been, and how many GPUs a node of it has. nodes: of the job,
    if the log does not say so.
    """
    shown = _shown(seen, known)
    ordered = sorted(shown, key=lambda name: shown[name].order)
    alternatives = _alternatives(seen)
    findings = [_finding(_mendable(known.findings[name], alternatives), shown[name], seen) for name in ordered]
    findings = _as_warned(findings, shown, seen)
    runs = tuple(_runs(seen, known, reference, gpus, nodes))
    for name, detail in (fault for run in runs for fault in faults(run)):
        wrong = known.findings[name]
        explained = {name, *SIGNS} if wrong.severity == BROKEN else {name}
        findings = [found for found in findings if found.known.id not in explained or not found.place]
        findings.append(Finding(known=wrong, detail=detail))
    return Examination(
        findings=tuple(worst_first(findings)),
        facts=(*_facts(seen, known), *(("bandwidth", f"{run.test} {summary(run)}".strip()) for run in runs)),
        looked_at=f"{seen.lines:,} line{'s' if seen.lines != 1 else ''}",
        unseen=tuple(seen.unread),
        runs=runs,
    )


def with_last_words(found: Examination, seen: Sightings, known: Known) -> Examination:
    """Return what was found in whole logs, with what these say by themselves of a failure.

    Where no finding gives a cause, the line at the end that says most stands for one. Beside findings stand the first
    one's line and a few more, if they say what no finding does.
    """
    found = _with_failure(found, seen, known)
    failed = [one for one in found.findings if one.known.severity == BROKEN or one.known.id == UNCLEAR]
    if not failed:
        return found
    kinds = [kind_of(one.detail) for one in found.findings]
    first = [(one.place, one.text) for one in failed[:1] if one.text and not is_told(one.text, kinds)]
    kinds += [kind_of(text) for _, text in first]
    more = quotes([*_before_tails(failed[0], seen), *seen.tails], kinds)
    return replace(found, quotes=(*first, *((words.place, words.text) for words in more)))


def _before_tails(finding: Finding, seen: Sightings) -> Iterator[Tail]:
    """Yield what stands around the line of a finding, where the end of its log does not have it."""
    sighting = seen.findings.get(finding.known.id)
    if sighting and sighting.around and sighting.around.offset < seen.tails[sighting.order[0] - 1].offset:
        yield sighting.around


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


def _runs(seen: Sightings, known: Known, reference: Sequence[Bandwidth], gpus: int, nodes: int) -> Iterator[Run]:
    """Yield each test of the network with its figures; where no line names the nodes, all GPUs of each are taken."""
    ranks = max([seen.rows.ranks, *(int(size) for size in seen.facts.get("ranks", ()) if size.isdecimal())])
    nodes = (
        int(_alternatives(seen)[0].get("nodes") or 0) or nodes or (ranks // gpus if gpus and ranks % gpus == 0 else 0)
    )
    shared: dict[str, Any] = {
        "nodes": nodes,
        "ranks": ranks,
        "network": " and ".join(sorted(seen.facts.get("network", ()))),
        "hosts": folded(seen.hosts),
        "facts": dict(fact for fact in _facts(seen, known) if fact[0] not in (known.facts[name].label for name in OWN)),
        "variables": dict(sorted(seen.variables.items())),
    }
    for test, rows in seen.rows.by_test.items():
        ordered = tuple(rows[size] for size in sorted(rows))
        yield Run(test=test, rows=ordered, figures=figures_for(reference, test, nodes), **shared)


def _shown(seen: Sightings, known: Known) -> dict[str, Sighting]:
    """Return the findings that hold and follow from no other one, by their ids; of fallbacks the first, if any.

    A fallback counts where nothing is broken, or only what was warned of.
    Where the run went on behind all that failed, WENT_ON stands for it. A rank that failed, and for which the others
    waited until the time limit, is named beside that.
    """
    alternatives = _alternatives(seen)
    holding = {
        name: known.findings[name]
        for name in seen.findings
        if name not in seen.refuted and any(known.findings[name].when.holds(facts) is True for facts in alternatives)
    }
    passed = [name for name in holding if _is_passed(holding[name], seen)]
    holding = {name: finding for name, finding in holding.items() if name not in passed}
    order = {name: seen.findings[name].order for name in holding}
    shown = [name for name in holding if not any(_hides(other, name, holding, order) for other in holding)]
    fallbacks = [name for name in shown if holding[name].fallback]
    causes = {name: seen.findings[name] for name in shown if not holding[name].fallback}
    broken = [
        name for name in causes if holding[name].severity == BROKEN and not _is_harmless(holding[name], causes[name])
    ]
    if broken == [TIME_LIMIT] and "exception" in fallbacks and order["exception"] < order[TIME_LIMIT]:
        return causes if seen.went_on("exception") else {**causes, "exception": seen.findings["exception"]}
    if broken:
        return causes
    if causes:  # a sign that is but a warning too says no more than they do
        fallbacks = [name for name in fallbacks if not _is_harmless(holding[name], seen.findings[name])]
    if fallbacks:
        first = min(fallbacks, key=lambda name: (order[name], name in SIGNS))
        return {**causes, first: seen.findings[first]}
    notes = [seen.findings[name] for name in passed if known.findings[name].fault != STALL]
    return {**causes, WENT_ON: min(notes, key=lambda sighting: sighting.order)} if notes else causes


def _as_warned(findings: list[Finding], shown: Mapping[str, Sighting], seen: Sightings) -> list[Finding]:
    """Return findings with those lowered to a risk that a program only warned of.

    They stay where the log shows that it failed, and no other one says why; what does not say why stands behind them.
    """
    broken = [one for one in findings if one.known.severity == BROKEN]
    warned = [one for one in broken if _is_harmless(one.known, shown[one.known.id])]
    if not warned:
        return findings
    others = [one for one in broken if one not in warned]
    last = last_words(seen.tails)
    if all(one.known.fallback for one in others) and (others or (last and last.is_last)):
        return [*(one for one in findings if one not in others), *others]
    return [replace(one, known=replace(one.known, severity=RISK)) if one in warned else one for one in findings]


def _is_harmless(known: KnownFinding, sighting: Sighting) -> bool:
    """Tell if all lines of a finding are but warnings, or less; that something waits is information too."""
    return sighting.level == WARNING or (sighting.level == INFORMATION and not known.fault and known.id not in ENDS)


def _is_passed(known: KnownFinding, seen: Sightings) -> bool:
    """Tell if a run went on, and well, behind what could have ended it.

    A shell goes on by itself behind a command that failed: there many lines of any kind say so.
    """
    if known.id in ENDS or not (known.fallback or known.severity == BROKEN):
        return False
    steps = ENOUGH if known.fallback and known.id != ENDED else MANY
    is_shell = known.id == FAILED or seen.words.has(seen.findings[known.id].text, "shell")
    went_on = seen.went_on(known.id, steps) or (is_shell and seen.goes_on(known.id))
    return went_on and seen.ends_well(known.id)


def _hides(other: str, name: str, holding: Mapping[str, KnownFinding], order: Mapping[str, tuple[int, int]]) -> bool:
    """Tell if a finding follows from another one; from a fallback a cause follows only if that came first."""
    if other not in holding[name].hidden_by:
        return False
    return holding[name].fallback or not holding[other].fallback or order[other] < order[name]


def _mendable(known: KnownFinding, alternatives: Sequence[Facts]) -> KnownFinding:
    """Return what is known of a finding without a workaround whose condition the log does not show."""
    remedy = known.workaround
    if remedy is None or any(remedy.when.holds(facts) is True for facts in alternatives):
        return known
    return replace(known, workaround=None)


def _finding(known: KnownFinding, sighting: Sighting, seen: Sightings) -> Finding:
    details = sorted(sighting.details, key=lambda detail: -sighting.details[detail])
    details = [one for one in details if not any(one != other and one in other for other in details)]
    detail = ", ".join(" ".join(one.split()) for one in details[:3])
    is_generic = known.id in SIGNS
    if known.id == WATCHDOG:
        detail = _watchdog_detail(sighting, seen)
    elif is_generic:
        detail = _first_to_fail(sighting)
    elif known.severity == BROKEN:
        detail = detail or seen.words.without_label(sighting.text)
    return Finding(
        known=known,
        detail=detail,
        place=sighting.place,
        text=sighting.text,
        count=sighting.count,
        nodes=frozenset() if is_generic else frozenset(sighting.nodes),
        ranks=frozenset() if is_generic else frozenset(sighting.ranks),
    )


def _first_to_fail(sighting: Sighting) -> str:
    """Return who ended first and with what, and whether others followed."""
    who = f"rank {sighting.rank}" if sighting.rank is not None else "the run"
    where = f" on {sighting.node}" if sighting.node else ""
    others = sighting.ranks - {sighting.rank}
    then = f"; then rank {ranges(others)}" if others else ""
    return f"{who}{where} failed first, with: {' '.join((sighting.detail or sighting.text).split())}{then}"


def _watchdog_detail(sighting: Sighting, seen: Sightings) -> str:
    """Return the collective, and who is behind: ranks that began fewer, else those that did not wait with others."""
    parts = sorted(seen.collectives, key=lambda name: -seen.collectives[name])[:3]
    world = max((int(size) for size in seen.facts.get("ranks", ()) if size.isdecimal()), default=0)
    late = seen.behind()
    if late:
        parts.append(f"rank {ranges(late)} is behind")
    elif sighting.ranks and max(sighting.ranks) < world <= 1_000_000 and len(sighting.ranks) < world:
        absent = set(range(world)) - sighting.ranks
        parts.append(f"rank {ranges(absent)} of {world} did not wait there")
    return ", ".join(parts)


def _alternatives(seen: Sightings) -> list[Facts]:
    """Return the facts as conditions ask for them: one set for each network that was used.

    nodes: the largest communicator's, else the number of nodes that NCCL printed from.
    """
    shared: dict[str, str | None] = {}
    for name, values in seen.facts.items():
        if len(values) == 1:
            shared[name] = next(iter(values))
    counts = [int(value) for name in COUNTS for value in seen.facts.get(name, ()) if value.isdecimal()]
    if counts or seen.hosts:
        shared["nodes"] = str(max([*counts, len(seen.hosts)]))
    networks = seen.facts.get("network") or {}
    return [{**shared, "network": value} for value in networks] or [shared]


def _facts(seen: Sightings, known: Known) -> Iterator[tuple[str, str]]:
    """Yield each fact that is shown with its values, and the nodes of each if the nodes differ."""
    for name, fact in known.facts.items():
        values: Mapping[str, set[str]] = seen.facts.get(name) or {}
        if fact.label and values:
            parts = [f"{value} on {folded(nodes)}" if nodes else value for value, nodes in sorted(values.items())]
            yield fact.label, "; ".join(parts if len(parts) > 1 else values)
    if len(seen.facts.get("network", ())) and "gpudirect" not in seen.facts:
        yield known.facts["gpudirect"].label, "not seen"
