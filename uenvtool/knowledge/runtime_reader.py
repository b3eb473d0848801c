"""Reads a runtime from `runtimes/`."""

from __future__ import annotations

from uenvtool.core.errors import Position
from uenvtool.knowledge.extend import load_extended
from uenvtool.knowledge.kinds import RUNTIME
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.reader import TreeReader, children, text
from uenvtool.knowledge.runtime import Runtime, Sign, Use
from uenvtool.knowledge.sound import sound
from uenvtool.knowledge.source import Node


def load_runtime(name: str, origin: Position | None = None) -> Runtime:
    """The runtime of that name or path. origin: where it is named. Raises BadInput for what is wrong in its file."""
    return _Reader(load_extended(locate(RUNTIME, name, origin), RUNTIME)).runtime()


def known_images() -> list[str]:
    """The kinds of images that conditions can name."""
    return sorted({image for runtime in all_runtimes() for image in runtime.images})


def all_runtimes() -> list[Runtime]:
    """Every runtime, in the order of their names."""
    return [load_runtime(str(location.path)) for location in sound(RUNTIME).values()]


class _Reader(TreeReader):
    """Makes a Runtime of a tree."""

    def runtime(self) -> Runtime:
        container = self.tree.get("container")
        return Runtime(
            name=self.chain[0].name,
            description=text(self.tree, "description"),
            container=container is not None and container.value is True,
            signs=tuple(_sign(node) for node in self.items("signs")),
            images={name: _sign(node) for name, node in children(self.tree, "images")},
            libraries=text(self.tree, "libraries"),
            forms=self.strings("forms"),
            uses=tuple(_use(node) for node in self.items("use")),
            mount=_lines(self.tree, "mount"),
            paths=_lines(self.tree, "paths"),
            limits=self.strings("limits"),
            is_common=bool(common.value) if (common := self.tree.get("common")) else False,
            chain=self.chain,
        )


def _use(node: Node) -> Use:
    return Use(where=text(node, "where"), lines=_lines(node, "lines"), note=text(node, "note"))


def _sign(node: Node) -> Sign:
    return Sign(text(node, "env"), text(node, "file"))


def _lines(node: Node, name: str) -> str:
    """A text as it is written, without the newline at its end."""
    child = node.get(name)
    return "" if child is None else str(child.value).removesuffix("\n")
