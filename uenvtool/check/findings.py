"""Finds the flaws of a batch script or EDF: each rule against the parts of the file."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from textwrap import shorten

from uenvtool.check.context import Context
from uenvtool.check.edf import read_edf
from uenvtool.check.finders import FINDERS
from uenvtool.check.parts import OUTER, CheckedFile, Hit, Lines, Part, at, lines_of
from uenvtool.check.script import read_script
from uenvtool.core.errors import Position
from uenvtool.knowledge.rule import HINT, WARNING, Look, Rule
from uenvtool.knowledge.secrets import HIDDEN

IGNORE = "uenvtool: ignore"
_MEANT = re.compile(r"[ \t]*#.*(?i:\b(do not|don'?t) (remove|delete|change|unset)\b)")
"""Who wrote a script says above a line that it has to stay: another site's workaround is not known here."""
_IGNORED = re.compile(r"uenvtool: ignore[= ]([a-z0-9-]+(?:[ ,]+[a-z0-9-]+)*)")
_EDF = re.compile(r"^[ \t]*(image|base_environment)[ \t]*=", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Flaw:
    """A flaw at its place.

    severity: the rule's, or that of a hint where it is not known if the rule holds. detail: what was found there, if
    the rule alone does not say it. line: the script's line; width: of what was found in it. fix: a line to paste, or
    what to do. edits: offset, end and new text of what --fix changes.
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
        """Return what is wrong, with what was found."""
        return f"{self.rule.what}: {self.detail}" if self.detail else self.rule.what

    @property
    def named(self) -> str:
        """Return what was found, in a line without the script beside it; never a secret."""
        start = self.position.column - 1
        words = "" if self.rule.secret or self.rule.missing else self.line[start : start + self.width]
        return self.detail or shorten(words, 60, placeholder=" ...")

    def data(self) -> dict[str, object]:
        """Return it as data for --json."""
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
    """Return a file as an EDF if it is named `.toml` or is of that form, else as a batch script."""
    looks_like_edf = not text.startswith("#!") and "#SBATCH" not in text and _EDF.search(text) is not None
    is_edf = PurePath(shown).suffix == ".toml" or looks_like_edf
    return read_edf(text.replace("\r\n", "\n"), shown) if is_edf else read_script(text, shown)


def findings(context: Context, rules: Iterable[Rule]) -> list[Flaw]:
    """Return the flaws of a file in its order. What a comment `# uenvtool: ignore=RULE` is beside is left out."""
    source = context.source
    found = [
        (rule, hit)
        for rule in rules
        if not rule.for_ or rule.for_ & source.kinds
        for hit in itertools.islice(_of_rule(rule, context), 1 if rule.once else None)
    ]
    lines = lines_of(source.text)
    ignored = _ignored(source.text)
    shown = [_finding(rule, hit, lines, context) for rule, hit in found]
    return [hit for hit in _apart(shown) if not {hit.rule.id, "all"} & ignored.get(hit.position.line, set())]


def _apart(found: Iterable[Flaw]) -> list[Flaw]:
    """Return the findings in the order of the file; of those of one rule at one place the first."""
    ends: dict[tuple[str, int], int] = {}
    kept = []
    for hit in sorted(found, key=lambda hit: (hit.position, hit.rule.id)):
        place = (hit.rule.id, hit.position.line)
        if hit.position.column >= ends.get(place, 0):
            ends[place] = hit.position.column + hit.width
            kept.append(hit)
    return kept


def _finding(rule: Rule, found: Hit, lines: Lines, context: Context) -> Flaw:
    line, column = lines(found.offset)
    text = lines.line(line)
    holds = rule.when.holds(context.facts) if rule.when.terms else True
    edits = found.edits or _edits(rule, found.offset, found.end, context.source.text)
    above = lines.line(line - 1) if line > 1 else ""
    is_meant = bool(_MEANT.search(text) or _MEANT.match(above)) and rule.severity == WARNING
    severity = rule.severity if holds and found.is_certain and not is_meant else HINT
    edited = _edited_line(context.source.text, edits, found.offset) if edits and not rule.secret else ""
    fix = edited if edited not in ("", text.strip()) else found.fix or rule.fix
    return Flaw(
        rule=rule,
        severity=severity,
        position=Position(context.source.shown, line, column),
        line=text,
        width=max(min(found.end - found.offset, len(text) - column + 1), 1),
        fix=fix,
        detail=found.detail.replace(OUTER, "$"),
        edits=edits,
    )


def secrets(text: str, found: Iterable[Flaw]) -> set[str]:
    """Return the secrets of a file that the findings name: the value of `NAME=VALUE`, or the last word."""
    lines = lines_of(text)
    marked = [lines.line(hit.position.line)[hit.position.column - 1 :][: hit.width] for hit in found if hit.rule.secret]
    values = {re.split(r"[=\s]", words.rstrip("\"'"))[-1].strip("\"'") for words in marked}
    return {value for value in values if len(value) >= 8}


def without(hidden: Iterable[str], text: str) -> str:
    """Return the text with each secret hidden."""
    for secret in hidden:
        text = text.replace(secret, HIDDEN)
    return text


def without_secrets(text: str, found: Iterable[Flaw]) -> list[Flaw]:
    """Return the findings of a file with its secrets hidden."""
    found = list(found)
    hidden = secrets(text, found)
    return [
        replace(hit, line=without(hidden, hit.line), fix=without(hidden, hit.fix), detail=without(hidden, hit.detail))
        for hit in found
    ]


def fixed(text: str, found: Iterable[Flaw]) -> str:
    """Return a script with the edits of its findings; of edits that overlap the first counts."""
    position = 0
    new: list[str] = []
    for start, end, replacement in _made(found):
        new += (text[position:start], replacement)
        position = end
    return "".join(new) + text[position:]


def _made(found: Iterable[Flaw]) -> Iterator[tuple[int, int, str]]:
    position = 0
    for edit in sorted({edit for finding in found for edit in finding.edits}):
        if edit[0] >= position:
            yield edit
            position = edit[1]


def mendable(text: str, found: Sequence[Flaw], again: Callable[[str, Iterable[Rule]], Iterable[Flaw]]) -> list[Flaw]:
    """Return the findings of a file without the edits that leave their flaw in its line.

    again: gives the findings of some rules in what the edits make of the text.
    """
    rules = {finding.rule.id: finding.rule for finding in found if finding.edits}
    if not rules:
        return list(found)
    left = {(finding.rule.id, finding.position.line) for finding in again(fixed(text, found), rules.values())}
    starts = lines_of(text).starts
    moving = [edit for edit in _made(found) if "\n" in edit[2] or "\n" in text[edit[0] : edit[1]]]

    def line_then(line: int) -> int:
        above = starts[line - 1]
        moved = (
            new.count("\n") - text.count("\n", start, min(end, above)) for start, end, new in moving if start < above
        )
        return line + sum(moved)

    return [
        replace(finding, edits=(), fix=finding.rule.fix)
        if finding.edits and (finding.rule.id, line_then(finding.position.line)) in left
        else finding
        for finding in found
    ]


def _edits(rule: Rule, start: int, end: int, text: str) -> tuple[tuple[int, int, str], ...]:
    if rule.edit is None:
        return ()
    edit = rule.edit
    return tuple(
        (start + match.start(), start + match.end(), match.expand(edit.replace))
        for match in edit.find.finditer(text[start:end])
    )


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
    for hit in _looked_for(rule, context):
        yield replace(hit, is_certain=False) if is_unsure else hit


def _has(look: Look, context: Context) -> bool:
    return next(_matching(look, context), None) is not None


def _looked_for(rule: Rule, context: Context) -> Iterator[Hit]:
    if rule.finder:
        yield from FINDERS[rule.finder](context)
    if rule.missing:
        if not any(_has(look, context) for look in rule.missing):
            yield at(next(_matching(rule.with_[0], context)))
    else:
        parts = [(part, look) for look in rule.look for part in _matching(look, context)]
        starts = sorted(part.offset for part, _ in parts)
        for part, look in parts:
            if not _holds_another(part, starts):
                yield _matched(part, look, rule, context)


def _matched(part: Part, look: Look, rule: Rule, context: Context) -> Hit:
    """Return a part that was looked for: of a line the words, of raw text its first group."""
    start, end = part.offset, part.end
    words = look.name.search(part.text) if part.kind == "line" else None
    raw = look.raw.search(context.source.text[start:end]) if look.raw else None
    if words:
        start, end = start + words.start(), start + words.end()
    elif raw and raw.lastindex:
        start, end = start + raw.start(1), start + raw.end(1)
    facts = {"name": part.name, "text": part.text, "found": context.source.text[start:end]}
    detail = look.detail.format_map({**context.facts_of(part), **facts}) if "{" in look.detail else look.detail
    edits = _edits(rule, part.offset, part.end, context.source.text) if raw else ()
    return Hit(offset=start, end=end, detail=detail, fix=look.fix, edits=edits, is_certain=look.certain)


def _matching(look: Look, context: Context) -> Iterator[Part]:
    if not all(_has(one, context) for one in look.beside) or any(_has(one, context) for one in look.apart):
        return
    for part in context.parts(look.kind):
        if (
            look.matches(part.name, part.text)
            and look.scope in ("", part.scope)
            and part.exported >= look.exported
            and part.literal >= look.literal
            and part.background >= look.background
            and part.around.isdisjoint(look.outside)
            and (look.raw is None or look.raw.search(context.source.text[part.offset : part.end]) is not None)
            and (not look.when.terms or look.when.holds(context.facts_of(part)))
        ):
            yield part


def _holds_another(part: Part, starts: Sequence[int]) -> bool:
    """Tell if a command starts another one that was found too: the inner one is the place to mend.

    starts: the offsets of all that was found, sorted.
    """
    following = bisect.bisect_right(starts, part.offset)
    return part.kind == "command" and following < len(starts) and starts[following] < part.end


def _ignored(text: str) -> dict[int, set[str]]:
    """Return each line with the rules that a comment on it, or alone on the line before, switches off."""
    found: dict[int, set[str]] = {}
    for number, line in enumerate(text.splitlines(), 1) if IGNORE in text else ():
        comment = _IGNORED.search(line) if IGNORE in line and "#" in line.partition(IGNORE)[0] else None
        if comment:
            names = set(re.split(r"[ ,]+", comment[1]))
            found.setdefault(number, set()).update(names)
            if line.lstrip().startswith("#"):
                found.setdefault(number + 1, set()).update(names)
    return found
