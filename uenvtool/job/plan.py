"""What a job is: nodes, ranks, options, variables and files for one runtime; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from uenvtool.core.errors import BadInput, unknown
from uenvtool.job.request import NCCL_TEST, SRUN, TORCHRUN, JobRequest, Overlay
from uenvtool.knowledge.jobs import Explained, Jobs
from uenvtool.knowledge.system import System
from uenvtool.knowledge.tuning import Setting

UENV, CE, APPTAINER, RUNAI, LOCAL = "uenv", "ce", "apptainer", "runai", "local"
WRITTEN = (UENV, CE, APPTAINER, RUNAI, LOCAL)
"""The runtimes that jobs are written for."""
SLURM = "slurm"
DEFAULT_OUTPUT = "logs/slurm-%x-%j.log"
_UENV_PATH = re.compile(r"[A-Za-z0-9_./@%:-]+")
"""What the uenv plugin takes as the name or path of an image; a comma would part two of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """Everything that a job's files are rendered from.

    directives: the options of sbatch, each with its value and reason. tasks: of Slurm a node. ranks: processes of
    the training a node. cores: of a task. settings: variables that the job sets, in order. files: the name of each
    file that it needs beside its own.
    """

    request: JobRequest
    knowledge: Jobs
    system: str
    runtime: str
    launcher: str
    nodes: int
    ranks: int
    tasks: int
    cores: int
    time: str
    name: str
    image: str
    extended: bool
    directives: tuple[Explained, ...]
    settings: tuple[Setting, ...]
    output: str

    @property
    def overlay(self) -> Overlay | None:
        """The Python overlay that the job uses."""
        return self.request.overlay

    def data(self) -> dict[str, object]:
        """As data for --json."""
        return {
            "system": self.system,
            "runtime": self.runtime,
            "launcher": self.launcher,
            "nodes": self.nodes,
            "ranks_per_node": self.ranks,
            "tasks_per_node": self.tasks,
            "cores_per_task": self.cores or None,
            "time": self.time or None,
            "name": self.name,
            "image": self.image or None,
            "overlay": self.overlay.path if self.overlay else None,
            "command": list(self.request.command),
            "options": {directive.name: directive.value for directive in self.directives},
            "variables": {setting.name: setting.value for setting in self.settings},
        }


def plan_job(system: System, uarch: str, request: JobRequest, knowledge: Jobs, settings: Sequence[Setting]) -> JobPlan:
    """The plan of a job. Raises BadInput for what the system or runtime cannot do, and says what it can."""
    runtime = request.runtime
    node = system.node(uarch)
    defaults = system.scheduler.defaults
    most = node.gpu.count if node.gpu else 0
    ranks = request.gpus or int(defaults.get("gpus-per-node", 0)) or most or 2
    if most and ranks > most:
        raise BadInput(f"--gpus {ranks}: a node of {system.name} has {most}", hint=f"at most --gpus {most}")
    launcher = _launcher(request, system)
    tasks = 1 if launcher == TORCHRUN else ranks
    image = _image(request, knowledge)
    extended = bool(knowledge.ce.extended and knowledge.ce.extended.image.search(image)) and runtime == CE
    nodes = nodes_of(request, system)
    name = request.name or _name_of(request.command)
    if runtime == LOCAL and request.nodes not in (None, 1):
        raise BadInput(f"--nodes {request.nodes}: `local` runs on this machine alone", hint="leave --nodes out")
    time = request.time or defaults.get("time", "")
    plan = JobPlan(
        request=request, knowledge=knowledge, system=system.name, runtime=runtime, launcher=launcher, nodes=nodes,
        ranks=ranks, tasks=tasks, cores=node.cores * ranks // most // tasks if most else 0, time=time, name=name,
        image=image, extended=extended, directives=(), settings=tuple(settings),
        output=defaults.get("output", DEFAULT_OUTPUT),
    )  # fmt: skip
    directives = tuple(_directives(plan, system)) if runtime in (UENV, CE, APPTAINER) else ()
    return replace(plan, directives=directives)


