"""A runtime: how software is brought to a node, what shows that one is in it, and how it is used."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Literal

from uenvtool.knowledge.bind import Binder, Verbatim
from uenvtool.knowledge.kinds import RUNTIME
from uenvtool.knowledge.load import usable_files
from uenvtool.knowledge.locate import Location, locate
from uenvtool.knowledge.pattern import Pattern
from uenvtool.knowledge.rule import Look

VIEWS, SYSTEM = "views", "system"
"""Where the libraries of a runtime lie: in a uenv's views, or on the library path and in the system's folders."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What shows a runtime or an image: a variable that is set and not empty, or a file that exists."""

    env: str = ""
    file: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """The lines that load an image or overlay, with marks, and where they belong.

    note: what to know before they are used. The marks: `venv/howto.py`.
    """

    where: str
    lines: Verbatim
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseUse:
    """What makes the Python on PATH the base of an overlay, and the command that loads it; see its schema."""

    load: str
    below: str = ""
    has: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobUse:
    """How a job uses a runtime, see its schema. scheduler: empty if no job is written for it."""

    scheduler: str = "slurm"
    launchers: tuple[str, ...] = ("srun", "torchrun", "none")
    variables: str = "script"
    image: str = "container"
    registry: str = "@HOST@/@NAME@"
    sbatch: dict[str, str] = field(default_factory=dict)
    srun: Verbatim = ""
    staged: Verbatim = ""
    step: Verbatim = ""
    gpu: dict[str, str] = field(default_factory=dict)
    address: Verbatim = "hostname"


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """One runtime, as its file in `knowledge/runtimes/` describes it.

    container: one is inside a container where it shows. in_script: what shows it in a batch script.
    images: the kinds of images that show themselves.
    base: of overlays, by what it puts on PATH. libraries: VIEWS or SYSTEM. forms: the files of variables that it reads.
    mount: how a squashfs image is mounted. paths: a regular expression for a character that a path must not have there.
    sif: the program that makes the .sif that it runs. limits: what it cannot do.
    common: sites that are not known here have it too.
    """

    name: str
    description: str
    container: bool = False
    signs: tuple[Sign, ...] = ()
    in_script: tuple[Look, ...] = ()
    images: dict[str, Sign] = field(default_factory=dict)
    libraries: Literal["views", "system"]
    base: BaseUse | None = None
    forms: tuple[str, ...] = ()
    use: tuple[Use, ...] = ()
    mount: Verbatim = ""
    sif: str = ""
    paths: Pattern | None = None
    limits: tuple[str, ...] = ()
    common: bool = False
    job: JobUse = field(default_factory=lambda: JobUse(scheduler=""))
    chain: tuple[Location, ...]

    @property
    def extended_kind(self) -> str | None:
        """Return the kind of an image that brings its own network stack: the first of `images`."""
        return next(iter(self.images), None)


def load_runtime(name: str) -> Runtime:
    """Return the runtime of that name or path. Raises BadInput with every problem found."""
    location = locate(RUNTIME, name)
    binder = Binder.of(location, RUNTIME)
    runtime = binder.whole(Runtime, name=location.name, chain=binder.chain)
    binder.finish()
    return runtime


def known_images() -> list[str]:
    """Return the kinds of images that conditions can name."""
    return sorted({image for runtime in all_runtimes() for image in runtime.images})


def all_runtimes() -> list[Runtime]:
    """Return every runtime, in the order of their names."""
    return [load_runtime(str(location.path)) for location in usable_files(RUNTIME).values()]


@functools.cache
def script_runtimes() -> tuple[Runtime, ...]:
    """Return the runtimes that a batch script can show, in the order in which they count where it shows several.

    What only some sites have tells more than what any site may have, and a uenv can be loaded beside a container.
    """
    shown = (runtime for runtime in all_runtimes() if runtime.in_script)
    return tuple(sorted(shown, key=lambda runtime: (runtime.common, not runtime.container, runtime.name)))
