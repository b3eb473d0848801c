"""A runtime: how software is brought to a node, what shows that one is in it, and how it is used."""

from __future__ import annotations

from dataclasses import dataclass

from uenvtool.knowledge.locate import Location

VIEWS, SYSTEM = "views", "system"
"""Where the libraries of a runtime lie: in a uenv's views, or on the library path and in the system's folders."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What shows a runtime or an image: a variable that is set and not empty, or a file that exists."""

    env: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The lines that load an image or overlay, with marks, and where they belong.

    note: what to know before they are used. The marks: `overlay/howto.py`.
    """

    where: str
    lines: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One runtime, as its file in `runtimes/` describes it.

    container: one is inside a container where it shows. images: the kinds of images that show themselves.
    libraries: VIEWS or SYSTEM. forms: the files of variables that it reads. mount: how a squashfs image is mounted.
    paths: a regular expression for a character that a path must not have there. limits: what it cannot do.
    is_common: sites that are not known here have it too.
    """

    name: str
    description: str
    container: bool
    signs: tuple[Sign, ...]
    images: dict[str, Sign]
    libraries: str
    forms: tuple[str, ...]
    uses: tuple[Use, ...]
    mount: str
    paths: str
    limits: tuple[str, ...]
    is_common: bool = False
    chain: tuple[Location, ...]