def nodes_of(request: JobRequest, system: System) -> int:
    """Return how many nodes a job has: what is asked for, else the system's usual number."""
    return 1 if request.runtime == LOCAL else request.nodes or int(system.scheduler.defaults.get("nodes", 1))


def refuse_unfit(request: JobRequest, system: System, knowledge: Jobs) -> None:
    """Raise BadInput for a runtime or an option that the system lacks."""
    known = [name for name in WRITTEN if name in system.runtimes] + [LOCAL]
    if request.runtime not in known:
        raise BadInput([unknown(f"runtime of {system.name}", request.runtime, known)])
    slurm = {
        "--account": request.account, "--partition": request.partition, "--array": request.array,
        "--dependency": request.dependency, "--requeue": request.requeue, "--stage": request.stage,
        "--large": request.large, "--option": request.options,
    }  # fmt: skip
    given = [option for option, value in slurm.items() if value]
    in_slurm = system.scheduler.name == SLURM and request.runtime != LOCAL
    if given and not in_slurm:
        raise BadInput(f"{', '.join(given)}: only for Slurm", hint=f"{system.name}, {request.runtime}: leave it out")
    values = {"account": request.account}
    lacking = [name for name in knowledge.required if in_slurm and not values.get(name)]
    if lacking:
        missing = ", ".join(f"--{name}" for name in lacking)
        raise BadInput(f"{system.name} runs no job without {missing}", hint="your project's name, as in --account g123")
    limit = knowledge.partitions.get(request.partition or system.scheduler.defaults.get("partition", ""))
    if in_slurm and limit and nodes_of(request, system) > limit.nodes:
        raise BadInput(
            f"{nodes_of(request, system)} nodes: a job in {limit.name} of {system.name} has at most {limit.nodes}",
            hint=f"{limit.reason}; --nodes {limit.nodes}, or another --partition",
        )
    if request.large and knowledge.large is None:
        raise BadInput(f"--large: {system.name} says nothing of large runs", hint="use --option '--constraint=...'")
    if request.stage and request.runtime == APPTAINER and request.overlay is None and not request.image:
        raise BadInput("--stage: no image is named", hint="name it with --image")


def _launcher(request: JobRequest, system: System) -> str:
    if request.runtime in (RUNAI, LOCAL) and request.launcher == SRUN:
        raise BadInput(
            f"--launcher srun: {request.runtime} has no srun", hint="leave it out: torchrun starts the ranks"
        )
    if request.nccl_test and request.launcher == TORCHRUN:
        raise BadInput("--nccl-test: the tests are no Python", hint="leave --launcher out: srun starts them")
    if request.runtime in (RUNAI, LOCAL) or (request.runtime == APPTAINER and not request.nccl_test):
        return request.launcher or TORCHRUN
    return request.launcher or SRUN


def _image(request: JobRequest, knowledge: Jobs) -> str:
    """The image of a job: the one that is named, the overlay's base, or the system's."""
    overlay = request.overlay
    if request.runtime == LOCAL:
        return ""
    base = overlay.base_image if overlay and request.runtime == UENV else ""
    if request.image and base and request.runtime == UENV and overlay and not _same_image(request.image, base):
        raise BadInput(
            f"{overlay.path} was made on {base}, not on {request.image}",
            hint="leave --image out, or make the overlay anew on that image",
        )
    found = request.image or base or (knowledge.apptainer.image if request.runtime == APPTAINER else "")
    if not found:
        raise BadInput(f"no image is named, and {request.runtime} needs one", hint="name it with --image or --recipe")
    if request.runtime == UENV:
        for path in filter(None, (found, overlay.path if overlay and overlay.mount else "")):
            if not _UENV_PATH.fullmatch(path):
                raise BadInput(
                    f"the uenv plugin cannot take the path {path!r}",
                    hint="letters, digits and _ . / - @ % only: move it",
                )
    return found


def _same_image(one: str, other: str) -> bool:
    """Tell if two names can be of one image: a label with and without its tag, or the same path."""
    labels = [re.split(r"[:@%]", name)[0] for name in (one, other)]
    return one == other or (labels[0] == labels[1] and not one.startswith(("/", ".")))


