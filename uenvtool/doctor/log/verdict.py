"""What the lines of a log come to: the findings that hold, and what the run used on which nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from uenvtool.doctor.finding import Examination, Finding, worst_first
from uenvtool.doctor.log.sightings import Sighting, Sightings
from uenvtool.doctor.nodes import folded, ranges
from uenvtool.doctor.secrets import without_secrets
from uenvtool.knowledge.condition import Condition, Facts
from uenvtool.knowledge.finding import Known, KnownFinding

WATCHDOG = "watchdog-timeout"


def examined(seen: Sightings, known: Known) -> Examination:
    """The findings of what was seen, worst first, and the facts."""
    alternatives = _alternatives(seen)
    holding = {
        name: sighting
        for name, sighting in seen.findings.items()
        if name not in seen.refuted and _can_hold(known.findings[name].when, alternatives)
    }
    shown = [
        _finding(known.findings[name], sighting, seen)
        for name, sighting in holding.items()
        if not holding.keys() & set(known.findings[name].hidden_by)
    ]
    return Examination(findings=tuple(worst_first(shown)), facts=tuple(_facts(seen, known)), unseen=tuple(seen.unread))


def _finding(known: KnownFinding, sighting: Sighting, seen: Sightings) -> Finding:
    detail = _watchdog_detail(sighting, seen) if known.id == WATCHDOG else ", ".join(_details(sighting))
    return Finding(
        known=known,
        detail=without_secrets(detail),
        place=f"{sighting.place}:{sighting.line}",
        text=sighting.text,
        count=sighting.count,
        nodes=frozenset(sighting.nodes),
        ranks=frozenset(sighting.ranks),
    )


def _details(sighting: Sighting) -> Iterable[str]:
    """The details, the most frequent first; three of them at most."""
    return [
        " ".join(text.split()) for text in sorted(sighting.details, key=lambda detail: -sighting.details[detail])[:3]
    ]


def _watchdog_detail(sighting: Sighting, seen: Sightings) -> str:
    """The collective, and who is behind: ranks that began fewer, else those that did not wait with the others."""
    parts = sorted(seen.collectives, key=lambda name: -seen.collectives[name])[:3]
    world = max((int(size) for size in seen.facts.get("ranks", ()) if size.isdecimal()), default=0)
    late = seen.progress.behind()
    if late:
        parts.append(f"rank {ranges(late)} is behind")
    elif sighting.ranks and max(sighting.ranks) < world <= 1_000_000 and len(sighting.ranks) < world:
        absent = set(range(world)) - sighting.ranks
        parts.append(f"rank {ranges(absent)} of {world} did not wait there")
    return ", ".join(parts)


def _can_hold(when: Condition, alternatives: list[Facts]) -> bool:
    """Tell if a condition holds with any of the facts; what is not known counts as true."""
    return any(when.holds(facts) is not False for facts in alternatives)


def _alternatives(seen: Sightings) -> list[Facts]:
    """The facts as conditions ask for them: one set for each network that was used.

    nodes: the largest communicator's, else the number of nodes that NCCL printed from.
    """
    shared: dict[str, str | None] = {}
    for name, values in seen.facts.items():
        if len(values) == 1:
            shared[name] = next(iter(values))
    counts = [int(value) for value in seen.facts.get("nodes", ()) if value.isdecimal()]
    if counts or seen.hosts:
        shared["nodes"] = str(max([*counts, len(seen.hosts)]))
    networks = seen.facts.get("network") or {}
    return [{**shared, "network": value} for value in networks] or [shared]


def _facts(seen: Sightings, known: Known) -> Iterator[tuple[str, str]]:
    """Each fact that is shown with its values, and the nodes of each if the nodes differ."""
    for name, fact in known.facts.items():
        values = seen.facts.get(name)
        if fact.label and values:
            yield fact.label, "; ".join(_value(value, nodes, len(values)) for value, nodes in sorted(values.items()))
    if len(seen.facts.get("network", ())) and "gpudirect" not in seen.facts:
        yield known.facts["gpudirect"].label, "not seen"


def _value(value: str, nodes: set[str], count: int) -> str:
    return f"{value} on {folded(nodes)}" if nodes and count > 1 else value
