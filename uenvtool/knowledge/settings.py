"""Decides which variables are set for a system, runtime, recipe, facts and workarounds.

All commands use this module.

Conditions over known facts are decided here. Other facts, such as the runtime, the versions or the presence of an
overlay, remain as terms, which a script evaluates when it is sourced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput, Problem, require_known, unknown
from uenvtool.core.words import grouped
from uenvtool.knowledge.checks import coupled_pins, load_tuning
from uenvtool.knowledge.condition import Facts, Term
from uenvtool.knowledge.facts import FACTS, SOFTWARE
from uenvtool.knowledge.kinds import RECIPE, WORKAROUNDS
from uenvtool.knowledge.locate import available, data_root
from uenvtool.knowledge.lock import LOCK, read_versions
from uenvtool.knowledge.mpi import facts_with_mpi
from uenvtool.knowledge.place import system_name
from uenvtool.knowledge.recipe import Recipe, read_recipe
from uenvtool.knowledge.recognise import this_system
from uenvtool.knowledge.runtime import Runtime, known_images, load_runtime
from uenvtool.knowledge.system import System, load_system
from uenvtool.knowledge.tuning import THE_HOOK, VENV_SITE, Guard, Setting, Tuning, Workaround, applicable, holding
from uenvtool.knowledge.version import Version, Versions

SHOWN = ("runtime", "container", "image", "overlay", "nodes", *(fact for fact in SOFTWARE if SOFTWARE[fact].library))
"""The facts that a script can determine when it is sourced. It can also test whether a variable is set."""
ENVIRONMENTS = "envs"
"""The directory of resolved environments."""
_LABEL = re.compile(r"([\w-]+)/v?(\d+\.\d+)")
"""The label of a uenv, which consists of its name and version."""


@dataclass(frozen=True, slots=True)
class ConditionalSetting:
    """A setting and the undecided terms of its condition."""

    setting: Setting
    guard: tuple[Term, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The variables that are set in a place. All commands use this class.

    systems: The systems for which these settings are valid.
    runtimes: The given runtime, or those of the system with the preferred one first.
    given: The facts that the user or the recipe provides.
    settings: All settings that can apply in the place, in order, with their undecided terms.
    known: All known facts.
    nodes: The facts of each possible node type.
    inputs: The files from which the settings were read.
    """

    systems: tuple[System, ...]
    uarch: str | None
    runtimes: tuple[Runtime, ...]
    given: Facts
    workarounds: tuple[Workaround, ...]
    venv: str | None
    settings: tuple[ConditionalSetting, ...]
    tuning: Tuning
    known: Facts
    nodes: tuple[Facts, ...]
    inputs: tuple[str, ...]
    recipe: str = ""

    @property
    def system(self) -> System:
        return self.systems[0]

    def held(self, *, inside: bool | None = None, image_sets: bool = False) -> tuple[Setting, ...]:
        """Return the settings that apply in the preferred runtime if no software version can be determined.

        inside: Whether the settings are for a shell inside the container of a container runtime (the default).
        image_sets: Whether the image already sets its variables. If so, only workarounds and unset variables remain,
            because an image cannot unset a variable.
        """
        facts = self.facts_of_first(inside)
        only_rest = image_sets and bool(self.given.get("image"))
        return tuple(
            conditional.setting
            for conditional in self.scripted
            if all(_holds(term, facts, conditional.setting) for term in conditional.guard)
            and (not only_rest or conditional.setting.removes or conditional.setting.workaround)
        )

    @property
    def by_hook(self) -> tuple[Setting, ...]:
        """Return the settings that a container hook already applies in the preferred runtime, so uenvtool does not."""
        held = holding(self.tuning.settings, self.facts_of_first())
        return tuple(setting for setting in held if self.tuning.set_by(setting) == THE_HOOK)

    def facts_of_first(self, inside: bool | None = None) -> Facts:
        """Return the facts in the preferred runtime if no software version can be determined. inside: See `held`."""
        runtime = self.runtimes[0]
        return {
            "runtime": runtime.name,
            "container": "yes" if runtime.container and inside is not False else None,
            "image": None,
            "overlay": None if self.venv is None else "named",
            "SLURM_JOB_ID": "a job" if self.system.scheduler.name == "slurm" else None,
            **self.known,
        }

    @property
    def scripted(self) -> tuple[ConditionalSetting, ...]:
        """The settings that a script can evaluate when it is sourced, each with the terms that it must test."""
        names = [runtime.name for runtime in self.runtimes]
        return tuple(
            ConditionalSetting(each.setting, tuple(narrowed(term, names) for term in each.guard if _is_shown(term)))
            for each in self.settings
            if all(_decidable(term, each.setting, names) for term in each.guard)
            and self.tuning.set_by(each.setting) != THE_HOOK
        )

    @property
    def facts_to_find(self) -> frozenset[str]:
        return frozenset(term.fact for conditional in self.scripted for term in conditional.guard)

    @property
    def guards(self) -> tuple[Guard, ...]:
        return tuple(holding(self.tuning.guards, self.known))


