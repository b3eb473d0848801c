"""Diagnosis of logs from their matching lines, which selects the findings that apply and the facts about the run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from uenvtool.doctor.finding import Examination, Finding, worst_first
from uenvtool.doctor.log.classifier import INFORMATION, LONG, PLAIN, WARNING, LineClassifier
from uenvtool.doctor.log.sightings import MOST_RUNS, Sighting, Sightings
from uenvtool.doctor.log.tail import ENOUGH, Tail, decisive_line, is_shown, kind_of, quotes, warnings
from uenvtool.doctor.network import Run, faults, figures_for, summary
from uenvtool.doctor.nodes import brief_nodes, brief_ranks, folded
from uenvtool.knowledge.condition import Condition, Facts
from uenvtool.knowledge.finding import BROKEN, RISK, SLOW, STALL, STOPPED, Known, KnownFinding
from uenvtool.knowledge.reference import Reference

WATCHDOG = "watchdog-timeout"
"""The finding whose detail names the ranks that began fewer collectives than other ranks."""
EXCEPTION, FAILED, ENDED = SIGNS = ("exception", "failed", "ended")
"""The general findings whose detail names the first rank that failed, from most to least informative."""
UNREACHABLE = "nccl-unreachable"
"""The finding for a connection that failed. A rank that waits for it may do so until the job is stopped."""
UNCLEAR, WENT_ON, NO_END, EARLIER = "unclear", "went-on", "no-end", "earlier-runs"
RUN_FIELDS = ("network", "nodes", "ranks")
"""The facts that are fields of a Run."""
COUNTS = ("nodes", "nodes-at-least")
"""The facts that give the number of nodes."""


def examined(
    seen: Sightings, known: Known, reference: Sequence[Reference] = (), gpus_per_node: int = 0, nodes: int = 0
) -> Examination:
    """Return the facts and the findings, sorted by severity, then problems that ended the run first, then by line.

    reference: the figures that the network tests should reach.
    nodes: the number of nodes of the job, used if the log does not show it.
    """
    alternatives = _alternatives(seen)
    candidates = sorted(_selected(seen, known, alternatives), key=lambda candidate: candidate.precedence)
    log_findings = [_finding(_applicable(each.known, alternatives), each.sighting, seen) for each in candidates]
    warned = [candidate.known.id for candidate in candidates if candidate.is_only_warning]
    findings = _with_lowered_warnings(log_findings, warned, seen)
    facts = dict(_facts(seen, known))
    run_labels = [known.facts[name].label for name in RUN_FIELDS]
    others = {name: facts[name] for name in facts if name not in run_labels}
    runs = tuple(_runs(seen, others, reference, gpus_per_node, int(alternatives[0].get("nodes") or 0) or nodes))
    for name, detail in (fault for run in runs for fault in faults(run)):
        entry = known.findings[name]
        if {finding.known.id for finding in findings} & {*entry.hidden_by}:
            continue
        explained = {name, *SIGNS} if entry.severity == BROKEN else {name}
        findings = [finding for finding in findings if finding.known.id not in explained or not finding.place]
        findings.append(Finding(known=entry, detail=detail))
    findings += _earlier_failures(seen, known, findings)
    return Examination(
        findings=tuple(worst_first(findings)),
        facts=(*facts.items(), *(("bandwidth", f"{run.test} {summary(run)}".strip()) for run in runs)),
        looked_at=f"{seen.lines:,} line{'s' if seen.lines != 1 else ''}",
        unseen=(*seen.unread, *_unseen(seen)),
        runs=runs,
    )


def _earlier_failures(seen: Sightings, known: Known, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield one finding for the earlier runs in the logs that failed in another way, with the last such failure."""
    examinations = [with_quotes(examined(run, known), run, known) for run in seen.earlier]
    kinds = [(finding.known.id, kind_of(finding.detail)) for finding in findings]
    firsts = [examination.findings[0] for examination in examinations if examination.findings]
    failures = [first for first in firsts if first.known.severity == BROKEN]
    others = [failure for failure in failures if (failure.known.id, kind_of(failure.detail)) not in kinds]
    if others:
        last, alike = others[-1], len(failures) - len(others)
        total = f"{'the last ' if len(examinations) >= MOST_RUNS else ''}{len(examinations)}"
        number = f"{len(failures)} of {total}" + (f" ({alike} like the last run)" if alike else "")
        detail = f"{number}, the last {'other ' * bool(alike)}one with {last.known.id}: {last.detail}"
        yield Finding(known=known.findings[EARLIER], detail=detail, place=last.place, text=last.text)


