"""The tuning for what is really here: the system, the runtime, the versions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from uenvtool.core.session import loaded_views
from uenvtool.doctor import machine
from uenvtool.doctor.snapshot import PythonHere, Tuned
from uenvtool.knowledge.recognise import recognised

if TYPE_CHECKING:
    from uenvtool.knowledge.runtime import Runtime, Sign

NOT_KNOWN = "variables: unrecognised machine, --system names it"
NOT_LOADED = "variables: no uenv or container of {system} is loaded, --runtime names one"
_VERSION = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)*)\Z")
_NCCL_WHEEL = re.compile(r"nvidia-nccl-cu\d+\Z")


def tuned_here(
    environ: Mapping[str, str],
    *,
    system: str | None,
    runtime: str | None,
    recipe: str | None,
    folders: Sequence[str],
    python: PythonHere | None,
) -> tuple[Tuned | None, str]:
    """Return the tuning that holds here, or why there is none. folders: where libraries are looked for.

    Raises BadInput for names that do not exist.
    """
    seen = recognised(environ)
    name = system or (seen[0] if seen else None)
    if name is None:
        return None, NOT_KNOWN  # most machines, which do not wait for the tuning
    from uenvtool.activation.activate import command
    from uenvtool.knowledge.settings import runtimes_of, settings_for
    from uenvtool.knowledge.system import load_system

    known = runtimes_of(load_system(name), runtime)
    shown = runtime or _loaded(known, environ)
    if shown is None:
        return None, NOT_LOADED.format(system=name)
    here = settings_for(name, runtime=shown, recipe=recipe, facts=_facts(known, environ, folders, python))
    again, needs = f'eval "$({command(here, "bash", None, shown, {})})"', here.tuning.needs
    return Tuned(name, shown, settings=here.held(), again=again, guards=here.guards, needs=needs), ""


def _loaded(runtimes: Iterable[Runtime], environ: Mapping[str, str]) -> str | None:
    """Return the runtime that shows itself here; one without signs is always there.

    A container comes first, unless the uenv that was loaded is mounted in it: then it is the machine.
    """
    is_mounted = any(os.path.isdir(view.root) for view in loaded_views(environ))
    ordered = sorted(runtimes, key=lambda runtime: runtime.container == is_mounted)
    shown = [runtime.name for runtime in ordered if any(_is_seen(sign, environ) for sign in runtime.signs)]
    return next(iter([*shown, *(runtime.name for runtime in ordered if not runtime.signs)]), None)


def _is_seen(sign: Sign, environ: Mapping[str, str]) -> bool:
    """Tell if a sign is there; files also where an activation script looks for them in a test."""
    file = environ.get("UENVTOOL_ROOT", "") + sign.file if sign.file else ""
    return bool(sign.env and environ.get(sign.env)) or bool(file and os.path.exists(file))


def _facts(
    runtimes: Iterable[Runtime], environ: Mapping[str, str], folders: Sequence[str], python: PythonHere | None
) -> dict[str, str]:
    from uenvtool.knowledge.tuning import SOFTWARE

    images = [name for runtime in runtimes for name, sign in runtime.images.items() if _is_seen(sign, environ)]
    versions = {"image": images[0]} if images else {}
    nodes = environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES", "")
    versions |= {"nodes": nodes} if nodes.isdecimal() else {}
    for fact, software in SOFTWARE.items():
        names = [os.path.basename(path) for path in machine.found(folders, f"{software.library}.*")]
        matches = [match[1] for name in names if software.library and (match := _VERSION.search(name))]
        given = environ.get(software.variable, "") if software.variable else ""
        if matches or re.fullmatch(r"\d+(\.\d+)+(-\d+)?", given):
            versions[fact] = matches[0] if matches else given
    for package in python.packages if python else ():
        if _NCCL_WHEEL.match(package.name):
            versions["nccl"] = package.version
        if package.name == "torch":
            versions.setdefault("torch", package.version.partition("+")[0].partition("a")[0])
    return versions
