"""The Python that a command of this shell gets, the packages on its path, and which of them win and should not."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.core.errors import UenvtoolError
from uenvtool.core.words import canonical, listed
from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import PythonHere, PythonPackage, Snapshot
from uenvtool.venv.base import METADATA_SUFFIXES, probe
from uenvtool.venv.health import Health, health

MOST_SHOWN = 2
_OF_PYTHON = re.compile(r"/python(3\.\d+)(?:/|\Z)")
Answer = tuple[PythonHere | None, str]
"""The Python of a shell, None if it does not start, and what it prints when it starts."""


def python_here(environ: Mapping[str, str]) -> Answer:
    """Return the Python of this shell."""
    program = shutil.which("python", path=environ.get("PATH")) or shutil.which("python3", path=environ.get("PATH"))
    if program is None:
        return None, ""
    env = {**environ, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        data, completed = probe(program, env, "paths")
    except UenvtoolError as error:
        return None, str(error)
    if data is None:
        return None, completed.stderr or "it prints nothing"
    environment = data["prefix"] if data["prefix"] != data["base_prefix"] else ""
    folders = tuple(map(str, data["folders"]))
    here = PythonHere(
        version=str(data["version"]),
        folders=folders,
        packages=tuple(_packages(folders)),
        user_site=str(data["user_site"] or ""),
        environment=str(environment),
        its_folder=next((folder for folder in folders if environment and folder.startswith(f"{environment}/")), ""),
        overlay=_overlay(str(environment), folders, environ),
    )
    return here, completed.stderr


def _overlay(environment: str, folders: Sequence[str], environ: Mapping[str, str]) -> Health:
    if not environment:
        return Health()
    is_rank = "SLURM_PROCID" in environ  # each of many would read the libraries whole
    return health(Path(environment), folders, read_libraries=not is_rank)


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


def wrong_packages(here: Snapshot) -> Iterator[Fault]:
    """Yield what comes first and should not."""
    if here.python is None:
        return
    yield from _other_python(here, here.python)
    hidden = list(_hidden(here.python))
    if hidden:
        yield Fault("base-hides-overlay", _listed(hidden))
    torches = here.python.versions("torch")
    if len({torch.folder for torch in torches}) > 1 and not _is_explained(here.python, hidden):
        yield Fault("two-torches", " over ".join(f"{torch.version} in {torch.folder}" for torch in torches[:2]))
    leaking = list(_from_user_site(here.python))
    if leaking:
        yield Fault("user-site", _listed(leaking))


def _is_explained(python: PythonHere, hidden: list[tuple[PythonPackage, PythonPackage]]) -> bool:
    return "torch" in python.overlay.overrides or any(package.name == "torch" for _, package in hidden)


def _other_python(here: Snapshot, python: PythonHere) -> Iterator[Fault]:
    for entry in here.environ.get("PYTHONPATH", "").split(os.pathsep):
        match = _OF_PYTHON.search(entry)
        if match and match[1] != python.minor:
            yield Fault("python-path-other", f"{entry}, and this is Python {python.minor}")


def _hidden(python: PythonHere) -> Iterator[tuple[PythonPackage, PythonPackage]]:
    """Yield the packages of the environment of which another version comes first: who wins, and what is hidden."""
    for package in python.packages:
        if python.its_folder and package.folder == python.its_folder:
            first = python.versions(package.name)[0]
            if first.folder != package.folder and first.version != package.version:
                yield first, package


def _from_user_site(python: PythonHere) -> Iterator[tuple[PythonPackage, PythonPackage]]:
    for package in python.packages:
        if python.user_site and package.folder == python.user_site:
            others = [other for other in python.versions(package.name) if other.folder != package.folder]
            if others and python.versions(package.name)[0] is package:
                yield package, others[0]


def _listed(pairs: list[tuple[PythonPackage, PythonPackage]]) -> str:
    words = [f"{one.name} {one.version} of {one.folder} over {other.version} of {other.folder}" for one, other in pairs]
    return listed(words, MOST_SHOWN)


def wrong_overlay(here: Snapshot) -> Iterator[Fault]:
    """Yield an image that is older than its overlay, and what is compiled for another numpy or torch."""
    if here.python is None:
        return
    overlay = here.python.overlay
    if overlay.older_image:
        yield Fault("image-older", overlay.older_image, (overlay.repack,))
    yield from (Fault("numpy-abi", text) for text in overlay.for_other_numpy)
    yield from (Fault("import-abi", text) for text in overlay.for_other_torch)
