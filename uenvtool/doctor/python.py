"""What is wrong with the packages of this shell's Python: those that win and should not, and what no longer fits."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from uenvtool.core.words import listed
from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Snapshot
from uenvtool.venv.health import PythonHere, PythonPackage

MOST_SHOWN = 2
_OF_PYTHON = re.compile(r"/python(3\.\d+)(?:/|\Z)")


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