def with_end(examination: Examination, seen: Sightings, known: Known) -> Examination:
    """Return the diagnosis of logs that no process writes any more, with a finding if a log stops without an end."""
    last_lines = [tail.last_line() for tail in seen.tails.values()]
    has_failed = any(finding.known.severity == BROKEN for finding in examination.findings)
    if has_failed or None in last_lines:
        return examination
    unended = [line for line, is_open in filter(None, last_lines) if is_open]
    if not unended:
        return replace(examination, has_end=False)
    last = seen.classifier.without_label(unended[-1].text)
    added = Finding(known=known.findings[NO_END], detail=f"last: {last}", place=unended[-1].place)
    others = (finding for finding in examination.findings if finding.known.id != UNCLEAR)
    return replace(examination, findings=tuple(worst_first([added, *others])))


def with_quotes(examination: Examination, seen: Sightings, known: Known) -> Examination:
    """Return the diagnosis of complete logs with quoted lines that describe a failure, or else with warnings.

    If no finding explains a failure, the decisive line at the end of a log becomes a finding. The quotes are the line
    of the first finding, and a few lines that no finding contains.
    """
    examination = _with_failure(examination, seen, known)
    if not examination.findings and not examination.runs:
        error = decisive_line(seen.tails.values())  # before the end of the run
        lines = [*([error] if error else []), *warnings(seen.tails.values())]
        places = {each.place: each.text for each in lines}
        return replace(examination, quotes=tuple(places.items()))
    failed = [
        finding for finding in examination.findings if finding.known.severity == BROKEN or finding.known.id == UNCLEAR
    ]
    if not failed:
        return examination
    kinds = [kind_of(finding.detail) for finding in examination.findings]
    is_new = failed[0].text and not is_shown(failed[0].text, kinds)
    first = [(failed[0].place, failed[0].text)] if is_new else []
    sighting = seen.findings.get(failed[0].known.id)
    if sighting and failed[0].known.fault == STOPPED:
        number, offset = next(iter(sighting.last.items()))
        if repeated := seen.tails[number].repeated_before(offset):
            first = [(repeated.place, repeated.text), *first]
    kinds += [kind_of(text) for _, text in first]
    around = sighting.first.around if sighting else None
    is_before_tail = around and sighting and around.offset < seen.tails[sighting.first.order[0]].offset
    ended = seen.findings.get(ENDED)
    if ended and ended.first.around and failed[0].known.id in (FAILED, ENDED):
        last = ended.first.around.printed_before(ended.first.order[1])  # often the cause, in an unknown message
        first = [*((line.place, line.text) for line in last if not is_shown(line.text, kinds)), *first]
        kinds += [kind_of(line.text) for line in last]
    tails = [*([around] if around and is_before_tail else []), *seen.tails.values()]
    more = quotes(tails, kinds, failed[0].place, is_stop=failed[0].known.fault == STOPPED)
    places = dict(first)  # a long line may be quoted twice with different parts
    quoted = (*first, *((line.place, line.text) for line in more if line.place not in places))
    return replace(examination, quotes=quoted)


