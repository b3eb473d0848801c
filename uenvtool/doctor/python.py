"""Checks of the Python packages in this shell for wrong precedence and for packages compiled for other versions."""

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


def wrong_packages(snapshot: Snapshot) -> Iterator[Fault]:
    """Yield a fault for packages that wrongly take precedence, and for each PYTHONPATH entry of another Python."""
    if snapshot.python is None:
        return
    yield from _other_python(snapshot, snapshot.python)
    hidden = list(_hidden(snapshot.python))
    if hidden:
        yield Fault("base-hides-overlay", _listed(hidden))
    torches, overrides = snapshot.python.versions("torch"), snapshot.python.overlay.overrides
    is_explained = "torch" in overrides or any(package.name == "torch" for _, package in hidden)
    if len({torch.folder for torch in torches}) > 1 and not is_explained:
        yield Fault("two-torches", " hides ".join(f"{torch.version} in {torch.folder}" for torch in torches[:2]))
    leaking = list(_from_user_site(snapshot.python))
    if leaking:
        yield Fault("user-site", _listed(leaking))


def _other_python(snapshot: Snapshot, python: PythonHere) -> Iterator[Fault]:
    for entry in snapshot.environ.get("PYTHONPATH", "").split(os.pathsep):
        match = _OF_PYTHON.search(entry)
        if match and match[1] != python.minor:
            yield Fault("python-path-other", f"{entry}, but this is Python {python.minor}")


def _hidden(python: PythonHere) -> Iterator[tuple[PythonPackage, PythonPackage]]:
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
    texts = [
        f"{first.name} {first.version} in {first.folder} hides {hidden.version} in {hidden.folder}"
        for first, hidden in pairs
    ]
    return listed(texts, MOST_SHOWN)


def wrong_overlay(snapshot: Snapshot) -> Iterator[Fault]:
    """Yield a fault if a packed overlay is older than its directory, or if a package needs another numpy or torch."""
    if snapshot.python is None:
        return
    overlay = snapshot.python.overlay
    if overlay.older_image:
        yield Fault("image-older", overlay.older_image, (overlay.repack,))
    yield from (Fault("numpy-abi", text) for text in overlay.for_other_numpy)
    yield from (Fault("import-abi", text) for text in overlay.for_other_torch)
