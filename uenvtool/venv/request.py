"""The options and arguments of `uenvtool venv` and `uenvtool shell`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

IMAGE_SUFFIXES = (".squashfs", ".sqfs", ".sqsh", ".squash")


@dataclass(frozen=True, kw_only=True, slots=True)
class VenvRequest:
    """A request for an overlay.

    squash: an empty string means the default image. no_build_isolation: an empty name means all packages. mount: None
    keeps the mount point of the existing image.
    """

    path: Annotated[str, Argument(metavar="PATH", help="The overlay's directory.")] = ".venv"
    packages: Annotated[
        tuple[str, ...],
        Argument(metavar="[PACKAGE]...", help="Requirement specifiers, wheels, archives or directories."),
    ] = ()
    requirements: Annotated[
        tuple[str, ...],
        Option(
            "--requirements", "-r", metavar="FILE|URL", help="A requirements file, pyproject.toml or environment.yml."
        ),
    ] = ()
    editable: Annotated[
        tuple[Path, ...], Option("--editable", "-e", metavar="DIR", help="Install this project in editable mode.")
    ] = ()
    extra: Annotated[
        tuple[str, ...], Option("--extra", metavar="NAME", help="Install this extra of the project of -r or --from.")
    ] = ()
    group: Annotated[
        tuple[str, ...], Option("--group", metavar="NAME", help="Install this dependency group of that project.")
    ] = ()
    remove: Annotated[
        tuple[str, ...],
        Option("--remove", metavar="NAME", help="Remove this package and the packages that only it needs."),
    ] = ()
    base: Annotated[
        str | None,
        Option(
            "--base", metavar="PYTHON", help="The base's Python. Default: the loaded uenv's or else this container's."
        ),
    ] = None
    no_base: Annotated[
        bool,
        Option("--no-base", help="Use the Python on PATH without a base; torch is then installed like any package."),
    ] = False
    uenv: Annotated[
        str | None, Option("--uenv", metavar="IMAGE", help="Load this uenv before running the command.")
    ] = None
    view: Annotated[str, Option("--view", metavar="VIEW", help="The view to load with --uenv.")] = "default"
    squash: Annotated[
        str | None,
        Option(
            "--squash",
            metavar="[FILE]",
            help="Also pack the overlay into one image. Default: next to PATH and named after it.",
        ),
    ] = None
    override: Annotated[
        tuple[str, ...],
        Option(
            "--override",
            metavar="NAME",
            help="Replace a package of the base, even a protected one such as torch: NAME or NAME==VERSION.",
        ),
    ] = ()
    keep_base: Annotated[
        bool,
        Option("--keep-base", help="Keep the base's version of each package that you request in another version."),
    ] = False
    no_build_isolation: Annotated[
        tuple[str, ...],
        Option(
            "--no-build-isolation",
            metavar="[PACKAGE]",
            help="Build this package from source with the base's torch. Default: every package that is built.",
        ),
    ] = ()
    allow_older: Annotated[
        bool, Option("--allow-older", help="Allow old releases that fit the base, except for packages that you cap.")
    ] = False
    from_: Annotated[
        Path | None,
        Option("--from", metavar="LOCK", help="Install exactly the packages of a pylock.toml or uv.lock."),
    ] = None
    no_install_project: Annotated[
        bool, Option("--no-install-project", help="With --from, install only the project's dependencies.")
    ] = False
    update: Annotated[bool, Option("--update", help="Upgrade to newer versions; keep the old overlay and image.")] = (
        False
    )
    mount: Annotated[
        str | None,
        Option(
            "--mount", metavar="DIR", help="Where the image will be mounted. Default: as before, or else /user-tools."
        ),
    ] = None
    dry_run: Annotated[
        bool,
        Option("--dry-run", help="Print the plan from wheel metadata; build, install and write nothing."),
    ] = False
    verbose: Annotated[bool, Option("--verbose", "-v", help="List every package, not only changed ones.")] = False

    @property
    def image(self) -> Path | None:
        """Return the image to write, or None without --squash."""
        if self.squash is None:
            return None
        return Path(self.squash) if self.squash else default_image(Path(self.path))

    @property
    def wants_packages(self) -> bool:
        """Return whether the request names anything to install."""
        return bool(self.packages or self.requirements or self.editable)

    @property
    def changes_overlay(self) -> bool:
        """Return whether the request changes the packages of an overlay."""
        changes = self.override or self.no_build_isolation or self.remove or self.from_ or self.update
        return bool(self.wants_packages or changes)

    @property
    def of_project(self) -> dict[str, tuple[str, ...]]:
        """Return the options that select parts of a project or lock, as overlay records store them."""
        switches = {"--no-install-project": self.no_install_project, "--keep-base": self.keep_base}
        options = tuple(option for option, is_given in switches.items() if is_given)
        return {"extra": self.extra, "group": self.group, "options": options}


@dataclass(frozen=True, kw_only=True, slots=True)
class ShellRequest:
    """A request for a shell or one command in an overlay."""

    path: Annotated[Path, Argument(metavar="PATH", help="An overlay's directory or image.")]
    words: Annotated[
        tuple[str, ...],
        Argument(metavar="-- COMMAND...", help="The command to run instead of a shell.", show_default=False),
    ] = ()


def is_image_name(name: str) -> bool:
    """Return whether a name ends in the suffix of an image; `--squash NAME` accepts no other name."""
    return name.endswith(IMAGE_SUFFIXES)


def default_image(path: Path) -> Path:
    """Return the path of the image next to an overlay and named after it: venv.squashfs for `.venv`."""
    name = path.absolute().name.lstrip(".") or "venv"
    return path.parent / f"{name}.squashfs"
