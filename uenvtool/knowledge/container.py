"""A container recipe: the base of an image, its components, and its tests."""

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
    """A published image on which a container recipe is based."""

    image: str
    tag: str
    digest: str = ""
    unpinned: str = ""
    hooks: str = ""
    position: Position

    @property
    def reference(self) -> str:
        """Return the image reference as registries use it: name, tag and digest."""
        return f"{self.image}:{self.tag}" + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenComponent:
    """A component of the image, with its version and the position of its name."""

    shorthand: ClassVar[str] = "version"
    at_its_name: ClassVar[bool] = True  # errors concern the component, not its version
    name: Key
    version: str
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """The paths and Debian packages that are removed from the base image before anything is built."""

    paths: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeTest:
    """A command that tests the image on compute nodes."""

    name: Key
    run: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    tasks: int = 1
    prints: str = ""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """A container recipe. Exactly one of `base` and `from_` is set.

    recipe: The name of the recipe. The image can have another name.
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


def load_container(name: str, origin: Position | None = None) -> Container:
    """Return the container recipe with this name or path. Raises BadInput, at `origin` if the file does not exist."""
    return _bound(Binder.of(locate(CONTAINER, name, origin), CONTAINER))


def container_of(values: Mapping[str, Any], name: str, shown: str) -> Container:
    """Return a container recipe made from values instead of a file. Raises BadInput with all problems.

    shown: The name of the recipe in messages.
    """
    tree = parse(json.dumps(values, ensure_ascii=False).encode(), shown)
    check_schema(tree, CONTAINER.name)
    return _bound(Binder(tree, (Location(name, Path(shown), shown),), kind=CONTAINER.name))


def _bound(binder: Binder) -> Container:
    tree, recipe = binder.tree, binder.chain[0].name
    image = text(tree, "name") or recipe.lower()
    requirements = tuple(_requirements(binder))
    container = binder.whole(Container, recipe=recipe, name=image, pip=requirements)
    base, below = tree.get("base"), tree.get("from")
    if (base is None) == (below is None):
        binder.problem(
            f"the recipe has {'neither `base` nor' if base is None else 'both `base` and'} `from`",
            (base.key if base else None) or tree.position,
            "set either `base` to a published image or `from` to a container recipe",
        )
    binder.finish()
    return container


def _requirements(binder: Binder) -> Iterator[str]:
    from packaging.requirements import InvalidRequirement, Requirement

    for _, node in children(binder.tree, "pip"):
        try:
            yield str(Requirement(str(node.value)))
        except InvalidRequirement as error:
            first = str(error).splitlines()[0]
            binder.problem(
                f"not a valid requirement: {first}", node.position, "write a requirement such as metatrain>=2025.1"
            )
