"""A recipe: the software of one uenv, by version."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.errors import BadInput, Position, Problem, unknown
from uenvtool.model.condition import ALWAYS, Condition, ConditionSyntaxError, parse_condition
from uenvtool.model.extend import Extended, load_extended
from uenvtool.model.locate import Location, locate, shown
from uenvtool.model.published import PublishedTable, load_published
from uenvtool.model.source import Node
from uenvtool.model.spec import Spec, SpecSyntaxError, parse_spec
from uenvtool.model.version import Versions, versions

ANY_UARCH = "any"


@dataclass(frozen=True, slots=True)
class GitPin:
    """A git repository at a tag or commit."""

    url: str
    tag: str | None
    commit: str | None

    @property
    def revision(self) -> str:
        """The tag, else the commit, else the default branch."""
        return self.tag or self.commit or "HEAD"


@dataclass(frozen=True, slots=True)
class Pin:
    """What a package must or should be: a version constraint, variants, or, for a virtual one, its provider."""

    package: str
    versions: Versions | None
    variants: str
    position: Position
    reason: str = ""
    source: str = ""
    when: Condition = ALWAYS
    provider: str = ""


@dataclass(frozen=True, slots=True)
class RootSpec:
    """A spec that the recipe asks for by name."""

    spec: Spec
    position: Position
    reason: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, slots=True)
class Group:
    """Root specs that belong together; `variants` names the variant groups that all must have."""

    name: str
    specs: tuple[RootSpec, ...]
    variants: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class VariantGroup:
    """Variants under a name."""

    name: str
    values: tuple[str, ...]
    position: Position
    reason: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, slots=True)
class Coupling:
    """Where the recipe asks for `when`, the packages of `then` must be at their versions."""

    when: Spec
    then: tuple[Pin, ...]
    position: Position
    reason: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that a view sets; `value` None unsets it."""

    name: str
    value: str | None
    position: Position
    reason: str = ""
    source: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, slots=True)
class View:
    """The folder of links that users see. prefix_paths: variable to folders below the view."""

    name: str
    link: str
    add_compilers: bool
    prefix_paths: tuple[tuple[str, tuple[str, ...]], ...]
    env: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Vulnerability:
    """A known vulnerability of the versions of a package."""

    id: str
    package: str
    versions: Versions
    fixed: str = ""


@dataclass(frozen=True, slots=True)
class Addition:
    """A Spack package file of the recipe's or system's own: versions that `builtin` lacks.

    path: the file on disk; target: its place below the packages folder of a repository.
    """

    target: str
    path: Path

    def text(self) -> str:
        """The file's text. Raises BadInput where it is none."""
        try:
            return self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"cannot read it: {error}", Position(shown(self.path)), "save it as UTF-8") from error


