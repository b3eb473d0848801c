"""Which variable is set, in which order, for a system, a runtime and versions; pure.

What is known when a script is written is decided here. What is not (the runtime, versions, whether an
overlay is named) stays as terms that the script decides where it is sourced.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from uenvtool.core.errors import BadInput, Problem, unknown
from uenvtool.knowledge.condition import Facts, Term
from uenvtool.knowledge.runtime import VIEWS, Runtime
from uenvtool.knowledge.system import System
from uenvtool.knowledge.tuning import EXPECTED, FACTS, PREPEND, SOFTWARE, Setting, Tuning, Workaround, applicable

SHOWN = ("runtime", "container", "image", "overlay", *(fact for fact, known in SOFTWARE.items() if known.library))
"""The facts that a script finds out where it is sourced, beside variables that are set or not."""
IN_CONTAINER = ("edf", "docker", "podman", "dotenv")
"""The forms whose variables are set for a container; what reads the others is outside."""


@dataclass(frozen=True, slots=True)
class PlannedSetting:
    """A setting and the terms that the script has to decide."""

    setting: Setting
    guard: tuple[Term, ...]

    @property
    def guard_text(self) -> str:
        """The open terms as a condition reads."""
        return " and ".join(term_text(term) for term in self.guard)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationPlan:
    """Everything that an activation sets, in order.

    runtimes: the one that is given, or those of the system, the preferred first. venv: the virtual environment, if
    one is named. versions: the facts that are given. set_reasons: why the settings of a set belong together.
    inputs: the files it came from.
    """

    system: System
    uarch: str | None
    runtimes: tuple[Runtime, ...]
    versions: Facts
    workarounds: tuple[Workaround, ...]
    venv: str | None
    settings: tuple[PlannedSetting, ...]
    set_reasons: Mapping[str, str]
    inputs: tuple[str, ...]
    recipe: str = ""

    @property
    def facts_to_find(self) -> frozenset[str]:
        """The facts that the script has to find out."""
        return frozenset(term.fact for planned in self.settings for term in planned.guard)

    @property
    def computed(self) -> frozenset[str]:
        """What values are computed from."""
        return frozenset(planned.setting.computed for planned in self.settings if planned.setting.computed)

    @property
    def images(self) -> dict[str, str]:
        """The kinds of images that show themselves to the script, and the variable that shows each."""
        return {name: sign.env for runtime in self.runtimes for name, sign in runtime.images.items()}


def plan_activation(
    system: System,
    runtimes: Sequence[Runtime],
    tuning: Tuning,
    *,
    uarch: str | None = None,
    versions: Facts | None = None,
    workarounds: Sequence[str] = (),
    venv: str | None = None,
    recipe: str = "",
) -> ActivationPlan:
    """The plan for a system. runtimes: the one to plan for, or those of the system.

    Raises BadInput for a name that nobody knows and for a contradiction.
    """
    given = dict(versions or {})
    facts = {**_shared_facts(system, uarch), **_absent(runtimes), **given}
    if len(runtimes) == 1:
        facts["runtime"] = runtimes[0].name
    chosen = _chosen_workarounds(tuning, workarounds)
    replaced = {setting.name: setting for workaround in chosen for setting in workaround.settings}
    names = tuple(runtime.name for runtime in runtimes)
    planned = [
        PlannedSetting(setting, tuple(_narrowed(term, names) for term in left if _is_shown(term)))
        for setting, left in applicable(tuning.settings, facts)
        if setting.name not in replaced and all(_decidable(term, setting, names) for term in left)
    ]
    planned += [PlannedSetting(setting, ()) for setting in replaced.values()]
    return ActivationPlan(
        system=system,
        uarch=uarch,
        runtimes=tuple(runtimes),
        versions=given,
        workarounds=chosen,
        venv=venv,
        settings=tuple(planned),
        set_reasons={name: found.reason for name, found in tuning.sets.items()},
        inputs=tuple(location.logical for location in (*system.chain, *tuning.chain)),
        recipe=recipe,
    )


def settled(plan: ActivationPlan, *, inside: bool) -> list[PlannedSetting]:
    """The settings that hold in the plan's first runtime if no version is seen; inside: of its container."""
    facts = {
        "runtime": plan.runtimes[0].name,
        "container": "yes" if inside else None,
        "image": None,
        "overlay": None if plan.venv is None else "named",
        "SLURM_JOB_ID": "a job" if plan.system.scheduler == "slurm" else None,
    }
    return [
        PlannedSetting(planned.setting, ())
        for planned in plan.settings
        if all(_holds(term, facts, planned.setting) for term in planned.guard)
    ]


