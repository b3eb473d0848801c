"""Writes the report and the log of a build next to the image: its inputs, results, sources and times."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool import __version__
from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.env.install import Installed, InstallOptions
from uenvtool.env.installable import Installable, repos_of
from uenvtool.env.program import Spack, commit_of, state_of
from uenvtool.image.pack import Packed


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePlan:
    """The inputs and the output paths of an image build.

    environments: the environments to install; the first one names the image. store: the directory that Spack installs
    into.
    """

    spack: Spack
    environments: tuple[Installable, ...]
    target: Path
    store: Path
    options: InstallOptions


class Clock:
    """The duration of each step of a build in seconds, by name, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.monotonic()

    def ends(self, step: str) -> None:
        """Record the end of a step, which is the start of the next one."""
        now = time.monotonic()
        self.seconds[step] = round(now - self._began, 1)
        self._began = now


def names_of(image: Path) -> tuple[str, str]:
    """Return the file names of an image's report (JSON) and of its log, which contains Spack's complete output."""
    return f"{image.name}.build.json", f"{image.name}.build.log"


def refuse_others(image: Path) -> None:
    """Raise BadInput if the report or the log would replace a file that uenvtool did not write."""
    recorded = files.read_record(image.parent).names
    for name in names_of(image):
        if os.path.lexists(image.parent / name) and name not in recorded:
            hint = "move the file, or choose another name for the image"
            raise BadInput(f"{image.parent / name} was not written by uenvtool", hint=hint)


def write_report(image: Path, report: Mapping[str, Any], log: str) -> None:
    """Write the report and the log next to the image. Renames an edited report or log instead of replacing it."""
    texts = (json.dumps(report, indent=1) + "\n", log)
    files.write_siblings(image.parent, dict(zip(names_of(image), texts, strict=True)), force=True)


def report_of(
    plan: ImagePlan,
    packed: Packed,
    installed: Installed,
    not_as_pinned: Sequence[str],
    not_compared: Sequence[str],
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """Return the report of a build. not_as_pinned, not_compared: see `deviations`. seconds: how long each step took."""
    spack, environments = plan.spack, plan.environments
    from_disk = {name: state_of(path) for name, path in plan.options.repos.items()}
    packages = [package for each in environments for lock in each.locks for package in lock.packages]
    locked = {f"{package.name}-{package.version}" for package in packages if not package.external}
    return {
        "generator": f"uenvtool {__version__}",
        "image": packed.path.name,
        "bytes": packed.bytes,
        "sha256": packed.sha256,
        "machine": platform.machine(),
        "spack": {"version": spack.version, "program": os.fspath(spack.program), "commit": commit_of(spack)},
        "repos": {**repos_of(environments), **from_disk},
        "not_as_pinned": list(not_as_pinned),
        "not_compared": list(not_compared),
        "environments": [_inputs(environment) for environment in environments],
        "from_cache": sorted(installed.cached),
        "built": sorted(installed.built),
        "in_the_store_before": sorted(locked - {*installed.cached, *installed.built}),
        "seconds": dict(seconds),
    }


def _inputs(environment: Installable) -> dict[str, Any]:
    return {
        "name": environment.name,
        "for": environment.purpose,
        "folder": os.fspath(environment.folder),
        "mount": environment.mount,
        "views": list(environment.views),
        "sha256": {name: files.digest(text) for name, text in sorted(environment.texts.items())},
        "versions": {
            part or environment.name: lock.versions()
            for part, lock in {"": environment.lock, **environment.compiler_locks}.items()
        },
    }
