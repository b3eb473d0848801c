"""Reads a recipe: the merged tree of its files becomes a Recipe, or everything that is wrong in it."""

from __future__ import annotations

from uenvtool.core.errors import BadInput, unknown
from uenvtool.knowledge.checks import problems_of
from uenvtool.knowledge.extend import load_extended
from uenvtool.knowledge.joins import package_of
from uenvtool.knowledge.kinds import RECIPE
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.parts import Addition, additions_of, inside
from uenvtool.knowledge.published import PublishedTable, load_published
from uenvtool.knowledge.reader import TreeReader, children, git_pin, text, texts
from uenvtool.knowledge.recipe import (
    Absence,
    Coupling,
    Deployment,
    Difference,
    Group,
    Pin,
    Recipe,
    RootSpec,
    Variable,
    VariantGroup,
    View,
    Vulnerability,
    Yanked,
)
from uenvtool.knowledge.source import Node


def read_recipe(name: str) -> Recipe:
    """The recipe of that name or path, resolved through `extends`; its versions are not checked together.

    Raises BadInput with every problem found, each with its position.
    """
    return _Reader(load_extended(locate(RECIPE, name), RECIPE)).recipe()


def load_recipe(name: str) -> Recipe:
    """The recipe of that name or path, checked. Raises BadInput with everything that is wrong in it."""
    recipe = read_recipe(name)
    problems = problems_of(recipe)
    if problems:
        raise BadInput(problems)
    return recipe


