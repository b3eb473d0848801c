"""`uenvtool image status`: how far an image is that is built elsewhere, read from its store."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from uenvtool.core import files, tools
from uenvtool.core.errors import ExitCode
from uenvtool.core.result import Result, Table
from uenvtool.env.lock import Package
from uenvtool.env.store import Building, StoreState, store_state

UNKNOWN = "unknown"


def status(store: Path) -> Result:
    """What of a store is installed, built now, failed and left, and the state of the job that builds it.

    The exit code is NO if a package failed. Raises BadInput if it is no store.
    """
    found = store_state(store)
    job = _job_state(found.job) if found.job else ""
    total = len(found.installed) + len(found.building) + len(found.failed) + len(found.waiting)
    summary = f"{len(found.installed)} of {total} packages are there, {len(found.building)} begun"
    summary += f", {len(found.failed)} failed" if found.failed else ""
    lines = [f"{summary}, {len(found.waiting)} left"]
    if found.job:
        lines.append(f"job {found.job}: {job}; image {found.image}{'' if Path(found.image).is_file() else ', not yet'}")
    return Result(
        data=_data(found, job),
        text="\n".join(lines),
        tables=_tables(found),
        notes=tuple(f"left: {', '.join(map(_named, found.waiting))}" for _ in found.waiting[:1]),
        exit_code=ExitCode.NO if found.failed else ExitCode.DONE,
    )


def _job_state(number: str) -> str:
    """What Slurm says of a job; one that it no longer lists has ended."""
    if shutil.which("squeue") is None:
        return UNKNOWN
    done = tools.run(["squeue", "--noheader", "--format=%T %N", "--jobs", number])
    return done.stdout.strip().lower() or "ended"


def _tables(found: StoreState) -> tuple[Table, ...]:
    rows = [(_named(build.package), "failed", str(build.log)) for build in found.failed]
    rows += [
        (_named(build.package), f"log grew {build.idle_seconds:.0f} s ago", str(build.log)) for build in found.building
    ]
    shown = [Table(headings=("package", "state", "log"), rows=rows)] if rows else []
    shown += [Table(headings=(f"the log of {_named(build.package)}",), rows=_tail(build)) for build in found.failed]
    return tuple(shown)


def _tail(failed: Building) -> Sequence[tuple[str]]:
    return [(line,) for line in files.last_lines(failed.log)]


def _data(found: StoreState, job: str) -> dict[str, object]:
    return {
        "job": found.job,
        "job_state": job,
        "image": found.image,
        "installed": list(map(_named, found.installed)),
        "building": [
            {"package": _named(build.package), "log": str(build.log), "idle_seconds": round(build.idle_seconds, 1)}
            for build in found.building
        ],
        "failed": [{"package": _named(build.package), "log": str(build.log)} for build in found.failed],
        "waiting": list(map(_named, found.waiting)),
    }


def _named(package: Package) -> str:
    return f"{package.name}@{package.version}"
