"""What doctor asks about the Python of a shell: its packages, and what is wrong with its environment by the files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from uenvtool.core.errors import BadInput, UenvtoolError
from uenvtool.core.words import canonical
from uenvtool.venv.base import METADATA_SUFFIXES, Distribution, installed, probe
from uenvtool.venv.compiled import numpy_problems, torch_problems
from uenvtool.venv.discovery import RECORD_FOLDER, is_overlay
from uenvtool.venv.info import image_of, is_older, repack_command
from uenvtool.venv.record import RECORD_IN_IMAGE, parse_record, read_record


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """What is wrong with an environment.

    overrides: the packages of the base that it replaces because its maker said so, by normalized name. older_image:
    the image that holds another state of it; repack: the command that packs it again. for_other_numpy,
    for_other_torch: what is compiled for another one than that in effect, a sentence each.
    """

    overrides: frozenset[str] = frozenset()
    older_image: str = ""
    repack: str = ""
    for_other_numpy: tuple[str, ...] = ()
    for_other_torch: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonPackage:
    """An installed distribution: its name as resolvers compare it, and the package folder that it lies in."""

    name: str
    version: str
    folder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonHere:
    """The Python that a command of this shell gets.

    folders: its package folders in their order. packages: in that order, hidden ones too. user_site: the user's own
    folder, if it counts. environment: the virtual environment, if it is one; its_folder: where that has its packages.
    overlay: what is wrong with that environment.
    """

    version: str
    folders: tuple[str, ...]
    packages: tuple[PythonPackage, ...]
    user_site: str = ""
    environment: str = ""
    its_folder: str = ""
    overlay: Health = field(default_factory=Health)

    @property
    def minor(self) -> str:
        """The version that compiled packages are for, such as 3.12."""
        return ".".join(self.version.split(".")[:2])

    def versions(self, name: str) -> list[PythonPackage]:
        """Return all of a package that lie on the path, the one that wins first."""
        return [package for package in self.packages if package.name == name]


def python_here(environ: Mapping[str, str], *, read_libraries: bool) -> tuple[PythonHere | None, str]:
    """Return the Python of a shell, None if there is none or it does not start, and what it prints when it starts.

    It is started once, without importing a package. read_libraries: read the compiled modules of an overlay whole,
    which takes seconds.
    """
    program = shutil.which("python", path=environ.get("PATH")) or shutil.which("python3", path=environ.get("PATH"))
    if program is None:
        return None, ""
    try:
        data, completed = probe(program, environ, "paths")
    except UenvtoolError as error:
        return None, str(error)
    if data is None:
        return None, completed.stderr or "it prints nothing"
    environment = data["prefix"] if data["prefix"] != data["base_prefix"] else ""
    folders = tuple(map(str, data["folders"]))
    own = next((folder for folder in folders if environment and folder.startswith(f"{environment}/")), "")
    here = PythonHere(
        version=str(data["version"]),
        folders=folders,
        packages=tuple(_packages(folders)),
        user_site=str(data["user_site"] or ""),
        environment=str(environment),
        its_folder=own,
        overlay=_health(Path(environment), own, folders, read_libraries=read_libraries) if environment else Health(),
    )
    return here, completed.stderr


def _packages(folders: Sequence[str]) -> Iterator[PythonPackage]:
    """Yield the distributions of the folders by the names of their metadata, as pip writes them."""
    for folder in folders:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            stem, suffix = os.path.splitext(name)
            if suffix in METADATA_SUFFIXES and "-" in stem:
                distribution, _, version = stem.partition("-")
                version = version.partition("-py")[0] if suffix == ".egg-info" else version
                yield PythonPackage(name=canonical(distribution), version=version, folder=folder)


def _health(environment: Path, own: str, folders: Sequence[str], *, read_libraries: bool) -> Health:
    """Look at a virtual environment, an overlay or another; nothing of it is imported or run.

    own: where it has its packages. folders: the package folders of its Python in their order, its own and its base's.
    Of an environment without a base no library is read.
    """
    overrides = frozenset(_overrides(environment))
    image = image_of(environment) if (environment / RECORD_FOLDER).is_dir() else None
    is_stale = image is not None and is_older(image, environment)
    of_numpy, of_torch = _misfits(own, folders, overrides) if own and read_libraries else ((), ())
    return Health(
        overrides=overrides,
        older_image=str(image) if is_stale else "",
        repack=repack_command(environment, image) if image is not None and is_stale else "",
        for_other_numpy=of_numpy,
        for_other_torch=of_torch,
    )


def _overrides(environment: Path) -> list[str]:
    try:
        if not is_overlay(environment):
            return []
        packed = environment / RECORD_IN_IMAGE  # an image that is mounted has its record there
        record = read_record(environment) or parse_record(packed.read_text(encoding="utf-8"), str(packed))
    except (BadInput, OSError, UnicodeDecodeError):
        return []
    return [canonical(name) for name in record.overrides]


def _misfits(own: str, folders: Sequence[str], overrides: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    before: dict[str, Distribution] = {}
    try:
        for folder in folders:
            if folder != own:
                before = {**installed(Path(folder)), **before}
        new = installed(Path(own)) if before else {}
    except (OSError, ValueError, TypeError, KeyError):  # metadata that is damaged, as a half removed package leaves it
        return (), ()
    return (
        tuple(problem.message for problem in numpy_problems(before, new)),
        tuple(problem.message for problem in torch_problems(before, new, overrides)),
    )
