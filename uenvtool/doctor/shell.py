"""Diagnosis of the current shell, job or rank, which collects its state once and then runs all checks."""

from __future__ import annotations

import io
import os
import platform
from collections.abc import Iterator, Mapping

from uenvtool.core.session import current_job, in_container, loaded_views
from uenvtool.doctor import machine
from uenvtool.doctor.disks import caches, directory_at, mounts, wrong_disks
from uenvtool.doctor.finding import Examination, Fault, Finding, as_findings, worst_first
from uenvtool.doctor.libraries import PLUGIN, libraries_here, search_path, wrong_libraries
from uenvtool.doctor.log.scan import Scanner, read_logs
from uenvtool.doctor.log.verdict import examined
from uenvtool.doctor.python import wrong_overlay, wrong_packages
from uenvtool.doctor.snapshot import Snapshot
from uenvtool.doctor.variables import absent_paths, current_tuning, left_from_host, wrong_variables
from uenvtool.knowledge.finding import Known, load_findings
from uenvtool.venv.health import PythonHere, python_here

CHECKS = (
    wrong_variables,
    left_from_host,
    wrong_libraries,
    wrong_packages,
    machine.wrong_process,
    wrong_disks,
    wrong_overlay,
)
"""All checks of a shell, in the order in which doctor prints findings of the same severity."""


def faults(snapshot: Snapshot) -> list[Fault]:
    """Return the faults that all checks find in a snapshot."""
    return [fault for check in CHECKS for fault in check(snapshot)]


def examine_shell(
    environ: Mapping[str, str], *, system: str | None = None, runtime: str | None = None, recipe: str | None = None
) -> Examination:
    """Return the diagnosis of this shell.

    Raises BadInput if the system, runtime or recipe does not exist.
    """
    is_rank = "SLURM_PROCID" in environ  # many ranks reading all libraries at once would be slow
    python, printed = python_here(environ, read_libraries=not is_rank)
    directories, gone = search_path(environ)
    views = loaded_views(environ)
    directories += [os.path.join(view.root, name) for view in views for name in ("lib", "lib64")]
    tuned, why_not = current_tuning(
        environ, system=system, runtime=runtime, recipe=recipe, directories=directories, python=python
    )
    names = (node := platform.node(), environ.get("MASTER_ADDR", ""))
    job, mounted = current_job(environ), mounts(environ)
    snapshot = Snapshot(
        environ=environ,
        node=node,
        cores=machine.cores(),
        job=job,
        views=views,
        in_container=in_container(environ),
        tuned=tuned,
        python=python,
        shm=machine.memory_disk(),
        core_limit=machine.core_limit(),
        listening=machine.listening(),
        unresolved=machine.unresolved(names if job else ()),
        libraries=libraries_here(environ, python, directories, gone),
        venv=directory_at(python.environment, mounted) if python and python.environment else None,
        caches=dict(caches(environ, python, mounted)),
        absent=dict(absent_paths(environ)),
    )
    known = load_findings()
    findings = [*_printed_by_python(python, printed, known), *as_findings(faults(snapshot), known.findings)]
    return Examination(
        findings=tuple(worst_first(findings)),
        facts=tuple(_facts(snapshot)),
        unseen=tuple(_unseen(why_not, snapshot)),
    )


def _printed_by_python(python: PythonHere | None, printed: str, known: Known) -> Iterator[Finding]:
    if not printed:
        return
    findings = examined(read_logs([("python", io.BytesIO(printed.encode()))], Scanner(known)), known).findings
    for finding in findings:
        yield Finding(known=finding.known, detail=finding.detail, text=finding.text)
    if python is None and not findings:
        broken = known.findings["python-broken"]
        yield Finding(known=broken, detail=printed.strip().splitlines()[-1])


def _facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    if not snapshot.is_at_work:
        return
    if snapshot.tuned:
        yield "runs on", f"{snapshot.tuned.system}, in {snapshot.tuned.runtime}"
    if snapshot.python:
        yield "Python", snapshot.python.version
        for torch in snapshot.python.versions("torch")[:1]:
            yield "torch", f"{torch.version} of {torch.folder}"
    for plugin in snapshot.libraries.found.get(PLUGIN, ())[:1]:
        yield "NCCL plugin", plugin


def _unseen(why_not: str, snapshot: Snapshot) -> Iterator[str]:
    if why_not:
        yield why_not
    if snapshot.python is None:
        yield "packages: Python is not on PATH or does not start"
    if not snapshot.is_at_work:
        yield "network, ports, memory: not inside a job"
