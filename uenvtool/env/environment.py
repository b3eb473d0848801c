"""A Spack environment of a recipe on a system, planned (`plan.py`) and not yet written down (`manifest.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from uenvtool.core.errors import Position
from uenvtool.env.compilers import Compiler
from uenvtool.knowledge.recipe import Addition, Recipe, Variable, Vulnerability, Yanked
from uenvtool.knowledge.system import External, GitPin, NodeType, System
from uenvtool.knowledge.version import Versions

NAMESPACE = "uenvtool"
"""The namespace of the package repository that an environment carries."""
REPOSITORY = f"spack_repo/{NAMESPACE}"
PACKAGE_API = "v2.2"
"""The package API of spack-packages v2026.06.0 and e79ba9f (their repo.yaml), which Spack v1.1.0 reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Root:
    """A root spec as Spack gets it.

    origin: the place that names it. version: the constraint on its version, if any.
    """

    package: str
    text: str
    reason: str
    origin: Position
    version: Versions | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RootGroup:
    """Root specs under a name."""

    name: str
    reason: str
    roots: tuple[Root, ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """One text with its reason. others: what will do as well where a spec names it."""

    text: str
    reason: str = ""
    others: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Preference:
    """Versions to take if nothing stands against them. origin: the place that names them."""

    versions: tuple[str, ...]
    reason: str
    origin: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageSettings:
    """What the environment says of one package.

    virtual: what provides it has the architecture, it has none itself. variants, strongly: what
    is taken if nothing stands against it, to Spack `variants` and `prefer`.
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
    """A Spack environment, ready to be written down.

    compilers: the first builds what names no other. needs: package to the variants without which it does not reach the
    network, by the system's fabric. prepended: folders of the view's path variables, beside its own. output: the folder
    that a user names for it, "" for the usual.
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
    cves: tuple[Vulnerability, ...]
    yanked: tuple[Yanked, ...]
    additions: tuple[Addition, ...]
    output: str = ""

    @property
    def purpose(self) -> str:
        """What the environment is for, in words: recipe, system and node type."""
        return f"{self.recipe.name} for {self.system.name}, node type {self.node.uarch}"

    @property
    def architecture(self) -> str:
        """The operating system and CPU target that every root names."""
        return f"os={self.node.os} target={self.node.target}"

    @property
    def roots(self) -> tuple[Root, ...]:
        """Every root, in order."""
        return tuple(root for group in self.groups for root in group.roots)

    @property
    def pins(self) -> dict[str, GitPin]:
        """The package repositories of recipe and system, by name."""
        return {**self.recipe.repos, **self.system.repos}

    def root_of(self, view: str) -> str:
        """Return a view's folder: in the image if the system mounts one, else in the environment."""
        return f"{self.system.mount}/env/{view}" if self.system.mount else f".spack-env/{view}"
