"""The compilers of an environment: those that the system brings, and those that are built into the image first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from uenvtool.core.errors import BadInput
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.locate import in_your_own
from uenvtool.knowledge.recipe import Pin, Recipe, RootSpec
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.system import External, NodeType, System, SystemPackage

LANGUAGES = ("c", "cxx", "fortran")
COMPILER = "compiler"
"""The folder of the environment that is installed first, if the system lacks the compiler."""
BUILDER = "gcc"
"""The compiler that the system's own builds, and that builds the others, as Stackinator does it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Buildable:
    """A compiler that Spack can build. programs: by language, below its prefix; variants: if the recipe names none.

    fortran: the variant without which it has no Fortran.
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
"""Source: these packages in spack-packages v2026.06.0; the variants are those of Stackinator 7 (docs/recipes.md)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiler:
    """A compiler of an environment. built_by: the package that builds it; None if the system brings it.

    One environment with one version of each package cannot both build a compiler and build everything else with it,
    so such a compiler has an environment of its own, built first, and is an external of the main one.
    """

    root: RootSpec
    external: External
    built_by: SystemPackage | None = None

    @property
    def name(self) -> str:
        """The package that it is."""
        return self.root.spec.package

    @property
    def folder(self) -> str:
        """The folder of the environment that builds it; those in folders of that of BUILDER are built by it."""
        return COMPILER if self.name == BUILDER else f"{COMPILER}/{self.name}"

    @property
    def plain(self) -> str:
        """Package and version, without variants."""
        return plain(self.external)

    @property
    def reason(self) -> str:
        """Why this compiler."""
        return self.root.reason or "one compiler for everything"

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of its programs."""
        return tuple(dict.fromkeys(path.rpartition("/")[0] for path in self.external.compilers.values()))


def plain(external: External) -> str:
    """Return package and version of an external, without its variants."""
    spec = external.spec
    return f"{spec.package}@{spec.versions}" if spec.versions else spec.package


def plan_compilers(
    recipe: Recipe, system: System, node: NodeType, brought: Mapping[str, SystemPackage], facts: Facts
) -> tuple[Compiler, ...]:
    """Return the recipe's compilers; the first builds what names no other. None if the recipe names none.

    Each is the system's own if it has that version, else it is built first: BUILDER by the system's, the others by the
    recipe's BUILDER, or the system's. Raises BadInput if it can be neither.
    """
    roots = [recipe.compiler] if recipe.compiler else []
    roots += [_root(pin) for pin in recipe.compilers.values() if pin.when.holds(facts)]
    builders = brought.get(BUILDER)
    found: dict[str, Compiler] = {}
    for root in sorted(roots, key=lambda root: root.spec.package != BUILDER):
        name = root.spec.package
        found[name] = _of_the_system(root, system, brought.get(name)) or _built(root, system, node, builders)
        if name == BUILDER:
            own = found[name].external
            builders = SystemPackage(name=BUILDER, position=own.position, externals=(own,), buildable=False)
    return tuple(found[name] for name in dict.fromkeys(root.spec.package for root in roots))


def having(compilers: Sequence[Compiler], language: str) -> list[Compiler]:
    """Return the compilers that have a language."""
    return [compiler for compiler in compilers if language in compiler.external.compilers]


def _root(pin: Pin) -> RootSpec:
    version = f"@{pin.version}" if pin.version else ""
    spec = parse_spec(f"{pin.package}{version} {pin.variants}".strip())
    return RootSpec(spec=spec, position=pin.position, reason=pin.reason or "for the specs that name it")


def _of_the_system(root: RootSpec, system: System, brought: SystemPackage | None) -> Compiler | None:
    """Return a compiler that the system has, whatever its variants.

    Raises BadInput if it has none, and no version is named to build.
    """
    wanted = root.spec.versions
    for external in brought.externals if brought else ():
        known = external.spec.versions
        if wanted is None or (known and known.single and wanted.contains(known.single)):
            named = parse_spec(f"{root.spec.package}@{wanted}" if wanted else root.spec.package)
            return Compiler(root=replace(root, spec=named), external=external)
    if wanted is None or wanted.single is None:
        raise BadInput(
            f"the compiler {root.spec} names no version, and {system.name} brings none",
            root.position,
            f"name one version, for example gcc@13.3.0{in_your_own(root.position)}",
        )
    return None


def _built(root: RootSpec, system: System, node: NodeType, builder: SystemPackage | None) -> Compiler:
    name, version = root.spec.package, str(root.spec.versions).lstrip("=")
    if name not in BUILDABLE:
        raise BadInput(
            f"{system.name} has no {root.spec}, and only {', '.join(BUILDABLE)} can be built first",
            root.position,
            f"give the system an external of {name} with its `compilers:`, or take one of these",
        )
    if not system.mount:
        has = system.packages[name].externals if name in system.packages else ()
        raise BadInput(
            f"{system.name} has no {root.spec}, and no folder to build it in",
            system.tree.position,
            "give the system a `mount`, or take a compiler that it has: "
            + (", ".join(str(e.spec) for e in has) or "none"),
        )
    if builder is None or not builder.externals:
        raise BadInput(
            f"{system.name} has no {BUILDER} that could build {root.spec}",
            system.tree.position,
            f"give it an external of {BUILDER} with its `compilers:`",
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
