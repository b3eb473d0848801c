"""Checks of environment variables against the tuning, and of variables that a container inherits from the host."""

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
from uenvtool.knowledge.tuning import DEFAULT, EXPECTED, Guard, Setting
from uenvtool.venv.health import PythonHere

NOT_KNOWN = "variables: this machine is not a known system; pass --system"
NOT_LOADED = "variables: no uenv or container of {system} is loaded; pass --runtime"
SET = "UENVTOOL_SET"
"""The variable in which an activation on the host records its runtime and the variables that it set."""
PATHS = (
    *("VIRTUAL_ENV", "PYTHONHOME", "PYTHONUSERBASE", "CUDA_HOME", "CUDA_PATH", "NCCL_HOME", "LIBFABRIC_HOME"),
    *("MPI_HOME", "TMPDIR", "TRITON_HOME", "HF_HOME", "SSL_CERT_FILE", "LD_PRELOAD", "PYTHONPATH", "UENV_MOUNT_LIST"),
)
"""The variables with paths that a job passes from the host into a container."""
_PATH = re.compile(r"/[^:,;\s]+")
MOST_MISSING, MOST_LEFT = 3, 4
_VERSION = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)*)\Z")
_NCCL_WHEEL = re.compile(r"nvidia-nccl-cu\d+\Z")


def current_tuning(
    environ: Mapping[str, str],
    *,
    system: str | None,
    runtime: str | None,
    recipe: str | None,
    directories: Sequence[str] = (),
    python: PythonHere | None = None,
) -> tuple[Tuned | None, str]:
    """Return the tuning for this shell, or None and the reason.

    directories: the directories that contain libraries whose versions select settings.

    Raises BadInput if the system, runtime or recipe does not exist.
    """
    detected = recognised(environ)
    name = system or (detected[0] if detected else None)
    if name is None:
        return None, NOT_KNOWN
    known = runtimes_of(load_system(name), runtime)
    loaded = runtime or _loaded(known, environ)
    if loaded is None:
        return None, NOT_LOADED.format(system=name)
    settings = settings_for(name, runtime=loaded, recipe=recipe, facts=_facts(known, environ, directories, python))
    activation = f'eval "$({command(settings, "bash", None, loaded, {})})"'
    needs = settings.tuning.needs
    return Tuned(name, loaded, settings=settings.held(), command=activation, guards=settings.guards, needs=needs), ""


def _loaded(runtimes: Iterable[Runtime], environ: Mapping[str, str]) -> str | None:
    """Return the loaded runtime, or else a runtime without signs, which is always available.

    A container takes precedence over a uenv, unless the uenv is mounted inside the container. The container is then
    the machine itself.
    """
    is_mounted = any(os.path.isdir(view.root) for view in loaded_views(environ))
    ordered = sorted(runtimes, key=lambda runtime: runtime.container == is_mounted)
    loaded = [runtime.name for runtime in ordered if any(_is_present(sign, environ) for sign in runtime.signs)]
    return next(iter([*loaded, *(runtime.name for runtime in ordered if not runtime.signs)]), None)


def _is_present(sign: Sign, environ: Mapping[str, str]) -> bool:
    # tests set UENVTOOL_ROOT to move the files, as in activation scripts
    file = environ.get("UENVTOOL_ROOT", "") + sign.file if sign.file else ""
    return bool(sign.env and environ.get(sign.env)) or bool(file and os.path.exists(file))


def _facts(
    runtimes: Iterable[Runtime], environ: Mapping[str, str], directories: Sequence[str], python: PythonHere | None
) -> dict[str, str]:
    images = [name for runtime in runtimes for name, sign in runtime.images.items() if _is_present(sign, environ)]
    versions = {"image": images[0]} if images else {}
    nodes = environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES", "")
    versions |= {"nodes": nodes} if nodes.isdecimal() else {}
    for fact, software in SOFTWARE.items():
        names = [os.path.basename(path) for path in found_in(directories, f"{software.library}.*")]
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
    """Yield each variable with a path that does not exist, together with the first such path."""
    for name in PATHS:
        gone = next((path for path in _PATH.findall(environ.get(name, "")) if not os.path.exists(path)), "")
        if gone:
            yield name, gone


