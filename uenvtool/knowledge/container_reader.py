"""Reads a container recipe: `recipes/NAME/container.yaml`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from uenvtool.core.errors import Position
from uenvtool.knowledge.container import BaseImage, Choice, Container, NodeTest, Removal, Threshold
from uenvtool.knowledge.extend import Extended, load_extended
from uenvtool.knowledge.kinds import CONTAINER
from uenvtool.knowledge.locate import Location, locate
from uenvtool.knowledge.reader import TreeReader, children, text, texts
from uenvtool.knowledge.schema import check
from uenvtool.knowledge.source import Node, parse


def load_container(name: str, origin: Position | None = None) -> Container:
    """The container recipe of that name or path. origin: where it is named. Raises BadInput with every problem."""
    return _Reader(load_extended(locate(CONTAINER, name, origin), CONTAINER)).container()


def container_of(values: Mapping[str, Any], name: str, shown: str) -> Container:
    """The container recipe of values that are in no file. shown: what messages name in place of one.

    Raises BadInput with every problem, as a file with these values would.
    """
    tree = parse(json.dumps(values, ensure_ascii=False).encode(), shown)
    check(tree, CONTAINER.name)
    return _Reader(Extended(tree, (Location(name, Path(shown), shown),))).container()


class _Reader(TreeReader):
    """Makes a Container of a tree."""

    def container(self) -> Container:
        tree = self.tree
        self.require(("description",))
        base, below = tree.get("base"), tree.get("from")
        if (base is None) == (below is None):
            self.problem(
                f"the recipe has {'neither' if base is None else 'both'} `base` and `from`",
                (base.key if base else None) or tree.position,
                "`base` names an image of somebody else's, `from` a container recipe",
            )
        packages = tree.get("packages")
        name = self.chain[0].name
        found = Container(
            name=name,
            description=text(tree, "description"),
            home=text(tree, "home"),
            base=_base(base) if base else None,
            below=Choice(str(below.value), "", below.position) if below else None,
            image=text(tree, "name") or name.lower(),
            tag=text(tree, "tag"),
            kind=text(tree, "image"),
            removes=_removal(tree.get("removes")),
            build_packages=texts(packages, "build") if packages else (),
            runtime_packages=texts(packages, "runtime") if packages else (),
            components=tuple(
                Choice(component, str(node.value), node.key or node.position)
                for component, node in self.entries("components")
            ),
            pip=tuple(self.requirements()),
            labels={label: str(node.value) for label, node in self.entries("labels")},
            tests=tuple(_test(test, node) for test, node in self.entries("tests")),
            position=tree.position,
            chain=self.chain,
        )
        self.fail_if_wrong()
        return found

    def requirements(self) -> Iterator[str]:
        """The Python packages, each as pip reads it: an option or an address in place of a name is refused."""
        from packaging.requirements import InvalidRequirement, Requirement

        for node in self.items("pip"):
            try:
                yield str(Requirement(str(node.value)))
            except InvalidRequirement as error:
                first = str(error).splitlines()[0]
                self.problem(f"not a requirement: {first}", node.position, "write for example metatrain>=2025.1")


def _base(node: Node) -> BaseImage:
    return BaseImage(
        image=text(node, "image"),
        tag=text(node, "tag"),
        digest=text(node, "digest"),
        unpinned=text(node, "unpinned"),
        hooks=text(node, "hooks"),
        evidence=text(node, "source"),
        position=node.position,
    )


def _removal(node: Node | None) -> Removal:
    if node is None:
        return Removal()
    return Removal(paths=texts(node, "paths"), packages=texts(node, "packages"), reason=text(node, "reason"))


def _test(name: str, node: Node) -> NodeTest:
    least = node.get("at_least")
    return NodeTest(
        name=name,
        words=texts(node, "run"),
        env={variable: str(child.value) for variable, child in children(node, "env")},
        nodes=int(text(node, "nodes") or 1),
        tasks=int(text(node, "tasks") or 1),
        prints=text(node, "prints"),
        at_least=Threshold(text(least, "number"), text(least, "value"), text(least, "unit")) if least else None,
        reason=text(node, "reason"),
    )