def settings_for(
    system: str | None = None,
    *,
    uarch: str | None = None,
    runtime: str | None = None,
    form: str = "",
    recipe: str | None = None,
    facts: Facts | None = None,
    workarounds: Sequence[str] = (),
    venv: str | None = None,
) -> Settings:
    """Return the settings for the names that the user gives. Raises BadInput if a name is unknown.

    form: The file format that the runtime must read.
    """
    loaded = read_recipe(recipe) if recipe else None
    chosen = load_system(system_name(loaded, system, uarch)[0] if loaded else system or this_system())
    node = uarch if uarch in chosen.nodes else next(iter(chosen.nodes))
    given = facts_of(loaded, chosen, node) if loaded else {}
    return settings_of(
        [chosen],
        runtimes_of(chosen, runtime, form),
        uarch=uarch,
        facts={**given, **(facts or {})},
        workarounds=workarounds,
        venv=venv,
        recipe=recipe or "",
    )


def settings_of(
    systems: Sequence[System],
    runtimes: Sequence[Runtime],
    *,
    uarch: str | None = None,
    facts: Facts | None = None,
    workarounds: Sequence[str] = (),
    venv: str | None = None,
    recipe: str = "",
) -> Settings:
    """Return the settings that the systems share. runtimes: The current runtime, or all possible runtimes.

    Raises BadInput if a name is unknown or if settings contradict each other.
    """
    if len(runtimes) == 1:
        systems = [system.under(runtimes[0].name, runtimes[0].job.scheduler) for system in systems]
    first = systems[0]
    names = [name for name in first.tuning if all(name in other.tuning for other in systems)]
    tuning = load_tuning(names)
    given = dict(facts or {})
    nodes = _nodes(systems, uarch)
    known = {**_shared(nodes), **_absent(runtimes)}
    if len(runtimes) == 1:
        known |= {"runtime": runtimes[0].name, **_shared([hook_facts(system, runtimes[0].name) for system in systems])}
    known |= given
    chosen = chosen_workarounds(tuning, workarounds)
    replaced = {setting.name: setting for workaround in chosen for setting in workaround.settings}
    asked_for = [ConditionalSetting(setting, ()) for setting in replaced.values()]
    places = [{**node, **known} for node in nodes]
    possible = [
        ConditionalSetting(setting, tuple(term for term in undecided if not all(map(term.holds, places))))
        for setting, undecided in applicable(tuning.settings, known)
        if setting.name not in replaced and any(setting.when.holds(place) is not False for place in places)
    ]
    return Settings(
        systems=tuple(systems),
        uarch=uarch,
        runtimes=tuple(runtimes),
        given=given,
        workarounds=chosen,
        venv=venv,
        settings=(*possible, *asked_for),
        tuning=tuning,
        known=known,
        nodes=nodes,
        inputs=tuple(location.logical for location in (*first.chain, *tuning.chain)),
        recipe=recipe,
    )


def settings_of_overlay(runtime: str) -> tuple[ConditionalSetting, ...]:
    """Return the settings for a virtual environment that another tool made, as a step of a job can evaluate them."""
    rows = applicable(load_tuning(["pytorch"]).settings, {"runtime": runtime, "overlay": "named"})
    return tuple(
        ConditionalSetting(setting, undecided)
        for setting, undecided in rows
        if setting.from_ == VENV_SITE or (not setting.from_ and "overlay" in {term.fact for term in setting.when.terms})
    )


