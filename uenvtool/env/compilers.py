"""The compilers of an environment: provided by the system, or built into the image before the other packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from uenvtool.core.errors import BadInput
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.locate import in_your_own
from uenvtool.knowledge.packages import Pin
from uenvtool.knowledge.recipe import Recipe, RootSpec
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.system import External, NodeType, System, SystemPackage

LANGUAGES = ("c", "cxx", "fortran")
COMPILER = "compiler"
"""The directory of the environment that builds a compiler, if the system does not have this compiler."""
BUILDER = "gcc"
"""The package that Spack builds with the system's gcc and that then builds the other compilers, as in Stackinator."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Buildable:
    """A compiler that Spack can build.

    programs: the path of the compiler for each language, relative to the prefix. variants: the default variants, for
    recipes that name none. fortran: the variant that adds Fortran, or "" if no variant is needed.
    """

    programs: Mapping[str, str]
    variants: str
    fortran: str = ""


_OF_NVHPC = "Linux_{node.machine}/{version}/compilers/bin"
BUILDABLE = {
    BUILDER: Buildable(
        programs={"c": "bin/gcc", "cxx": "bin/g++", "fortran": "bin/gfortran"}, variants="languages=c,c++,fortran"
    ),
    "llvm": Buildable(
        programs={"c": "bin/clang", "cxx": "bin/clang++", "fortran": "bin/flang"}, variants="+clang", fortran="+flang"
    ),
    "nvhpc": Buildable(
        programs={"c": f"{_OF_NVHPC}/nvc", "cxx": f"{_OF_NVHPC}/nvc++", "fortran": f"{_OF_NVHPC}/nvfortran"},
        variants="~blas~lapack~mpi",
    ),
}
"""The compilers that uenvtool can build, by package.

Sources: their packages in spack-packages v2026.06.0, and the variants in Stackinator 7 (docs/recipes.md).
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiler:
    """A compiler of an environment. built_by: the package that builds the compiler, or None if the system provides it.

    An environment with one version of each package cannot build a compiler and then use it for the other packages.
    Therefore uenvtool builds the compiler in a separate environment. It is an external of the main environment.
    """

    root: RootSpec
    external: External
    built_by: SystemPackage | None = None

    @property
    def name(self) -> str:
        return self.root.spec.package

    @property
    def directory(self) -> str:
        """The directory of the environment that builds the compiler.

        BUILDER's directory contains the directories of the other compilers, since BUILDER builds them.
        """
        return COMPILER if self.name == BUILDER else f"{COMPILER}/{self.name}"

    @property
    def program_directories(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path.rpartition("/")[0] for path in self.external.compilers.values()))


def plain(external: External) -> str:
    """Return the name and version of an external, without its variants."""
    spec = external.spec
    return f"{spec.package}@{spec.versions}" if spec.versions else spec.package


def plan_compilers(
    recipe: Recipe, system: System, node: NodeType, node_packages: Mapping[str, SystemPackage], facts: Facts
) -> tuple[Compiler, ...]:
    """Return the recipe's compilers. Packages use the first compiler unless they name another.

    uenvtool uses a compiler of the system if its version matches the recipe, and builds any other compiler. The
    system's BUILDER builds the recipe's BUILDER. The recipe's BUILDER, or else the system's, builds the other
    compilers. Raises BadInput if the system does not have a compiler and uenvtool cannot build it.
    """
    roots = [recipe.compiler] if recipe.compiler else []
    roots += [_root(pin) for pin in recipe.compilers.values() if pin.when.holds(facts)]
    builders = node_packages.get(BUILDER)
    planned: dict[str, Compiler] = {}
    for root in sorted(roots, key=lambda root: root.spec.package != BUILDER):
        name = root.spec.package
        planned[name] = _provided_by_system(root, system, node_packages.get(name)) or _built(
            root, system, node, builders
        )
        if name == BUILDER:
            external = planned[name].external
            builders = SystemPackage(name=BUILDER, position=external.position, externals=(external,), buildable=False)
    return tuple(planned[name] for name in dict.fromkeys(root.spec.package for root in roots))


def having(compilers: Sequence[Compiler], language: str) -> list[Compiler]:
    """Return the compilers that support a language."""
    return [compiler for compiler in compilers if language in compiler.external.compilers]


def _root(pin: Pin) -> RootSpec:
    version = f"@{pin.version}" if pin.version else ""
    spec = parse_spec(f"{pin.package}{version} {pin.variants}".strip())
    return RootSpec(spec=spec, position=pin.position, reason=pin.reason or "for the specs that name it")


def _provided_by_system(root: RootSpec, system: System, package: SystemPackage | None) -> Compiler | None:
    requested = root.spec.versions
    for external in package.externals if package else ():
        known = external.spec.versions
        if requested is None or (known and known.single and requested.contains(known.single)):
            spec = parse_spec(f"{root.spec.package}@{requested}" if requested else root.spec.package)
            return Compiler(root=replace(root, spec=spec), external=external)  # whatever its variants are
    if requested is None or requested.single is None:
        raise BadInput(
            f"{system.name} has no compiler {root.spec}, and the recipe does not name one version to build",
            root.position,
            f"name one version, for example gcc@13.3.0{in_your_own(root.position)}",
        )
    return None


def _built(root: RootSpec, system: System, node: NodeType, builder: SystemPackage | None) -> Compiler:
    name, version = root.spec.package, str(root.spec.versions).lstrip("=")
    if name not in BUILDABLE:
        raise BadInput(
            f"{system.name} has no {root.spec}, and uenvtool can build only {', '.join(BUILDABLE)}",
            root.position,
            f"use one of these compilers, or add an external of {name} with `compilers:` to the system",
        )
    if not system.mount:
        externals = system.packages[name].externals if name in system.packages else ()
        present = ", ".join(str(external.spec) for external in externals)
        raise BadInput(
            f"{system.name} has neither {root.spec} nor a `mount`, which is needed to build it",
            system.tree.position,
            f"add `mount` to the system{f', or use a compiler that it has: {present}' if present else ''}",
        )
    if builder is None or not builder.externals:
        raise BadInput(
            f"{system.name} has no {BUILDER} that could build {root.spec}",
            system.tree.position,
            f"add an external of {BUILDER} with `compilers:` to the system",
        )
    kind, prefix = BUILDABLE[name], f"{system.mount}/compilers/{name}-{version}"
    variants = " ".join(root.spec.words.values()) or kind.variants
    compilers = {
        language: f"{prefix}/{program.format(node=node, version=version)}"
        for language, program in kind.programs.items()
        if language != "fortran" or kind.fortran in variants
    }
    spec = parse_spec(f"{name}@{version} {variants}")
    external = External(spec=spec, prefix=prefix, compilers=compilers, position=root.position)
    return Compiler(root=root, external=external, built_by=builder)
