"""The state of a store while packages are installed into it, read from its files: from any node, by anybody."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput
from uenvtool.core.files import read_bytes
from uenvtool.env.folder import LOCK
from uenvtool.env.install import ENVIRONMENT, STAGE, WORK
from uenvtool.env.lock import Package, read_lock

JOB = "job.json"
"""The file of a store's work folder that names the Slurm job and the image."""
DATABASE = ".spack-db/index.json"
FAILURES = ".spack-db/failures"
LARGEST_DATABASE = 200 << 20


def usual_stores() -> Path:
    """The folder of this user's stores, each of one lock, for which no other place is named."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "uenvtool" / "stores"


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """A package that is built, or whose build was cut short. log: of its build. idle_seconds: since the log grew."""

    package: Package
    log: Path
    idle_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """How far an installation is. waiting: packages that nobody has begun. failed: those that did not build.

    job: the number of the Slurm job, or "". image: what it makes, or "".
    """

    installed: Sequence[Package]
    building: Sequence[Building]
    failed: Sequence[Building]
    waiting: Sequence[Package]
    job: str
    image: str


def store_state(store: Path) -> StoreState:
    """The state of a store. Raises BadInput if nothing was installed into it."""
    lock = store / ENVIRONMENT / LOCK
    if not lock.is_file():
        raise BadInput(f"{store} is no store of uenvtool image build", hint="name the folder that --store named")
    packages = sorted(read_lock(lock, str(lock)).packages, key=lambda package: (package.name, package.version))
    installed = _installed(store)
    begun = {build.package.hash: build for build in _begun(store, packages) if build.package.hash not in installed}
    failures = {name.name.rpartition("-")[2] for name in (store / FAILURES).glob("*")}
    job = _job(store)
    return StoreState(
        installed=[package for package in packages if package.external or package.hash in installed],
        building=[build for key, build in begun.items() if key not in failures],
        failed=[build for key, build in begun.items() if key in failures],
        waiting=[
            package
            for package in packages
            if not package.external and package.hash not in installed and package.hash not in begun
        ],
        job=str(job.get("job", "")),
        image=str(job.get("image", "")),
    )


def _installed(store: Path) -> set[str]:
    """The hashes of the packages that Spack has registered."""
    try:
        database = json.loads(read_bytes(store / DATABASE, LARGEST_DATABASE))
        return {key for key, row in database["database"]["installs"].items() if row.get("installed")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()


def _begun(store: Path, packages: Sequence[Package]) -> list[Building]:
    """The packages that have a folder where they are built."""
    by_hash = {package.hash: package for package in packages}
    found = []
    for folder in sorted((store / STAGE).glob("spack-stage-*")):
        match = re.fullmatch(r"spack-stage-.+-([a-z0-9]{32})", folder.name)
        if match and match[1] in by_hash:
            log = folder / "spack-build-out.txt"
            found.append(Building(package=by_hash[match[1]], log=log, idle_seconds=_idle_seconds(log, folder)))
    return found


def _idle_seconds(log: Path, folder: Path) -> float:
    for path in (log, folder):
        try:
            return max(0.0, time.time() - path.stat().st_mtime)
        except OSError:
            continue
    return 0.0


def _job(store: Path) -> dict[str, Any]:
    try:
        found = json.loads((store / WORK / JOB).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
