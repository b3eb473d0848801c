"""A system: where software is built for and runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from uenvtool.errors import BadInput, Position, Problem, unknown
from uenvtool.model.condition import Facts
from uenvtool.model.extend import load_extended
from uenvtool.model.locate import Location, available, locate
from uenvtool.model.recipe import Addition, GitPin, additions_of
from uenvtool.model.source import Node, read
from uenvtool.model.spec import Spec, SpecSyntaxError, parse_spec

FACTS = ("system", "site", "uarch", "target", "os", "fabric", "mpi", "scheduler", "gpu", "cuda_arch")
"""The facts that a recipe's conditions can ask for, each of the system and node type in hand."""
HOST = "host"
"""A value that stands for this machine's own: target, OS, compilers of the system `local`."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """The GPUs of a node. memory: GB a GPU. arch: as the compiler names it (`90`), without dot."""

    vendor: str
    model: str
    arch: str
    count: int
    memory: int


@dataclass(frozen=True, slots=True)
class NodeType:
    """One kind of node. target, os: as Spack names them. cores: of a node. memory: GB a node."""

    uarch: str
    target: str
    os: str
    cores: int
    memory: int
    gpu: Gpu | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class External:
    """An installation that the system brings. compilers: language (c, cxx, fortran) to path."""

    spec: Spec
    prefix: str
    compilers: dict[str, str]
    position: Position


@dataclass(frozen=True, slots=True)
class SystemPackage:
    """What the system says of one package."""

    name: str
    externals: tuple[External, ...]
    buildable: bool | None
    require: tuple[str, ...]
    reason: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Marker:
    """Something that tells that this machine is the system: a variable or a file's text."""

    env: str
    file: str
    value: str

    def matches(self, environ: Mapping[str, str]) -> str | None:
        """What was seen, where it is seen."""
        if self.env:
            found = environ.get(self.env)
            seen = found is not None and self.value in ("", found)
            return f"{self.env}={found}" if seen else None
        try:
            text = Path(self.file).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None
        return f"{self.file} says {self.value}" if text == self.value else None


@dataclass(frozen=True, slots=True)
class System:
    """A system with everything that it inherits."""

    name: str
    description: str
    site: str
    fabric: str
    nodes: dict[str, NodeType]
    mpi: str | None
    packages: dict[str, SystemPackage]
    repos: dict[str, GitPin]
    additions: tuple[Addition, ...]
    runtimes: tuple[str, ...]
    scheduler: str
    scheduler_defaults: dict[str, str]
    mount: str
    scratch: tuple[str, ...]
    tuning: tuple[str, ...]
    markers: tuple[Marker, ...]
    chain: tuple[Location, ...]
    tree: Node = field(compare=False, repr=False)

    def node(self, uarch: str) -> NodeType:
        """The node type of that name."""
        return self.nodes[uarch]

    def facts(self, uarch: str) -> Facts:
        """What conditions can ask for of this system and node type; see FACTS."""
        node = self.nodes[uarch]
        nvidia = node.gpu.arch if node.gpu and node.gpu.vendor == "nvidia" else None
        return {
            "system": self.name,
            "site": self.site,
            "uarch": uarch,
            "target": node.target,
            "os": node.os,
            "fabric": self.fabric,
            "mpi": self.mpi,
            "scheduler": self.scheduler,
            "gpu": node.gpu.vendor if node.gpu else None,
            "cuda_arch": nvidia,
        }


def load_system(name: str) -> System:
    """The system of that name or path, resolved through `extends`.

    Raises BadInput with every problem found, each with its position.
    """
    location = locate("systems", name)
    extended = load_extended(location, "systems", {})
    return _Reader(extended.tree, extended.chain).system()


