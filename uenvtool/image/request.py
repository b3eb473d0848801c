"""What a user asks of `uenvtool image build`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """A request for the image of an environment.

    source: a recipe, by name or path, or the folder of an environment. system, uarch, spack, repos: as
    for `uenvtool build`. output: the image; None for NAME.squashfs. store: the folder that is installed
    into and that an interrupted run goes on with; None for one in the user's cache. jobs, mirrors,
    caches, unsigned: see `InstallOptions`. push: the URL of a build cache to fill, or "". tag_by_inputs:
    put the hash of all inputs into the image's name, and build nothing that is there. images: places that
    keep images by that hash, asked before anything is built. push_images: places that the image is put
    into. install_only: stop before the image is made, and let others install into the store at the same time.
    """

    source: str
    system: str | None = None
    uarch: str | None = None
    output: Path | None = None
    store: Path | None = None
    spack: Path | None = None
    repos: Mapping[str, Path] = field(default_factory=dict)
    jobs: int | None = None
    mirrors: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    unsigned: bool = False
    push: str = ""
    tag_by_inputs: bool = False
    images: tuple[str, ...] = ()
    push_images: tuple[str, ...] = ()
    install_only: bool = False