class _Reader(TreeReader):
    """Makes a Recipe of a merged tree and collects what is wrong on the way."""

    def recipe(self) -> Recipe:
        """The recipe. Raises BadInput if something is wrong."""
        tree = self.tree
        self.require(("description", "home", "uarchs", "spack", "repos", "groups", "view"))
        published, prefer_published, differences = self.published()
        recipe = Recipe(
            name=self.chain[0].name,
            description=text(tree, "description"),
            home=text(tree, "home"),
            uarchs=self.strings("uarchs"),
            spack=git_pin(tree.at(("spack",))),
            repos={name: git_pin(node) for name, node in self.entries("repos")},
            compiler=self.root(tree.value["compiler"]) if tree.get("compiler") else None,
            python=self.pin("python", tree.value["python"]) if tree.get("python") else None,
            mpi=self.mpi(),
            variants={name: self.variant_group(name, node) for name, node in self.entries("variants")},
            global_variants=tuple(self.known_groups(self.items("global_variants"))),
            groups=tuple(self.group(name, node) for name, node in self.entries("groups")),
            require=self.pins("require"),
            prefer=self.pins("prefer"),
            couplings=tuple(self.coupling(node) for node in self.items("couplings")),
            view=self.view(tree.at(("view",))),
            cves=tuple(self.vulnerability(node) for node in self.items("cves")),
            yanked=tuple(self.yanked(node) for node in self.items("yanked")),
            deployment=self.deployment(),
            published=published,
            prefer_published=prefer_published,
            differences=differences,
            absent=self.absent(),
            additions=self.additions(),
            chain=self.chain,
            tree=tree,
        )
        self.fail_if_wrong()
        return recipe

    def root(self, node: Node) -> RootSpec:
        spec = node if not isinstance(node.value, dict) else node.value["spec"]
        parsed = self.spec(spec)
        if not parsed.package and not self.problems:
            self.problem("the spec names no package", spec.position, "begin it with the package's name")
        return RootSpec(spec=parsed, position=node.position, reason=text(node, "reason"), when=self.when(node))

    def pin(self, package: str, node: Node) -> Pin:
        if not isinstance(node.value, dict):
            return Pin(package=package, versions=self.constraint(node), position=node.position)
        version = node.get("version")
        variants = node.get("variants")
        if variants is not None:
            self.spec(variants)
        return Pin(
            package=package,
            versions=self.constraint(version) if version else None,
            variants=variants.value if variants else "",
            position=node.key or node.position,
            reason=text(node, "reason"),
            source=text(node, "source"),
            when=self.when(node),
            provider=text(node, "provider"),
        )

    def pins(self, name: str) -> dict[str, Pin]:
        return {package: self.pin(package, node) for package, node in self.entries(name) if node.value is not None}

    def mpi(self) -> dict[str, Pin] | None:
        node = self.tree.get("mpi")
        if node is None:
            return None
        return {} if node.value is True else {name: self.pin(name, child) for name, child in node.value.items()}

    def known_groups(self, nodes: list[Node]) -> list[str]:
        known = [name for name, _ in self.entries("variants")]
        for node in nodes:
            if node.value not in known:
                self.problems.append(unknown("variant group", node.value, known, node.position))
        return [node.value for node in nodes]

    def variant_group(self, name: str, node: Node) -> VariantGroup:
        return VariantGroup(
            name=name,
            values=texts(node, "values"),
            position=node.key or node.position,
            reason=text(node, "reason"),
            when=self.when(node),
        )

    def group(self, name: str, node: Node) -> Group:
        variants = node.get("variants")
        specs = node.get("specs")
        return Group(
            name=name,
            specs=tuple(self.root(child) for child in (specs.value if specs else [])),
            variants=tuple(self.known_groups(variants.value if variants else [])),
            reason=text(node, "reason"),
        )

    def coupling(self, node: Node) -> Coupling:
        reason = text(node, "reason")
        then = tuple(
            Pin(package=package, versions=self.constraint(child), position=child.key or child.position, reason=reason)
            for package, child in node.value["then"].value.items()
        )
        when = self.spec(node.value["when"])
        return Coupling(when=when, then=then, position=node.position, reason=reason, source=text(node, "source"))

    def view(self, node: Node) -> View:
        value = node.value
        return View(
            name=text(node, "name") or "default",
            link=text(node, "link") or "all",
            add_compilers=bool(value["add_compilers"].value) if "add_compilers" in value else False,
            prefix_paths=tuple(
                (name, tuple(str(child.value) for child in folders.value))
                for name, folders in children(node, "prefix_paths")
            ),
            env=tuple(self.variable(name, child) for name, child in children(node, "env")),
            tuning=bool(value["tuning"].value) if "tuning" in value else False,
        )

    def variable(self, name: str, node: Node) -> Variable:
        value = node.value["value"].value if isinstance(node.value, dict) else node.value
        return Variable(
            name=name,
            value=None if value is None else str(value),
            position=node.key or node.position,
            reason=text(node, "reason"),
            source=text(node, "source"),
            when=self.when(node),
        )

    def vulnerability(self, node: Node) -> Vulnerability:
        return Vulnerability(
            id=text(node, "id"),
            package=text(node, "package"),
            versions=self.constraint(node.value["versions"]),
            fixed=text(node, "fixed"),
        )

    def yanked(self, node: Node) -> Yanked:
        return Yanked(
            package=text(node, "package"),
            versions=self.constraint(node.value["versions"]),
            reason=text(node, "reason"),
        )

    def deployment(self) -> Deployment:
        node = self.tree.get("deployment")
        if node is None:
            return Deployment()
        label, reframe, script = node.get("label"), node.get("reframe"), node.get("post_install")
        is_own = label is not None and label.position.file == self.chain[0].shown
        return Deployment(
            label=text(node, "label") if is_own else "",
            clusters=tuple(
                (cluster, tuple(str(uarch.value) for uarch in uarchs.value))
                for cluster, uarchs in children(node, "clusters")
            ),
            features=texts(reframe, "features") if reframe else (),
            compilers=tuple((name, text(reframe, name)) for name in ("cc", "cxx", "ftn") if text(reframe, name)),
            post_install=Addition("post-install", inside(self.folder_of(script), script, "recipe")).text()
            if script
            else "",
        )

    def published(self) -> tuple[PublishedTable | None, bool, dict[str, Difference]]:
        node = self.tree.get("published")
        if node is None:
            return None, False, {}
        table = node.get("table")
        if table is None:
            self.problem("'table' is missing", node.key, "name the YAML file of published packages, or leave this out")
            return None, False, {}
        folder = self.folder_of(table)
        prefer = node.get("prefer")
        return (
            load_published(str(inside(folder, table, "recipe"))),
            bool(prefer.value) if prefer else False,
            {name: _difference(child) for name, child in children(node, "differences")},
        )

    def absent(self) -> tuple[Absence, ...]:
        published = self.tree.get("published")
        listed = published.get("absent") if published else None
        return tuple(
            Absence(
                packages=texts(node, "packages"),
                reason=text(node, "reason"),
                when=self.when(node),
                position=node.position,
            )
            for node in (listed.value if listed else ())
        )

    def additions(self) -> tuple[Addition, ...]:
        """The package additions of the recipe's files, without those of packages that are removed."""
        folders = [location.path.parent / "packages" for location in self.chain if location.path.name == "recipe.yaml"]
        named = {spec for name, group in self.entries("groups") for spec in map(package_of, _entries(group, "specs"))}
        dropped = {name.replace("-", "_") for name in self.removed - named - set(self.pins("require"))}
        return tuple(addition for addition in additions_of(folders) if addition.target.split("/")[0] not in dropped)


def _entries(node: Node, name: str) -> list[Node]:
    child = node.get(name)
    return child.value if child else []


def _difference(node: Node) -> Difference:
    position = node.key or node.position
    if isinstance(node.value, dict):
        return Difference(reason=text(node, "reason"), prefer=text(node, "prefer"), position=position)
    return Difference(reason=" ".join(str(node.value).split()), prefer="", position=position)
