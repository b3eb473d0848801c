"""Plans the Spack environment of a recipe on a system, and reports every problem. Writes no files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from uenvtool.core.errors import BadInput
from uenvtool.env.compilers import LANGUAGES, Compiler, having, plan_compilers
from uenvtool.env.environment import Constraint, Environment, PackageSettings, Preference, Root, RootGroup
from uenvtool.env.node_packages import filled, network_needs, packages_of_node, preferences, unavailable_versions
from uenvtool.knowledge.checks import coupled_pins, load_recipe, load_tuning, unbuildable
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.mpi import ChosenMpi, choose_mpi, facts_with_mpi
from uenvtool.knowledge.place import choose
from uenvtool.knowledge.recipe import Pin, Recipe, RootSpec, Variable
from uenvtool.knowledge.settings import recipe_facts
from uenvtool.knowledge.system import System, SystemPackage
from uenvtool.knowledge.tuning import EXPECTED, holding
from uenvtool.knowledge.version import Version, Versions, versions

UENV = "uenv"
VIRTUAL = ("mpi", *LANGUAGES)
OF_THE_COMPILER = ("gcc-runtime", "compiler-wrapper")
"""Packages that Spack creates from the compiler. A preference for another version is an error or has no effect."""
OF_SEVERAL = (
    "Spack uses the first compiler for packages that name none, and another compiler if a spec names it or the first "
    "one cannot build the package"
)
"""The order of `any_of` is a preference (Spack v1.1.0, packages_yaml.rst, requirements syntax)."""


def named_environment(recipe_name: str, system: str | None, uarch: str | None) -> Environment:
    """Return the environment of a recipe for a system. Raises BadInput if either name is unknown or invalid."""
    recipe = load_recipe(recipe_name)
    choice = choose(recipe, system, uarch)
    return plan_environment(recipe, choice.system, choice.uarch)


def plan_environment(recipe: Recipe, system: System, uarch: str) -> Environment:
    """Return the environment of a recipe on a node type of a system.

    Raises BadInput if the system lacks something that the recipe needs, such as a GPU architecture or an MPI version.
    """
    if recipe.mount and system.mount:
        system = replace(system, mount=recipe.mount)
    facts = facts_with_mpi(recipe, system, uarch)
    mpi = choose_mpi(recipe, system, facts)
    needs = network_needs(system, mpi, facts)
    node_packages = packages_of_node(system, mpi, needs, facts)
    BadInput.raise_any([*unbuildable(recipe, facts), *unavailable_versions(recipe, system, mpi, node_packages, facts)])
    compilers = plan_compilers(recipe, system, system.nodes[uarch], node_packages, facts)
    hard, soft = hard_pins(recipe, facts), _soft_pins(recipe, facts, node_packages)
    groups = tuple(_groups(recipe, mpi, facts, hard))
    pinned = _pinned_versions(groups, hard, soft)
    variants = tuple(_global_variants(recipe, facts))
    roots = {root.package: root for group in groups for root in group.roots}
    preferred = {
        name: preferences(package, variants, roots.get(name), hard.get(name)) for name, package in node_packages.items()
    }
    return Environment(
        recipe=recipe,
        system=system,
        node=system.nodes[uarch],
        groups=groups,
        variants=variants,
        packages=tuple(_packages(recipe, system, mpi, compilers, node_packages, preferred, hard, soft)),
        needs={name: need.require for name, need in needs.items() if need.require},
        compilers=compilers,
        variables=tuple(_variables(recipe, system, facts)),
        prepended=_prepended(recipe, system, facts),
        cves=tuple(cve for cve in recipe.cves if _is_one_of(pinned.get(cve.package), cve.versions)),
        yanked=tuple(back for back in recipe.yanked if _is_one_of(pinned.get(back.package), back.versions)),
        additions=recipe.additions,
    )


def _pinned_versions(
    groups: Sequence[RootGroup], hard: Mapping[str, Pin], soft: Mapping[str, Preference]
) -> dict[str, Version]:
    """Return the version of each package for which a preference, a pin or a root spec names exactly one version."""
    constraints = {name: versions(preference.versions[0]) for name, preference in soft.items()}
    constraints |= {name: pin.version for name, pin in hard.items() if pin.version}
    constraints |= {root.package: root.version for group in groups for root in group.roots if root.version}
    return {name: constraint.single for name, constraint in constraints.items() if constraint.single}


def _is_one_of(version: Version | None, affected: Versions) -> bool:
    return version is not None and affected.contains(version)


def _global_variants(recipe: Recipe, facts: Facts) -> Iterator[Constraint]:
    for group in (recipe.variants[name] for name in recipe.global_variants):
        if group.when.holds(facts):
            yield from (Constraint(filled(value, facts, group.position), group.reason) for value in group.values)


def hard_pins(recipe: Recipe, facts: Facts) -> dict[str, Pin]:
    """Return the hard pins that apply: the recipe's pins, the Python version, and the pins that couplings add."""
    pins = {name: pin for name, pin in recipe.require.items() if pin.when.holds(facts)}
    if recipe.python:
        pins.setdefault("python", recipe.python)
    for name, (pin, _) in coupled_pins(recipe, facts).items():
        pins.setdefault(name, pin)
    return {name: replace(pin, variants=filled(pin.variants, facts, pin.position)) for name, pin in pins.items()}


