"""A component of an image: its sources by version, how it is built, and the files that the image takes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from uenvtool.core.errors import Position, Problem, unknown
from uenvtool.knowledge.bind import Binder, Key, Verbatim, children
from uenvtool.knowledge.condition import ALWAYS, Condition
from uenvtool.knowledge.kinds import COMPONENT
from uenvtool.knowledge.locate import Location, locate
from uenvtool.knowledge.yamltree import Node

OPTIONS = "@options@"
"""The word of a build step that stands for the options that hold."""
VALUES = ("version", "out", "cuda_arch")
"""The names that a word may have in `${...}`."""
_VALUE = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Patch:
    """A change of the sources. sha256: of the patch file."""

    url: str
    sha256: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """The sources of one version: an archive at `url`, or a commit of `git`, of the whole file.

    url, git: with `${version}` filled in; one of them is empty. sha256: of the archive. tag: of `git`, for a version
    without a commit. unchecked: why no checksum is on record. source: who says so.
    """

    version: Key
    url: str = ""
    git: str = ""
    sha256: str = ""
    commit: str = ""
    tag: str = ""
    unchecked: str = ""
    patches: tuple[Patch, ...] = ()
    source: str
    position: Position

    @property
    def address(self) -> str:
        """Return where the sources are."""
        return self.url or self.git

    @property
    def checksum(self) -> str:
        """Return what the sources are compared with; empty if nothing is on record."""
        return self.commit if self.git else self.sha256


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildStep:
    """A command, word by word."""

    shorthand: ClassVar[str] = "run"
    run: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConditionalValue:
    """An option, or the value of a variable, that holds under a condition."""

    shorthand: ClassVar[str] = "value"
    value: Verbatim
    position: Position
    when: Condition = ALWAYS
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedText:
    """A text and its place in the file: the name of something else, or a path in the image.

    A path may have `*` and `?` for characters of one name; a folder stands for all that is in it.
    """

    shorthand: ClassVar[str] = "text"
    text: Verbatim
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class DebianPackages:
    """Packages that building needs, and those that are needed when it runs."""

    build: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """A component as its file describes it.

    when: where it can be of use. needs: the components that are built before it. env: variables of its build.
    installs: what the image takes. libraries: folders that are added to those where programs find libraries. sets:
    variables of the image. check: commands that show that it works.
    """

    unread: ClassVar[tuple[str, ...]] = ("url", "git")
    name: str
    description: str
    versions: Mapping[str, Release]
    when: Condition = ALWAYS
    needs: tuple[PlacedText, ...] = ()
    packages: DebianPackages = field(default_factory=DebianPackages)
    env: Mapping[str, ConditionalValue] = field(default_factory=dict)
    options: tuple[ConditionalValue, ...] = ()
    build: tuple[BuildStep, ...]
    installs: tuple[PlacedText, ...]
    libraries: tuple[str, ...] = ()
    sets: Mapping[str, ConditionalValue] = field(default_factory=dict)
    check: tuple[tuple[str, ...], ...] = ()
    position: Position
    chain: tuple[Location, ...] = field(compare=False)


def load_component(name: str, origin: Position | None = None) -> Component:
    """Return the component of that name or path. origin: where it is named. Raises BadInput with every problem."""
    location = locate(COMPONENT, name, origin)
    binder = Binder.of(location, COMPONENT)
    binder.special = {Release: lambda node, version: _release(binder, node, version)}
    component = binder.whole(Component, name=location.name, chain=binder.chain)
    binder.problems += _unknown_values(binder.tree)
    if component.options and not any(OPTIONS in step.run for step in component.build):
        place = binder.tree.value["options"].key
        binder.problem(f"no step has the word {OPTIONS}", place, "put it where the options belong")
    binder.finish()
    return component


def expanded(word: str, values: Mapping[str, str]) -> str:
    """Return a word with the values of its `${...}`; what has no value stays as it is."""
    return _VALUE.sub(lambda found: values.get(found[1], found[0]), word)


def _release(binder: Binder, node: Node, version: str) -> Release:
    """Return a version, which has the address of the whole file. One without a checksum must say why."""
    addresses = {kind: str(child.value) for kind in ("url", "git") if (child := binder.tree.get(kind))}
    urls = {kind: expanded(address, {"version": version}) for kind, address in addresses.items()}
    release = binder.fill(Release, node, version, **urls)
    if bool(release.url) == bool(release.git):
        both = "both" if release.url else "neither"
        binder.problem(
            f"version {version} has {both} `url` and `git`", release.position, "name one of them, at the top"
        )
    if not release.checksum and not release.unchecked:
        wanted = "commit" if release.git else "sha256"
        hint = f"add `{wanted}`, or `unchecked: REASON` if none is on record"
        binder.problem(f"version {version} has no checksum", release.position, hint)
    if release.git and not release.checksum and not release.tag:
        binder.problem(f"version {version} has neither `commit` nor `tag`", release.position, "name the commit")
    return release


def _unknown_values(tree: Node) -> Iterator[Problem]:
    words: list[tuple[Node, Collection[str]]]
    words = [(child, ("version",)) for kind in ("url", "git") if (child := tree.get(kind))]
    for key in ("env", "options", "build", "sets", "check"):
        words += [(word, VALUES) for _, entry in children(tree, key) for word in _words(entry)]
    for word, known in words:
        for name in _VALUE.findall(str(word.value)):
            if name not in known:
                yield unknown("value", name, known, word.position)


def _words(entry: Node) -> list[Node]:
    if isinstance(entry.value, dict):
        entry = next(entry.value[key] for key in ("run", "value") if key in entry.value)
    return entry.each()
