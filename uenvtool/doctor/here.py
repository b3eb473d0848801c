"""A shell, a job or a rank as it is now: everything gathered, then looked at."""

from __future__ import annotations

import io
import os
import platform
from collections.abc import Callable, Iterator, Mapping

from uenvtool.core.session import current_job, in_container, loaded_views
from uenvtool.doctor import machine
from uenvtool.doctor.checks import faults, libraries
from uenvtool.doctor.finding import Examination, Fault, Finding, as_findings, worst_first
from uenvtool.doctor.on_disk import on_disk
from uenvtool.doctor.python import Answer, start_asking
from uenvtool.doctor.secrets import without_secrets
from uenvtool.doctor.snapshot import PythonHere, Snapshot
from uenvtool.doctor.tuned import tuned_here
from uenvtool.knowledge.finding import Known, load_findings


def examine_here(
    environ: Mapping[str, str],
    *,
    system: str | None = None,
    runtime: str | None = None,
    recipe: str | None = None,
    answer_of_python: Callable[[], Answer] | None = None,
) -> Examination:
    """Return what is wrong in this shell. Raises BadInput for names that do not exist.

    answer_of_python: waits for the answer of Python, if it has been asked.
    """
    python, printed = (answer_of_python or start_asking(environ))()
    folders, gone = machine.search_path(environ)
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
        on_disk=on_disk(environ, python, folders, gone),
    )
    facts, unseen = tuple(_facts(snapshot)), tuple(_unseen(why_not, snapshot))
    found = [*faults(snapshot), *_of_overlay(python)]
    if not found and not printed:  # the usual case does not wait for what is known of findings
        return Examination(facts=facts, unseen=unseen)
    known = load_findings()
    findings = [*_printed_by_python(python, printed, known), *as_findings(found, known.findings)]
    return Examination(findings=tuple(worst_first(findings)), facts=facts, unseen=unseen)


def _printed_by_python(python: PythonHere | None, printed: str, known: Known) -> Iterator[Finding]:
    """Read what Python prints at its start as a log: an overlay says there what is wrong with its base or image."""
    if not printed:
        return
    from uenvtool.doctor.log.scan import Scanner, read_logs
    from uenvtool.doctor.log.verdict import examined

    found = examined(read_logs([("python", io.BytesIO(printed.encode()))], Scanner(known)), known).findings
    for finding in found:
        yield Finding(known=finding.known, detail=finding.detail, text=finding.text)
    if python is None and not found:
        broken = known.findings["python-broken"]
        yield Finding(known=broken, detail=without_secrets(printed.strip().splitlines()[-1]))


def _of_overlay(python: PythonHere | None) -> Iterator[Fault]:
    if python is None:
        return
    overlay = python.overlay
    if overlay.older_image:
        yield Fault("image-older", overlay.older_image, (overlay.repack,))
    yield from (Fault("numpy-abi", text) for text in overlay.for_other_numpy)
    yield from (Fault("import-abi", text) for text in overlay.for_other_torch)


def _facts(here: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield what runs here, where trainings run."""
    if not here.is_at_work:
        return
    if here.tuned:
        yield "runs on", f"{here.tuned.system}, in {here.tuned.runtime}"
    if here.python:
        yield "Python", here.python.version
        for torch in here.python.versions("torch")[:1]:
            yield "torch", f"{torch.version} of {torch.folder}"
    for plugin in here.on_disk.libraries.get(libraries.PLUGIN, ())[:1]:
        yield "NCCL's plugin", plugin


def _unseen(why_not: str, here: Snapshot) -> Iterator[str]:
    """Yield what could not be looked at."""
    if why_not:
        yield why_not
    if here.python is None:
        yield "packages: no Python on PATH, or it does not start"
    if not here.is_at_work:
        yield "network, ports, memory: not in a job"