def recognised(environ: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """The system that this machine is, and what tells so; None where nothing does.

    Only each file's own markers are looked at: a system is not recognised by what it extends, and a
    system of the user's that is broken must not stand in the way of the others.
    """
    for name, location in available("systems").items():
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
        yield Marker(_text(child, "env"), _text(child, "file"), _text(child, "value"))


class _Reader:
    """Makes a System of a merged tree and collects what is wrong on the way."""

    def __init__(self, tree: Node, chain: tuple[Location, ...]) -> None:
        self.tree = tree
        self.chain = chain
        self.problems: list[Problem] = []

    def system(self) -> System:
        tree = self.tree
        name = self.chain[0].name
        abstract = tree.get("abstract")
        if abstract is not None and abstract.value:
            raise BadInput(
                f"{name} is abstract: it exists to be extended", abstract.key, "name a system that extends it"
            )
        for needed in ("description", "site", "fabric", "nodes"):
            if tree.get(needed) is None:
                self.problems.append(
                    Problem(f"{needed!r} is missing", tree.position, "add it, or extend a system that has it")
                )
        if self.problems:
            raise BadInput(self.problems)
        mpi = tree.get("mpi")
        scheduler = tree.get("scheduler")
        system = System(
            name=name,
            description=_text(tree, "description"),
            site=_text(tree, "site"),
            fabric=_text(tree, "fabric"),
            nodes={uarch: _node_type(uarch, node) for uarch, node in self.entries("nodes")},
            mpi=mpi.value if mpi else None,
            packages={package: self.package(package, node) for package, node in self.entries("packages")},
            repos={repo: _git_pin(node) for repo, node in self.entries("repos")},
            additions=additions_of([self.addition_folder(node) for node in self.items("additions")]),
            runtimes=self.strings("runtimes"),
            scheduler=_text(scheduler, "name") if scheduler else "",
            scheduler_defaults={option: str(node.value) for option, node in _child_entries(scheduler, "defaults")},
            mount=_text(tree, "mount"),
            scratch=self.strings("scratch"),
            tuning=self.strings("tuning"),
            markers=tuple(_markers(tree)),
            chain=self.chain,
            tree=tree,
        )
        if self.problems:
            raise BadInput(self.problems)
        return system

    def items(self, name: str) -> list[Node]:
        node = self.tree.get(name)
        return node.value if node else []

    def entries(self, name: str) -> list[tuple[str, Node]]:
        node = self.tree.get(name)
        return list(node.value.items()) if node else []

    def strings(self, name: str) -> tuple[str, ...]:
        return tuple(str(node.value) for node in self.items(name))

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
            _text(node, "reason"),
            _text(node, "source"),
        )

    def external(self, node: Node) -> External:
        spec = node.value["spec"]
        try:
            parsed = parse_spec(spec.value)
        except SpecSyntaxError as error:
            column = spec.position.column + error.column - 1
            self.problems.append(
                Problem(
                    f"not a spec: {error}",
                    Position(spec.position.file, spec.position.line, column),
                    "a spec reads `name@version +variant name=value`",
                )
            )
            parsed = Spec(spec.value, "", None, {}, "", "")
        compilers = {name: str(child.value) for name, child in _child_entries(node, "compilers")}
        return External(parsed, _text(node, "prefix"), compilers, node.position)


def _node_type(uarch: str, node: Node) -> NodeType:
    gpu = node.get("gpu")
    return NodeType(
        uarch=uarch,
        target=_text(node, "target"),
        os=_text(node, "os"),
        cores=int(node.value["cores"].value) if "cores" in node.value else 0,
        memory=int(node.value["memory"].value) if "memory" in node.value else 0,
        gpu=_gpu(gpu) if gpu else None,
        reason=_text(node, "reason"),
    )


def _gpu(node: Node) -> Gpu:
    return Gpu(
        vendor=_text(node, "vendor"),
        model=_text(node, "model"),
        arch=_text(node, "arch"),
        count=int(node.value["count"].value),
        memory=int(node.value["memory"].value) if "memory" in node.value else 0,
    )


def _child_entries(node: Node | None, name: str) -> list[tuple[str, Node]]:
    child = node.get(name) if node else None
    return list(child.value.items()) if child else []


def _git_pin(node: Node) -> GitPin:
    return GitPin(_text(node, "url"), _text(node, "tag") or None, _text(node, "commit") or None)


def _text(node: Node, name: str) -> str:
    child = node.get(name)
    return "" if child is None or child.value is None else " ".join(str(child.value).split())
