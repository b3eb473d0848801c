"""Reads a recipe: the merged tree of its files becomes a Recipe, or everything that is wrong in it."""

from __future__ import annotations

from pathlib import Path

from uenvtool.errors import BadInput, unknown
from uenvtool.model.checks import problems_of
from uenvtool.model.extend import load_extended
from uenvtool.model.kinds import RECIPE
from uenvtool.model.locate import locate
from uenvtool.model.parts import additions_of
from uenvtool.model.published import PublishedTable, load_published
from uenvtool.model.reader import TreeReader, git_pin, text
from uenvtool.model.recipe import (
    Coupling,
    Difference,
    Group,
    Pin,
    Recipe,
    RootSpec,
    Variable,
    VariantGroup,
    View,
    Vulnerability,
)
from uenvtool.model.source import Node


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
        """The recipe; BadInput where something is wrong."""
        tree = self.tree
        self.require(("description", "home", "uarchs", "spack", "repos", "groups", "view"))
        removed = {node.value for node in self.items("remove")}
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

    def root(self, node: Node) -> RootSpec:
        spec = node if not isinstance(node.value, dict) else node.value["spec"]
        parsed = self.spec(spec)
        if not parsed.package and not self.problems:
            self.problem("the spec names no package", spec.position, "begin it with the package's name")
        return RootSpec(parsed, node.position, text(node, "reason"), self.when(node))

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
            text(node, "reason"),
            text(node, "source"),
            self.when(node),
            text(node, "provider"),
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
        return VariantGroup(name, values, node.key or node.position, text(node, "reason"), self.when(node))

    def group(self, name: str, node: Node, removed: set[str]) -> Group:
        variants = node.get("variants")
        specs = node.get("specs")
        roots = [self.root(child) for child in (specs.value if specs else [])]
        return Group(
            name,
            tuple(root for root in roots if root.spec.package not in removed),
            tuple(self.known_groups(variants.value if variants else [])),
            text(node, "reason"),
        )

    def coupling(self, node: Node) -> Coupling:
        then = tuple(
            Pin(package, self.constraint(child), "", child.key or child.position, text(node, "reason"))
            for package, child in node.value["then"].value.items()
        )
        when = self.spec(node.value["when"])
        return Coupling(when, then, node.position, text(node, "reason"), text(node, "source"))

    def view(self, node: Node) -> View:
        value = node.value
        paths = value["prefix_paths"].value if "prefix_paths" in value else {}
        return View(
            name=text(node, "name") or "default",
            link=text(node, "link") or "all",
            add_compilers=bool(value["add_compilers"].value) if "add_compilers" in value else False,
            prefix_paths=tuple(
                (name, tuple(str(child.value) for child in folders.value)) for name, folders in paths.items()
            ),
            env=tuple(self.variable(name, child) for name, child in value["env"].value.items())
            if "env" in value
            else (),
            tuning=bool(value["tuning"].value) if "tuning" in value else False,
        )

    def variable(self, name: str, node: Node) -> Variable:
        value = node.value["value"].value if isinstance(node.value, dict) else node.value
        found = None if value is None else str(value)
        position = node.key or node.position
        return Variable(name, found, position, text(node, "reason"), text(node, "source"), self.when(node))

    def vulnerability(self, node: Node) -> Vulnerability:
        return Vulnerability(
            text(node, "id"),
            text(node, "package"),
            self.constraint(node.value["versions"]),
            text(node, "fixed"),
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
            load_published(str(inside(folder, table))),
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


def _difference(node: Node) -> Difference:
    if isinstance(node.value, dict):
        return Difference(text(node, "reason"), text(node, "prefer"), node.key or node.position)
    return Difference(" ".join(str(node.value).split()), "", node.key or node.position)
