"""Recipe x system -> the plan of a Spack environment; pure, the text comes from `manifest.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from uenvtool.errors import BadInput, Position, unknown
from uenvtool.model.checks import coupled_pins
from uenvtool.model.condition import Facts
from uenvtool.model.parts import Addition
from uenvtool.model.recipe import Group, Pin, Recipe, RootSpec, Variable, Vulnerability
from uenvtool.model.spec import parse_spec
from uenvtool.model.system import External, NodeType, System, SystemPackage
from uenvtool.model.tuning import EXPECTED, holding, recipe_facts
from uenvtool.model.tuning_reader import load_tuning
from uenvtool.model.version import Versions

PROGRAMS = {"c": "gcc", "cxx": "g++", "fortran": "gfortran"}
LANGUAGES = tuple(PROGRAMS)
ALL_LANGUAGES = "c,c++,fortran"
UENV = "uenv"
NAMESPACE = "uenvtool"
"""The namespace of the package repository that an environment carries."""
REPOSITORY = f"spack_repo/{NAMESPACE}"
PACKAGE_API = "v2.2"
"""The package API of spack-packages v2026.06.0 (its repo.yaml), which Spack v1.1.0 reads."""

_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Root:
    """A root spec as Spack gets it. origin: where it is asked for; pin: the version and who says so."""

    package: str
    text: str
    reason: str
    origin: Position
    version: Versions | None
    pinned_by: str


@dataclass(frozen=True, slots=True)
class RootGroup:
    """Root specs under a name."""

    name: str
    reason: str
    roots: tuple[Root, ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """One text with its reason."""

    text: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Preference:
    """Versions to take where nothing stands against them, and where that is said."""

    versions: tuple[str, ...]
    reason: str
    origin: Position


@dataclass(frozen=True, slots=True)
class PackageSettings:
    """What the environment says of one package."""

    name: str
    require: tuple[Constraint, ...] = ()
    preferred: Preference | None = None
    buildable: bool | None = None
    externals: tuple[External, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Compiler:
    """The compiler of an environment. first: what builds it, where the system does not bring it.

    One environment with one version of each package cannot both build a compiler with the system's
    and build everything else with it, so such a compiler has an environment of its own, built first,
    and is an external of the main one.
    """

    root: RootSpec
    external: External
    first: SystemPackage | None

    @property
    def reason(self) -> str:
        """Why this compiler."""
        return self.root.reason or "one compiler for everything"


@dataclass(frozen=True, slots=True)
class Environment:
    """A Spack environment, ready to be written down."""

    recipe: Recipe
    system: System
    node: NodeType
    groups: tuple[RootGroup, ...]
    variants: tuple[Constraint, ...]
    packages: tuple[PackageSettings, ...]
    compiler: Compiler | None
    variables: tuple[Variable, ...]
    cves: tuple[Vulnerability, ...]
    additions: tuple[Addition, ...]

    @property
    def architecture(self) -> str:
        """The operating system and CPU target that every root names."""
        return f"os={self.node.os} target={self.node.target}"

    @property
    def roots(self) -> tuple[Root, ...]:
        """Every root, in order."""
        return tuple(root for group in self.groups for root in group.roots)

    @property
    def view_root(self) -> str:
        """Where the view lies: in the image where the system mounts one, else in the environment."""
        view = self.recipe.view.name
        return f"{self.system.mount}/env/{view}" if self.system.mount else f".spack-env/{view}"


def plan_environment(recipe: Recipe, system: System, uarch: str) -> Environment:
    """The environment of a recipe on a node type of a system.

    Raises BadInput where the recipe needs something of the system that it has not, such as a GPU
    architecture or a version of its MPI provider.
    """
    facts = system.facts(uarch)
    variants = {
        name: tuple(filled(value, facts, group.position) for value in group.values)
        for name, group in recipe.variants.items()
        if group.when.holds(facts)
    }
    hard = _hard_pins(recipe, facts)
    compiler = _compiler(recipe, system)
    groups = tuple(_groups(recipe, system, facts, variants, hard))
    wanted = {root.package: root.version for group in groups for root in group.roots}
    return Environment(
        recipe=recipe,
        system=system,
        node=system.node(uarch),
        groups=groups,
        variants=tuple(
            Constraint(value, recipe.variants[name].reason)
            for name in recipe.global_variants
            for value in variants.get(name, ())
        ),
        packages=tuple(_packages(recipe, system, facts, hard, compiler)),
        compiler=compiler,
        variables=tuple(_variables(recipe, system, facts)),
        cves=tuple(_vulnerable(recipe, wanted)),
        additions=_additions(recipe, system),
    )


def filled(text: str, facts: Facts, position: Position) -> str:
    """The text with each ${fact} replaced by its value; BadInput where there is none."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in facts:
            raise BadInput([unknown("fact", name, facts, position)])
        found = facts[name]
        if found is None:
            raise BadInput(
                f"${{{name}}} has no value on {facts.get('system')}, node type {facts.get('uarch')}",
                position,
                "give the entry a condition, for example `when: gpu == nvidia`",
            )
        return found

    return _PLACEHOLDER.sub(value, text)


