"""Applies the rules to the parts of a batch script or EDF, and returns the problems and their fixes."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from textwrap import shorten

from uenvtool.check.context import Context
from uenvtool.check.edf import read_edf
from uenvtool.check.finders import FINDERS
from uenvtool.check.parts import OUTER, CheckedFile, Hit, Lines, Part, at, lines_of
from uenvtool.check.script import read_script
from uenvtool.core.errors import Position
from uenvtool.knowledge.rule import HINT, LINES, WARNING, Look, Rule
from uenvtool.knowledge.secrets import HIDDEN

IGNORE = "uenvtool: ignore"
_MEANT = re.compile(r"[ \t]*#.*(?i:\b(do not|don'?t) (remove|delete|change|unset)\b)")
"""A comment that asks to keep a line, such as a site's workaround. check reports a problem in this line as a hint."""
_IGNORED = re.compile(r"uenvtool: ignore[= ]([a-z0-9-]+(?:[ ,]+[a-z0-9-]+)*)")
_EDF = re.compile(r"^[ \t]*(image|base_environment)[ \t]*=", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A problem in a file.

    severity: the rule's severity, or HINT if check does not know whether the rule applies.
    line: the text of the line with the problem.
    width: the number of matched characters in the line.
    fix: a line to paste, or an instruction.
    detail, edits: as in Hit.
    """

    rule: Rule
    severity: str
    position: Position
    line: str
    width: int
    fix: str
    detail: str = ""
    edits: tuple[tuple[int, int, str], ...] = ()

    @property
    def sentence(self) -> str:
        return f"{self.rule.what}: {self.detail}" if self.detail else self.rule.what

    @property
    def named(self) -> str:
        """Return the detail or the matched text, but no secret, for output that does not show the line."""
        start = self.position.column - 1
        matched_text = "" if self.rule.secret or self.rule.missing else self.line[start : start + self.width]
        return self.detail or shorten(matched_text, 60, placeholder=" ...")

    def data(self) -> dict[str, object]:
        """Return the problem for `--json`."""
        return {
            "file": self.position.file,
            "line": self.position.line,
            "column": self.position.column,
            "end_column": self.position.column + self.width,
            "rule": self.rule.id,
            "severity": self.severity,
            "what": self.rule.what,
            "detail": self.detail or None,
            "cost": self.rule.cost,
            "fix": self.fix,
            "fixable": bool(self.edits),
            "source": self.rule.source,
            "page": self.rule.page or None,
        }


def read_source(text: str, shown: str) -> CheckedFile:
    """Parse a file as an EDF if its suffix is `.toml` or its content looks like one, or else as a batch script."""
    looks_like_edf = not text.startswith("#!") and "#SBATCH" not in text and _EDF.search(text) is not None
    is_edf = PurePath(shown).suffix == ".toml" or looks_like_edf
    return read_edf(text.replace("\r\n", "\n"), shown) if is_edf else read_script(text, shown)


def problems_of(context: Context, rules: Iterable[Rule]) -> list[Problem]:
    """Return the problems in a file by position. `# uenvtool: ignore=RULE` disables the problems of a rule."""
    source = context.source
    hits = [
        (rule, hit)
        for rule in rules
        if not rule.for_ or rule.for_ & source.kinds
        for hit in itertools.islice(_of_rule(rule, context), 1 if rule.once else None)
    ]
    lines = lines_of(source.text)
    ignored = _ignored(source.text)
    problems = _without_overlaps(_problem(rule, hit, lines, context) for rule, hit in hits)
    return [problem for problem in problems if not {problem.rule.id, "all"} & ignored.get(problem.position.line, set())]


def _without_overlaps(problems: Iterable[Problem]) -> list[Problem]:
    """Sort problems by their position. If two problems of one rule overlap, return only the first of them."""
    ends: dict[tuple[str, int], int] = {}
    kept = []
    for problem in sorted(problems, key=lambda problem: (problem.position, problem.rule.id)):
        place = (problem.rule.id, problem.position.line)
        if problem.position.column >= ends.get(place, 0):
            ends[place] = problem.position.column + problem.width
            kept.append(problem)
    return kept


def _problem(rule: Rule, hit: Hit, lines: Lines, context: Context) -> Problem:
    line, column = lines(hit.offset)
    text = lines.line(line)
    holds = rule.when.holds(context.facts) if rule.when.terms else True
    edits = hit.edits or _edits(rule, hit.offset, hit.end, context.source.text)
    above = lines.line(line - 1) if line > 1 else ""
    is_meant = bool(_MEANT.search(text) or _MEANT.match(above)) and rule.severity == WARNING
    severity = rule.severity if holds and hit.is_certain and not is_meant else HINT
    edited = _edited_line(context.source.text, edits, hit.offset) if edits and not rule.secret else ""
    fix = edited if edited not in ("", text.strip()) else hit.fix or rule.fix
    return Problem(
        rule=rule,
        severity=severity,
        position=Position(context.source.shown, line, column),
        line=text,
        width=max(min(hit.end - hit.offset, len(text) - column + 1), 1),
        fix=fix,
        detail=hit.detail.replace(OUTER, "$"),
        edits=edits,
    )


def secrets(text: str, problems: Iterable[Problem]) -> set[str]:
    """Return the secrets in a file: the value of `NAME=VALUE`, or the last word, in the text that a problem marks."""
    lines = lines_of(text)
    marked = [
        lines.line(problem.position.line)[problem.position.column - 1 :][: problem.width]
        for problem in problems
        if problem.rule.secret
    ]
    values = {re.split(r"[=\s]", excerpt.rstrip("\"'"))[-1].strip("\"'") for excerpt in marked}
    return {value for value in values if len(value) >= 8}


def hider(hidden: Collection[str]) -> Callable[[str], str]:
    """Return a function that returns its text with each secret replaced by HIDDEN, in one pass for all secrets."""
    from ahocorasick_rs import AhoCorasick, MatchKind

    automaton = AhoCorasick(hidden, matchkind=MatchKind.LeftmostLongest) if hidden else None

    def hide(text: str) -> str:
        position = 0
        new: list[str] = []
        for _, start, end in automaton.find_matches_as_indexes(text) if automaton else ():
            new += (text[position:start], HIDDEN)
            position = end
        return "".join(new) + text[position:]

    return hide


def without_secrets(text: str, problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems in a file with the file's secrets hidden."""
    problems = list(problems)
    hide = hider(secrets(text, problems))

    def without(problem: Problem) -> Problem:
        line, fix, detail = map(hide, (problem.line, problem.fix, problem.detail))
        return replace(problem, line=line, fix=fix, detail=detail)

    return [without(problem) for problem in problems]


def fixed(text: str, problems: Iterable[Problem]) -> str:
    """Return a script with the edits of its problems. Of overlapping edits, only the first is applied."""
    position = 0
    new: list[str] = []
    for start, end, replacement in _applied_edits(problems):
        new += (text[position:start], replacement)
        position = end
    return "".join(new) + text[position:]


def _applied_edits(problems: Iterable[Problem]) -> Iterator[tuple[int, int, str]]:
    position = 0
    for edit in sorted({edit for problem in problems for edit in problem.edits}):
        if edit[0] >= position:
            yield edit
            position = edit[1]


def with_working_edits(
    text: str, problems: Sequence[Problem], recheck: Callable[[str, Iterable[Rule]], Iterable[Problem]]
) -> list[Problem]:
    """Return the problems in a file, without the edits that do not remove their problem.

    recheck: a function that applies rules to the edited text and returns the problems.
    """
    rules = {problem.rule.id: problem.rule for problem in problems if problem.edits}
    if not rules:
        return list(problems)
    remaining = {(problem.rule.id, problem.position.line) for problem in recheck(fixed(text, problems), rules.values())}
    starts = lines_of(text).starts
    moving = [edit for edit in _applied_edits(problems) if "\n" in edit[2] or "\n" in text[edit[0] : edit[1]]]

    def edited_line(line: int) -> int:
        above = starts[line - 1]
        moved = (
            new.count("\n") - text.count("\n", start, min(end, above)) for start, end, new in moving if start < above
        )
        return line + sum(moved)

    return [
        replace(problem, edits=(), fix=problem.rule.fix)
        if problem.edits and (problem.rule.id, edited_line(problem.position.line)) in remaining
        else problem
        for problem in problems
    ]


def _edits(rule: Rule, start: int, end: int, text: str) -> tuple[tuple[int, int, str], ...]:
    matches = [(match, rule.edit.replace) for match in rule.edit.find.finditer(text[start:end])] if rule.edit else []
    return tuple((start + match.start(), start + match.end(), match.expand(new)) for match, new in matches)


def _edited_line(text: str, edits: Sequence[tuple[int, int, str]], offset: int) -> str:
    start, end = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
    line = text[start : end if end >= 0 else len(text)]
    for begin, stop, new in sorted(edits, reverse=True):
        if start <= begin and stop <= start + len(line):
            line = line[: begin - start] + new + line[stop - start :]
    return line.strip()


def _of_rule(rule: Rule, context: Context) -> Iterator[Hit]:
    if rule.when.terms and rule.when.holds(context.facts) is False:
        return
    if not all(_has(look, context) for look in rule.with_) or any(_has(look, context) for look in rule.without):
        return
    is_unsure = any(_has(look, context) for look in rule.unsure)
    for hit in _hits(rule, context):
        yield replace(hit, is_certain=False) if is_unsure else hit


def _has(look: Look, context: Context) -> bool:
    return next(_matching(look, context), None) is not None


def _hits(rule: Rule, context: Context) -> Iterator[Hit]:
    if rule.finder:
        yield from FINDERS[rule.finder](context)
    if rule.missing:
        if not any(_has(look, context) for look in rule.missing):
            yield at(next(_matching(rule.with_[0], context)))
    else:
        parts = [(part, look) for look in rule.look for part in _matching(look, context)]
        starts = sorted(part.offset for part, _ in parts)
        for part, look in parts:
            if not _starts_another_match(part, starts):
                yield _matched(part, look, rule, context)


def _matched(part: Part, look: Look, rule: Rule, context: Context) -> Hit:
    """Return a hit for the match in a line, for the first group of a `raw` pattern, or for the whole part."""
    start, end = part.offset, part.end
    in_line = look.name.search(part.text) if part.kind == "line" else None
    raw = look.raw.search(context.source.text[start:end]) if look.raw else None
    if in_line:
        start, end = start + in_line.start(), start + in_line.end()
    elif raw and raw.lastindex:
        start, end = start + raw.start(1), start + raw.end(1)
    facts = {"name": part.name, "text": part.text, "found": context.source.text[start:end]}
    detail = look.detail.format_map({**context.facts_of(part), **facts}) if "{" in look.detail else look.detail
    edits = _edits(rule, part.offset, part.end, context.source.text) if raw else ()
    return Hit(offset=start, end=end, detail=detail, fix=look.fix, edits=edits, is_certain=look.certain)


def _matching(look: Look, context: Context) -> Iterator[Part]:
    text, raw = (look.name if look.kind in LINES else look.value), look.raw
    parts = context.parts(look.kind) if look.kind in LINES else context.named(look.kind, look.name)
    if not parts or not context.may_match(look.kind, text, raw):
        return
    if not all(_has(other, context) for other in look.beside) or any(_has(other, context) for other in look.apart):
        return
    firsts = [next(_matching(other, context), None) for other in look.after]
    for part in parts:
        if (
            look.scope in ("", part.scope)
            and all(first and first.offset < part.offset for first in firsts)
            and part.exported >= look.exported
            and part.literal >= look.literal
            and part.background >= look.background
            and look.accepts(part.text)
            and (not look.outside or part.around.isdisjoint(look.outside))
            and (raw is None or raw.search(context.source.text[part.offset : part.end]) is not None)
            and (not look.when.terms or look.when.holds(context.facts_of(part)))
        ):
            yield part


def _starts_another_match(part: Part, starts: Sequence[int]) -> bool:
    """Return whether a command contains another match, which check reports instead. starts: the offsets of matches."""
    following = bisect.bisect_right(starts, part.offset)
    return part.kind == "command" and following < len(starts) and starts[following] < part.end


def _ignored(text: str) -> dict[int, set[str]]:
    """Return the rules that are disabled on each line by a comment on the line or a comment line before it."""
    rules_by_line: dict[int, set[str]] = {}
    for number, line in enumerate(text.splitlines(), 1) if IGNORE in text else ():
        comment = _IGNORED.search(line) if IGNORE in line and "#" in line.partition(IGNORE)[0] else None
        if comment:
            names = set(re.split(r"[ ,]+", comment[1]))
            rules_by_line.setdefault(number, set()).update(names)
            if line.lstrip().startswith("#"):
                rules_by_line.setdefault(number + 1, set()).update(names)
    return rules_by_line
