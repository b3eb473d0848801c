"""What a user asks of `uenvtool venv`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

IMAGE_SUFFIXES = (".squashfs", ".sqfs", ".sqsh", ".squash")


@dataclass(frozen=True, kw_only=True, slots=True)
class VenvRequest:
    """A request for an overlay.

    squash: empty for the image beside the overlay. no_build_isolation: an empty name stands for all packages.
    mount: None leaves it as it is.
    """

    path: Annotated[str, Argument(metavar="PATH", help="The overlay's folder.")] = ".venv"
    packages: Annotated[
        tuple[str, ...], Argument(metavar="[PACKAGE]...", help="Requirements, wheels, archives, folders.")
    ] = ()
    requirements: Annotated[
        tuple[str, ...],
        Option("--requirements", "-r", metavar="FILE|URL", help="Requirements, a pyproject.toml, an environment.yml."),
    ] = ()
    editable: Annotated[
        tuple[Path, ...], Option("--editable", "-e", metavar="DIR", help="A project to install editable.")
    ] = ()
    extra: Annotated[
        tuple[str, ...], Option("--extra", metavar="NAME", help="An extra of the project of -r or --from.")
    ] = ()
    group: Annotated[
        tuple[str, ...], Option("--group", metavar="NAME", help="A dependency group of that project.")
    ] = ()
    remove: Annotated[
        tuple[str, ...],
        Option("--remove", metavar="NAME", help="No longer install this package, nor what only it needs."),
    ] = ()
    base: Annotated[
        str | None,
        Option(
            "--base", metavar="PYTHON", help="The base's Python; default: the loaded uenv's, else this container's."
        ),
    ] = None
    no_base: Annotated[
        bool, Option("--no-base", help="A plain environment on the Python here; it installs its own torch.")
    ] = False
    uenv: Annotated[str | None, Option("--uenv", metavar="IMAGE", help="Load this uenv for the command first.")] = None
    view: Annotated[str, Option("--view", metavar="VIEW", help="The view to load with --uenv.")] = "default"
    squash: Annotated[
        str | None,
        Option(
            "--squash", metavar="[FILE]", help="Pack it into one image too; default: beside PATH and named after it."
        ),
    ] = None
    override: Annotated[
        tuple[str, ...],
        Option(
            "--override",
            metavar="NAME",
            help="Replace the base's package, also a protected one; NAME or NAME==VERSION.",
        ),
    ] = ()
    no_build_isolation: Annotated[
        tuple[str, ...],
        Option(
            "--no-build-isolation",
            metavar="[PACKAGE]",
            help="Build it from source with the base's torch; without a name: all that is built.",
        ),
    ] = ()
    allow_older: Annotated[
        bool, Option("--allow-older", help="Take old releases that fit of packages that you do not cap.")
    ] = False
    from_: Annotated[
        Path | None,
        Option("--from", metavar="LOCK", help="Make exactly what a pylock.toml or uv.lock says."),
    ] = None
    no_install_project: Annotated[
        bool, Option("--no-install-project", help="With --from: only what the project needs.")
    ] = False
    update: Annotated[bool, Option("--update", help="Take newer versions; keep the old overlay and image.")] = False
    mount: Annotated[
        str | None,
        Option("--mount", metavar="DIR", help="Where the image will be mounted; default: as it is, else /user-tools."),
    ] = None
    dry_run: Annotated[
        bool,
        Option("--dry-run", help="Say what comes of it by the metadata of wheels; build, install and make nothing."),
    ] = False
    verbose: Annotated[bool, Option("--verbose", "-v", help="List every package, not only those that change.")] = False

    @property
    def image(self) -> Path | None:
        """Return the image to write: as named, else beside the overlay and after it: `.venv` gives venv.squashfs."""
        if self.squash is None:
            return None
        return Path(self.squash) if self.squash else default_image(Path(self.path))

    @property
    def wants_packages(self) -> bool:
        """Tell if it names anything to install."""
        return bool(self.packages or self.requirements or self.editable)

    @property
    def changes_overlay(self) -> bool:
        """Tell if the overlay has to be made, and not only packed."""
        changes = self.override or self.no_build_isolation or self.remove or self.from_ or self.update
        return bool(self.wants_packages or changes)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShellRequest:
    """A request for a shell, or one command, in an overlay."""

    path: Annotated[Path, Argument(metavar="PATH", help="An overlay's folder or image.")]
    words: Annotated[
        tuple[str, ...], Argument(metavar="-- COMMAND...", help="What runs in place of a shell.", show_default=False)
    ] = ()


def is_image_name(name: str) -> bool:
    """Tell if a name is that of an image: `--squash NAME` takes no other."""
    return name.endswith(IMAGE_SUFFIXES)


def default_image(path: Path) -> Path:
    """Return the image beside an overlay and after it."""
    name = path.absolute().name.lstrip(".") or "venv"
    return path.parent / f"{name}.squashfs"
