"""The sources of tuning values, with their dates and URLs."""

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

SOURCES = "sources"
"""The name of the tuning file that defines the sources, and the key with which any tuning file can add sources."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source of tuning values. date: YYYY, YYYY-MM or YYYY-MM-DD. site: The system that the source describes."""

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


@functools.cache  # each tuning file, each explained variable and each search of `check` uses them
def load_sources() -> dict[str, Source]:
    """Return the sources by their short names, the oldest first. A user's file can add sources."""
    nodes = dict(children(load_extended(available(TUNING, user_files=False)[SOURCES], TUNING).tree, SOURCES))
    with contextlib.suppress(BadInput):  # commands that name a user's broken file report its problems
        nodes |= children(load_extended(locate(TUNING, SOURCES), TUNING).tree, SOURCES)
    sources = {name: Binder(node).fill(Source, node, name) for name, node in nodes.items()}
    return dict(sorted(sources.items(), key=lambda item: item[1].date))


def legend(sources: Iterable[Source]) -> list[str]:
    """Return one line per source that explains its tag, `[TAG] title, date`, the oldest first."""
    named = {source.name: source for source in sources}
    width = max(map(len, named), default=0)
    in_order = sorted(named.values(), key=lambda source: source.date)
    return [f"{f'[{source.name}]'.ljust(width + 2)}  {source}" for source in in_order]
