"""A component of an image: its sources by version, how it is built, and the files that the image takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uenvtool.core.errors import Position
from uenvtool.knowledge.condition import ALWAYS, Condition
from uenvtool.knowledge.locate import Location

OPTIONS = "@options@"
"""The word of a build step that stands for the options that hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A change of the sources. sha256: of the patch file."""

    url: str
    sha256: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The sources of one version: an archive at `url`, or a commit of `git`.

    url, git: with `${version}` filled in; one of them is empty. sha256: of the archive. tag: of `git`, for a version
    without a commit. unchecked: why no checksum is on record. evidence: who says so.
    """

    version: str
    url: str
    git: str
    sha256: str
    commit: str
    tag: str
    unchecked: str
    submodules: bool
    patches: tuple[Patch, ...]
    evidence: str
    position: Position

    @property
    def address(self) -> str:
        """Where the sources are."""
        return self.url or self.git

    @property
    def checksum(self) -> str:
        """What the sources are compared with; empty if nothing is on record."""
        return self.commit or self.sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Worded:
    """Words that hold under a condition: a command, an option, or the value of a variable."""

    words: tuple[str, ...]
    position: Position
    when: Condition = ALWAYS
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Placed:
    """A text and its place in the file: the name of another component, or a path in the image.

    A path may have `*` and `?` for characters of one name; a folder stands for all that is in it.
    """

    text: str
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A component as its file describes it.

    needs: the components that are built before it. env: variables of its build. installs: what the image takes.
    libraries: folders that are added to those where programs find libraries. sets:
    variables of the image. check: commands that show that it works.
    """

    name: str
    description: str
    releases: Mapping[str, Release]
    needs: tuple[Placed, ...]
    build_packages: tuple[str, ...]
    runtime_packages: tuple[str, ...]
    env: Mapping[str, Worded]
    options: tuple[Worded, ...]
    build: tuple[Worded, ...]
    installs: tuple[Placed, ...]
    libraries: tuple[str, ...]
    sets: Mapping[str, Worded]
    check: tuple[Worded, ...]
    position: Position
    chain: tuple[Location, ...] = field(compare=False)
