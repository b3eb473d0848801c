"""An environment definition file (EDF) that a user names as the image of a job, and that is taken as it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from uenvtool.check.edf import netstack_of, read_edf
from uenvtool.core.words import is_within

EDF = ".toml"
"""How the name of an EDF ends."""
SUBMITTED_IN = "${PWD}"
"""The folder where srun is called, as an EDF names it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedEdf:
    """What an EDF says of a job.

    error: why it is no TOML. is_whole: it names no other that it adds to. netstack: as `netstack_of` tells it.
    """

    path: str
    error: str
    image: str
    mounts: tuple[str, ...]
    workdir: str
    is_whole: bool
    netstack: str | None

    def shows(self, path: str, folder: str) -> bool:
        """Tell if a path of the container is, or may be, one of the host's. folder: where srun is called."""
        if not self.is_whole:
            return True
        places = [_destination(mount, folder) for mount in self.mounts]
        return any("$" in place or is_within(path, place) for place in places)


def read_named_edf(path: str, text: str) -> NamedEdf:
    """Return what an EDF says, also one that is no TOML."""
    source = read_edf(text, path)
    texts = {name: [part.text for part in source.of("entry", name)] for name in ("image", "mounts", "workdir")}
    return NamedEdf(
        path=path,
        error=next((part.text for part in source.of("syntax")), ""),
        image=_first(texts["image"]),
        mounts=tuple(texts["mounts"]),
        workdir=_first(texts["workdir"]),
        is_whole=not any(source.of("entry", "base_environment")),
        netstack=netstack_of(source),
    )


def _first(texts: Sequence[str]) -> str:
    return next(iter(texts), "")


def _destination(mount: str, folder: str) -> str:
    """Return where a mount is in the container: `SOURCE:DESTINATION:FLAGS`, or SOURCE alone."""
    source, _, rest = mount.partition(":")
    return os.path.expandvars((rest.partition(":")[0] or source).replace(SUBMITTED_IN, folder))
