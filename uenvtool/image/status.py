"""Shows how far an image is, read from the files of its store: from any node, by anybody."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uenvtool.core import files, tools
from uenvtool.core.errors import BadInput, ExitCode
from uenvtool.core.result import Result, Table
from uenvtool.core.value import value_class
from uenvtool.env.install import ENVIRONMENT, JOB, LOG, STAGE, WORK
from uenvtool.knowledge.lock import LOCK, Package, installed_hashes, read_lock

FAILURES = ".spack-db/failures"
_FAILED = re.compile(r"(?m)^\[x\] \S+ \S+ failed: \S*-([a-z0-9]{32})-")
LARGEST_LOG = 64 << 20
ENDED, UNKNOWN = "ended", "unknown"


@value_class
class Build:
    """A package that was begun and is not installed. log: of its build. idle_seconds: since the log grew."""

    package: Package
    log: Path
    idle_seconds: float
    failed: bool

    def data(self) -> dict[str, object]:
        """As data for --json."""
        shown: dict[str, object] = {"package": str(self.package), "log": str(self.log)}
        return shown if self.failed else {**shown, "idle_seconds": round(self.idle_seconds, 1)}


def status(store: Path) -> Result:
    """Tell what of a store is installed, begun, failed and left, if a run works on it, and the state of its job.

    The exit code is NO if a package failed, or the last run. Raises BadInput if it is no store.
    """
    if not (store / ENVIRONMENT / LOCK).is_file():
        raise BadInput(f"{store} is no store of `uenvtool image build`", hint="name the folder that --store named")
    locks = [read_lock(path) for path in (store / ENVIRONMENT).rglob(LOCK)]
    by_hash = {package.hash: package for lock in locks for package in lock.packages}
    packages = sorted(by_hash.values(), key=lambda package: (package.name, package.version))
    done = installed_hashes(store)
    installed = [package for package in packages if package.external or package.hash in done]
    present = {package.hash for package in installed}
    begun = [build for build in _begun(store, packages) if build.package.hash not in present]
    seen = present | {build.package.hash for build in begun}
    waiting = [package for package in packages if package.hash not in seen]
    failed = [build for build in begun if build.failed]
    building = [build for build in begun if not build.failed]
    job = _job(store)
    job_state, silence = _job_state(str(job["job"])) if job.get("job") else ("", "")
    is_running = bool(files.lock_holders(store)) or job_state.partition(" ")[0] in ("running", "completing")
    log = store / WORK / LOG
    run_failed = not is_running and log.is_file()
    image = str(job.get("image", ""))
    summary = f"{len(installed)} of {len(packages)} packages are there, {len(building)} begun"
    summary += f", {len(failed)} failed" if failed else ""
    lines = [
        f"{summary}, {len(waiting)} left",
        "a run works on it" if is_running else "no run of this machine works on it",
    ]
    lines += [f"the last run failed: {log}"] if run_failed else []
    lines += (
        [f"job {job['job']}: {job_state}; image {image}{'' if Path(image).is_file() else ', not yet'}"] if job else []
    )
    return Result(
        data={
            "job": str(job.get("job", "")),
            "job_state": job_state,
            "image": image,
            "running": is_running,
            "last_run_failed": run_failed,
            "installed": list(map(str, installed)),
            "building": [build.data() for build in building],
            "failed": [build.data() for build in failed],
            "waiting": list(map(str, waiting)),
        },
        text="\n".join(lines),
        tables=_tables(begun),
        warnings=(silence,) if silence else (),
        notes=(f"left: {', '.join(map(str, waiting))}",) if waiting else (),
        exit_code=ExitCode.NO if failed or run_failed else ExitCode.DONE,
    )


def in_use(store: Path) -> str:
    """Return who works on a store: a run on this machine, or its Slurm job, also one whose state is not known."""
    if files.lock_holders(store):
        return "a run works on it"
    job = _job(store).get("job")
    state = _job_state(str(job))[0] if job else ENDED
    return f"job {job} of it: {state}" if state != ENDED else ""


def _begun(store: Path, packages: Sequence[Package]) -> list[Build]:
    """Return the packages that have a folder or log where they are built, or that Spack says have failed.

    Spack 1.1 marks these in the store, 1.2 says it alone; its log lies beside the folder and not in it.
    """
    failures = {path.name.rpartition("-")[2] for path in (store / FAILURES).glob("*")}
    with contextlib.suppress(OSError, BadInput):
        failures |= set(_FAILED.findall(files.read_bytes(store / WORK / LOG, LARGEST_LOG).decode(errors="replace")))
    logs = {path.name.rpartition("-")[0]: path for path in (store / STAGE).glob("spack-stage-*.log")}
    found = []
    for package in packages:
        folder = store / STAGE / f"spack-stage-{package.name}-{package.version}-{package.hash}"
        if folder.is_dir() or folder.name in logs or package.hash in failures:
            log = logs.get(folder.name, folder / "spack-build-out.txt")
            now = time.time()
            idle = max(0.0, now - (files.modified(log) or files.modified(folder) or now))
            found.append(Build(package=package, log=log, idle_seconds=idle, failed=package.hash in failures))
    return found


def _job(store: Path) -> dict[str, Any]:
    try:
        found = json.loads((store / WORK / JOB).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _job_state(number: str) -> tuple[str, str]:
    """Ask Slurm for a job's state, and say why it is not known; a job that Slurm does not know has ended."""
    if shutil.which("squeue") is None:
        return UNKNOWN, f"the state of job {number} is unknown: squeue is not here"
    done = tools.run(["squeue", "--noheader", "--format=%T %N", "--jobs", number])
    if done.code == 0:
        return done.stdout.strip().lower() or ENDED, ""
    if "Invalid job id" in done.reason:
        return ENDED, ""
    return UNKNOWN, f"the state of job {number} is unknown: {done.reason}"


def _tables(begun: Sequence[Build]) -> tuple[Table, ...]:
    rows = [
        (
            str(build.package),
            "failed" if build.failed else f"log grew {build.idle_seconds:.0f} s ago",
            str(build.log),
        )
        for build in begun
    ]
    logs = [
        Table(headings=(f"the log of {build.package!s}",), rows=[(line,) for line in files.last_lines(build.log)])
        for build in begun
        if build.failed
    ]
    return (Table(headings=("package", "state", "log"), rows=rows), *logs) if rows else ()
