"""Finds the flaws of a batch script or EDF: each rule against the parts of the file."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from uenvtool.core.errors import Position, Problem
from uenvtool.job.check import tuned
from uenvtool.job.check.edf import read_edf
from uenvtool.job.check.parts import Lines, Part, Source
from uenvtool.job.check.script import read_script
from uenvtool.job.check.words import with_outer
from uenvtool.knowledge.rule import Look, Rule

_IGNORED = re.compile(r"#.*\buenvtool: ignore ([a-z0-9-]+(?:[ ,]+[a-z0-9-]+)*)")
_EDF = re.compile(r"^[ \t]*(image|base_environment)[ \t]*=", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A flaw at its place. detail: what was found there, if the rule alone does not say it."""

    rule: Rule
    position: Position
    detail: str = ""

    @property
    def problem(self) -> Problem:
        """As errors are shown: what is wrong, what it costs, and the fix."""
        why = f"{self.detail}: {self.rule.why}" if self.detail else self.rule.why
        return Problem(f"{why}. Cost: {self.rule.cost} [{self.rule.id}]", self.position, self.rule.fix)

    def data(self) -> dict[str, object]:
        """As data for --json."""
        return {
            "file": self.position.file,
            "line": self.position.line,
            "column": self.position.column,
            "rule": self.rule.id,
            "detail": self.detail or None,
            "why": self.rule.why,
            "cost": self.rule.cost,
            "fix": self.rule.fix,
            "source": self.rule.source,
        }


def read_source(text: str, shown: str) -> Source:
    """A file as an EDF if it is named `.toml` or is of that form, else as a batch script."""
    looks_like_edf = not text.startswith("#!") and "#SBATCH" not in text and _EDF.search(text) is not None
    return read_edf(text, shown) if PurePath(shown).suffix == ".toml" or looks_like_edf else read_script(text, shown)


def findings(source: Source, rules: Iterable[Rule], knowledge: tuned.Knowledge) -> list[Finding]:
    """The flaws of a file in its order. What a comment `# uenvtool: ignore ID` is beside is left out."""
    index = _by_kind(source.parts)
    lines = Lines(source.text)
    found = set()
    for rule in rules:
        if rule.applies_to and not rule.applies_to & source.kinds:
            continue
        for offset, detail in _places(rule, index, source, knowledge):
            found.add((lines(offset), rule.id, detail, rule))
    ignored = _ignored(source.text)
    return [
        Finding(rule=rule, position=Position(source.shown, *place), detail=with_outer(detail))
        for place, _, detail, rule in sorted(found, key=lambda match: match[:3])
        if rule.id not in ignored.get(place[0], ())
    ]


def _places(
    rule: Rule, index: Mapping[str, Sequence[Part]], source: Source, knowledge: tuned.Knowledge
) -> Iterator[tuple[int, str]]:
    """Where a rule finds something, as offset and detail."""
    first = [next(_matching(look, index), None) for look in rule.together]
    if None in first or any(next(_matching(look, index), None) for look in rule.alone):
        return
    if rule.finder:
        yield from FINDERS[rule.finder](source, knowledge)
    elif rule.missing:
        if first[0] is not None and not any(next(_matching(look, index), None) for look in rule.missing):
            yield first[0].offset, ""
    else:
        parts = [part for look in rule.look for part in _matching(look, index)]
        starts = sorted(part.offset for part in parts)
        yield from ((part.offset, _detail(part)) for part in parts if not _holds_another(part, starts))


def _matching(look: Look, index: Mapping[str, Sequence[Part]]) -> Iterator[Part]:
    return (part for part in index.get(look.kind, ()) if look.matches(part.name, part.text, part.scope))


def _holds_another(part: Part, starts: Sequence[int]) -> bool:
    """If a command starts another one that was found too: the inner one is the place to mend.

    starts: the offsets of all that was found, sorted.
    """
    following = bisect.bisect_right(starts, part.offset)
    return part.kind == "command" and following < len(starts) and starts[following] < part.offset + len(part.text)


def _detail(part: Part) -> str:
    """What was found, short enough for a line."""
    if part.kind in ("variable", "entry"):
        shown = f"{part.name}={part.text}"
    elif part.kind in ("directive", "late"):
        shown = f"--{part.name}={part.text}"
    else:
        shown = " ".join(part.text.split())
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _by_kind(parts: Iterable[Part]) -> dict[str, list[Part]]:
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(part.kind, []).append(part)
    return found


def _ignored(text: str) -> dict[int, set[str]]:
    """Line to the rules that a comment on it, or alone on the line before, switches off."""
    found: dict[int, set[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        comment = _IGNORED.search(line)
        if comment:
            names = set(re.split(r"[ ,]+", comment[1]))
            found.setdefault(number, set()).update(names)
            if line.lstrip().startswith("#"):
                found.setdefault(number + 1, set()).update(names)
    return found


def _syntax_error(source: Source, _knowledge: tuned.Knowledge) -> Iterator[tuple[int, str]]:
    if source.syntax:
        yield source.syntax


def _set_twice(source: Source, _knowledge: tuned.Knowledge) -> Iterator[tuple[int, str]]:
    """Variables that one scope sets to two fixed values."""
    seen: dict[tuple[str, str], str] = {}
    for part in source.parts:
        if part.kind in ("variable", "entry") and part.name != "mounts" and "$" not in part.text:
            before = seen.setdefault((part.scope, part.name), part.text)
            if before != part.text:
                yield part.offset, f"{part.name}={part.text}, before it was {before or 'empty'}"


Finder = Callable[[Source, tuned.Knowledge], Iterator[tuple[int, str]]]
FINDERS: Mapping[str, Finder] = {
    "toml": _syntax_error,
    "twice": _set_twice,
    "tuned-value": tuned.other_value,
    "tuned-unset": tuned.must_be_unset,
    "tuned-missing": tuned.missing,
    "tuned-conflict": tuned.conflicting,
    "tuned-guard": tuned.unguarded,
    "tuned-need": tuned.needed,
}
"""The searches that a rule can name."""