def _with_failure(examination: Examination, seen: Sightings, known: Known) -> Examination:
    """Return the diagnosis with a finding for the decisive line of a log, if no finding explains the failure.

    The new finding replaces a FAILED or ENDED finding that is less informative. Its ID is FAILED if the line ends the
    run, and UNCLEAR if the line may be harmless.
    """
    broken = [finding for finding in examination.findings if finding.known.severity == BROKEN]
    if any(
        finding.known.id not in (FAILED, ENDED) or seen.classifier.weight(finding.detail) >= PLAIN for finding in broken
    ):
        return examination
    went_on = any(finding.known.id == WENT_ON for finding in examination.findings)
    last = None if went_on else decisive_line(seen.tails.values())
    least = PLAIN if any(finding.known.id == FAILED for finding in broken) else PLAIN - 1
    if last is None or (broken and last.weight <= least):
        return examination
    name = FAILED if broken or last.is_last else UNCLEAR
    if name == UNCLEAR and None in [tail.last_line() for tail in seen.tails.values()]:
        return examination
    added = Finding(known=known.findings[name], detail=last.text, place=last.place, advice=last.advice)
    others = (finding for finding in examination.findings if finding not in broken)
    return replace(examination, findings=tuple(worst_first([added, *others])))


def _runs(
    seen: Sightings, facts: Mapping[str, str], reference: Sequence[Reference], gpus_per_node: int, nodes: int
) -> Iterator[Run]:
    """Yield each network test with its figures. If `nodes` is 0, the test is assumed to use all GPUs of each node."""
    ranks = max([seen.rows.ranks, *seen.numbers("ranks")])
    nodes = nodes or (ranks // gpus_per_node if gpus_per_node and ranks % gpus_per_node == 0 else 0)
    shared: dict[str, Any] = {"nodes": nodes, "ranks": ranks, "hosts": folded(seen.hosts), "facts": facts}
    shared["network"] = " and ".join(sorted(seen.facts.get("network", ())))
    shared["variables"] = dict(sorted(seen.variables.items()))
    for test, rows in seen.rows.by_test.items():
        ordered = tuple(rows[size] for size in sorted(rows))
        yield Run(test=test, rows=ordered, figures=figures_for(reference, test, nodes), **shared)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidate:
    """A finding that lines of the log match and whose condition holds.

    order: the numbers of the log and the line that show the finding first.
    ends: for each log with the finding, the end of the log and the offset of the finding's last line.
    """

    known: KnownFinding
    sighting: Sighting
    order: tuple[int, int]
    ends: Sequence[tuple[Tail, int]]

    @property
    def is_only_warning(self) -> bool:
        """Return whether all lines are warnings or information. For a stall, such lines also show a failure."""
        level, known = self.sighting.level, self.known
        return (level == WARNING and known.fault != STALL) or (
            level == INFORMATION and not known.fault and not known.ends
        )

    def went_on(self, steps: int = ENOUGH) -> bool:
        """Return whether the run printed at least `steps` progress lines after the finding."""
        return all(tail.has_progress_after(offset, steps) for tail, offset in self.ends)

    def is_survived(self, classifier: LineClassifier) -> bool:
        """Return whether the run continued after a problem that could have ended it.

        A shell continues after an error, so many lines of any kind after its error message show this. If it could not
        load a module, the results of a program are enough.
        """
        known = self.known
        if not (known.fallback or known.severity == BROKEN):
            return False
        first = self.order[1]
        if known.fault != STOPPED and all(tail.is_caught_each_time(first, offset) for tail, offset in self.ends):
            return True
        if known.ends:
            return False
        is_shell = known.id == FAILED or classifier.has(self.sighting.first.text, "shell")
        is_weak = (known.fallback and known.id != ENDED) or self.is_only_warning
        went_on = self.went_on(ENOUGH if is_weak else LONG)
        went_on = went_on or (is_shell and all(tail.has_output_after(offset) for tail, offset in self.ends))
        is_loading = is_shell and known.fallback and known.severity == BROKEN
        went_on = went_on or (is_loading and all(tail.has_results_after(offset) for tail, offset in self.ends))
        return went_on and not any(tail.decisive_line(offset) for tail, offset in self.ends)

    def is_hidden_by(self, other: _Candidate) -> bool:
        """Return whether another finding explains this finding. A fallback explains only what follows it in the log.

        If the run was stopped from outside, later failures follow from it, unless Slurm names one as the cause.
        """
        is_later = other.order < self.order
        if STOPPED in (other.known.fault, self.known.fault) and other.known.fault != self.known.fault:
            is_same_log = other.order[0] == self.order[0]  # the order of lines in several logs is unknown
            if other.known.fault == STOPPED and is_later and is_same_log and not other.went_on(LONG):
                is_reason = bool(self.known.state) or (
                    self.known.id in other.known.hidden_by and not self.known.fallback
                )
                return self.known.severity == BROKEN and not is_reason
            if other.known.fallback and not is_later:
                return False
        if other.known.id not in self.known.hidden_by or (other.known.fallback and other.went_on(LONG)):
            return False
        return self.known.fallback or not other.known.fallback or other.order < self.order

    @property
    def explains_stop(self) -> bool:
        """Return whether the problem can be the reason for which somebody stopped the run, or for its time limit."""
        is_stuck = self.known.fault == STALL or self.known.id in (EXCEPTION, UNREACHABLE)
        return self.known.severity == SLOW or (is_stuck and not self.went_on())

    @property
    def precedence(self) -> tuple[bool, tuple[int, int]]:
        """Return a sort key: findings in log order, with those that the run survived at the end."""
        return not self.known.ends and self.went_on(LONG), self.order


def _selected(seen: Sightings, known: Known, alternatives: Sequence[Facts]) -> list[_Candidate]:
    """Return the findings that hold and that no other finding explains, with at most one fallback.

    A fallback is returned only if there is no BROKEN finding except for warnings. If the run survived or caught all
    failures, WENT_ON replaces them. If the run was stopped from outside, the problems before that are returned too.
    """
    survived: list[_Candidate] = []
    holding: list[_Candidate] = []
    for candidate in _candidates(seen.findings, seen, known, alternatives):
        (survived if candidate.is_survived(seen.classifier) else holding).append(candidate)
    caught = list(_candidates(seen.caught, seen, known, alternatives))
    if not any(each.known.severity == BROKEN and each.known.id != ENDED for each in holding):
        # a process or the log ended with an error, so the error before it was not caught
        has_failed = bool(holding) or any(tail.ends_with_failure for tail in seen.tails.values())
        holding += [each for each in caught if has_failed and not each.went_on()]
    stop_lines = {each.order for each in holding if each.known.fault == STOPPED}
    holding = [each for each in holding if each.known.id != ENDED or each.order not in stop_lines]
    stops = [each for each in holding if each.known.fault == STOPPED]  # what follows from a stop explains nothing
    holding = [candidate for candidate in holding if not any(map(candidate.is_hidden_by, stops))]
    unexplained = [candidate for candidate in holding if not any(map(candidate.is_hidden_by, holding))]
    fallbacks = [candidate for candidate in unexplained if candidate.known.fallback]
    causes = [candidate for candidate in unexplained if not candidate.known.fallback]
    broken = [cause for cause in causes if cause.known.severity == BROKEN and not cause.is_only_warning]
    stops = [each for each in [*broken, *fallbacks] if each.known.fault == STOPPED]
    if stops and all(cause in stops for cause in broken):
        stop = min(stops, key=lambda each: each.order)
        before = [each for each in [*fallbacks, *survived] if each.known.fallback and each.order < stop.order]
        causes += [
            replace(each, known=replace(each.known, severity=BROKEN, ends=True))
            for each in before
            if each.explains_stop
        ]
        causes += [] if stop in causes else [stop]
        return causes
    if broken:
        return causes
    if causes:  # a fallback that is also only a warning adds nothing to them
        fallbacks = [fallback for fallback in fallbacks if not fallback.is_only_warning]
    notes = [*(candidate for candidate in survived if candidate.known.fault != STALL), *caught]
    notes = [note for note in notes if not note.is_only_warning or (note.sighting.details and not note.known.fallback)]
    if fallbacks:
        causes.append(min(fallbacks, key=lambda fallback: (fallback.precedence, fallback.known.id in SIGNS)))
    elif notes:
        causes.append(replace(min(notes, key=lambda note: note.order), known=known.findings[WENT_ON]))
    return causes


def _candidates(
    sightings: Mapping[str, Sighting], seen: Sightings, known: Known, alternatives: Sequence[Facts]
) -> Iterator[_Candidate]:
    for name, sighting in sightings.items():
        if name not in seen.refuted and _holds(known.findings[name].when, alternatives):
            ends = [(seen.tails[log], offset) for log, offset in sighting.last.items()]
            yield _Candidate(known=known.findings[name], sighting=sighting, order=sighting.first.order, ends=ends)


def _with_lowered_warnings(findings: list[Finding], warned: Collection[str], seen: Sightings) -> list[Finding]:
    """Return the findings, with severity RISK for problems about which a program only warned.

    If only such a problem can explain a failure in the log, it keeps its severity and precedes the general findings.
    """
    broken = [finding for finding in findings if finding.known.severity == BROKEN]
    others = [finding for finding in broken if finding.known.id not in warned]
    has_exception = any(finding.known.id == EXCEPTION for finding in others)
    if len(others) == len(broken):
        return findings
    last = decisive_line(seen.tails.values())
    is_failed = bool(others) or (last is not None and last.is_last)
    is_weak = all(finding.known.fallback and finding.known.fault != STOPPED for finding in others)
    if is_weak and not has_exception and is_failed:
        return [*(finding for finding in findings if finding not in others), *others]
    lowered = [finding for finding in broken if finding not in others]
    return [
        replace(finding, known=replace(finding.known, severity=RISK)) if finding in lowered else finding
        for finding in findings
    ]


def _holds(when: Condition, alternatives: Sequence[Facts]) -> bool:
    return any(when.holds(facts) is True for facts in alternatives)


def _applicable(known: KnownFinding, alternatives: Sequence[Facts]) -> KnownFinding:
    applies = known.workaround is None or _holds(known.workaround.when, alternatives)
    return known if applies else replace(known, workaround=None)


def _finding(known: KnownFinding, sighting: Sighting, seen: Sightings) -> Finding:
    first, details = sighting.first, sorted(sighting.details, key=lambda detail: -sighting.details[detail])
    details = [text for text in details if not any(text != other and text in other for other in details)]
    detail = ", ".join(" ".join(text.split()) for text in details[:3])
    is_generic = known.id in SIGNS
    if known.id == WATCHDOG:
        detail = _watchdog_detail(sighting, seen)
    elif is_generic:
        detail = _first_to_fail(sighting)
    elif known.severity == BROKEN or known.id == WENT_ON:
        detail = detail or seen.classifier.without_label(first.text)
    advice = first.around.advice(first.order[1]) if first.around and known.severity == BROKEN else ""
    if first.fix or first.command:
        known = replace(known, fix=first.fix or known.fix, command=first.command, workaround=None)
    return Finding(
        known=known,
        detail=detail,
        place=first.place,
        text=first.text,
        advice=advice,
        count=sighting.count,
        nodes=frozenset() if is_generic else frozenset(sighting.nodes),
        ranks=frozenset() if is_generic else frozenset(sighting.ranks),
    )


def _first_to_fail(sighting: Sighting) -> str:
    first, others = sighting.first, sighting.ranks - {sighting.first.rank}
    text = " ".join((first.detail or first.text).split())
    who = f"rank {first.rank}" if first.rank is not None else "the run"
    where = f" on {first.node}" if first.node else ""
    then = f"; then rank {brief_ranks(others)}" if others else ""
    is_first = where or then or first.rank is not None
    return f"{who}{where} failed first, with: {text}{then}" if is_first else text


def _watchdog_detail(sighting: Sighting, seen: Sightings) -> str:
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
            yield f"more lines of {name}: only the first {sighting.count:,} were examined"


def _alternatives(seen: Sightings) -> list[Facts]:
    """Return the facts for conditions, once for each network that NCCL used.

    The fact `nodes` is the size of the largest communicator, but at least the number of nodes that printed NCCL lines.
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