def _hard_pins(recipe: Recipe, facts: Facts) -> dict[str, Pin]:
    """Every hard pin that holds here: the recipe's own, Python's, and those that couplings add."""
    pins = {name: pin for name, pin in recipe.require.items() if pin.when.holds(facts)}
    if recipe.python:
        pins.setdefault("python", recipe.python)
    for name, (pin, _) in coupled_pins(recipe).items():
        pins.setdefault(name, pin)
    return pins


def _groups(
    recipe: Recipe, system: System, facts: Facts, variants: dict[str, tuple[str, ...]], hard: dict[str, Pin]
) -> Iterator[RootGroup]:
    mpi = _mpi_pin(recipe, system)
    if mpi:
        text = f"{mpi.package}@{mpi.versions}" if mpi.versions else mpi.package
        root = Root(mpi.package, text, mpi.reason, mpi.position, mpi.versions, "mpi")
        yield RootGroup("mpi", "the MPI that this system's network is made for", (root,))
    for group in recipe.groups:
        roots = tuple(_root(entry, group, variants, hard, facts) for entry in group.specs if entry.when.holds(facts))
        if roots:
            yield RootGroup(group.name, group.reason, roots)


def _root(
    entry: RootSpec, group: Group, variants: dict[str, tuple[str, ...]], hard: dict[str, Pin], facts: Facts
) -> Root:
    spec = entry.spec
    extra = [value for name in group.variants for value in variants.get(name, ())]
    own = " ".join([filled(spec.own, facts, entry.position), *extra])
    pin = hard.get(spec.package)
    version = spec.versions or (pin.versions if pin else None)
    pinned_by = "spec" if spec.versions else "pin" if pin and pin.versions else ""
    return Root(spec.package, f"{own} {spec.edges}".strip(), entry.reason, entry.position, version, pinned_by)


def _mpi_pin(recipe: Recipe, system: System) -> Pin | None:
    """The recipe's version of the system's MPI provider; None for a recipe without MPI."""
    if not recipe.mpi or system.mpi is None:
        return None
    if system.mpi not in recipe.mpi:
        raise BadInput(
            f"{recipe.name} has no version of {system.mpi}, the MPI of {system.name}",
            recipe.tree.value["mpi"].key,
            f"add `{system.mpi}: VERSION` here; it has {', '.join(recipe.mpi)}",
        )
    return recipe.mpi[system.mpi]


def _compiler(recipe: Recipe, system: System) -> Compiler | None:
    """The recipe's compiler: the system's own where it has that version, else one built first."""
    root = recipe.compiler
    if root is None:
        return None
    brought = system.packages.get(root.spec.package)
    for external in brought.externals if brought else ():
        if root.spec.versions is None or _has_version(external, root.spec.versions):
            return Compiler(root, external, None)
    if root.spec.versions is None or root.spec.versions.single is None:
        raise BadInput(
            f"the compiler {root.spec} names no version, and {system.name} brings none",
            root.position,
            "name one version, for example gcc@13.3.0",
        )
    if not system.mount:
        raise BadInput(
            f"{system.name} has no {root.spec}, and names no place where to build it",
            root.position,
            "give the system a `mount`, or take a compiler that it has: "
            + (", ".join(str(each.spec) for each in brought.externals) if brought else "none"),
        )
    version = str(root.spec.versions).lstrip("=")
    name = root.spec.package
    prefix = f"{system.mount}/compilers/{name}-{version}"
    compilers = {language: f"{prefix}/bin/{program}" for language, program in PROGRAMS.items()}
    spec = parse_spec(f"{name}@{version} languages={ALL_LANGUAGES}")
    return Compiler(root, External(spec, prefix, compilers, root.position), brought)


def _has_version(external: External, wanted: Versions) -> bool:
    known = external.spec.versions
    return known is not None and known.single is not None and wanted.contains(known.single)


