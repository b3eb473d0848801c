"""Launchers: the programs that start the ranks of a node, as the files in `knowledge/launchers/` describe them."""

from __future__ import annotations

from dataclasses import dataclass, field

from uenvtool.knowledge.bind import Binder, Verbatim
from uenvtool.knowledge.kinds import LAUNCHER
from uenvtool.knowledge.load import usable_files
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.pattern import Pattern


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """A file of a launcher's options: what names it, its usual place below the home, and what to look for in it."""

    option: str
    file: str
    says: Pattern


@dataclass(frozen=True, kw_only=True, slots=True)
class Strategy:
    """How a launcher that else counts the GPUs which torch sees is told to start the processes that it is asked for.

    option: what says so. instead: a user's own options that do, too. config: the file of options that can.
    without_gpu: the variables that training needs where a node has no GPU.
    """

    option: str
    instead: tuple[str, ...] = ()
    config: Config | None = None
    without_gpu: dict[str, Verbatim] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher:
    """A program that starts the ranks of a node, see its schema.

    options, variables: what the launchers of several nodes meet by, in words of bash. further: other options that only
    the job can give. ranks: those that say how many ranks a node has. environment: how variables begin that tell it of
    the other nodes too. logs: what keeps a log for each rank. one_node: its options on this machine alone.
    """

    name: str
    description: str
    commands: tuple[str, ...]
    modules: tuple[str, ...] = ()
    options: dict[str, Verbatim] = field(default_factory=dict)
    variables: dict[str, Verbatim] = field(default_factory=dict)
    further: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()
    strategy: Strategy | None = None
    environment: str = ""
    logs: Verbatim = ""
    one_node: Verbatim = ""
    source: str

    @property
    def command(self) -> str:
        """Return the words that start it, as a user writes them."""
        return self.commands[0]

    @property
    def meets(self) -> bool:
        """Tell if it can be told where the other nodes are."""
        return bool(self.options or self.variables)


def load_launcher(name: str) -> Launcher:
    """Return the launcher of that name or path. Raises BadInput with every problem found."""
    location = locate(LAUNCHER, name)
    binder = Binder.of(location, LAUNCHER)
    launcher = binder.whole(Launcher, name=location.name)
    binder.finish()
    return launcher


def all_launchers() -> dict[str, Launcher]:
    """Return every launcher by its name."""
    return {name: load_launcher(str(location.path)) for name, location in usable_files(LAUNCHER).items()}