def decided(plan: ActivationPlan, form: str) -> ActivationPlan:
    """The plan with nothing left open, for a form that cannot look: its runtime is given, no version is seen.

    What nobody sets (policy expected) and what is put in front of a value (policy prepend) is left out.
    """
    inside = form in IN_CONTAINER and plan.runtimes[0].container
    settings = [chosen for chosen in settled(plan, inside=inside) if chosen.setting.policy not in (EXPECTED, PREPEND)]
    return dataclasses.replace(plan, settings=tuple(settings))


_NUMBERS = re.compile(r"[0-9]{1,9}([.-][0-9]{1,9})*\Z")
"""A version of numbers alone, as software tells its own."""


def known_facts(pairs: Mapping[str, str], images: Sequence[str]) -> Facts:
    """Facts as a user gives them, checked. images: the kinds of images that there are.

    Raises BadInput for a fact that no condition asks for and for a value that it cannot have.
    """
    problems = [unknown("fact", name, FACTS) for name in pairs if name not in FACTS]
    for name, value in pairs.items():
        if name in SOFTWARE and not _NUMBERS.match(value):
            problems.append(Problem(f"{name}={value!r} is not a version", hint=f"write for example {name}=2.27.3"))
        elif name == "image" and value not in images:
            problems.append(unknown("image", value, images))
        elif not value or not all(character.isalnum() or character in "._-" for character in value):
            problems.append(Problem(f"{name}={value!r} is not a name", hint="write for example image=alps"))
    if problems:
        raise BadInput(problems)
    return dict(pairs)


def _holds(term: Term, facts: Facts, setting: Setting) -> bool:
    answer = term.holds(facts)
    return term.fact in setting.unseen if answer is None else answer


def _is_shown(term: Term) -> bool:
    return term.fact in SHOWN or term.fact.isupper()


def _decidable(term: Term, setting: Setting, runtimes: Sequence[str]) -> bool:
    """Tell if a script can decide a term, or may leave it out.

    An image that shows itself has set its variables itself, so what it needs is not in a script.
    """
    if term.fact == "image":
        return term.operator == "!="
    if term.fact == "runtime" and term.operator in ("in", "=="):
        return bool(set(term.values) & set(runtimes))
    return _is_shown(term) or term.fact in setting.unseen


def _narrowed(term: Term, runtimes: Sequence[str]) -> Term:
    """A term about the runtime with only the runtimes that can be; present if it is any of them."""
    if term.fact != "runtime" or term.operator != "in":
        return term
    values = tuple(name for name in runtimes if name in term.values)
    if len(values) == len(runtimes):
        return Term("runtime", "present")
    return Term("runtime", "in" if len(values) > 1 else "==", values)


def _absent(runtimes: Sequence[Runtime]) -> dict[str, None]:
    """The facts that cannot be where these are the runtimes."""
    absent: dict[str, None] = {}
    if not any(runtime.container for runtime in runtimes):
        absent["container"] = None
    if not any(runtime.images for runtime in runtimes):
        absent["image"] = None
    if not any(runtime.libraries == VIEWS for runtime in runtimes):
        absent["nvshmem"] = None  # that of an image from elsewhere is not for this fabric
    return absent


def _shared_facts(system: System, uarch: str | None) -> dict[str, str | None]:
    """The facts of a node type, or those in which all node types of the system agree."""
    if uarch is not None and uarch not in system.nodes:
        raise BadInput([unknown(f"node type of {system.name}", uarch, system.nodes)])
    by_node = [system.facts(name) for name in ([uarch] if uarch else system.nodes)]
    return {name: value for name, value in by_node[0].items() if all(facts[name] == value for facts in by_node)}


def _chosen_workarounds(tuning: Tuning, names: Iterable[str]) -> tuple[Workaround, ...]:
    """The workarounds of those names; BadInput if one is unknown or two want different values."""
    wanted = list(dict.fromkeys(names))
    problems = [unknown("workaround", name, tuning.workarounds) for name in wanted if name not in tuning.workarounds]
    if problems:
        raise BadInput(problems)
    chosen = tuple(tuning.workarounds[name] for name in wanted)
    first: dict[str, Setting] = {}
    for setting in (setting for workaround in chosen for setting in workaround.settings):
        before = first.setdefault(setting.name, setting)
        if before.value != setting.value:
            problems.append(
                Problem(
                    f"--workaround {before.workaround} sets {setting.name}={before.value}, "
                    f"--workaround {setting.workaround} sets it to {setting.value}",
                    hint=f"choose one of them; known: {', '.join(sorted(tuning.workarounds))}",
                )
            )
    if problems:
        raise BadInput(problems)
    return chosen


def term_text(term: Term) -> str:
    """A term as a condition reads."""
    if term.operator in ("present", "absent"):
        return term.fact if term.operator == "present" else f"not {term.fact}"
    return f"{term.fact} {term.operator} {'|'.join(term.values)}"
