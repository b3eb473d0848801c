"""The launchers: programs that start the ranks of a node."""

from __future__ import annotations

from dataclasses import dataclass, field

from uenvtool.knowledge.bind import Verbatim, bound
from uenvtool.knowledge.kinds import LAUNCHER
from uenvtool.knowledge.load import usable_files
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.pattern import Pattern


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """A configuration file of a launcher, which can set the number of processes."""

    option: str
    file: str
    says: Pattern


@dataclass(frozen=True, kw_only=True, slots=True)
class Strategy:
    """The option that makes a launcher start the requested processes instead of one per GPU that torch sees."""

    option: str
    instead: tuple[str, ...] = ()
    config: Config | None = None
    without_gpu: dict[str, Verbatim] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher:
    """A program that starts the ranks of a node. The values of `options` and `variables` are in bash syntax."""

    name: str
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
    imports: tuple[str, ...] = ()
    server: bool = False

    @property
    def command(self) -> str:
        return self.commands[0]

    @property
    def supports_nodes(self) -> bool:
        """Return whether the launcher supports several nodes, so that the job can pass it the rendezvous."""
        return bool(self.options or self.variables)


def load_launcher(name: str) -> Launcher:
    """Return the launcher with this name or path. Raises BadInput with all problems."""
    location = locate(LAUNCHER, name)
    return bound(Launcher, location, LAUNCHER, name=location.name)


def all_launchers() -> dict[str, Launcher]:
    """Return every launcher by its name."""
    return {name: load_launcher(str(location.path)) for name, location in usable_files(LAUNCHER).items()}
