"""A container recipe: what an image is built on, the components that it gets, and what it is tested with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uenvtool.core.errors import Position
from uenvtool.knowledge.locate import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseImage:
    """An image of somebody else's. hooks: the folder whose files its entry point sources, if it has one.

    unpinned: why no digest is on record.
    """

    image: str
    tag: str
    digest: str = ""
    unpinned: str = ""
    hooks: str = ""
    evidence: str = ""
    position: Position

    @property
    def reference(self) -> str:
        """The image as a registry names it."""
        return f"{self.image}:{self.tag}" + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True, slots=True)
class Choice:
    """A component at a version, or a recipe, by name, and where it is named."""

    name: str
    version: str
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What is taken out of the base before anything is built: paths, and Debian packages by pattern."""

    paths: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The least that a test may show. number: an extended regular expression; the first number behind it counts."""

    number: str
    value: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTest:
    """A command that is run in the image on nodes.

    tasks: on each node. prints: an extended regular expression that a line of its output must match.
    """

    name: str
    words: tuple[str, ...]
    env: Mapping[str, str]
    nodes: int
    tasks: int
    prints: str
    at_least: Threshold | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container recipe.

    below: the recipe whose image this one builds on; None if it is built on `base`. image: the name of the image.
    tag: without the hash. kind: the kind of image that it becomes, a fact of conditions, or an empty text.
    pip: requirements. packages: of Debian.
    """

    name: str
    description: str
    home: str
    base: BaseImage | None
    below: Choice | None
    image: str
    tag: str
    kind: str
    removes: Removal
    build_packages: tuple[str, ...]
    runtime_packages: tuple[str, ...]
    components: tuple[Choice, ...]
    pip: tuple[str, ...]
    labels: Mapping[str, str]
    tests: tuple[NodeTest, ...]
    position: Position
    chain: tuple[Location, ...] = field(compare=False)
