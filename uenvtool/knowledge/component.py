"""A component of an image: its sources by version, its build commands, and the files that an image copies from it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from uenvtool.core.errors import Position, Problem, unknown
from uenvtool.knowledge.bind import Binder, Key, Verbatim, children
from uenvtool.knowledge.condition import ALWAYS, Condition
from uenvtool.knowledge.kinds import COMPONENT
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.yamltree import Node

OPTIONS = "@options@"
"""The argument of a build step that is replaced by the options that apply."""
VALUES = ("version", "out", "cuda_arch")
"""The names that an argument can contain as `${NAME}`."""
_VALUE = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Patch:
    """A change to the sources. sha256: The checksum of the patch file."""

    url: str
    sha256: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """The sources of one version: an archive at `url` or a commit of `git`. The other address is empty.

    url, git: The addresses, with `${version}` filled in. The component file gives them once for all versions.
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
        return self.url or self.git

    @property
    def checksum(self) -> str:
        """Return the checksum or commit of the sources, or an empty string if the file has neither."""
        return self.commit if self.git else self.sha256


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildStep:
    """A command as a list of arguments."""

    shorthand: ClassVar[str] = "run"
    run: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConditionalValue:
    """An option or a variable's value, which applies only under a condition."""

    shorthand: ClassVar[str] = "value"
    value: Verbatim
    position: Position
    when: Condition = ALWAYS
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedText:
    """A name or a path in the image, with its position in the file.

    A path can contain the wildcards `*` and `?`, which do not match `/`. A directory includes all files in it.
    """

    shorthand: ClassVar[str] = "text"
    text: Verbatim
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class DebianPackages:
    """The Debian packages that are needed at build time and at run time."""

    build: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """A component with everything that it inherits."""

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


def load_component(name: str, origin: Position | None = None) -> Component:
    """Return the component with this name or path. Raises BadInput, at `origin` if the file does not exist."""
    binder = Binder.of(locate(COMPONENT, name, origin), COMPONENT)
    binder.special = {Release: lambda node, version: _release(binder, node, version)}
    component = binder.whole(Component, name=binder.chain[0].name)
    binder.problems += _unknown_values(binder.tree)
    if component.options and not any(OPTIONS in step.run for step in component.build):
        place = binder.tree.value["options"].key
        binder.problem(f"no build step contains {OPTIONS}", place, f"add {OPTIONS} where the options belong")
    binder.finish()
    return component


def expanded(argument: str, values: Mapping[str, str]) -> str:
    """Return an argument with its `${NAME}` references replaced by values. Unknown references are kept."""
    return _VALUE.sub(lambda match: values.get(match[1], match[0]), argument)


def _release(binder: Binder, node: Node, version: str) -> Release:
    addresses = {kind: str(child.value) for kind in ("url", "git") if (child := binder.tree.get(kind))}
    urls = {kind: expanded(address, {"version": version}) for kind, address in addresses.items()}
    release = binder.fill(Release, node, version, **urls)
    if bool(release.url) == bool(release.git):
        fault = "both `url` and `git` are" if release.url else "neither `url` nor `git` is"
        binder.problem(f"{fault} set for version {version}", release.position, "set one of them at the top of the file")
    if not release.checksum and not release.unchecked:
        checksum = "commit" if release.git else "sha256"
        hint = f"add `{checksum}`, or `unchecked: REASON` if no checksum is recorded"
        binder.problem(f"version {version} has no checksum", release.position, hint)
    if release.git and not release.checksum and not release.tag:
        binder.problem(f"version {version} has neither `commit` nor `tag`", release.position, "add `commit`")
    return release


def _unknown_values(tree: Node) -> Iterator[Problem]:
    arguments: list[tuple[Node, Collection[str]]]
    arguments = [(child, ("version",)) for kind in ("url", "git") if (child := tree.get(kind))]
    for key in ("env", "options", "build", "sets", "check"):
        for _, entry in children(tree, key):
            is_mapping = isinstance(entry.value, dict)
            value = (entry.get("run") or entry.value["value"]) if is_mapping else entry
            arguments += [(argument, VALUES) for argument in value.each()]
    for argument, known in arguments:
        for name in _VALUE.findall(str(argument.value)):
            if name not in known:
                yield unknown("value", name, known, argument.position)
