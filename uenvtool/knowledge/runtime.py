"""A runtime: a way to provide software on a node, such as a uenv, a container engine or modules."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Literal

from uenvtool.knowledge.bind import Verbatim, bound
from uenvtool.knowledge.kinds import RUNTIME
from uenvtool.knowledge.load import usable_files
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.pattern import Pattern
from uenvtool.knowledge.rule import Look

VIEWS, SYSTEM = "views", "system"
"""The places of a runtime's libraries: a uenv's views, or the library path and the system's directories."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A sign of a runtime or image: a variable that is set and not empty, or a file that exists."""

    env: str = ""
    file: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """The lines that load an image or overlay, and the place for them. `venv/howto.py` lists the placeholders."""

    where: str
    lines: Verbatim
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BaseUse:
    """How to recognise the Python on PATH as the base of an overlay, and the command that loads the base."""

    load: str
    below: str = ""
    has: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobUse:
    """How a job uses a runtime. If `scheduler` is empty, uenvtool writes no jobs for the runtime."""

    scheduler: str = "slurm"
    launchers: tuple[str, ...] = ("srun", "torchrun", "none")
    variables: str = "script"
    image: str = "container"
    registry: str = "@HOST@/@NAME@"
    sbatch: dict[str, str] = field(default_factory=dict)
    srun: Verbatim = ""
    staged: Verbatim = ""
    step: Verbatim = ""
    options: tuple[str, ...] = ()
    home: bool = True
    gpu: dict[str, str] = field(default_factory=dict)
    address: Verbatim = "hostname"


@dataclass(frozen=True, kw_only=True, slots=True)
class Runtime:
    """A runtime with everything that it inherits. libraries: VIEWS or SYSTEM."""

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
    targets: Pattern | None = None
    limits: tuple[str, ...] = ()
    common: bool = False
    job: JobUse = field(default_factory=lambda: JobUse(scheduler=""))

    @property
    def extended_kind(self) -> str | None:
        """Return the kind of image that contains its own network stack. It is the first kind in `images`."""
        return next(iter(self.images), None)


def load_runtime(name: str) -> Runtime:
    """Return the runtime with this name or path. Raises BadInput with all problems."""
    location = locate(RUNTIME, name)
    return bound(Runtime, location, RUNTIME, name=location.name)


def known_images() -> list[str]:
    """Return the image kinds that conditions can test."""
    return sorted({image for runtime in all_runtimes() for image in runtime.images})


def all_runtimes() -> list[Runtime]:
    """Return every runtime, ordered by name."""
    return [load_runtime(str(location.path)) for location in usable_files(RUNTIME).values()]


@functools.cache
def script_runtimes() -> tuple[Runtime, ...]:
    """Return the runtimes that can be recognised in a batch script, the more specific ones of some sites first.

    Containers come before the others, because a uenv can be loaded in addition to a container.
    """
    recognisable = (runtime for runtime in all_runtimes() if runtime.in_script)
    return tuple(sorted(recognisable, key=lambda runtime: (runtime.common, not runtime.container, runtime.name)))