def _name_of(command: Sequence[str]) -> str:
    """A job's name: of the script that runs."""
    for word in command:
        if word.endswith((".py", ".sh")):
            name = re.sub(r"[^\w.-]+", "-", word.rsplit("/", 1)[-1].rsplit(".", 1)[0]).strip("-")
            if name:
                return name
    return re.sub(r"[^\w.-]+", "-", command[0].rsplit("/", 1)[-1]).strip("-") or "job"


def _directives(plan: JobPlan, system: System) -> Iterator[Explained]:
    """The options of sbatch in the order in which a reader looks for them."""
    request = plan.request
    defaults = system.scheduler.defaults
    yield Explained("job-name", plan.name, "")
    if request.account:
        yield Explained("account", request.account, "")
    if request.partition or "partition" in defaults:
        yield Explained("partition", request.partition or defaults["partition"], "")
    yield Explained("nodes", str(plan.nodes), "")
    yield Explained("time", plan.time, "")
    starter = "torchrun starts the ranks" if plan.launcher == TORCHRUN else "one rank for each GPU"
    yield Explained("ntasks-per-node", str(plan.tasks), starter)
    if plan.cores:
        yield Explained("cpus-per-task", str(plan.cores), "")
    per = "gpus-per-node" if plan.launcher == TORCHRUN else "gpus-per-task"
    yield Explained(per, str(plan.ranks if plan.launcher == TORCHRUN else 1), "")
    if "mem" in defaults:
        yield Explained("mem", defaults["mem"], "")
    if plan.runtime == UENV and not request.stage:
        yield Explained("uenv", ",".join(mounted_images(plan)), "")
        yield Explained("view", uenv_views(plan), "")
    yield Explained("output", "slurm-%x-%j.log", "of this script; the ranks write below")
    yield from _further_directives(plan)


def _further_directives(plan: JobPlan) -> Iterator[Explained]:
    request, knowledge = plan.request, plan.knowledge
    needed = dict.fromkeys(setting.needs.contains for setting in plan.settings if setting.needs)
    network = ",".join(needed) or (knowledge.ce.extended.network if knowledge.ce.extended and plan.extended else "")
    if network:
        yield Explained("network", network, "FI_CXI_RDZV_PROTO=alt_read needs it")
    if request.large and knowledge.large:
        yield Explained("constraint", knowledge.large.constraint, knowledge.large.reason)
    if request.array:
        yield Explained("array", request.array, "")
    if request.dependency:
        yield Explained("dependency", request.dependency, "")
    if request.requeue:
        yield Explained("requeue", "", "")
        yield Explained("signal", "B:USR1@120", "two minutes before the limit")
        yield Explained("open-mode", "append", "a later run writes on in the same file")


def mounted_images(plan: JobPlan) -> tuple[str, ...]:
    """The images that a job mounts: the base, and a packed overlay."""
    overlay = plan.overlay
    return (plan.image, overlay_path(overlay)) if overlay and overlay.mount else (plan.image,)


def uenv_views(plan: JobPlan) -> str:
    """The views that the uenv plugin loads, the overlay's last, so that its programs come first."""
    overlay = plan.overlay
    base = overlay.base_view if overlay and overlay.base_view and plan.request.view == "default" else plan.request.view
    return f"{base},{overlay.view}" if overlay and overlay.mount else base


def overlay_path(overlay: Overlay) -> str:
    """The path of an overlay's image as uenv and Slurm take it for a path and not for a label."""
    return overlay.path if overlay.path.startswith(("/", ".", "$")) else f"./{overlay.path}"


def torchrun_words(command: Sequence[str]) -> tuple[str, ...]:
    """What torchrun takes in place of a command: a script, a module, or a program with --no-python."""
    first = command[0].rsplit("/", 1)[-1]
    if re.fullmatch(r"python3?(\.\d+)?", first) and len(command) > 1:
        if command[1] == "-m" or not command[1].startswith("-"):
            return tuple(command[1:])
    elif command[0].endswith(".py"):
        return tuple(command)
    return ("--no-python", *command)


def run_command(request: JobRequest) -> tuple[str, ...]:
    """The words of what runs: the command, or the test of NCCL in its place."""
    return NCCL_TEST if request.nccl_test else request.command
