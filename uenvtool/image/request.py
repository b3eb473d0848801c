"""The options of `uenvtool image build`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from uenvtool.knowledge.options import Repos, SpackPath, SystemName, Uarch

Names = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageRequest:
    """The options of `uenvtool image build`.

    The first source gives the image its name, its description and its default view.
    """

    sources: Annotated[
        Names,
        Argument(metavar="RECIPE|DIR...", help="Recipes, or directories of resolved environments, for one image."),
    ]
    system: SystemName = None
    uarch: Uarch = None
    output: Annotated[
        str | None,
        Option("--output", "-o", metavar="FILE", help="Write the image to FILE or DIR/; default: NAME.squashfs."),
    ] = None
    check: Annotated[
        bool, Option("--check", help="Check in seconds whether the build has everything it needs, and build nothing.")
    ] = False
    store: Annotated[
        Path | None,
        Option(
            "--store",
            metavar="DIR",
            help="Install into DIR, which later runs reuse; default: a directory in the user's cache.",
        ),
    ] = None
    spack: SpackPath = None
    repo: Repos = ()
    config_scope: Annotated[
        Path | None,
        Option("--config-scope", metavar="DIR", help="Use the Spack configuration in DIR, such as mirrors.yaml."),
    ] = None
    jobs: Annotated[
        int | None, Option("--jobs", "-j", metavar="N", min=1, help="Build each package with N parallel processes.")
    ] = None
    mirror: Annotated[Names, Option("--mirror", metavar="URL", help="Fetch sources from a mirror; repeatable.")] = ()
    cache: Annotated[
        Names, Option("--cache", metavar="URL", help="Install packages from a build cache; repeatable.")
    ] = ()
    unsigned: Annotated[
        bool, Option("--unsigned", help="Install from caches, and push to them, without signatures.")
    ] = False
    push: Annotated[str, Option("--push", metavar="URL", help="Push the packages to a build cache.")] = ""
    post_install: Annotated[
        Path | None,
        Option(
            "--post-install",
            metavar="FILE",
            help="Run your own script after the installation, and pack the files it writes to `local`.",
        ),
    ] = None
    meta: Annotated[
        tuple[Path, ...],
        Option("--meta", metavar="FILE", help="Copy FILE into the image's meta/extra; repeatable."),
    ] = ()
    shell: Annotated[
        bool, Option("--shell", help="Start a shell in the build's sandbox, where `spack` uses the first environment.")
    ] = False
    install_only: Annotated[
        bool, Option("--install-only", help="Stop before packing. Several such runs may share one --store.")
    ] = False