def _groups(recipe: Recipe, mpi: ChosenMpi | None, facts: Facts, hard: dict[str, Pin]) -> Iterator[RootGroup]:
    if mpi:
        pin = hard.get(mpi.package)
        root = Root(
            package=mpi.package,
            text=mpi.text,
            reason=mpi.reason,
            origin=mpi.position,
            version=mpi.version or (pin.version if pin else None),
        )
        reason = "the MPI that the recipe names" if mpi.is_own else "the MPI for the network of this system"
        yield RootGroup(name="mpi", reason=reason, roots=(root,))
    for group in recipe.groups:
        roots = tuple(_root(entry, hard, facts) for entry in group.specs if entry.when.holds(facts))
        if roots:
            yield RootGroup(name=group.name, reason=group.reason, roots=roots)


def _root(entry: RootSpec, hard: dict[str, Pin], facts: Facts) -> Root:
    spec = entry.spec
    text = " ".join(filter(None, [spec.without_dependencies, spec.dependencies]))
    pin = hard.get(spec.package)
    return Root(
        package=spec.package,
        text=filled(text, facts, entry.position),
        reason=entry.reason,
        origin=entry.position,
        version=spec.versions or (pin.version if pin else None),
    )


def _languages(recipe: Recipe, compilers: Sequence[Compiler]) -> dict[str, Constraint]:
    """Return the compilers for each language: the recipe's main compiler, and the others as alternatives."""
    constraints = {}
    for language in LANGUAGES if recipe.compiler else ():
        if fitting := having(compilers, language):
            is_only = len(fitting) == 1
            first, *others = (compiler.root.spec.text if is_only else compiler.plain for compiler in fitting)
            known = fitting[0].root.reason
            reason = f"{known or fitting[0].plain}: {OF_SEVERAL}" if others else known or "one compiler for everything"
            constraints[language] = Constraint(first, reason, tuple(others))
    return constraints


def _packages(
    recipe: Recipe,
    system: System,
    mpi: ChosenMpi | None,
    compilers: Sequence[Compiler],
    node_packages: Mapping[str, SystemPackage],
    preferred: Mapping[str, tuple[str, tuple[str, ...]]],
    hard: Mapping[str, Pin],
    soft: Mapping[str, Preference],
) -> Iterator[PackageSettings]:
    virtual = _languages(recipe, compilers)
    if mpi:
        virtual["mpi"] = Constraint(mpi.text, f"the MPI of {recipe.name if mpi.is_own else system.name}")
    settings = {**node_packages, **{compiler.name: _of_compiler(compiler) for compiler in compilers}}
    for name in sorted({*hard, *soft, *settings, *virtual}):
        package = settings.get(name) or SystemPackage(name=name, position=system.tree.position)
        pin = hard.get(name)
        require = [virtual[name]] if name in virtual else []
        require += _reasoned(package.require, package.reason)
        require += _reasoned(_requirements(pin), pin.reason) if pin else []
        variants, strongly = preferred.get(name, ("", ()))
        settled = bool(pin and pin.version) or package.buildable is False
        yield PackageSettings(
            name=name,
            virtual=name in VIRTUAL or bool(pin and pin.provider),
            require=tuple(require),
            preferred=None if settled else soft.get(name),
            variants=variants,
            strongly=strongly,
            buildable=package.buildable,
            externals=package.externals,
            reason=package.reason if not package.require else "",
        )