def hook_sentence(settings: Sequence[Setting]) -> str:
    """Return a sentence about the settings from `Settings.by_hook`, or an empty string if there are none."""
    values = " ".join(f"{setting.name}={setting.value}" for setting in settings)
    needs = "".join(f"; {setting.name} needs {setting.needs.hint}" for setting in settings if setting.needs)
    source = settings[0].source.name if settings else ""
    return f"The container hook sets these variables itself [{source}]: {values}{needs}" if settings else ""


def hook_facts(system: System, runtime: str, netstack: str = "") -> Facts:
    """Return a system's `hook` fact: the image kind that sets the same variables as the system's container hook.

    netstack: The source of the network stack in an EDF. Sites document their hook only for its default source.
    """
    job = system.jobs.of(runtime)
    return {"hook": job.hook or None if netstack in ("", job.netstack) else None}


def facts_of(recipe: Recipe, system: System, uarch: str) -> Facts:
    """Return the resolved versions of a recipe's software on a node type, or else the requested versions.

    The resolved versions come from the lock of `uenvtool build` in the current directory, or else from the committed
    lock of a built-in recipe.
    """
    roots = (Path(), data_root()) if recipe.chain[0].is_built_in else (Path(),)
    locks = (root / ENVIRONMENTS / recipe.name / f"{system.name}-{uarch}" / LOCK for root in roots)
    packages = {software.package for software in SOFTWARE.values()}
    resolved_versions = next((read_versions(lock, packages) for lock in locks if lock.is_file()), None)
    return recipe_facts(recipe, system, uarch, resolved_versions)


def recipe_facts(recipe: Recipe, system: System, uarch: str, lock: Mapping[str, Sequence[str]] | None = None) -> Facts:
    """Return the versions of a recipe's software on a node type, as facts.

    A package that the recipe does not name is absent. If the recipe does not use the system's preferred MPI, its MPI is
    also returned. Without a lock, the versions of the system's packages take precedence over the requested versions.

    lock: The resolved versions of the packages in `SOFTWARE`, if they are known. A lock is ignored if its versions do
        not meet the requests, because it then belongs to another state of the recipe.
    """
    facts = facts_with_mpi(recipe, system, uarch)
    own_mpi = {"mpi": facts["mpi"]} if facts["mpi"] != system.facts(uarch)["mpi"] else {}
    requested: dict[str, Versions | None] = {}
    for root in recipe.roots:
        if root.when.holds(facts):
            requested[root.spec.package] = root.spec.versions
    coupled = {name: pin for name, (pin, _) in coupled_pins(recipe, facts).items()}
    for package, pin in {**coupled, **recipe.require}.items():
        if package in requested and not requested[package] and pin.when.holds(facts):
            requested[package] = pin.version
    requested |= {
        name: external.spec.versions
        for name, package in system.packages.items()
        if name in requested and package.buildable is False
        for external in reversed(package.externals)
        if external.when.holds(facts)
    }
    named = {fact: software.package for fact, software in SOFTWARE.items()}
    requests = [(name, requested[name]) for name in named.values() if name in requested]
    is_current = lock is not None and all(
        any(constraint is None or constraint.contains(Version(text)) for text in lock.get(name, ()))
        for name, constraint in requests
    )
    if lock is None or not is_current:
        lock = {name: [str(constraint.lowest or "") if constraint else ""] for name, constraint in requests}
    return {**own_mpi, **{fact: next(iter(lock.get(name, ())), None) for fact, name in named.items()}}


def runtimes_of(system: System, runtime: str | None = None, form: str = "") -> tuple[Runtime, ...]:
    """Return the named runtime or all runtimes of a system. form: Return only the first runtime that reads this format.

    Raises BadInput if the system does not have the runtime, or if no runtime reads the form.
    """
    known = {name: load_runtime(name) for name in system.runtimes}
    require_known(f"runtime of {system.name}", [runtime] if runtime is not None else [], known)
    candidates = tuple(known[name] for name in known if runtime in (None, name))
    if not form:
        return candidates
    readers = [candidate for candidate in candidates if form in candidate.forms]
    if not readers:
        forms = [f"{' or '.join(known[name].forms)} for {name}" for name in known if known[name].forms]
        hint = f"use --shell {', or '.join([*forms, 'bash for a shell'])}"
        raise BadInput(f"no selected runtime of {system.name} reads the format of --shell {form}", hint=hint)
    return (readers[0],)


