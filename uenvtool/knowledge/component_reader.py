"""Reads a component from `components/`."""

from __future__ import annotations

import re
from collections.abc import Collection

from uenvtool.core.errors import Position, unknown
from uenvtool.knowledge.component import OPTIONS, Component, Patch, Placed, Release, Worded
from uenvtool.knowledge.extend import load_extended
from uenvtool.knowledge.kinds import COMPONENT
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.reader import TreeReader, text, texts
from uenvtool.knowledge.source import Node

VALUES = ("version", "out", "cuda_arch")
"""The names that a word may have in `${...}`."""
_VALUE = re.compile(r"\$\{([^}]*)\}")


def load_component(name: str, origin: Position | None = None) -> Component:
    """The component of that name or path. origin: where it is named. Raises BadInput with every problem found."""
    return _Reader(load_extended(locate(COMPONENT, name, origin), COMPONENT)).component()


def expanded(word: str, values: dict[str, str]) -> str:
    """A word with the values of its `${...}`; what has no value stays as it is."""
    return _VALUE.sub(lambda found: values.get(found[1], found[0]), word)


class _Reader(TreeReader):
    """Makes a Component of a tree."""

    def component(self) -> Component:
        tree = self.tree
        packages = tree.get("packages")
        found = Component(
            name=self.chain[0].name,
            description=text(tree, "description"),
            releases={version: self.release(version, node) for version, node in self.entries("versions")},
            needs=self.placed("needs"),
            build_packages=texts(packages, "build") if packages else (),
            runtime_packages=texts(packages, "runtime") if packages else (),
            env={name: self.worded(node, "value") for name, node in self.entries("env")},
            options=tuple(self.worded(node, "value") for node in self.items("options")),
            build=tuple(self.worded(node, "run") for node in self.items("build")),
            installs=self.placed("installs"),
            libraries=self.strings("libraries"),
            sets={name: self.worded(node, "value") for name, node in self.entries("sets")},
            check=tuple(self.worded(node, "run") for node in self.items("check")),
            position=tree.position,
            chain=self.chain,
        )
        if found.options and not any(OPTIONS in step.words for step in found.build):
            hint = "put it where the options belong"
            self.problem(f"no step has the word {OPTIONS}", tree.value["options"].key, hint)
        self.fail_if_wrong()
        return found

    def placed(self, name: str) -> tuple[Placed, ...]:
        """The texts of a list at the top of the tree, each with its position."""
        return tuple(Placed(str(node.value), node.position) for node in self.items(name))

    def release(self, version: str, node: Node) -> Release:
        """A version. One without a checksum must say why."""
        position = node.key or node.position
        url, git = (self.address(node, kind, version) for kind in ("url", "git"))
        if bool(url) == bool(git):
            hint = "name one of them, for all versions at the top or for this one"
            self.problem(f"version {version} has {'both' if url else 'neither'} `url` and `git`", position, hint)
        wanted = "commit" if git else "sha256"
        checksum = text(node, wanted)
        if not checksum and not text(node, "unchecked"):
            hint = f"add `{wanted}`, or `unchecked: REASON` if none is on record"
            self.problem(f"version {version} has no checksum", position, hint)
        if git and not checksum and not text(node, "tag"):
            self.problem(f"version {version} has neither `commit` nor `tag`", position, "name the commit")
        return Release(
            version=version,
            url=url,
            git=git,
            sha256=text(node, "sha256") if url else "",
            commit=text(node, "commit") if git else "",
            tag=text(node, "tag"),
            unchecked=text(node, "unchecked"),
            submodules=bool(node.value["submodules"].value) if node.get("submodules") else False,
            patches=tuple(_patch(child) for child in (node.value["patches"].value if node.get("patches") else ())),
            evidence=text(node, "source"),
            position=position,
        )

    def address(self, node: Node, kind: str, version: str) -> str:
        """The version's own address of a kind; that of the whole file if the version has none of any kind."""
        own = any(node.get(other) for other in ("url", "git"))
        holder = node if own else self.tree
        address = holder.get(kind)
        if address is None:
            return ""
        self.refuse_unknown(address, ("version",))
        return expanded(str(address.value), {"version": version})

    def worded(self, node: Node, key: str) -> Worded:
        """Words by themselves, or under `key` with their condition and reason."""
        inner = node.value[key] if isinstance(node.value, dict) else node
        words = inner.value if isinstance(inner.value, list) else [inner]
        for word in words:
            self.refuse_unknown(word, VALUES)
        return Worded(
            words=tuple("" if word.value is None else str(word.value) for word in words),
            position=inner.position,
            when=self.when(node),
            reason=text(node, "reason"),
        )

    def refuse_unknown(self, word: Node, known: Collection[str]) -> None:
        for name in _VALUE.findall(str(word.value)):
            if name not in known:
                self.problems.append(unknown("value", name, known, word.position))


def _patch(node: Node) -> Patch:
    return Patch(url=text(node, "url"), sha256=text(node, "sha256"), reason=text(node, "reason"))
