"""Plans the Spack environment of a recipe on a system, and reports every problem. Writes no files.

The settings of a package come from the system file, the needs of the system's fabric, and the recipe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from uenvtool.core.errors import BadInput, Problem
from uenvtool.core.words import grouped
from uenvtool.env.compilers import LANGUAGES, Compiler, having, plain, plan_compilers
from uenvtool.env.environment import Constraint, Environment, PackageSettings, Preference, Root, RootGroup
from uenvtool.knowledge.checks import coupled_pins, hard_requests, load_recipe, load_tuning, unbuildable
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.fabric import network_needs, node_packages
from uenvtool.knowledge.facts import filled
from uenvtool.knowledge.mpi import ChosenMpi, choose_mpi, facts_with_mpi
from uenvtool.knowledge.packages import Pin, package_facts
from uenvtool.knowledge.place import choose
from uenvtool.knowledge.recipe import Recipe, RootSpec, Variable, facts_with_paths
from uenvtool.knowledge.settings import recipe_facts
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.system import System, SystemPackage
from uenvtool.knowledge.tuning import EXPECTED, holding
from uenvtool.knowledge.version import versions

UENV = "uenv"
VIRTUAL = ("mpi", *LANGUAGES)
OF_THE_COMPILER = ("gcc-runtime", "compiler-wrapper")
"""Packages that Spack derives from the compiler. A preference for another version has no effect or is an error."""
OF_SEVERAL = (
    "Spack uses the first compiler for packages that name none, and another compiler if a spec names it or the first "
    "one cannot build the package"
)
"""The reason for a requirement `any_of`, whose order is a preference (Spack v1.1.0, packages_yaml.rst)."""


def named_environment(recipe_name: str, system: str | None, uarch: str | None) -> Environment:
    """Return the environment of a recipe for a system. Raises BadInput if either name is unknown or invalid."""
    recipe = load_recipe(recipe_name)
    choice = choose(recipe, system, uarch)
    return plan_environment(recipe, choice.system, choice.uarch)


def plan_environment(recipe: Recipe, system: System, uarch: str) -> Environment:
    """Return the environment of a recipe on a node type of a system.

    Raises BadInput if the system does not meet the recipe's needs, such as a GPU architecture or an MPI version.
    """
    if recipe.mount and system.mount:
        system = replace(system, mount=recipe.mount)
    facts = facts_with_mpi(recipe, system, uarch)
    mpi = choose_mpi(recipe, system, facts)
    node_packages, needed = _node_packages(recipe, system, mpi, facts)
    BadInput.raise_any([*unbuildable(recipe, facts), *_unavailable_versions(recipe, system, mpi, node_packages, facts)])
    compilers = plan_compilers(recipe, system, system.nodes[uarch], node_packages, facts)
    hard, soft = _hard_pins(recipe, facts), _soft_pins(recipe, facts, node_packages)
    groups = tuple(_groups(recipe, mpi, facts, hard))
    variants = tuple(
        Constraint(filled(value, facts, group.position), group.reason)
        for group in (recipe.variants[name] for name in recipe.global_variants)
        if group.when.holds(facts)
        for value in group.values
    )
    roots = {root.package: root for group in groups for root in group.roots}
    constraints = {name: versions(preference.versions[0]) for name, preference in soft.items()}
    constraints |= {name: pin.version for name, pin in hard.items() if pin.version}
    constraints |= {name: root.version for name, root in roots.items() if root.version}
    pinned = {name: [str(constraint.single)] for name, constraint in constraints.items() if constraint.single}
    preferred = {
        name: _preferences(package, variants, roots.get(name), hard.get(name))
        for name, package in node_packages.items()
    }
    known, position = facts_with_paths(recipe, system, facts), recipe.tree.position
    prepended = {
        name: tuple(filled(path, known, position) for path in paths) for name, paths in recipe.view.prepend_path.items()
    }
    return Environment(
        recipe=recipe,
        system=system,
        node=system.nodes[uarch],
        groups=groups,
        variants=variants,
        packages=tuple(_packages(recipe, system, mpi, compilers, node_packages, preferred, hard, soft)),
        needs=needed,
        compilers=compilers,
        variables=tuple(_variables(recipe, system, facts)),
        prepended=prepended,
        pinned=pinned,
        cves=package_facts().about(pinned).cves,
        additions=recipe.additions,
    )


def _hard_pins(recipe: Recipe, facts: Facts) -> dict[str, Pin]:
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
    constraints = {}
    for language in LANGUAGES if recipe.compiler else ():
        if fitting := having(compilers, language):
            reason = fitting[0].root.reason
            first, *others = (plain(compiler.external) for compiler in fitting)
            if others:
                constraints[language] = Constraint(first, f"{reason or first}: {OF_SEVERAL}", tuple(others))
            else:
                spec = fitting[0].root.spec.text
                constraints[language] = Constraint(spec, reason or "one compiler for everything")
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
        require += [Constraint(default.spec, default.reason) for default in package.defaults or ()]
        if pin:
            version = f"@{pin.version}" if pin.version else ""
            require += _reasoned([text for text in (version, pin.variants, pin.provider) if text], pin.reason)
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
            reason=package.reason if not package.required else "",
        )


def _of_compiler(compiler: Compiler) -> SystemPackage:
    return SystemPackage(
        name=compiler.name,
        position=compiler.root.position,
        externals=(compiler.external,),
        buildable=False,
        reason=f"built first, see {compiler.directory}/spack.yaml" if compiler.built_by else "provided by the system",
    )


def _reasoned(texts: Sequence[str], reason: str) -> list[Constraint]:
    return [Constraint(text, "" if index else reason) for index, text in enumerate(texts)]  # print the reason once


def _soft_pins(recipe: Recipe, facts: Facts, node_packages: Mapping[str, SystemPackage]) -> dict[str, Preference]:
    """Return the preferred versions of each package, by name.

    Later sources replace earlier sources: the published table, the recipe's differences from it, the system, and the
    recipe. Spack rejects a preference for an unknown version. Therefore the result omits a published version that the
    package does not allow, and any published version if the system or the compiler determines the version.
    """
    preferred: dict[str, Preference] = {}
    if recipe.published and recipe.published.prefer:
        for name, rows in recipe.published.table.by_package().items():
            package = node_packages.get(name)
            known = tuple(
                f"={row.spack_version}"
                for row in rows
                if row.when.holds(facts) and (package is None or package.allows(row.spack_version))
            )
            if known and name not in recipe.published.differences:
                preferred[name] = Preference(known, reason="", origin=rows[0].position)
        for name, difference in recipe.published.differences.items():
            if difference.prefer:
                preferred[name] = Preference((f"={difference.prefer}",), difference.reason, difference.position)
    for name, package in node_packages.items():
        if package.decides_version:
            preferred.pop(name, None)
        if package.prefer:
            preferred[name] = Preference(package.prefer, reason="", origin=package.position)
    for name, pin in recipe.prefer.items():
        if pin.version and pin.when.holds(facts):
            preferred[name] = Preference((str(pin.version),), pin.reason, pin.position)
    return {name: preference for name, preference in preferred.items() if name not in OF_THE_COMPILER}


def _variables(recipe: Recipe, system: System, facts: Facts) -> Iterator[Variable]:
    known = facts_with_paths(recipe, system, facts)
    recipe_names = {variable.name for variable in recipe.view.env if variable.when.holds(facts)}
    if recipe.view.tuning:
        yield from (variable for variable in _tuned(recipe, system, facts) if variable.name not in recipe_names)
    for variable in recipe.view.env:
        if variable.when.holds(facts):
            value = variable.value
            yield replace(variable, value=value and filled(value, known, variable.position))


def _tuned(recipe: Recipe, system: System, facts: Facts) -> Iterator[Variable]:
    runtime = UENV if UENV in system.runtimes else next(iter(system.runtimes), None)
    outside = dict.fromkeys(("container", "image", "overlay"))
    known = {**facts, **recipe_facts(recipe, system, str(facts["uarch"])), "runtime": runtime, **outside}
    for setting in holding(load_tuning(system.tuning).settings, known):
        if not setting.from_ and setting.policy != EXPECTED:  # uenvtool computes `from` at run time
            yield Variable(
                name=setting.name,
                value=setting.value,
                position=setting.position,
                reason=setting.reason,
            )


def _node_packages(
    recipe: Recipe, system: System, mpi: ChosenMpi | None, facts: Facts
) -> tuple[dict[str, SystemPackage], dict[str, tuple[str, ...]]]:
    """Return the settings of the packages of a node, and the constraints that the lock must meet, by package."""
    set_by = [(root.spec.package, root.spec.without_dependencies) for root in recipe.roots if root.when.holds(facts)]
    set_by += [(name, pin.variants) for name, pin in recipe.require.items() if pin.when.holds(facts)]
    set_by += [(mpi.package, mpi.variants)] if mpi else []
    groups = [group for name in recipe.global_variants if (group := recipe.variants[name]).when.holds(facts)]
    preferred = [value for group in groups for value in group.values]
    package = mpi.package if mpi else None
    needs = network_needs(system, facts, mpi=package, set_by=grouped(set_by), preferred=preferred)
    unused = {offered.package for offered in system.mpi} - {mpi.package} if mpi else set()
    packages = node_packages(system, facts, needs, unused)
    return packages, {name: packages[name].required for name in needs}


def _unavailable_versions(
    recipe: Recipe, system: System, mpi: ChosenMpi | None, node_packages: Mapping[str, SystemPackage], facts: Facts
) -> Iterator[Problem]:
    provided = {name: package for name, package in node_packages.items() if package.buildable is False}
    if mpi and mpi.is_own and mpi.package in provided and not provided[mpi.package].externals:
        offered = ", ".join(choice.package for choice in system.mpi) or "none"
        yield Problem(
            f"{recipe.name} needs {mpi.text}, which cannot be built ({provided[mpi.package].reason}), "
            f"and {system.name} offers only {offered}",
            mpi.position,
            "use an MPI that the system offers, or one that Spack can build, such as openmpi",
        )
    for request in hard_requests(recipe, facts):
        package = provided.get(request.package)
        known = [external.spec.versions for external in package.externals] if package else []
        if package and known and not any(have is None or have.intersects(request.versions) for have in known):
            yield Problem(
                f"{recipe.name} needs {request.package}@{request.versions}, but {system.name} has only "
                f"{', '.join(map(str, known))} and cannot build another version",
                request.position,
                f"require one of these versions, or add an external at {package.position}",
            )


def _preferences(
    package: SystemPackage, everywhere: Sequence[Constraint], root: Root | None, pin: Pin | None
) -> tuple[str, tuple[str, ...]]:
    """Return the values of Spack's keys `variants` and `prefer` for a package.

    The result omits variants that all packages prefer, or that the root spec or a pin already sets. If a package has
    `variants`, Spack does not apply the variants of `all`, so the result repeats them. Spack ignores an unknown variant
    in `variants`, but reports an error for an unknown variant in `prefer`.
    """
    of_all = " ".join(variant.text for variant in everywhere)
    known = {
        name
        for text in (of_all, root.text if root else "", pin.variants if pin else "", *package.required)
        for name in _variants(text)
    }
    is_versioned = bool((root and root.version) or (pin and pin.version))
    adds_variants = not _variants(package.variants).keys() <= known
    needs_join = adds_variants and of_all
    joined = parse_spec(package.variants).over(parse_spec(of_all)).text if needs_join else package.variants
    strongly = [(text, parse_spec(text)) for text in package.prefer_strongly]
    return joined if adds_variants else "", tuple(
        text
        for text, spec in strongly
        if (spec.versions is None or not is_versioned) and not (spec.words and spec.words.keys() <= known)
    )


def _variants(text: str) -> dict[str, str]:
    return parse_spec(text).words if text else {}
