"""Reads a system: the merged tree of its files becomes a System, or everything that is wrong in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from uenvtool.errors import BadInput, unknown
from uenvtool.model.extend import load_extended
from uenvtool.model.kinds import SYSTEM
from uenvtool.model.locate import available, locate
from uenvtool.model.parts import additions_of
from uenvtool.model.reader import TreeReader, children, git_pin, text
from uenvtool.model.source import Node, read
from uenvtool.model.system import External, Gpu, Marker, NodeType, System, SystemPackage


def load_system(name: str) -> System:
    """The system of that name or path, resolved through `extends`.

    Raises BadInput with every problem found, each with its position.
    """
    return _Reader(load_extended(locate(SYSTEM, name), SYSTEM)).system()


def recognised(environ: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """The system that this machine is, and what tells so; None where nothing does.

    Only each file's own markers are looked at: a system is not recognised by what it extends, and a
    system of the user's that is broken must not stand in the way of the others.
    """
    for name, location in available(SYSTEM).items():
        try:
            tree = read(location.path, location.shown)
            markers = list(_markers(tree))
        except (BadInput, AttributeError, TypeError):
            continue  # it is told when somebody names it or validates it
        for marker in markers:
            seen = marker.matches(environ)
            if seen:
                return name, seen
    return None


def _markers(tree: Node) -> Iterator[Marker]:
    node = tree.get("recognise")
    for child in node.value if node else ():
        yield Marker(text(child, "env"), text(child, "file"), text(child, "value"))


class _Reader(TreeReader):
    """Makes a System of a merged tree."""

    def system(self) -> System:
        tree = self.tree
        self.require(("description", "site", "fabric", "nodes"))
        mpi = tree.get("mpi")
        scheduler = tree.get("scheduler")
        system = System(
            name=self.chain[0].name,
            description=text(tree, "description"),
            site=text(tree, "site"),
            fabric=text(tree, "fabric"),
            nodes={uarch: _node_type(uarch, node) for uarch, node in self.entries("nodes")},
            mpi=mpi.value if mpi else None,
            packages={package: self.package(package, node) for package, node in self.entries("packages")},
            repos={repo: git_pin(node) for repo, node in self.entries("repos")},
            additions=additions_of([self.addition_folder(node) for node in self.items("additions")]),
            runtimes=self.strings("runtimes"),
            scheduler=text(scheduler, "name"),
            scheduler_defaults={option: str(node.value) for option, node in children(scheduler, "defaults")},
            mount=text(tree, "mount"),
            scratch=self.strings("scratch"),
            tuning=self.strings("tuning"),
            markers=tuple(_markers(tree)),
            chain=self.chain,
            tree=tree,
        )
        self.fail_if_wrong()
        return system

    def addition_folder(self, node: Node) -> Path:
        """The folder of additions that a system names: `packages/NAME` beside the system's file."""
        folders = [location.path.parent / "packages" / str(node.value) for location in self.chain]
        known = sorted({path.name for folder in folders for path in folder.parent.glob("*/")})
        if node.value not in known:
            self.problems.append(unknown("folder of package additions", node.value, known, node.position))
        return next((folder for folder in folders if folder.is_dir()), folders[0])

    def package(self, name: str, node: Node) -> SystemPackage:
        externals = node.get("externals")
        buildable = node.get("buildable")
        require = node.get("require")
        return SystemPackage(
            name,
            tuple(self.external(child) for child in (externals.value if externals else ())),
            buildable.value if buildable else None,
            tuple(str(child.value) for child in (require.value if require else ())),
            text(node, "reason"),
            text(node, "source"),
        )

    def external(self, node: Node) -> External:
        parsed = self.spec(node.value["spec"])
        compilers = {name: str(child.value) for name, child in children(node, "compilers")}
        return External(parsed, text(node, "prefix"), compilers, node.position)


def _node_type(uarch: str, node: Node) -> NodeType:
    gpu = node.get("gpu")
    return NodeType(
        uarch=uarch,
        target=text(node, "target"),
        os=text(node, "os"),
        cores=int(node.value["cores"].value) if "cores" in node.value else 0,
        memory=int(node.value["memory"].value) if "memory" in node.value else 0,
        gpu=_gpu(gpu) if gpu else None,
        reason=text(node, "reason"),
    )


def _gpu(node: Node) -> Gpu:
    return Gpu(
        vendor=text(node, "vendor"),
        model=text(node, "model"),
        arch=text(node, "arch"),
        count=int(node.value["count"].value),
        memory=int(node.value["memory"].value) if "memory" in node.value else 0,
    )
