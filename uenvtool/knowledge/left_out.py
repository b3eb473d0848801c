"""Explains why a variable is not set in a place.

The reason is a term of the setting's condition that is false or undecided there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from uenvtool.core.words import grouped
from uenvtool.knowledge.condition import ORDER, Term
from uenvtool.knowledge.facts import SOFTWARE
from uenvtool.knowledge.locate import data_root
from uenvtool.knowledge.lock import LOCK, read_versions
from uenvtool.knowledge.settings import ENVIRONMENTS, Settings
from uenvtool.knowledge.tuning import EXPECTED, UNSET, Setting

_PHRASES = {
    ">=": "with {} or newer",
    ">": "with a version newer than {}",
    "<": "with a version older than {}",
    "<=": "with {} or older",
    "==": "with {}",
    "!=": "with a version other than {}",
    "in": "with {}",
    "present": "with {}",
    "absent": "without {}",
}
"""The phrases for terms over the version of software, by operator."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A setting that does not apply in a place. failing, open: The false and undecided terms of the condition."""

    setting: Setting
    failing: tuple[Term, ...]
    open: tuple[Term, ...]

    @property
    def needs_version(self) -> bool:
        """Return whether the setting does not apply only because of the known version of some software."""
        compared = (term.fact in SOFTWARE and term.operator in ("==", *ORDER) for term in self.failing)
        return bool(self.failing) and not self.open and all(compared)


def left_out(place: Settings, settings: Sequence[Setting], *, inside: bool | None = None) -> list[LeftOut]:
    """Return the settings that do not apply in a place, with the fewest unmet terms first.

    Terms over versions count least, because a user can change a version. inside: See `Settings.held`.
    """
    facts = place.facts_of_first(inside)
    candidates = [
        LeftOut(
            setting,
            tuple(term for term in setting.when.terms if term.holds(facts) is False),
            tuple(term for term in setting.when.left(facts) if term.fact not in setting.unseen),
        )
        for setting in settings
    ]
    missing = [omitted for omitted in candidates if omitted.failing or omitted.open]
    return sorted(missing, key=_distance)


def versions_of(setting: Setting, place: Settings) -> LeftOut:
    """Return a setting that applies in a place, with the terms over unknown versions as its undecided terms."""
    undecided = setting.when.left(place.facts_of_first())
    return LeftOut(setting, (), tuple(term for term in undecided if term.fact in SOFTWARE))


def _distance(omitted: LeftOut) -> tuple[int, int]:
    terms = (*omitted.failing, *omitted.open)
    return len([term for term in terms if term.fact not in SOFTWARE]), len(terms)


def by_version(place: Settings, *, inside: bool | None = None) -> dict[str, list[str]]:
    """Return, by reason, the variables that are unset in a place only because of a software version.

    inside: See `Settings.held`.
    """
    held = {setting.name for setting in (*place.held(inside=inside), *place.by_hook)}
    unset = [setting for setting in place.tuning.settings if setting.name not in held]
    unset = [setting for setting in unset if setting.policy not in (UNSET, EXPECTED)]
    by_nearest = [omitted for omitted in left_out(place, unset, inside=inside) if omitted.needs_version]
    first = {omitted.setting.name: omitted for omitted in reversed(by_nearest)}
    order = [name for name in dict.fromkeys(setting.name for setting in unset) if name in first]
    return grouped((why(first[name], place), name) for name in order)


def why(omitted: LeftOut, place: Settings, owner: str | None = None) -> str:
    """Return the reason why a setting does not apply in a place, as a phrase.

    owner: The name that the phrase gives to the source of the software versions. The default is the recipe.
    """
    terms = (*omitted.failing, *omitted.open)
    versions = [term for term in terms if term.fact in SOFTWARE]
    others = [term for term in terms if term.fact not in SOFTWARE]
    if others:
        known = place.known
        texts = [
            f"{term} (here: {known[term.fact] or 'no'})" if term.fact in known else _as_text(term) for term in others
        ]
        return f"only where {' and '.join(texts)}"
    required = " and ".join(
        _PHRASES[term.operator].format(f"{SOFTWARE[term.fact].title or term.fact} {'|'.join(term.values)}".strip())
        for term in versions
    )
    if omitted.open:
        return f"only {required}"
    present = " and ".join(place.known.get(term.fact) or "none" for term in versions)
    owner = place.recipe if owner is None else owner
    return f"only {required}, but {f'{owner} has' if owner else 'here it is'} {present}"


def _as_text(term: Term) -> str:
    """Return a term over a variable as a phrase, and another term as the file has it."""
    return f"{term.fact} is {'' if term.operator == 'present' else 'not '}set" if term.fact.isupper() else str(term)


def in_recipes(omitted: LeftOut, place: Settings) -> Iterator[str]:
    """Yield the versions of the software in the undecided terms, for each built-in recipe.

    The versions are those of the recipe's committed environment on this system.
    """
    packages = [SOFTWARE[term.fact].package for term in omitted.open if term.fact in SOFTWARE]
    for lock in sorted(data_root().glob(f"{ENVIRONMENTS}/*/{place.system.name}-*/{LOCK}")):
        versions = read_versions(lock, packages)
        resolved = [versions[package][0] for package in packages if package in versions]
        if resolved:
            yield f"{lock.parent.parent.name} has {' and '.join(resolved)}"