def _packages(
    recipe: Recipe, system: System, facts: Facts, hard: dict[str, Pin], compiler: Compiler | None
) -> Iterator[PackageSettings]:
    """The settings of every package that the recipe or the system says something of, by name."""
    soft = _soft_pins(recipe, facts)
    mpi = _mpi_pin(recipe, system)
    virtual: dict[str, Constraint] = {}
    brings = dict(system.packages)
    if compiler:
        name = compiler.root.spec.package
        virtual = {language: Constraint(compiler.root.spec.text, compiler.reason) for language in LANGUAGES}
        reason = "built first, see compiler/spack.yaml" if compiler.first else "the system's own"
        brings[name] = SystemPackage(name, (compiler.external,), False, (), reason)
    if mpi:
        text = f"{mpi.package}@{mpi.versions}" if mpi.versions else mpi.package
        virtual["mpi"] = Constraint(text, f"the MPI of {system.name}")
    for name in sorted({*hard, *soft, *brings, *virtual}):
        brought = brings.get(name)
        pin = hard.get(name)
        require = [virtual[name]] if name in virtual else []
        require += [Constraint(text, brought.reason) for text in brought.require] if brought else []
        require += _constraints(pin) if pin else []
        yield PackageSettings(
            name=name,
            require=tuple(require),
            preferred=None if _decided(pin, brought) else soft.get(name),
            buildable=brought.buildable if brought else None,
            externals=brought.externals if brought else (),
            reason=brought.reason if brought and not brought.require else "",
        )


def _decided(pin: Pin | None, brought: SystemPackage | None) -> bool:
    """Whether the version is settled by a hard pin or by what the system brings, so that none is preferred."""
    return bool(pin and pin.versions) or bool(brought and brought.buildable is False)


def _constraints(pin: Pin) -> list[Constraint]:
    """A pin as the constraints that Spack gets, the reason at the first."""
    texts = [f"@{pin.versions}"] if pin.versions else []
    texts += [text for text in (pin.variants, pin.provider) if text]
    return [Constraint(text, pin.reason if index == 0 else "") for index, text in enumerate(texts)]


def _soft_pins(recipe: Recipe, facts: Facts) -> dict[str, Preference]:
    """Package to the versions to prefer: the published ones but for the differences, then the recipe's own."""
    found: dict[str, Preference] = {}
    if recipe.published and recipe.prefer_published:
        for name, rows in recipe.published.by_package().items():
            if name not in recipe.differences:
                found[name] = Preference(tuple(f"={row.spack_version}" for row in rows), "", rows[0].position)
        for name, difference in recipe.differences.items():
            if difference.prefer:
                found[name] = Preference((f"={difference.prefer}",), difference.reason, difference.position)
    for name, pin in recipe.prefer.items():
        if pin.versions and pin.when.holds(facts):
            found[name] = Preference((str(pin.versions),), pin.reason, pin.position)
    return found


def _variables(recipe: Recipe, system: System, facts: Facts) -> Iterator[Variable]:
    """What the view sets: the system's tuning, then the recipe's own, with the places of the image filled in."""
    view = f"{system.mount}/env/{recipe.view.name}" if system.mount else "$env/.spack-env/" + recipe.view.name
    places = {**facts, "mount": system.mount, "view": recipe.view.name, "view_root": view}
    own = {variable.name for variable in recipe.view.env if variable.when.holds(facts)}
    if recipe.view.tuning:
        yield from (variable for variable in _tuned(recipe, system, facts) if variable.name not in own)
    for variable in recipe.view.env:
        if variable.when.holds(facts):
            value = None if variable.value is None else filled(variable.value, places, variable.position)
            yield Variable(variable.name, value, variable.position, variable.reason, variable.source)


def _tuned(recipe: Recipe, system: System, facts: Facts) -> Iterator[Variable]:
    """The tuning that holds for the recipe's versions where its image runs; what is computed there is left out."""
    runtime = UENV if UENV in system.runtimes else next(iter(system.runtimes), None)
    known = {**facts, **recipe_facts(recipe, facts), "runtime": runtime, "image": None, "overlay": None}
    tuning = load_tuning(system.tuning, system.tree.position)
    for setting in holding(tuning.settings, known):
        if not setting.computed and setting.policy != EXPECTED:
            yield Variable(setting.name, setting.value, setting.position, setting.reason, setting.source.name)


def _vulnerable(recipe: Recipe, wanted: dict[str, Versions | None]) -> Iterator[Vulnerability]:
    """The known vulnerabilities of the versions that the environment asks for."""
    pinned = {name: pin.versions for name, pin in recipe.require.items()} | wanted
    for vulnerability in recipe.cves:
        asked = pinned.get(vulnerability.package)
        if asked and asked.single and vulnerability.versions.contains(asked.single):
            yield vulnerability


def _additions(recipe: Recipe, system: System) -> tuple[Addition, ...]:
    """The package additions of recipe and system; the recipe's hide the system's."""
    found = {addition.target: addition for addition in (*system.additions, *recipe.additions)}
    return tuple(found[target] for target in sorted(found))
