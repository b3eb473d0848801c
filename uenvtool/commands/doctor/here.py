"""A shell, a job or a rank as it is now: everything gathered, then looked at."""

from __future__ import annotations

import io
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from uenvtool import tools
from uenvtool.commands.doctor.python import python_here
from uenvtool.commands.doctor.tuned import tuned_here
from uenvtool.doctor.checks import Fault, libraries
from uenvtool.doctor.finding import Examination, Finding, worst_first
from uenvtool.doctor.gather import disks, loader, machine
from uenvtool.doctor.secrets import without_secrets
from uenvtool.doctor.snapshot import Folder, OnDisk, PythonHere, Snapshot
from uenvtool.errors import UenvtoolError
from uenvtool.image.elf import needs
from uenvtool.loaded import current_job, in_container, loaded_views
from uenvtool.model.finding import Known
from uenvtool.model.finding_reader import load_findings

LIBRARIES = {libraries.PLUGIN: "libnccl-net*.so*", libraries.MPI: "libmpi.so*"}
CACHES = {"TRITON_HOME": ".triton", "TRITON_CACHE_DIR": "", "CUDA_CACHE_PATH": ".nv"}
"""Variables that name a cache, and where it is below HOME if it is not set."""
LARGEST_LIBRARY = 256_000_000


def examine_here(
    environ: Mapping[str, str], *, system: str | None = None, runtime: str | None = None, recipe: str | None = None
) -> Examination:
    """What is wrong in this shell. Raises BadInput for names that do not exist."""
    python, printed = python_here(environ)
    folders, gone = loader.search_path(environ)
    views = loaded_views(environ)
    folders += [os.path.join(view.root, name) for view in views for name in ("lib", "lib64")]
    tuned, why_not = tuned_here(environ, system=system, runtime=runtime, recipe=recipe, folders=folders, python=python)
    snapshot = Snapshot(
        environ=environ,
        node=platform.node(),
        cores=machine.cores(),
        job=current_job(environ),
        views=views,
        in_container=in_container(environ),
        tuned=tuned,
        python=python,
        shm=machine.memory_disk(),
        core_limit=machine.core_limit(),
        listening=machine.listening(),
        unresolved=machine.unresolved(_names(environ)),
        on_disk=_on_disk(environ, python, folders, gone),
    )
    from uenvtool.doctor.examine import as_findings, faults

    facts, unseen = tuple(_facts(snapshot)), tuple(_unseen(why_not, snapshot))
    found = [*faults(snapshot), *_stale(python)]
    if not found and not printed:  # the usual case does not wait for what is known of findings
        return Examination(facts=facts, unseen=unseen)
    known = load_findings()
    findings = [*_printed_by_python(python, printed, known), *as_findings(found, known.findings)]
    return Examination(findings=tuple(worst_first(findings)), facts=facts, unseen=unseen)


def _names(environ: Mapping[str, str]) -> list[str]:
    """The host names that a job looks up; elsewhere none is."""
    return [platform.node(), environ.get("MASTER_ADDR", "")] if current_job(environ) else []


def _on_disk(environ: Mapping[str, str], python: PythonHere | None, folders: list[str], gone: list[str]) -> OnDisk:
    """What files and libraries say."""
    everywhere = [*folders, *loader.usual_folders()]
    found = {name: loader.found(everywhere, pattern) for name, pattern in LIBRARIES.items()}
    mounted = disks.mounts()
    return OnDisk(
        libraries=found,
        plugin_lacks=tuple(_lacking(found[libraries.PLUGIN], everywhere)),
        gone=tuple(gone),
        venv=disks.folder(python.environment, mounted) if python and python.environment else None,
        caches=dict(_caches(environ, python, mounted)),
        providers=_providers(environ),
        driver_cuda=loader.driver_cuda() if python and python.versions("torch") else 0,
    )


def _providers(environ: Mapping[str, str]) -> frozenset[str] | None:
    """The networks that libfabric offers, by its own program, if one is asked for."""
    program = shutil.which("fi_info", path=environ.get("PATH")) if environ.get("FI_PROVIDER") else None
    try:
        answer = tools.run([program, "-l"], env=environ) if program else None
    except UenvtoolError:
        return None
    if answer is None or answer.code != 0:
        return None
    return frozenset(line.rstrip(":") for line in answer.stdout.splitlines() if line.endswith(":"))


def _lacking(plugins: tuple[str, ...], folders: list[str]) -> Iterator[str]:
    """The libraries that the first plugin needs, and that are neither where it says nor where the loader looks."""
    for plugin in plugins[:1]:
        try:
            content = Path(plugin).read_bytes() if os.path.getsize(plugin) < LARGEST_LIBRARY else b""
        except OSError:
            return
        needed = needs(content)
        own = [folder.replace("$ORIGIN", os.path.dirname(os.path.realpath(plugin))) for folder in needed.folders]
        for library in needed.libraries:
            if not any(os.path.exists(os.path.join(folder, library)) for folder in [*own, *folders]):
                yield library


def _caches(
    environ: Mapping[str, str], python: PythonHere | None, mounted: dict[str, str]
) -> Iterator[tuple[str, Folder]]:
    """The caches of compiled kernels that torch would use."""
    has_torch = python is not None and bool(python.versions("torch"))
    for variable, usual in CACHES.items():
        if variable == "CUDA_CACHE_PATH" and environ.get("CUDA_CACHE_DISABLE") == "1":
            continue
        default = os.path.join(environ.get("HOME", ""), usual) if usual and has_torch and environ.get("HOME") else ""
        path = environ.get(variable) or default
        if path:
            yield variable, disks.folder(path, mounted)


def _printed_by_python(python: PythonHere | None, printed: str, known: Known) -> Iterator[Finding]:
    """What Python prints when it starts, read as a log: an overlay says there what is wrong with its base or image."""
    from uenvtool.doctor.log.scan import read_logs
    from uenvtool.doctor.log.verdict import examined

    found = examined(read_logs([("python", io.BytesIO(printed.encode()))], known), known).findings if printed else ()
    for finding in found:
        yield Finding(known=finding.known, detail=finding.detail, text=finding.text)
    if python is None and printed and not found:
        broken = known.findings["python-broken"]
        yield Finding(known=broken, detail=without_secrets(printed.strip().splitlines()[-1]))


def _stale(python: PythonHere | None) -> Iterator[Fault]:
    """The image of a loose overlay that holds another state of it."""
    if python is None or not os.path.isdir(os.path.join(python.environment, ".uenvtool")):
        return
    from uenvtool.commands.venv.image import image_of, is_older, repack_command

    overlay = Path(python.environment)
    image = image_of(overlay)
    if image is not None and is_older(image, overlay):
        yield Fault("image-older", str(image), (repack_command(overlay, image),))


def _facts(here: Snapshot) -> Iterator[tuple[str, str]]:
    """What runs here, where trainings run."""
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
    """What could not be looked at."""
    if why_not:
        yield why_not
    if here.python is None:
        yield "packages: no Python is on PATH, or it does not start"
    if not here.is_at_work:
        yield "network, ports, memory: this is no job and no container with torch"
