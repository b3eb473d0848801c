"""What a user asks of `uenvtool build`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SPACK = "spack"
STACKINATOR = {"stackinator": 2, "stackinator3": 3}
"""Forms of a Stackinator recipe to its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """A request to build.

    recipe: a name or path. system, uarch: None for the one that fits (see `knowledge.choose`).
    output: the folder, None for the usual one. form: SPACK or one of STACKINATOR.
    resolve: None if that depends on whether a Spack is found. spack: a Spack to use before any other.
    repos: package repositories to take from disk. check: compare and write nothing. dry_run: tell and
    write nothing. force: replace the tool's own files that were changed by hand. sources: list what
    will be downloaded; mirror: a folder to download it into. plan: show what building the image takes;
    the mirror is then a folder to look sizes up in. verbose: show every root package.
    """

    recipe: str
    system: str | None = None
    uarch: str | None = None
    output: Path | None = None
    form: str = SPACK
    resolve: bool | None = None
    spack: Path | None = None
    repos: Mapping[str, Path] = field(default_factory=dict)
    check: bool = False
    dry_run: bool = False
    force: bool = False
    sources: bool = False
    mirror: Path | None = None
    plan: bool = False
    verbose: bool = False
