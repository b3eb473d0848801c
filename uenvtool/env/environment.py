"""The Spack environment of a recipe on a system, which plan.py plans and manifest.py renders as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from uenvtool.core.errors import Position
from uenvtool.env.compilers import Compiler
from uenvtool.knowledge.packages import Vulnerability
from uenvtool.knowledge.recipe import Addition, Recipe, Variable
from uenvtool.knowledge.secrets import storable
from uenvtool.knowledge.system import External, GitPin, NodeType, System
from uenvtool.knowledge.version import Versions

NAMESPACE = "uenvtool"
"""The namespace of the package repository with the additions of an environment."""
REPOSITORY = f"spack_repo/{NAMESPACE}"
NO_DEFAULT_VIEW = "  default view: none"
"""The line in the header of spack.yaml from which `image build` knows that the image has no default view."""
PACKAGE_API = "v2.2"
"""The package API of spack-packages v2026.06.0 and e79ba9f (in their repo.yaml). Spack v1.1.0 supports it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Root:
    """A root spec. text: the spec as Spack reads it. origin: the position in the file that names the package."""

    package: str
    text: str
    reason: str
    origin: Position
    version: Versions | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RootGroup:
    """A named group of root specs."""

    name: str
    reason: str
    roots: tuple[Root, ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A requirement with its reason. others: alternatives that Spack also accepts, in order of preference."""

    text: str
    reason: str = ""
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preference:
    """Versions that Spack uses if no requirement excludes them. origin: the position of the versions in their file."""

    versions: tuple[str, ...]
    reason: str
    origin: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageSettings:
    """The settings of one package in the environment.

    virtual: whether the package is virtual. A virtual package gets no architecture, but its providers do.
    variants: the value of Spack's key `variants`. strongly: the value of Spack's key `prefer`.
    """

    name: str
    virtual: bool = False
    require: tuple[Constraint, ...] = ()
    preferred: Preference | None = None
    variants: str = ""
    strongly: tuple[str, ...] = ()
    buildable: bool | None = None
    externals: tuple[External, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """A planned Spack environment.

    needs: for each package, the variants that it needs for the system's network, scheduler and GPUs. compilers: the
    compilers; packages use the first one unless they name another. pinned: the pinned versions by package. prepended:
    the directories to add to the view's path variables. output: the directory that the user chose, or "" for the
    default.
    """

    recipe: Recipe
    system: System
    node: NodeType
    groups: tuple[RootGroup, ...]
    variants: tuple[Constraint, ...]
    packages: tuple[PackageSettings, ...]
    needs: Mapping[str, tuple[str, ...]]
    compilers: tuple[Compiler, ...]
    variables: tuple[Variable, ...]
    prepended: dict[str, tuple[str, ...]]
    pinned: Mapping[str, Sequence[str]]
    cves: tuple[Vulnerability, ...]
    additions: tuple[Addition, ...]
    output: str = ""

    @property
    def purpose(self) -> str:
        return f"{self.recipe.name} for {self.system.name}, node type {self.node.uarch}"

    @property
    def architecture(self) -> str:
        """The operating system and CPU target of every root spec, in spec syntax."""
        return f"os={self.node.os} target={self.node.target}"

    @property
    def roots(self) -> tuple[Root, ...]:
        return tuple(root for group in self.groups for root in group.roots)

    @property
    def pins(self) -> dict[str, GitPin]:
        """The pins of the recipe's and the system's package repositories, by repository name, without secrets."""
        return storable({**self.recipe.repos, **self.system.repos})

    @property
    def has_secrets(self) -> bool:
        """Whether repository URLs of the recipe or the system contain secrets. The environment's files contain none."""
        pins = (self.recipe.spack, *self.recipe.repos.values(), *self.system.repos.values())
        return storable(pins) != pins

    def root_of(self, view: str) -> str:
        """Return the directory of a view: in the image if the system mounts images, otherwise in the environment."""
        return f"{self.system.mount}/env/{view}" if self.system.mount else f".spack-env/{view}"
