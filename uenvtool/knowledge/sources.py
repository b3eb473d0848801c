"""The sources of tuning: who says something of a variable, since when, and where to read it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from uenvtool.core.errors import BadInput
from uenvtool.knowledge.bind import Binder, Key, children
from uenvtool.knowledge.kinds import TUNING
from uenvtool.knowledge.load import load_extended
from uenvtool.knowledge.locate import available, locate
from uenvtool.knowledge.yamltree import Node

SOURCES = "sources"
"""The file of `tuning/` that says who the sources are, and the key of any tuning file that adds some."""


@dataclass(frozen=True, slots=True)
class Source:
    """Who says something, since when (YYYY, YYYY-MM or YYYY-MM-DD), and where to read it, if it is public.

    site: the system that it is about, if others are compared with it. files: paths in a repository of GitHub at a tag
    or commit (ref; none: its newest), or addresses. words: variable to the words of a file that say it, where they are
    not the variable beside its value. beside: variables that the files set too, and that are not this tool's.
    view_of: how the labels of the published uenv begin whose view sets these values.
    """

    name: Key
    title: str
    date: str
    url: str = ""
    site: str = ""
    repository: str = ""
    ref: str = ""
    files: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    view_of: str = ""

    def __str__(self) -> str:
        return f"{self.title}, {self.date}"


@functools.cache
def source_nodes() -> dict[str, Node]:
    """Return what is said of each source, by its short name; a file of the user's adds its own."""
    found = dict(children(load_extended(available(TUNING, user_files=False)[SOURCES], TUNING).tree, SOURCES))
    with contextlib.suppress(BadInput):  # a broken file of the user's is told when somebody names it
        found |= children(load_extended(locate(TUNING, SOURCES), TUNING).tree, SOURCES)
    return found


@functools.cache  # each variable that is explained wants them, and each search of `check`
def load_sources() -> dict[str, Source]:
    """Return the sources by their short names, the oldest first."""
    found = {name: Binder(node).fill(Source, node, name) for name, node in source_nodes().items()}
    return dict(sorted(found.items(), key=lambda item: item[1].date))


def legend(sources: Iterable[Source]) -> list[str]:
    """Return what the tags of sources stand for, a line each: `[TAG]  title, date`, the oldest first."""
    named = {source.name: source for source in sources}
    width = max(map(len, named), default=0)
    found = sorted(named.values(), key=lambda source: source.date)
    return [f"{f'[{source.name}]'.ljust(width + 2)}  {source}" for source in found]
