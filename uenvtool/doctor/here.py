"""A shell, a job or a rank as it is now: everything gathered, then looked at."""

from __future__ import annotations

import io
import os
import platform
from collections.abc import Iterator, Mapping

from uenvtool.core.session import current_job, in_container, loaded_views
from uenvtool.doctor import machine
from uenvtool.doctor.disks import disks_here, wrong_disks
from uenvtool.doctor.finding import Examination, Fault, Finding, as_findings, worst_first
from uenvtool.doctor.libraries import PLUGIN, libraries_here, search_path, wrong_libraries
from uenvtool.doctor.log.scan import Scanner, read_logs
from uenvtool.doctor.log.verdict import examined
from uenvtool.doctor.python import wrong_overlay, wrong_packages
from uenvtool.doctor.snapshot import Snapshot
from uenvtool.doctor.variables import absent_paths, left_from_host, tuned_here, wrong_variables
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
"""Every check, in the order in which findings of one severity are shown: each a function of what is there."""


def faults(here: Snapshot) -> list[Fault]:
    """Return what is wrong with what is there."""
    return [fault for wrong in CHECKS for fault in wrong(here)]


def examine_here(
    environ: Mapping[str, str], *, system: str | None = None, runtime: str | None = None, recipe: str | None = None
) -> Examination:
    """Return what is wrong in this shell. Raises BadInput for names that do not exist."""
    is_rank = "SLURM_PROCID" in environ  # each of many would read the libraries whole
    python, printed = python_here(environ, read_libraries=not is_rank)
    folders, gone = search_path(environ)
    views = loaded_views(environ)
    folders += [os.path.join(view.root, name) for view in views for name in ("lib", "lib64")]
    tuned, why_not = tuned_here(environ, system=system, runtime=runtime, recipe=recipe, folders=folders, python=python)
    names = (node := platform.node(), environ.get("MASTER_ADDR", ""))
    job = current_job(environ)
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
        libraries=libraries_here(environ, python, folders, gone),
        disks=disks_here(environ, python),
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
    """Read what Python prints at its start as a log: an overlay says there what is wrong with its base or image."""
    if not printed:
        return
    found = examined(read_logs([("python", io.BytesIO(printed.encode()))], Scanner(known)), known).findings
    for finding in found:
        yield Finding(known=finding.known, detail=finding.detail, text=finding.text)
    if python is None and not found:
        broken = known.findings["python-broken"]
        yield Finding(known=broken, detail=printed.strip().splitlines()[-1])


def _facts(here: Snapshot) -> Iterator[tuple[str, str]]:
    if not here.is_at_work:
        return
    if here.tuned:
        yield "runs on", f"{here.tuned.system}, in {here.tuned.runtime}"
    if here.python:
        yield "Python", here.python.version
        for torch in here.python.versions("torch")[:1]:
            yield "torch", f"{torch.version} of {torch.folder}"
    for plugin in here.libraries.found.get(PLUGIN, ())[:1]:
        yield "NCCL's plugin", plugin


def _unseen(why_not: str, here: Snapshot) -> Iterator[str]:
    if why_not:
        yield why_not
    if here.python is None:
        yield "packages: no Python on PATH, or it does not start"
    if not here.is_at_work:
        yield "network, ports, memory: not in a job"
