"""A container recipe: what an image is built on, the components that it gets, and what it is tested with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from uenvtool.core.errors import Position
from uenvtool.knowledge.bind import Binder, Key, children
from uenvtool.knowledge.component import DebianPackages, PlacedText
from uenvtool.knowledge.kinds import CONTAINER
from uenvtool.knowledge.locate import Location, locate
from uenvtool.knowledge.schema import check_schema
from uenvtool.knowledge.yamltree import parse, text


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseImage:
    """An image of somebody else's. hooks: the folder whose files its entry point sources, if it has one.

    unpinned: why no digest is on record.
    """

    image: str
    tag: str
    digest: str = ""
    unpinned: str = ""
    hooks: str = ""
    source: str = ""
    position: Position

    @property
    def reference(self) -> str:
        """Return the image as a registry names it."""
        return f"{self.image}:{self.tag}" + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenComponent:
    """A component at a version, and where it is named."""

    shorthand: ClassVar[str] = "version"
    at_its_name: ClassVar[bool] = True  # an error is about the component, not about its version
    name: Key
    version: str
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """What is taken out of the base before anything is built: paths, and Debian packages by pattern."""

    paths: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeTest:
    """A command that is run in the image on nodes.

    tasks: on each node. prints: an extended regular expression that a line of its output must match.
    """

    name: Key
    run: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    tasks: int = 1
    prints: str = ""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """A container recipe.

    recipe: its name. from_: the recipe whose image this one builds on; None if it is built on `base`. name: of the
    image. tag: without the hash. image: the kind of image that it becomes, a fact of conditions, or an empty text.
    pip: requirements. index: where pip looks beside PyPI, addresses. packages: of Debian.
    """

    recipe: str
    description: str
    home: str = ""
    base: BaseImage | None = None
    from_: PlacedText | None = None
    name: str
    tag: str = ""
    image: str = ""
    removes: Removal = field(default_factory=Removal)
    packages: DebianPackages = field(default_factory=DebianPackages)
    components: tuple[ChosenComponent, ...] = ()
    pip: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    tests: tuple[NodeTest, ...] = ()
    position: Position
    chain: tuple[Location, ...] = field(compare=False)


def load_container(name: str, origin: Position | None = None) -> Container:
    """Return the container recipe of that name or path. origin: where it is named.

    Raises BadInput with every problem.
    """
    return _bound(Binder.of(locate(CONTAINER, name, origin), CONTAINER))


def container_of(values: Mapping[str, Any], name: str, shown: str) -> Container:
    """Return the container recipe of values that are in no file. shown: what messages name in place of one.

    Raises BadInput with every problem, as a file with these values would.
    """
    tree = parse(json.dumps(values, ensure_ascii=False).encode(), shown)
    check_schema(tree, CONTAINER.name)
    return _bound(Binder(tree, (Location(name, Path(shown), shown),), kind=CONTAINER.name))


def _bound(binder: Binder) -> Container:
    tree, recipe = binder.tree, binder.chain[0].name
    image = text(tree, "name") or recipe.lower()
    requirements = tuple(_requirements(binder))
    container = binder.whole(Container, recipe=recipe, name=image, pip=requirements, chain=binder.chain)
    base, below = tree.get("base"), tree.get("from")
    if (base is None) == (below is None):
        binder.problem(
            f"the recipe has {'neither' if base is None else 'both'} `base` and `from`",
            (base.key if base else None) or tree.position,
            "`base` names an image of somebody else's, `from` a container recipe",
        )
    binder.finish()
    return container


def _requirements(binder: Binder) -> Iterator[str]:
    """Yield the Python packages, each as pip reads it: an option or an address in place of a name is refused."""
    from packaging.requirements import InvalidRequirement, Requirement

    for _, node in children(binder.tree, "pip"):
        try:
            yield str(Requirement(str(node.value)))
        except InvalidRequirement as error:
            first = str(error).splitlines()[0]
            binder.problem(f"not a requirement: {first}", node.position, "write for example metatrain>=2025.1")