def wrong_variables(snapshot: Snapshot) -> Iterator[Fault]:
    """Yield a fault for each wrong, forbidden or conflicting variable and, where training runs, each missing one."""
    if snapshot.tuned is None:
        return
    missing = []
    forbidden = {setting.name for setting in snapshot.tuned.settings if setting.removes}
    open_guards = [guard for guard in snapshot.tuned.guards if _is_open(guard, snapshot)]
    guard_variables = {name for guard in open_guards for name in guard.variables}
    for guard in open_guards:
        yield Fault("guard-open", f"{guard.danger}: set {guard.choice}", (f"export {guard.one_of[0]}",))
    for (name, value), need in snapshot.tuned.needs.items():
        if snapshot.environ.get(name) == value and need.contains not in snapshot.environ.get(need.variable, ""):
            yield Fault("variable-needs", f"{name}={value} needs {need.hint}", (need.hint,))
    for setting in snapshot.tuned.settings:
        if setting.name in guard_variables:
            continue
        if setting.policy == EXPECTED:
            if setting.name not in snapshot.environ and snapshot.is_at_work:
                yield Fault("hook-missing", f"{setting.name} is not set: {setting.reason}")
        elif setting.name in snapshot.environ:
            yield from _of_value(setting, snapshot.environ, forbidden)
        elif setting.is_fixed and snapshot.is_at_work:
            missing.append(setting)
    if missing:
        names = listed([setting.name for setting in missing], MOST_MISSING)
        yield Fault("variable-missing", names, (snapshot.tuned.command,))


def _is_open(guard: Guard, snapshot: Snapshot) -> bool:
    """Return whether no variable prevents the danger, although training runs or a variable of the guard is set."""
    return guard.way(snapshot.environ) is None and (
        snapshot.is_at_work or any(name in snapshot.environ for name in guard.variables)
    )


def _of_value(setting: Setting, environ: Mapping[str, str], forbidden: Collection[str]) -> Iterator[Fault]:
    """Yield the faults of a variable that is set, without conflicts with the forbidden variables."""
    value = environ[setting.name]
    if setting.removes:
        if value:
            yield Fault("variable-wrong", f"{setting.name}: {setting.reason}", (f"unset {setting.name}",))
        return
    for other in setting.conflicts:
        if environ.get(other) and value and other not in forbidden:
            yield Fault("variable-wrong", f"{setting.name} and {other} conflict", (f"unset {other}",))
    if setting.is_fixed and not setting.accepts(value):
        finding = "variable-other" if setting.policy == DEFAULT else "variable-wrong"
        detail = f"{setting.name} is {value or 'empty'}, should be {setting.value}: {setting.reason}"
        yield Fault(finding, detail, (f"export {setting.name}={quoting.sh(setting.value or '')}",))


def left_from_host(snapshot: Snapshot) -> Iterator[Fault]:
    """Yield a fault for the variables that were set on the host and are wrong in this container."""
    if not snapshot.in_container or not snapshot.is_at_work:
        return
    absent = [f"{name}={path}" for name, path in snapshot.absent.items()]
    if absent:
        names = " ".join(snapshot.absent)
        verb = "does" if len(absent) == 1 else "do"
        detail = f"{listed(absent, MOST_LEFT)} {verb} not exist here"
        yield Fault("host-variable-left", detail, (f"unset {names}",))
    inherited = list(_inherited(snapshot))
    if inherited:
        runtime = snapshot.environ[SET].split()[0]
        detail = f"{listed(inherited, MOST_LEFT)}, set for {runtime}"
        yield Fault("host-variable-left", detail, (f"unset {' '.join(inherited)}",))


def _inherited(snapshot: Snapshot) -> Iterator[str]:
    """Yield the variables that an activation set on the host and that this container's tuning does not set.

    `wrong_variables` compares the other variables with the tuning. The result includes the variables that a hook should
    set, because a value from the host hides that the hook is off.
    """
    runtime, *names = snapshot.environ.get(SET, "").split() or [""]
    if snapshot.tuned is not None and runtime != snapshot.tuned.runtime:
        tuned = {setting.name for setting in snapshot.tuned.settings if setting.policy != EXPECTED}
        yield from (name for name in names if name in snapshot.environ and name not in tuned)