def recipe_of_label(label: str) -> str | None:
    """Return the name of the recipe for a uenv label (name and version), or None if there is no such recipe."""
    match = _LABEL.match(label)
    name = f"{match[1]}-{match[2]}" if match else ""
    return name if name in available(RECIPE) else None


_NUMBERS = re.compile(r"[0-9]{1,9}([.-][0-9]{1,9})*\Z")
"""A version that consists only of numbers, as software prints its own version."""


def known_facts(pairs: Mapping[str, str]) -> Facts:
    """Return the facts that a user gives. Raises BadInput if a fact is unknown or cannot have the given value."""
    problems = [unknown("fact", name, FACTS) for name in pairs if name not in FACTS]
    for name, value in pairs.items():
        if name in SOFTWARE and not _NUMBERS.match(value):
            hint = f"write a version, for example {name}=2.27.3"
            problems.append(Problem(f"{name}={value!r}: not a valid version", hint=hint))
        elif name == "nodes" and not (value.isdecimal() and value.strip("0")):
            hint = "write a number, for example nodes=2"
            problems.append(Problem(f"nodes={value!r}: not a valid number of nodes", hint=hint))
        elif name == "image" and value not in (images := known_images()):
            problems.append(unknown("image", value, images))
        elif not value or not all(character.isalnum() or character in "._-" for character in value):
            hint = "use letters, digits, `.`, `_` and `-`, for example image=alps"
            problems.append(Problem(f"{name}={value!r}: not a valid name", hint=hint))
    BadInput.raise_any(problems)
    return dict(pairs)


def _holds(term: Term, facts: Facts, setting: Setting) -> bool:
    answer = term.holds(facts)
    return term.fact in setting.unseen if answer is None else answer


def _is_shown(term: Term) -> bool:
    return term.fact in SHOWN or term.fact.isupper()


def _decidable(term: Term, setting: Setting, runtimes: Sequence[str]) -> bool:
    if term.fact == "image":  # an image that can be recognised sets its variables itself
        return term.operator == "!="
    if term.fact == "runtime" and term.operator in ("in", "=="):
        return bool(set(term.values) & set(runtimes))
    return _is_shown(term) or term.fact in setting.unseen


def narrowed(term: Term, runtimes: Sequence[str]) -> Term:
    """Restrict a runtime term to the possible runtimes. If all of them match, the term only tests for presence."""
    if term.fact != "runtime" or term.operator != "in":
        return term
    values = tuple(name for name in runtimes if name in term.values)
    if len(values) == len(runtimes):
        return Term("runtime", "present")
    return Term("runtime", "in" if len(values) > 1 else "==", values)


def _absent(runtimes: Sequence[Runtime]) -> dict[str, None]:
    possible = {
        "container": any(runtime.container for runtime in runtimes),
        "image": any(runtime.images for runtime in runtimes),
    }
    return {fact: None for fact, is_possible in possible.items() if not is_possible}


def _nodes(systems: Sequence[System], uarch: str | None) -> tuple[Facts, ...]:
    for system in systems:
        if uarch is not None and uarch not in system.nodes:
            raise BadInput([unknown(f"node type of {system.name}", uarch, system.nodes)])
    return tuple(system.facts(name) for system in systems for name in ([uarch] if uarch else system.nodes))


def _shared(nodes: Sequence[Facts]) -> dict[str, str | None]:
    return {name: value for name, value in nodes[0].items() if all(facts[name] == value for facts in nodes)}


def chosen_workarounds(tuning: Tuning, names: Iterable[str]) -> tuple[Workaround, ...]:
    """Return the named workarounds. Raises BadInput if one is unknown or if two set a variable to different values."""
    requested = list(dict.fromkeys(names))
    require_known("workaround", requested, tuning.workarounds, listed_by=f"uenvtool list {WORKAROUNDS}")
    chosen = tuple(tuning.workarounds[name] for name in requested)
    by_name = grouped((setting.name, setting) for workaround in chosen for setting in workaround.settings)
    hint = f"use only one of the two; known workarounds: {', '.join(sorted(tuning.workarounds))}"
    BadInput.raise_any(
        Problem(
            f"--workaround {first.workaround} sets {name}={first.value}, "
            f"but --workaround {other.workaround} sets {name}={other.value}",
            hint=hint,
        )
        for name, (first, *others) in by_name.items()
        for other in others
        if other.value != first.value
    )
    return chosen
