"""Reads a system: the merged tree of its files becomes a System, or everything that is wrong in it."""

from __future__ import annotations

import os
from pathlib import Path

from uenvtool.core.errors import BadInput, unknown
from uenvtool.knowledge.extend import load_extended
from uenvtool.knowledge.kinds import SYSTEM
from uenvtool.knowledge.locate import locate, search_folders, shown
from uenvtool.knowledge.parts import Addition, additions_of, inside
from uenvtool.knowledge.reader import TreeReader, children, git_pin, is_abstract, text, texts
from uenvtool.knowledge.recognise import markers, recognised
from uenvtool.knowledge.sound import sound
from uenvtool.knowledge.source import Node, read
from uenvtool.knowledge.system import FACTS, External, Gpu, Mpi, NodeType, Requirement, System, SystemPackage
from uenvtool.knowledge.version import Version


def load_system(name: str) -> System:
    """The system of that name or path, resolved through `extends`.

    Raises BadInput with every problem found, each with its position.
    """
    return _Reader(load_extended(locate(SYSTEM, name), SYSTEM)).system()


def concrete_systems() -> list[str]:
    """The systems that do not only exist to be extended; broken files of the user's are passed over."""
    return [name for name, location in sound(SYSTEM).items() if not is_abstract(read(location.path, location.shown))]


def this_system() -> str:
    """The system that this machine is. Raises BadInput if it is none of those that are known."""
    here = recognised()
    if here is None:
        hint = f"name one with --system: {', '.join(concrete_systems())}"
        raise BadInput("this machine is none of the known systems", hint=hint)
    return here[0]


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
            mpi=self.mpi(mpi) if mpi else None,
            packages={package: self.package(package, node) for package, node in self.entries("packages")},
            repos={repo: git_pin(node) for repo, node in self.entries("repos")},
            additions=additions_of([self.addition_folder(node) for node in self.items("additions")]),
            configuration=tuple(self.configuration_file(node) for node in self.items("configuration")),
            runtimes=self.strings("runtimes"),
            scheduler=text(scheduler, "name"),
            scheduler_defaults={option: str(node.value) for option, node in children(scheduler, "defaults")},
            has_exclusive_nodes=text(scheduler, "exclusive") == "True",
            mount=text(tree, "mount"),
            scratch=self.strings("scratch"),
            tuning=self.strings("tuning"),
            libraries=self.strings("libraries"),
            notes=self.strings("notes"),
            markers=tuple(markers(tree)),
            chain=self.chain,
            tree=tree,
        )
        self.check_facts(system)
        self.fail_if_wrong()
        return system

    def mpi(self, node: Node) -> Mpi:
        """The system's MPI, written as a name or with the versions that the system has."""
        if not isinstance(node.value, dict):
            return Mpi(package=str(node.value), position=node.position)
        return Mpi(
            package=text(node, "package"),
            versions=tuple(map(Version, texts(node, "versions"))),
            reason=text(node, "reason"),
            source=text(node, "source"),
            position=node.position,
        )

    def addition_folder(self, node: Node) -> Path:
        """The folder of additions that a system names: `packages/NAME` beside its file, the user's, or the built-in."""
        places = [location.path.parent for location in self.chain]
        places += [folder / SYSTEM.folder for folder in search_folders()]
        folders = [place / "packages" / str(node.value) for place in places]
        found = next((folder for folder in folders if os.path.isdir(folder)), None)
        if found is None:
            known = {path.name for place in places for path in (place / "packages").glob("*/")}
            self.problems.append(unknown("folder of package additions", str(node.value), known, node.position))
        return found or folders[0]

    def configuration_file(self, node: Node) -> Addition:
        """A file of Spack configuration beside the file that names it. Raises BadInput if Spack could not read it."""
        path = inside(self.folder_of(node), node, "system")
        read(path, shown(path))  # its errors have a place, Spack's would not
        return Addition(str(node.value), path)

    def package(self, name: str, node: Node) -> SystemPackage:
        externals = node.get("externals")
        buildable = node.get("buildable")
        require = node.get("require")
        return SystemPackage(
            name=name,
            externals=tuple(self.external(child) for child in (externals.value if externals else ())),
            buildable=buildable.value if buildable else None,
            require=tuple(self.requirement(child) for child in (require.value if require else ())),
            prefer=texts(node, "prefer"),
            reason=text(node, "reason"),
            source=text(node, "source"),
            when=self.when(node),
            position=node.key or node.position,
        )

    def external(self, node: Node) -> External:
        compilers = {name: str(child.value) for name, child in children(node, "compilers")}
        return External(
            spec=self.spec(node.value["spec"]),
            prefix=text(node, "prefix"),
            compilers=compilers,
            position=node.position,
            when=self.when(node),
        )

    def requirement(self, node: Node) -> Requirement:
        if not isinstance(node.value, dict):
            return Requirement(text=str(node.value), position=node.position)
        return Requirement(
            text=text(node, "spec"), position=node.position, reason=text(node, "reason"), when=self.when(node)
        )

    def check_facts(self, system: System) -> None:
        """Note the conditions that ask for a fact that no system has."""
        parts: list[SystemPackage | External | Requirement] = []
        for package in system.packages.values():
            parts += [package, *package.externals, *package.require]
        for part in parts:
            for term in part.when.terms:
                if term.fact not in FACTS:
                    self.problems.append(unknown("fact", term.fact, FACTS, part.position))


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
