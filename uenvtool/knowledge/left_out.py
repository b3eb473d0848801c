"""Why a variable is not set in a place: what of a setting's condition does not hold there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from uenvtool.core.words import grouped
from uenvtool.knowledge.condition import Term
from uenvtool.knowledge.facts import SOFTWARE
from uenvtool.knowledge.locate import data_root
from uenvtool.knowledge.lock import LOCK, read_lock
from uenvtool.knowledge.settings import ENVIRONMENTS, Settings
from uenvtool.knowledge.tuning import EXPECTED, UNSET, Setting

_COMPARED = {">=": "from {} on", ">": "after {}", "<": "before {}", "<=": "up to {}", "==": "with {}"}
"""How a version is asked for, in words."""
_WORDS = {**_COMPARED, "!=": "with another than {}", "in": "with {}", "present": "with {}", "absent": "without {}"}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A setting that does not hold in a place. failing: the terms that are false there. open: those not known."""

    setting: Setting
    failing: tuple[Term, ...]
    open: tuple[Term, ...]

    @property
    def needs_version(self) -> bool:
        """Tell if another version of some software is all that is missing, and which one is here is known."""
        return bool(self.failing) and not self.open and all(map(_compares, self.failing))


def left_out(here: Settings, settings: Sequence[Setting], *, inside: bool | None = None) -> list[LeftOut]:
    """Return those of the settings that do not hold in a place, the one that misses the least first.

    A version is what a user can change, so it counts less than anything else.
    """
    facts = here.facts_of_first(inside)
    found = [
        LeftOut(
            setting,
            tuple(term for term in setting.when.terms if term.holds(facts) is False),
            tuple(term for term in setting.when.left(facts) if term.fact not in setting.unseen),
        )
        for setting in settings
    ]
    missing = [one for one in found if one.failing or one.open]
    return sorted(missing, key=_distance)


def _distance(one: LeftOut) -> tuple[int, int]:
    terms = (*one.failing, *one.open)
    return len([term for term in terms if term.fact not in SOFTWARE]), len(terms)


def by_version(here: Settings, *, inside: bool | None = None) -> dict[str, list[str]]:
    """Return the variables that a place does not set for the version of some software alone, by the reason in words.

    inside: of the runtime's container; default: if it has one.
    """
    held = {setting.name for setting in (*here.held(inside=inside), *here.by_hook)}
    wanted = [found for found in here.tuning.settings if found.name not in held]
    wanted = [found for found in wanted if found.policy not in (UNSET, EXPECTED)]
    found = [one for one in left_out(here, wanted, inside=inside) if one.needs_version]
    first = {one.setting.name: one for one in reversed(found)}
    order = [name for name in dict.fromkeys(setting.name for setting in wanted) if name in first]
    return grouped((why(first[name], here), name) for name in order)


def why(one: LeftOut, here: Settings, whose: str | None = None) -> str:
    """Return in words why a setting does not hold in a place. whose: who has the versions; default: the recipe."""
    terms = (*one.failing, *one.open)
    versions = [term for term in terms if term.fact in SOFTWARE]
    others = [term for term in terms if term.fact not in SOFTWARE]
    if others:
        known = here.known
        told = [f"{term} (here {known[term.fact] or 'not'})" if term.fact in known else str(term) for term in others]
        return f"only where {' and '.join(told)}"
    asked = [_WORDS[term.operator].format(" ".join([_title(term), "|".join(term.values)]).strip()) for term in versions]
    wanted = " and ".join(asked)
    if one.open:
        return f"only {wanted}"
    had = " and ".join(here.known.get(term.fact) or "none" for term in versions)
    whose = here.recipe if whose is None else whose
    return f"only {wanted}; {f'{whose} has' if whose else 'here it is'} {had}"


def _compares(term: Term) -> bool:
    return term.fact in SOFTWARE and term.operator in _COMPARED


def _title(term: Term) -> str:
    return SOFTWARE[term.fact].title or term.fact


def in_recipes(one: LeftOut, here: Settings) -> Iterator[str]:
    """Yield which version each recipe that ships has of what is not known of a place, as its environment there says."""
    packages = [SOFTWARE[term.fact].package for term in one.open if term.fact in SOFTWARE]
    for lock in sorted(data_root().glob(f"{ENVIRONMENTS}/*/{here.system.name}-*/{LOCK}")):
        versions = read_lock(lock).versions()
        had = [versions[package][0] for package in packages if package in versions]
        if had:
            yield f"{lock.parent.parent.name} has {' and '.join(had)}"
