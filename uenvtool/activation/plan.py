"""Which variable is set, in which order, for a system, a runtime and versions; pure.

What is known when a script is written is decided here. What is not (the runtime, versions, whether an
overlay is named) stays as terms that the script decides where it is sourced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from uenvtool.errors import BadInput, Problem, unknown
from uenvtool.model.condition import Facts, Term
from uenvtool.model.system import System
from uenvtool.model.tuning import DEFAULT, FACTS, Setting, Tuning, Workaround, applicable

SEEN = ("runtime", "nccl", "nvshmem", "overlay")
"""The facts that a script sees by itself where it is sourced, beside variables that are set or not."""
ABSENT: Facts = {"image": None}
"""What is not there unless somebody says so: nothing on the machine shows it."""
RANK = ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "NNODES")
"""What `uenvtool_rank_env` sets, as torch.distributed's `env://` reads it, and NNODES for torchrun."""


@dataclass(frozen=True, slots=True)
class Step:
    """A setting and the terms that the script has to decide; unseen: it applies where a version is not seen."""

    setting: Setting
    guard: tuple[Term, ...]

    @property
    def guard_text(self) -> str:
        """The open terms as a condition reads."""
        return " and ".join(_term_text(term) for term in self.guard)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that an activation sets, in order.

    runtimes: the one that is given, or those of the system, the preferred first. venv: the overlay, if
    one is named. versions: those that are given. inputs: the files it came from.
    """

    system: System
    uarch: str | None
    runtimes: tuple[str, ...]
    versions: Facts
    workarounds: tuple[Workaround, ...]
    venv: str | None
    steps: tuple[Step, ...]
    inputs: tuple[str, ...]
    recipe: str = ""

    @property
    def seen(self) -> frozenset[str]:
        """The facts that the script has to look for."""
        return frozenset(term.fact for step in self.steps for term in step.guard)

    @property
    def defaults(self) -> tuple[str, ...]:
        """The variables that are set only where they are unset, each once."""
        return tuple(dict.fromkeys(step.setting.name for step in self.steps if step.setting.policy == DEFAULT))

    @property
    def computed(self) -> frozenset[str]:
        """What values are computed from."""
        return frozenset(step.setting.computed for step in self.steps if step.setting.computed)


def plan_activation(
    system: System,
    tuning: Tuning,
    *,
    uarch: str | None = None,
    runtime: str | None = None,
    versions: Facts | None = None,
    workarounds: Sequence[str] = (),
    venv: str | None = None,
    recipe: str = "",
) -> Plan:
    """The plan for a system. Raises BadInput for a name that nobody knows and for a contradiction."""
    runtimes = (_chosen_runtime(system, runtime),) if runtime else system.runtimes
    given = dict(versions or {})
    facts = {**ABSENT, **_agreed(system, uarch), **given}
    if len(runtimes) == 1:
        facts["runtime"] = runtimes[0]
    chosen = _chosen_workarounds(tuning, workarounds)
    replaced = {setting.name: setting for each in chosen for setting in each.settings}
    steps = [
        _step(setting, left)
        for setting, left in applicable(tuning.settings, facts)
        if setting.name not in replaced and (setting.unseen or all(_is_seen(term) for term in left))
    ]
    steps += [Step(setting, ()) for setting in replaced.values()]
    return Plan(
        system=system,
        uarch=uarch,
        runtimes=runtimes,
        versions=given,
        workarounds=chosen,
        venv=venv,
        steps=tuple(steps),
        inputs=tuple(location.logical for location in (*system.chain, *tuning.chain)),
        recipe=recipe,
    )


def decided(plan: Plan) -> Plan:
    """The plan with nothing left open, for files that cannot decide: the first runtime, no version seen."""
    facts = {"runtime": plan.runtimes[0], "overlay": None if plan.venv is None else "named"}
    steps = []
    for step in plan.steps:
        answers = [term.holds(facts) for term in step.guard]
        if False not in answers and (None not in answers or step.setting.unseen):
            steps.append(Step(step.setting, ()))
    return dataclasses.replace(plan, steps=tuple(steps), runtimes=plan.runtimes[:1])


def known_facts(pairs: Mapping[str, str]) -> Facts:
    """Facts as a user gives them, checked: BadInput for one that no condition asks for."""
    problems = [unknown("fact", name, FACTS) for name in pairs if name not in FACTS]
    problems += [
        Problem(f"{name}={value!r} is not a version or name", hint="write for example nccl=2.27.3")
        for name, value in pairs.items()
        if not value or not all(character.isalnum() or character in "._-" for character in value)
    ]
    if problems:
        raise BadInput(problems)
    return dict(pairs)


def _is_seen(term: Term) -> bool:
    return term.fact in SEEN or term.fact.isupper()


def _step(setting: Setting, left: tuple[Term, ...]) -> Step:
    """The step of a setting; a term that no script can decide is as its `unseen` says."""
    return Step(setting, tuple(term for term in left if _is_seen(term)))


def _agreed(system: System, uarch: str | None) -> dict[str, str | None]:
    """The facts of a node type, or those in which all node types of the system agree."""
    if uarch is not None and uarch not in system.nodes:
        raise BadInput([unknown(f"node type of {system.name}", uarch, system.nodes)])
    each = [system.facts(name) for name in ([uarch] if uarch else system.nodes)]
    return {name: value for name, value in each[0].items() if all(facts[name] == value for facts in each)}


def _chosen_runtime(system: System, runtime: str) -> str:
    if runtime not in system.runtimes:
        raise BadInput([unknown(f"runtime of {system.name}", runtime, system.runtimes)])
    return runtime


def _chosen_workarounds(tuning: Tuning, names: Iterable[str]) -> tuple[Workaround, ...]:
    """The workarounds of those names; BadInput where one is unknown or two want different values."""
    wanted = list(dict.fromkeys(names))
    problems = [unknown("workaround", name, tuning.workarounds) for name in wanted if name not in tuning.workarounds]
    if problems:
        raise BadInput(problems)
    chosen = tuple(tuning.workarounds[name] for name in wanted)
    first: dict[str, Setting] = {}
    for setting in (setting for each in chosen for setting in each.settings):
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


def _term_text(term: Term) -> str:
    if term.operator in ("present", "absent"):
        return term.fact if term.operator == "present" else f"not {term.fact}"
    return f"{term.fact} {term.operator} {'|'.join(term.values)}"
