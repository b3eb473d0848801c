"""Inspects the Python of a shell for doctor: its packages, and the problems of its environment, without imports."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from uenvtool.core.errors import BadInput, UenvtoolError
from uenvtool.core.words import canonical
from uenvtool.venv.base import METADATA_SUFFIXES, RECORD_FOLDER, Distribution, installed, probe
from uenvtool.venv.compiled import numpy_problems, torch_problems
from uenvtool.venv.info import image_of, is_older, repack_command
from uenvtool.venv.record import RECORD_IN_IMAGE, parse_record, read_record


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """The problems of an environment.

    overrides: the normalized names of the base's packages that --override replaced. older_image: the image, if the
    environment has changed since it was packed. repack: the command that packs the environment again. for_other_numpy,
    for_other_torch: a sentence for each package that was compiled for another numpy or torch.
    """

    overrides: frozenset[str] = frozenset()
    older_image: str = ""
    repack: str = ""
    for_other_numpy: tuple[str, ...] = ()
    for_other_torch: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonPackage:
    """An installed distribution: its normalized name, its version and the package directory that contains it."""

    name: str
    version: str
    folder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonHere:
    """The Python that the command `python` runs in this shell.

    folders: the package directories in search order. packages: the distributions in that order, including those that
    Python does not import. user_site: the user's site-packages, if Python uses it. environment: the virtual
    environment, or an empty string. its_folder: the environment's site-packages. overlay: the environment's problems.
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
        """Return the version that compiled packages must match, such as 3.12."""
        return ".".join(self.version.split(".")[:2])

    def versions(self, name: str) -> list[PythonPackage]:
        """Return all distributions of a package on sys.path; Python imports the first one."""
        return [package for package in self.packages if package.name == name]


def python_here(environ: Mapping[str, str], *, read_libraries: bool) -> tuple[PythonHere | None, str]:
    """Return the shell's Python, or None if it is missing or does not start, and its stderr output.

    The Python is started once and imports no package. read_libraries: also read compiled modules, which takes seconds.
    """
    program = shutil.which("python", path=environ.get("PATH")) or shutil.which("python3", path=environ.get("PATH"))
    if program is None:
        return None, ""
    try:
        data, completed = probe(program, environ, "paths")
    except UenvtoolError as error:
        return None, str(error)
    if data is None:
        return None, completed.stderr or "Python printed nothing"
    environment = data["prefix"] if data["prefix"] != data["base_prefix"] else ""
    directories = tuple(map(str, data["folders"]))
    site = next((directory for directory in directories if environment and directory.startswith(f"{environment}/")), "")
    python = PythonHere(
        version=str(data["version"]),
        folders=directories,
        packages=tuple(_packages(directories)),
        user_site=str(data["user_site"] or ""),
        environment=str(environment),
        its_folder=site,
        overlay=_health(environment, site, directories, read_libraries=read_libraries) if environment else Health(),
    )
    return python, completed.stderr


def _packages(directories: Sequence[str]) -> Iterator[PythonPackage]:
    for directory in directories:
        try:
            names = sorted(os.listdir(directory))
        except OSError:
            continue
        for name in names:
            stem, suffix = os.path.splitext(name)
            if suffix in METADATA_SUFFIXES and "-" in stem:
                distribution, _, version = stem.partition("-")
                version = version.partition("-py")[0] if suffix == ".egg-info" else version
                yield PythonPackage(name=canonical(distribution), version=version, folder=directory)


def _health(prefix: str, site: str, folders: Sequence[str], *, read_libraries: bool) -> Health:
    environment = Path(prefix)
    overrides = frozenset(_overrides(environment))
    image = image_of(environment) if (environment / RECORD_FOLDER).is_dir() else None
    image = image if image and is_older(image, environment) else None
    for_other_numpy, for_other_torch = _misfits(site, folders, overrides) if site and read_libraries else ((), ())
    return Health(
        overrides=overrides,
        older_image=str(image or ""),
        repack=repack_command(environment, image) if image else "",
        for_other_numpy=for_other_numpy,
        for_other_torch=for_other_torch,
    )


def _overrides(environment: Path) -> list[str]:
    packed = environment / RECORD_IN_IMAGE  # the record of a mounted image
    try:
        record = read_record(environment) or parse_record(packed.read_text(encoding="utf-8"), str(packed))
    except (BadInput, OSError, UnicodeDecodeError):
        return []
    return [canonical(name) for name in record.overrides]


def _misfits(site: str, folders: Sequence[str], overrides: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    base: dict[str, Distribution] = {}
    try:
        for directory in folders:
            if directory != site:
                base = {**installed(Path(directory)), **base}
        new = installed(Path(site)) if base else {}
    except (OSError, ValueError, TypeError, KeyError):  # damaged metadata, for example of a half removed package
        return (), ()
    return (
        tuple(problem.message for problem in numpy_problems(base, new)),
        tuple(problem.message for problem in torch_problems(base, new, overrides)),
    )
