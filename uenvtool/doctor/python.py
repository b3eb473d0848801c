"""The Python that a command of this shell gets, asked once, and the packages on its path."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.core.errors import BadInput, UenvtoolError
from uenvtool.core.words import canonical
from uenvtool.doctor.snapshot import Package, PythonHere
from uenvtool.venv.base import METADATA_SUFFIXES, probe

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
        chosen=frozenset(_chosen(Path(environment))) if environment else frozenset(),
    )
    return here, completed.stderr


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


def _chosen(environment: Path) -> Iterator[str]:
    """Yield the packages that an overlay, loose or mounted, replaces because its maker said so."""
    try:
        if "uenvtool-base" not in (environment / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace"):
            return
        from uenvtool.venv.record import RECORD_IN_IMAGE, parse_record, read_record

        packed = environment / RECORD_IN_IMAGE
        record = read_record(environment) or parse_record(packed.read_text(encoding="utf-8"), str(packed))
    except (BadInput, OSError, UnicodeDecodeError):
        return
    yield from (canonical(name) for name in record.overrides)
