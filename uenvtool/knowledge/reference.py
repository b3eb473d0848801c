"""References: the figures that tests of a system should reach, each with its own tolerance."""

from __future__ import annotations

from dataclasses import dataclass

from uenvtool.knowledge.bind import bound
from uenvtool.knowledge.kinds import REFERENCE
from uenvtool.knowledge.load import usable_files
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.system import NodeType, System


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """The bus bandwidth in GB/s of a test, for a message size in bytes on a number of nodes.

    tolerance: The share by which a good run may be below the bandwidth.
    """

    test: str
    nodes: int
    bytes: int
    busbw: float
    runtime: str = ""
    tolerance: float = 0.05
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class References:
    """The figures of one kind of node. An empty or zero field of the scope matches any node."""

    systems: tuple[str, ...] = ()
    gpu: str = ""
    gpus: int = 0
    fabric: str = ""
    figures: tuple[Reference, ...]

    def match(self, system: System, node: NodeType) -> bool:
        """Return whether the figures apply to a node type of a system."""
        names = {location.name for location in system.chain}
        model = node.gpu.model if node.gpu else ""
        is_node = self.gpu in ("", model) and self.gpus in (0, node.gpu_count) and self.fabric in ("", system.fabric)
        return is_node and (not self.systems or bool(names & {*self.systems}))


def load_references(name: str) -> References:
    """Return the references with this name or path. Raises BadInput with all problems in the file."""
    return bound(References, locate(REFERENCE, name), REFERENCE)


def figures_of(system: System, uarch: str = "", runtime: str = "") -> tuple[Reference, ...]:
    """Return the figures for a node type and a runtime, the most specific ones first.

    The user's own figures precede the built-in figures. Among them, figures for this system precede figures for any
    system, and figures for this runtime precede figures for any runtime. uarch: The node type. By default, the figures
    must apply to all node types of the system.
    """
    nodes = [system.nodes[uarch]] if uarch else list(system.nodes.values())
    found: list[tuple[tuple[bool, bool, bool], Reference]] = []
    for location in usable_files(REFERENCE).values():
        known = load_references(str(location.path))
        if all(known.match(system, node) for node in nodes):
            order = (location.is_built_in, not known.systems)
            found += [((*order, not each.runtime), each) for each in known.figures if each.runtime in ("", runtime)]
    return tuple(figure for _, figure in sorted(found, key=lambda pair: pair[0]))