@dataclass(frozen=True, slots=True)
class Difference:
    """Why a package is not at its published version; prefer: the version to take instead, if any."""

    reason: str
    prefer: str
    position: Position


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe with everything that it inherits."""

    name: str
    description: str
    home: str
    uarchs: tuple[str, ...]
    spack: GitPin
    repos: dict[str, GitPin]
    compiler: RootSpec | None
    python: Pin | None
    mpi: dict[str, Pin]
    variants: dict[str, VariantGroup]
    global_variants: tuple[str, ...]
    groups: tuple[Group, ...]
    require: dict[str, Pin]
    prefer: dict[str, Pin]
    couplings: tuple[Coupling, ...]
    view: View
    cves: tuple[Vulnerability, ...]
    published: PublishedTable | None
    prefer_published: bool
    differences: dict[str, Difference]
    additions: tuple[Addition, ...]
    chain: tuple[Location, ...]
    tree: Node = field(compare=False, repr=False)

    @property
    def position(self) -> Position:
        """Where the recipe starts."""
        return self.tree.position

    def supports(self, uarch: str) -> bool:
        """Whether the recipe is meant for a node type."""
        return ANY_UARCH in self.uarchs or uarch in self.uarchs


def read_recipe(name: str) -> Recipe:
    """The recipe of that name or path, resolved through `extends`; `knowledge.py` checks it too.

    Raises BadInput with every problem found, each with its position.
    """
    extended = load_extended(locate("recipes", name), "recipes", JOINED)
    return _Reader(extended).recipe()


def package_of(entry: Node) -> str:
    """The package that an entry of a list of specs is about."""
    node = entry.value["spec"] if isinstance(entry.value, dict) else entry
    try:
        return parse_spec(node.value).package or node.value
    except SpecSyntaxError:
        return str(node.value)  # reported with its column when the recipe is read


JOINED = {
    "specs": package_of,
    "couplings": lambda entry: str(entry.value["when"].value),
    "cves": lambda entry: f"{entry.value['id'].value} {entry.value['package'].value}",
}


class _Reader:
    """Makes a Recipe of a merged tree and collects what is wrong on the way."""

    def __init__(self, extended: Extended) -> None:
        self.tree = extended.tree
        self.chain = extended.chain
        self.problems: list[Problem] = []

    def recipe(self) -> Recipe:
        """The recipe; BadInput where something is wrong."""
        tree = self.tree
        abstract = tree.get("abstract")
        if abstract is not None and abstract.value:
            raise BadInput(
                f"{self.chain[0].name} is abstract: it exists to be extended",
                abstract.key,
                f"write `extends: {self.chain[0].name}` in a recipe of your own, or build one that extends it",
            )
        for name in ("description", "home", "uarchs", "spack", "repos", "groups", "view"):
            if tree.get(name) is None:
                self.problem(f"{name!r} is missing", tree.position, "add it, or extend a recipe that has it")
        self.fail_if_wrong()
        removed = {node.value for node in self.items("remove")}
        published, prefer_published, differences = self.published()
        recipe = Recipe(
            name=self.chain[0].name,
            description=" ".join(self.text("description").split()),
            home=self.text("home"),
            uarchs=tuple(node.value for node in self.items("uarchs")),
            spack=_git_pin(tree.at(("spack",))),
            repos={name: _git_pin(node) for name, node in self.entries("repos")},
            compiler=self.root(tree.value["compiler"]) if tree.get("compiler") else None,
            python=self.pin("python", tree.value["python"]) if tree.get("python") else None,
            mpi={name: self.pin(name, node) for name, node in self.entries("mpi")},
            variants={name: self.variant_group(name, node) for name, node in self.entries("variants")},
            global_variants=tuple(self.known_groups(self.items("global_variants"))),
            groups=tuple(self.group(name, node, removed) for name, node in self.entries("groups")),
            require=self.pins("require", removed),
            prefer=self.pins("prefer", removed),
            couplings=tuple(self.coupling(node) for node in self.items("couplings")),
            view=self.view(tree.at(("view",))),
            cves=tuple(self.vulnerability(node) for node in self.items("cves")),
            published=published,
            prefer_published=prefer_published,
            differences=differences,
            additions=additions_of(
                [each.path.parent / "packages" for each in self.chain if each.path.name == "recipe.yaml"]
            ),
            chain=self.chain,
            tree=tree,
        )
        self.fail_if_wrong()
        return recipe

    def problem(self, message: str, position: Position | None, hint: str | None = None) -> None:
        self.problems.append(Problem(message, position, hint))

    def fail_if_wrong(self) -> None:
        if self.problems:
            raise BadInput(self.problems)

    def items(self, name: str) -> list[Node]:
        node = self.tree.get(name)
        return node.value if node else []

    def entries(self, name: str) -> list[tuple[str, Node]]:
        node = self.tree.get(name)
        return list(node.value.items()) if node else []

    def text(self, name: str) -> str:
        return str(self.tree.value[name].value)

    def spec(self, node: Node) -> Spec:
        try:
            return parse_spec(node.value)
        except SpecSyntaxError as error:
            shift = error.column - 1
            self.problem(
                f"not a spec: {error}",
                Position(node.position.file, node.position.line, node.position.column + shift),
                "a spec reads `name@version +variant name=value`",
            )
            return Spec(node.value, "", None, {}, "", "")

    def root(self, node: Node) -> RootSpec:
        spec = node if not isinstance(node.value, dict) else node.value["spec"]
        parsed = self.spec(spec)
        if not parsed.package and not self.problems:
            self.problem("the spec names no package", spec.position, "begin it with the package's name")
        return RootSpec(parsed, node.position, _field(node, "reason"), self.when(node))

    def when(self, node: Node) -> Condition:
        when = node.get("when") if isinstance(node.value, dict) else None
        if when is None:
            return ALWAYS
        try:
            return parse_condition(when.value)
        except ConditionSyntaxError as error:
            self.problem(str(error), when.position, "a condition reads `fabric == slingshot and not ce`")
            return ALWAYS

    def constraint(self, node: Node) -> Versions:
        try:
            return versions(str(node.value))
        except ValueError as error:
            self.problem(str(error), node.position, "write a version such as 2.6.0, =2.6.0 or 2.6:2.8")
            return versions("0")

    def pin(self, package: str, node: Node) -> Pin:
        if not isinstance(node.value, dict):
            return Pin(package, self.constraint(node), "", node.position)
        version = node.get("version")
        variants = node.get("variants")
        if variants is not None:
            self.spec(variants)
        return Pin(
            package,
            self.constraint(version) if version else None,
            variants.value if variants else "",
            node.key or node.position,
            _field(node, "reason"),
            _field(node, "source"),
            self.when(node),
            _field(node, "provider"),
        )

    def pins(self, name: str, removed: set[str]) -> dict[str, Pin]:
        return {package: self.pin(package, node) for package, node in self.entries(name) if package not in removed}

    def known_groups(self, nodes: list[Node]) -> list[str]:
        known = [name for name, _ in self.entries("variants")]
        for node in nodes:
            if node.value not in known:
                self.problems.append(unknown("variant group", node.value, known, node.position))
        return [node.value for node in nodes]

    def variant_group(self, name: str, node: Node) -> VariantGroup:
        values = tuple(str(value.value) for value in node.value["values"].value)
        return VariantGroup(name, values, node.key or node.position, _field(node, "reason"), self.when(node))

    def group(self, name: str, node: Node, removed: set[str]) -> Group:
        variants = node.get("variants")
        specs = node.get("specs")
        roots = [self.root(child) for child in (specs.value if specs else [])]
        return Group(
            name,
            tuple(root for root in roots if root.spec.package not in removed),
            tuple(self.known_groups(variants.value if variants else [])),
            _field(node, "reason"),
        )

    def coupling(self, node: Node) -> Coupling:
        then = tuple(
            Pin(package, self.constraint(child), "", child.key or child.position, _field(node, "reason"))
            for package, child in node.value["then"].value.items()
        )
        when = self.spec(node.value["when"])
        return Coupling(when, then, node.position, _field(node, "reason"), _field(node, "source"))

    def view(self, node: Node) -> View:
        value = node.value
        paths = value["prefix_paths"].value if "prefix_paths" in value else {}
        return View(
            name=_field(node, "name") or "default",
            link=_field(node, "link") or "all",
            add_compilers=bool(value["add_compilers"].value) if "add_compilers" in value else False,
            prefix_paths=tuple(
                (name, tuple(str(child.value) for child in folders.value)) for name, folders in paths.items()
            ),
            env=tuple(self.variable(name, child) for name, child in value["env"].value.items())
            if "env" in value
            else (),
        )

    def variable(self, name: str, node: Node) -> Variable:
        value = node.value["value"].value if isinstance(node.value, dict) else node.value
        text = None if value is None else str(value)
        position = node.key or node.position
        return Variable(name, text, position, _field(node, "reason"), _field(node, "source"), self.when(node))

    def vulnerability(self, node: Node) -> Vulnerability:
        return Vulnerability(
            _field(node, "id"),
            _field(node, "package"),
            self.constraint(node.value["versions"]),
            _field(node, "fixed"),
        )

    def published(self) -> tuple[PublishedTable | None, bool, dict[str, Difference]]:
        node = self.tree.get("published")
        if node is None:
            return None, False, {}
        table = node.value["table"]
        folder = next(location.path.parent for location in self.chain if location.shown == table.position.file)
        prefer = node.get("prefer")
        differences = node.get("differences")
        return (
            load_published(inside(folder, table)),
            bool(prefer.value) if prefer else False,
            {name: _difference(child) for name, child in differences.value.items()} if differences else {},
        )


def inside(folder: Path, node: Node) -> Path:
    """The file that a path names within a recipe's folder; BadInput where it leads out of it."""
    path = folder / str(node.value)
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BadInput(f"{node.value!r} leads out of the recipe's folder", node.position, "copy the file into it")
    if not path.is_file():
        raise BadInput(f"{node.value!r} is not in the recipe's folder", node.position, f"it is looked for in {folder}")
    return path


