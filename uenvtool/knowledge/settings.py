"""Which variables are set for a system, a runtime, a recipe, facts and workarounds: the one answer for all.

What is known is decided here. What is not (the runtime, versions, whether an overlay is named) stays as terms that a
script decides where it is sourced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput, Problem, require_known, unknown
from uenvtool.knowledge.checks import coupled_pins, load_tuning
from uenvtool.knowledge.condition import Facts, Term
from uenvtool.knowledge.facts import FACTS, SOFTWARE
from uenvtool.knowledge.kinds import RECIPE, WORKAROUNDS
from uenvtool.knowledge.locate import available, data_root
from uenvtool.knowledge.lock import LOCK, read_lock
from uenvtool.knowledge.mpi import facts_with_mpi
from uenvtool.knowledge.place import system_name
from uenvtool.knowledge.recipe import Recipe, read_recipe
from uenvtool.knowledge.recognise import this_system
from uenvtool.knowledge.runtime import Runtime, known_images, load_runtime
from uenvtool.knowledge.system import System, load_system
from uenvtool.knowledge.tuning import (
    THE_HOOK,
    Guard,
    Setting,
    Tuning,
    Workaround,
    applicable,
    holding,
)
from uenvtool.knowledge.version import Version, Versions

SHOWN = (
    *("runtime", "container", "image", "overlay", "nodes"),
    *(fact for fact, known in SOFTWARE.items() if known.library),
)
"""The facts that a script finds out where it is sourced, beside variables that are set or not."""
ENVIRONMENTS = "envs"
"""The folder of resolved environments."""
_LABEL = re.compile(r"([\w-]+)/v?(\d+\.\d+)")
"""The label of a uenv: its name and version."""


@dataclass(frozen=True, slots=True)
class ConditionalSetting:
    """A setting and the terms of its condition that are open."""

    setting: Setting
    guard: tuple[Term, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Which variables are set in a place: the one answer for all commands.

    systems: those that agree in them. runtimes: the one that is given, or those of the system, the preferred first.
    given: the facts that are given. venv: the virtual environment, if one is named. settings: every one that can hold
    there, in order, with what is open. known: all facts that are known. nodes: the facts of each node type that it may
    be. inputs: the files they are from.
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
        """The system; the first of several."""
        return self.systems[0]

    def held(self, *, inside: bool | None = None, beside_image: bool = False) -> tuple[Setting, ...]:
        """Return the settings that hold in the first runtime if no version is seen.

        inside: of the runtime's container; default: if it has one. beside_image: those alone that are left to set where
        an image sets its variables itself: it cannot remove any.
        """
        facts = self.facts_of_first(inside)
        left = beside_image and bool(self.given.get("image"))
        return tuple(
            found.setting
            for found in self.scripted
            if all(_holds(term, facts, found.setting) for term in found.guard)
            and (not left or found.setting.removes or found.setting.workaround)
        )

    @property
    def by_hook(self) -> tuple[Setting, ...]:
        """Return what a hook sets in the containers of the first runtime: nothing else need do so."""
        held = holding(self.tuning.settings, self.facts_of_first())
        return tuple(found for found in held if self.tuning.set_by(found) == THE_HOOK)

    def facts_of_first(self, inside: bool | None = None) -> Facts:
        """Return what is known in the first runtime, if no version is seen. inside: as for `held`."""
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
        """The settings that a script can decide where it is sourced, with what it has to ask for."""
        names = [runtime.name for runtime in self.runtimes]
        return tuple(
            ConditionalSetting(found.setting, tuple(narrowed(term, names) for term in found.guard if _is_shown(term)))
            for found in self.settings
            if all(_decidable(term, found.setting, names) for term in found.guard)
            and self.tuning.set_by(found.setting) != THE_HOOK
        )

    @property
    def facts_to_find(self) -> frozenset[str]:
        """The facts that a script has to find out."""
        return frozenset(term.fact for conditional in self.scripted for term in conditional.guard)

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The dangers that are to be kept away."""
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
    """Return the settings for names as a user gives them; form: the file that the runtime must read.

    Raises BadInput for names that do not exist.
    """
    given: Facts = {}
    if not recipe:
        chosen = load_system(system or this_system())
    else:
        loaded = read_recipe(recipe)
        chosen = load_system(system_name(loaded, system, uarch)[0])
        node = uarch if uarch in chosen.nodes else next(iter(chosen.nodes))
        given = facts_of(loaded, chosen, node)
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
    """Return the settings of a system, or those that several agree in. runtimes: the one in use, or those it may be.

    Raises BadInput for a name that nobody knows and for a contradiction.
    """
    first = systems[0]
    names = [name for name in first.tuning if all(name in other.tuning for other in systems)]
    tuning = load_tuning(names)
    given = dict(facts or {})
    nodes = _nodes(systems, uarch)
    known = {**_shared(nodes), **_absent(runtimes)}
    if len(runtimes) == 1:
        known |= {"runtime": runtimes[0].name, **_shared([hook_facts(one, runtimes[0].name) for one in systems])}
    known |= given
    chosen = chosen_workarounds(tuning, workarounds)
    replaced = {setting.name: setting for workaround in chosen for setting in workaround.settings}
    asked_for = [ConditionalSetting(setting, ()) for setting in replaced.values()]
    places = [{**node, **known} for node in nodes]
    possible = [
        ConditionalSetting(setting, tuple(term for term in left if not all(map(term.holds, places))))
        for setting, left in applicable(tuning.settings, known)
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


def told_of_hook(settings: Sequence[Setting]) -> str:
    """Return what a hook sets, in a sentence; empty if that is nothing. settings: as `Settings.by_hook` gives them."""
    values = " ".join(f"{setting.name}={setting.value}" for setting in settings)
    needs = "".join(f"; {setting.name} needs {setting.needs.hint}" for setting in settings if setting.needs)
    return f"The hook sets these itself [{settings[0].source.name}]: {values}{needs}" if settings else ""


def hook_facts(system: System, runtime: str, netstack: str = "") -> Facts:
    """Return what a hook of a system sets in a container that asks for it, as the kind of images that set the same.

    netstack: what an EDF says that it takes libraries from; what a site says of its hook holds for its default alone.
    """
    job = system.jobs.of(runtime)
    return {"hook": job.hook or None if netstack in ("", job.netstack) else None}


def facts_of(recipe: Recipe, system: System, uarch: str) -> Facts:
    """Return the versions of a recipe's software on a node type: as resolved, where that is known, else as asked for.

    Resolved: where `uenvtool build` puts it in the current folder, or, for a recipe that ships, as it ships.
    """
    roots = (Path(), data_root()) if recipe.chain[0].is_built_in else (Path(),)
    locks = (root / ENVIRONMENTS / recipe.name / f"{system.name}-{uarch}" / LOCK for root in roots)
    found = next((read_lock(lock).versions() for lock in locks if lock.is_file()), None)
    return recipe_facts(recipe, system, uarch, found)


def recipe_facts(recipe: Recipe, system: System, uarch: str, lock: Mapping[str, Sequence[str]] | None = None) -> Facts:
    """Return the versions of a recipe's software on a node type, as facts. A package that it does not name is absent.

    Beside them its MPI, if that is not the one which the system prefers.
    lock: what it resolved to, package to versions, if that is known; nothing else counts then, unless it is not what
    the recipe asks for, and so of another state of it. Else what the system brings decides, before what the recipe asks
    for.
    """
    facts = facts_with_mpi(recipe, system, uarch)
    own_mpi = {"mpi": facts["mpi"]} if facts["mpi"] != system.facts(uarch)["mpi"] else {}
    wanted: dict[str, Versions | None] = {}
    for root in recipe.roots:
        if root.when.holds(facts):
            wanted[root.spec.package] = root.spec.versions
    coupled = {name: pin for name, (pin, _) in coupled_pins(recipe, facts).items()}
    for package, pin in {**coupled, **recipe.require}.items():
        if package in wanted and not wanted[package] and pin.when.holds(facts):
            wanted[package] = pin.version
    wanted |= {
        name: external.spec.versions
        for name, package in system.packages.items()
        if name in wanted and package.buildable is False
        for external in reversed(package.externals)
        if external.when.holds(facts)
    }
    named = {fact: software.package for fact, software in SOFTWARE.items()}
    if lock is not None and all(_is_met(wanted[name], lock.get(name)) for name in named.values() if name in wanted):
        return {**own_mpi, **{fact: next(iter(lock.get(name, ())), None) for fact, name in named.items()}}
    return {**own_mpi, **{fact: _version(wanted[name]) if name in wanted else None for fact, name in named.items()}}


def _is_met(constraint: Versions | None, locked: Sequence[str] | None) -> bool:
    return bool(locked) and (constraint is None or any(constraint.contains(Version(text)) for text in locked or ()))


def _version(constraint: Versions | None) -> str:
    return str(constraint.lowest) if constraint and constraint.lowest else ""


def runtimes_of(system: System, runtime: str | None = None, form: str = "") -> tuple[Runtime, ...]:
    """Return the runtime that is named, or those of the system; for a form, the first that reads it.

    Raises BadInput for a runtime that the system does not have, and for a form that none of its runtimes reads.
    """
    known = {name: load_runtime(name) for name in system.runtimes}
    require_known(f"runtime of {system.name}", [runtime] if runtime is not None else [], known)
    candidates = tuple(found for name, found in known.items() if runtime in (None, name))
    if not form:
        return candidates
    readers = [found for found in candidates if form in found.forms]
    if not readers:
        reads = "; ".join(f"{found.name} reads {', '.join(found.forms)}" for found in known.values() if found.forms)
        raise BadInput(f"no runtime of {system.name} reads --shell {form}", hint=f"{reads}; or take --shell bash")
    return (readers[0],)


def recipe_of_label(label: str) -> str | None:
    """Return the name of the recipe that a uenv's label is of, if one of that name and version is known."""
    found = _LABEL.match(label)
    name = f"{found[1]}-{found[2]}" if found else ""
    return name if name in available(RECIPE) else None


_NUMBERS = re.compile(r"[0-9]{1,9}([.-][0-9]{1,9})*\Z")
"""A version of numbers alone, as software tells its own."""


def known_facts(pairs: Mapping[str, str]) -> Facts:
    """Check facts that a user gives.

    Raises BadInput for a fact that no condition asks for and for a value that it cannot have.
    """
    problems = [unknown("fact", name, FACTS) for name in pairs if name not in FACTS]
    for name, value in pairs.items():
        if name in SOFTWARE and not _NUMBERS.match(value):
            problems.append(Problem(f"{name}={value!r} is not a version", hint=f"write for example {name}=2.27.3"))
        elif name == "nodes" and not (value.isdecimal() and value.strip("0")):
            problems.append(Problem(f"nodes={value!r} is no number of nodes", hint="write for example nodes=2"))
        elif name == "image" and value not in (images := known_images()):
            problems.append(unknown("image", value, images))
        elif not value or not all(character.isalnum() or character in "._-" for character in value):
            problems.append(Problem(f"{name}={value!r} is not a name", hint="write for example image=alps"))
    BadInput.raise_any(problems)
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


def narrowed(term: Term, runtimes: Sequence[str]) -> Term:
    """Return a term about the runtime with only the runtimes that can be; present if it is any of them."""
    if term.fact != "runtime" or term.operator != "in":
        return term
    values = tuple(name for name in runtimes if name in term.values)
    if len(values) == len(runtimes):
        return Term("runtime", "present")
    return Term("runtime", "in" if len(values) > 1 else "==", values)


def _absent(runtimes: Sequence[Runtime]) -> dict[str, None]:
    """Return the facts that cannot be where these are the runtimes."""
    absent: dict[str, None] = {}
    if not any(runtime.container for runtime in runtimes):
        absent["container"] = None
    if not any(runtime.images for runtime in runtimes):
        absent["image"] = None
    return absent


def _nodes(systems: Sequence[System], uarch: str | None) -> tuple[Facts, ...]:
    for system in systems:
        if uarch is not None and uarch not in system.nodes:
            raise BadInput([unknown(f"node type of {system.name}", uarch, system.nodes)])
    return tuple(system.facts(name) for system in systems for name in ([uarch] if uarch else system.nodes))


def _shared(nodes: Sequence[Facts]) -> dict[str, str | None]:
    return {name: value for name, value in nodes[0].items() if all(facts[name] == value for facts in nodes)}


def chosen_workarounds(tuning: Tuning, names: Iterable[str]) -> tuple[Workaround, ...]:
    """Return the workarounds of those names. Raises BadInput if one is unknown or two want different values."""
    wanted = list(dict.fromkeys(names))
    require_known("workaround", wanted, tuning.workarounds, listed_by=f"uenvtool list {WORKAROUNDS}")
    problems: list[Problem] = []
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
    BadInput.raise_any(problems)
    return chosen
