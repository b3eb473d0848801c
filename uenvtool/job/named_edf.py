"""Reads an environment definition file (EDF) that a user names as the image of a job. uenvtool does not change it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from uenvtool.check.edf import netstack_of, read_edf
from uenvtool.core.words import is_within

EDF = ".toml"
"""The suffix of EDF names."""
SUBMITTED_IN = "${PWD}"
"""The directory where srun is called, as an EDF spells it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedEdf:
    """The fields of an EDF that concern a job.

    error: the syntax error if it is not valid TOML. is_whole: whether it extends no other EDF. netstack: the result of
    `netstack_of`.
    """

    path: str
    error: str
    image: str
    mounts: tuple[str, ...]
    workdir: str
    is_whole: bool
    netstack: str | None

    def shows(self, path: str, folder: str) -> bool:
        """Return whether a path in the container is, or may be, mounted from the host. folder: where srun is called."""
        if not self.is_whole:
            return True
        places = [_destination(mount, folder) for mount in self.mounts]
        return any("$" in place or is_within(path, place) for place in places)


def read_named_edf(path: str, text: str) -> NamedEdf:
    """Return the fields of an EDF, even if it is not valid TOML."""
    source = read_edf(text, path)
    texts = {name: [part.text for part in source.of("entry", name)] for name in ("image", "mounts", "workdir")}
    return NamedEdf(
        path=path,
        error=next((part.text for part in source.of("syntax")), ""),
        image="".join(texts["image"][:1]),
        mounts=tuple(texts["mounts"]),
        workdir="".join(texts["workdir"][:1]),
        is_whole=not any(source.of("entry", "base_environment")),
        netstack=netstack_of(source),
    )


def _destination(mount: str, folder: str) -> str:
    # A mount is written as `SOURCE:DESTINATION:FLAGS` or only as SOURCE.
    source, _, rest = mount.partition(":")
    return os.path.expandvars((rest.partition(":")[0] or source).replace(SUBMITTED_IN, folder))