def _of_compiler(compiler: Compiler) -> SystemPackage:
    return SystemPackage(
        name=compiler.name,
        position=compiler.root.position,
        externals=(compiler.external,),
        buildable=False,
        reason=f"built first, see {compiler.directory}/spack.yaml" if compiler.built_by else "provided by the system",
    )


def _requirements(pin: Pin) -> list[str]:
    version = f"@{pin.version}" if pin.version else ""
    return [text for text in (version, pin.variants, pin.provider) if text]


def _reasoned(texts: Sequence[str], reason: str) -> list[Constraint]:
    """Return the requirements of one package. Only the first requirement gets the reason, to print it once."""
    return [Constraint(text, reason if index == 0 else "") for index, text in enumerate(texts)]


def _soft_pins(recipe: Recipe, facts: Facts, node_packages: Mapping[str, SystemPackage]) -> dict[str, Preference]:
    """Return the preferred versions of each package.

    Later sources replace earlier ones: the published table, the recipe's differences from it, the system, and the
    recipe. A published version is left out if the package cannot have it, or if the system or the compiler determines
    the version, since Spack rejects a preference for an unknown version.
    """
    preferences_by_name: dict[str, Preference] = {}
    if recipe.published and recipe.published.prefer:
        for name, rows in recipe.published.table.by_package().items():
            package = node_packages.get(name)
            known = tuple(
                f"={row.spack_version}"
                for row in rows
                if row.when.holds(facts) and (package is None or package.allows(row.spack_version))
            )
            if known and name not in recipe.published.differences:
                preferences_by_name[name] = Preference(versions=known, reason="", origin=rows[0].position)
        for name, difference in recipe.published.differences.items():
            if difference.prefer:
                chosen = (f"={difference.prefer}",)
                preferences_by_name[name] = Preference(
                    versions=chosen, reason=difference.reason, origin=difference.position
                )
    for name, package in node_packages.items():
        if package.decides_version:
            preferences_by_name.pop(name, None)
        if package.prefer:
            preferences_by_name[name] = Preference(versions=package.prefer, reason="", origin=package.position)
    for name, pin in recipe.prefer.items():
        if pin.version and pin.when.holds(facts):
            preferences_by_name[name] = Preference(versions=(str(pin.version),), reason=pin.reason, origin=pin.position)
    return {name: preference for name, preference in preferences_by_name.items() if name not in OF_THE_COMPILER}


def _variables(recipe: Recipe, system: System, facts: Facts) -> Iterator[Variable]:
    """Yield the variables of the view: the system's tuning, then the recipe's variables with paths filled in."""
    places = _places(recipe, system, facts)
    recipe_names = {variable.name for variable in recipe.view.env if variable.when.holds(facts)}
    if recipe.view.tuning:
        yield from (variable for variable in _tuned(recipe, system, facts) if variable.name not in recipe_names)
    for variable in recipe.view.env:
        if variable.when.holds(facts):
            value = None if variable.value is None else filled(variable.value, places, variable.position)
            yield replace(variable, value=value)


def _prepended(recipe: Recipe, system: System, facts: Facts) -> dict[str, tuple[str, ...]]:
    """Return the recipe's directories for path variables, with paths filled in. The view's directories precede them."""
    places, position = _places(recipe, system, facts), recipe.tree.position
    named = recipe.view.prepend_path.items()
    return {name: tuple(filled(path, places, position) for path in paths) for name, paths in named}


def _places(recipe: Recipe, system: System, facts: Facts) -> Facts:
    view = f"{system.mount}/env/{recipe.view.name}" if system.mount else "$env/.spack-env/" + recipe.view.name
    return {**facts, "mount": system.mount, "view": recipe.view.name, "view_root": view}


def _tuned(recipe: Recipe, system: System, facts: Facts) -> Iterator[Variable]:
    """Yield the tuning for the recipe's versions in its image, except for settings that are computed at run time."""
    runtime = UENV if UENV in system.runtimes else next(iter(system.runtimes), None)
    outside = dict.fromkeys(("container", "image", "overlay"))
    known = {**facts, **recipe_facts(recipe, system, str(facts["uarch"])), "runtime": runtime, **outside}
    tuning = load_tuning(system.tuning)
    for setting in holding(tuning.settings, known):
        if not setting.from_ and setting.policy != EXPECTED:
            yield Variable(
                name=setting.name,
                value=setting.value,
                position=setting.position,
                reason=setting.reason,
                source=setting.source.name,
            )