def additions_of(folders: list[Path]) -> tuple[Addition, ...]:
    """The package files below folders of additions; a nearer (earlier) folder's hides a farther's."""
    found: dict[str, Addition] = {}
    for folder in reversed(folders):
        for path in sorted(folder.rglob("*")):
            if "__pycache__" in path.parts or not path.is_file():
                continue
            target = path.relative_to(folder).as_posix()
            if not path.resolve().is_relative_to(folder.resolve()):
                raise BadInput("leads out of the recipe's folder", Position(shown(path)), "copy the file into it")
            found[target] = Addition(target, path)
    return tuple(found[target] for target in sorted(found))


def _field(node: Node, name: str) -> str:
    """The text of a mapping's field, white space folded; empty where there is none."""
    child: Any = node.get(name) if isinstance(node.value, dict) else None
    return " ".join(str(child.value).split()) if child is not None else ""


def _difference(node: Node) -> Difference:
    if isinstance(node.value, dict):
        return Difference(_field(node, "reason"), _field(node, "prefer"), node.key or node.position)
    return Difference(" ".join(str(node.value).split()), "", node.key or node.position)


def _git_pin(node: Node) -> GitPin:
    return GitPin(_field(node, "url"), _field(node, "tag") or None, _field(node, "commit") or None)
