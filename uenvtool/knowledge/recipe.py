"""A recipe: the software of one uenv, by version."""

from __future__ import annotations

from dataclasses import dataclass, field

from uenvtool.core.errors import Position
from uenvtool.knowledge.condition import ALWAYS, Condition
from uenvtool.knowledge.locate import Location
from uenvtool.knowledge.parts import Addition, GitPin
from uenvtool.knowledge.published import PublishedTable
from uenvtool.knowledge.source import Node
from uenvtool.knowledge.spec import Spec
from uenvtool.knowledge.version import Versions

ANY_UARCH = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What a package must or should be: a version constraint, variants, or, for a virtual one, its provider."""

    package: str
    versions: Versions | None = None
    variants: str = ""
    position: Position
    reason: str = ""
    source: str = ""
    when: Condition = ALWAYS
    provider: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootSpec:
    """A spec that the recipe asks for by name."""

    spec: Spec
    position: Position
    reason: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Root specs that belong together; `variants` names the variant groups that all must have."""

    name: str
    specs: tuple[RootSpec, ...]
    variants: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantGroup:
    """Variants under a name."""

    name: str
    values: tuple[str, ...]
    position: Position
    reason: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Coupling:
    """If the recipe asks for `when`, the packages of `then` must be at their versions."""

    when: Spec
    then: tuple[Pin, ...]
    position: Position
    reason: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable that a view sets; `value` None unsets it."""

    name: str
    value: str | None
    position: Position
    reason: str = ""
    source: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The folder of links that users see.

    prefix_paths: variable to folders below the view. tuning: whether it also sets the system's tuning.
    """

    name: str
    link: str
    add_compilers: bool
    prefix_paths: tuple[tuple[str, tuple[str, ...]], ...]
    env: tuple[Variable, ...]
    tuning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vulnerability:
    """A known vulnerability of the versions of a package."""

    id: str
    package: str
    versions: Versions
    fixed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Yanked:
    """Versions of a package that their makers took back. reason: what is wrong with them."""

    package: str
    versions: Versions
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Why a package is not at its published version. prefer: the version to take instead, if any."""

    reason: str
    prefer: str
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Why published packages are not in the environments of some systems."""

    packages: tuple[str, ...]
    reason: str
    when: Condition
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """How a site that builds with Stackinator names, serves and tests the image.

    label: NAME/VERSION, or empty. clusters: each with the node types that it is served for. features: what decides
    which ReFrame tests run. compilers: ReFrame's names of them (cc, cxx, ftn) and their commands. post_install: the
    text of a script that Stackinator runs before it packs, or empty.
    """

    label: str = ""
    clusters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    features: tuple[str, ...] = ()
    compilers: tuple[tuple[str, str], ...] = ()
    post_install: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe with everything that it inherits.

    mpi: MPI provider to the versions that the recipe can be built with; None for a recipe without MPI.
    global_variants: the variant groups that every package prefers. prefer_published: whether published
    versions are soft pins.
    """

    name: str
    description: str
    home: str
    uarchs: tuple[str, ...]
    spack: GitPin
    repos: dict[str, GitPin]
    compiler: RootSpec | None
    python: Pin | None
    mpi: dict[str, Pin] | None
    variants: dict[str, VariantGroup]
    global_variants: tuple[str, ...]
    groups: tuple[Group, ...]
    require: dict[str, Pin]
    prefer: dict[str, Pin]
    couplings: tuple[Coupling, ...]
    view: View
    cves: tuple[Vulnerability, ...]
    yanked: tuple[Yanked, ...]
    deployment: Deployment
    published: PublishedTable | None
    prefer_published: bool
    differences: dict[str, Difference]
    absent: tuple[Absence, ...]
    additions: tuple[Addition, ...]
    chain: tuple[Location, ...]
    tree: Node = field(compare=False, repr=False)

    @property
    def position(self) -> Position:
        """The beginning of the recipe's file."""
        return self.tree.position

    @property
    def roots(self) -> tuple[RootSpec, ...]:
        """Every root spec, in order."""
        return tuple(root for group in self.groups for root in group.specs)

    def supports(self, uarch: str) -> bool:
        """Whether the recipe is meant for a node type."""
        return ANY_UARCH in self.uarchs or uarch in self.uarchs
