"""What a user asks of `uenvtool image build`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from uenvtool.knowledge.options import Repos, SpackPath, SystemName, Uarch, named_paths

Names = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageRequest:
    """A request for the image of environments; the first gives it its name, its description and its default view."""

    sources: Annotated[
        Names, Argument(metavar="RECIPE|DIR...", help="Recipes, or folders of resolved environments, in one image.")
    ]
    system: SystemName = None
    uarch: Uarch = None
    output: Annotated[
        str | None, Option("--output", "-o", metavar="FILE", help="The image, or DIR/; default: NAME.squashfs.")
    ] = None
    check: Annotated[bool, Option("--check", help="Check all that the build needs, in seconds, and stop.")] = False
    store: Annotated[
        Path | None,
        Option(
            "--store",
            metavar="DIR",
            help="Install into DIR, which later runs go on with; default: one in the cache folder.",
        ),
    ] = None
    spack: SpackPath = None
    repo: Repos = ()
    config_scope: Annotated[
        Path | None,
        Option(
            "--config-scope", metavar="DIR", help="A folder of Spack's own configuration, as `spack -C DIR` takes it."
        ),
    ] = None
    jobs: Annotated[
        int | None, Option("--jobs", "-j", metavar="N", min=1, help="Processes of one package's build.")
    ] = None
    mirror: Annotated[Names, Option("--mirror", metavar="URL", help="Take sources from a mirror; repeatable.")] = ()
    cache: Annotated[Names, Option("--cache", metavar="URL", help="Take packages from a build cache; repeatable.")] = ()
    unsigned: Annotated[
        bool, Option("--unsigned", help="Take packages from a cache, and push them, without signatures.")
    ] = False
    push: Annotated[
        str, Option("--push", metavar="URL", help="Put the packages into a build cache, for later runs and others.")
    ] = ""
    post_install: Annotated[
        Path | None,
        Option(
            "--post-install",
            metavar="FILE",
            help="Run a script of yours when all is installed; what it puts into `local` is packed.",
        ),
    ] = None
    meta: Annotated[
        tuple[Path, ...],
        Option("--meta", metavar="FILE", help="Put a file of yours into the image's meta/extra; repeatable."),
    ] = ()
    install_only: Annotated[
        bool, Option("--install-only", help="Stop before packing; any number may run at once on one --store.")
    ] = False

    @property
    def repos(self) -> dict[str, Path]:
        """Return the package repositories to take from disk, by name. Raises BadInput for a word that names none."""
        return named_paths(self.repo)
