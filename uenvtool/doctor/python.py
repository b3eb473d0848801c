"""The Python that a command of this shell gets, asked once, and the packages on its path."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.core.errors import UenvtoolError
from uenvtool.core.words import canonical
from uenvtool.doctor.snapshot import Package, PythonHere
from uenvtool.venv.base import METADATA_SUFFIXES, probe
from uenvtool.venv.health import Health, health

Answer = tuple[PythonHere | None, str]
"""The Python of a shell, None if it does not start, and what it prints when it starts."""


def start_asking(environ: Mapping[str, str]) -> Callable[[], Answer]:
    """Start asking Python, which may take as long as all else; what is given back waits for the answer."""
    from threading import Thread

    answers: list[Answer] = []
    errors: list[Exception] = []

    def ask() -> None:
        try:
            answers.append(python_here(environ))
        except Exception as error:  # told by whoever waits for the answer, and not with a traceback by the thread
            errors.append(error)

    thread = Thread(target=ask, daemon=True)
    thread.start()

    def answer() -> Answer:
        thread.join()
        if errors:
            raise errors[0]
        return answers[0]

    return answer


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


def _packages(folders: Sequence[str]) -> Iterator[Package]:
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
                yield Package(name=canonical(distribution), version=version, folder=folder)
