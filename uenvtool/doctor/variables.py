"""Variables against the tuning for the system, runtime and versions that are here; and those left from the host."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from uenvtool.activation.activate import command
from uenvtool.core import quoting
from uenvtool.core.session import loaded_views
from uenvtool.core.words import listed
from uenvtool.doctor.finding import Fault
from uenvtool.doctor.libraries import found_in
from uenvtool.doctor.snapshot import Snapshot, Tuned
from uenvtool.knowledge.facts import SOFTWARE
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.runtime import Runtime, Sign
from uenvtool.knowledge.settings import runtimes_of, settings_for
from uenvtool.knowledge.system import load_system
from uenvtool.knowledge.tuning import Guard, Setting
from uenvtool.venv.health import PythonHere

NOT_KNOWN = "variables: unrecognised machine, --system names it"
NOT_LOADED = "variables: no uenv or container of {system} is loaded, --runtime names one"
SET = "UENVTOOL_SET"
"""What an activation on the host names for the containers of its job: its runtime, and the variables that it set."""
PATHS = (
    *("VIRTUAL_ENV", "PYTHONHOME", "PYTHONUSERBASE", "CUDA_HOME", "CUDA_PATH", "NCCL_HOME", "LIBFABRIC_HOME"),
    *("MPI_HOME", "TMPDIR", "TRITON_HOME", "HF_HOME", "SSL_CERT_FILE", "LD_PRELOAD", "PYTHONPATH", "UENV_MOUNT_LIST"),
)
"""Variables that name paths, which a job hands on from its host into a container."""
_PATH = re.compile(r"/[^:,;\s]+")
MOST_MISSING, MOST_LEFT = 3, 4
"""So many variables are named."""
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
        return None, NOT_KNOWN
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
    images = [name for runtime in runtimes for name, sign in runtime.images.items() if _is_seen(sign, environ)]
    versions = {"image": images[0]} if images else {}
    nodes = environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES", "")
    versions |= {"nodes": nodes} if nodes.isdecimal() else {}
    for fact, software in SOFTWARE.items():
        names = [os.path.basename(path) for path in found_in(folders, f"{software.library}.*")]
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


def absent_paths(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that name paths of which one is not there, with that one."""
    for name in PATHS:
        gone = next((path for path in _PATH.findall(environ.get(name, "")) if not os.path.exists(path)), "")
        if gone:
            yield name, gone


def wrong_variables(here: Snapshot) -> Iterator[Fault]:
    """Yield what is missing, different, forbidden or contradictory. Where nothing runs, nothing is missing."""
    if here.tuned is None:
        return
    missing = []
    forbidden = {setting.name for setting in here.tuned.settings if setting.removes}
    open_guards = [guard for guard in here.tuned.guards if _is_open(guard, here)]
    named = {name for guard in open_guards for name in guard.variables}
    for guard in open_guards:
        yield Fault("guard-open", f"{guard.danger}: set {guard.choice}", (f"export {guard.one_of[0]}",))
    for (name, value), need in here.tuned.needs.items():
        if here.environ.get(name) == value and need.contains not in here.environ.get(need.variable, ""):
            yield Fault("variable-needs", f"{name}={value} needs {need.hint}", (need.hint,))
    for setting in here.tuned.settings:
        if setting.name in named:
            continue
        if setting.is_expected:
            if setting.name not in here.environ and here.is_at_work:
                yield Fault("hook-missing", f"{setting.name} is not set: {setting.reason}")
        elif setting.name in here.environ:
            yield from _of_value(setting, here.environ, forbidden)
        elif setting.is_fixed and here.is_at_work:
            missing.append(setting)
    if missing:
        names = listed([setting.name for setting in missing], MOST_MISSING)
        yield Fault("variable-missing", names, (here.tuned.again,))


def _is_open(guard: Guard, here: Snapshot) -> bool:
    """Tell if nothing keeps a danger away where trainings run, or where somebody set one of the variables for it."""
    return guard.way(here.environ) is None and (
        here.is_at_work or any(name in here.environ for name in guard.variables)
    )


def _of_value(setting: Setting, environ: Mapping[str, str], forbidden: Collection[str]) -> Iterator[Fault]:
    """Yield what is wrong with a variable that is set. forbidden: those that must not be, which are told apart."""
    value = environ[setting.name]
    if setting.removes:
        if value:
            yield Fault("variable-wrong", f"{setting.name}: {setting.reason}", (f"unset {setting.name}",))
        return
    for other in setting.conflicts:
        if environ.get(other) and value and other not in forbidden:
            yield Fault("variable-wrong", f"{setting.name} beside {other}", (f"unset {other}",))
    if setting.is_fixed and not setting.accepts(value):
        finding = "variable-other" if setting.is_choice else "variable-wrong"
        wanted = f"{setting.name} is {value or 'empty'}, should be {setting.value}: {setting.reason}"
        yield Fault(finding, wanted, (f"export {setting.name}={quoting.sh(setting.value or '')}",))


def left_from_host(here: Snapshot) -> Iterator[Fault]:
    """Yield what is left over from the host."""
    if not here.in_container or not here.is_at_work:
        return
    absent = [f"{name}={path}" for name, path in here.absent.items()]
    if absent:
        names = " ".join(here.absent)
        yield Fault("host-variable-left", f"{listed(absent, MOST_LEFT)} is not there", (f"unset {names}",))
    along = list(_along(here))
    if along:
        runtime = here.environ[SET].split()[0]
        yield Fault("host-variable-left", f"{listed(along, MOST_LEFT)}, of {runtime}", (f"unset {' '.join(along)}",))


def _along(here: Snapshot) -> Iterator[str]:
    """Yield the variables that an activation set on the host, and this container's tuning does not set.

    What its tuning does set is compared with it elsewhere. One that a hook is to set hides that the hook is off.
    """
    runtime, *names = here.environ.get(SET, "").split() or [""]
    if here.tuned is not None and runtime != here.tuned.runtime:
        own = {setting.name for setting in here.tuned.settings if not setting.is_expected}
        yield from (name for name in names if name in here.environ and name not in own)
