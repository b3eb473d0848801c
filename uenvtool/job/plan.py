"""Plans a job: nodes, ranks, options, images and variables for one runtime; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from uenvtool.check.launchers import NONE, SRUN, TORCHRUN
from uenvtool.core.errors import BadInput
from uenvtool.core.filling import filled_where_marked
from uenvtool.job.launch import Command, command_of, told_ranks
from uenvtool.job.request import JobRequest
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.jobs import Explained, Local, Partition, RuntimeJob
from uenvtool.knowledge.runtime import JobUse, Runtime
from uenvtool.knowledge.system import Binding, NodeType, System
from uenvtool.knowledge.tuning import Setting

SLURM, KUBERNETES, HERE = "slurm", "kubernetes", "none"
"""Who starts a job, as the files of runtimes say it."""
UENV, CONTAINER, ENVIRONMENT, NO_IMAGE = "uenv", "container", "environment", "none"
"""What a job runs, as the files of runtimes say it."""
NCCL_TEST = ("all_reduce_perf", "-b", "8", "-e", "4G", "-f", "2", "-g", "1")
"""All-reduce from 8 bytes to 4 GB, one GPU a rank (https://github.com/NVIDIA/nccl-tests)."""
_UENV_PATH = re.compile(r"[A-Za-z0-9_./@%:-]+")
"""What the uenv plugin takes as the name or path of an image; a comma would part two of them."""
REGISTRY = re.compile(
    r"(?:docker://)?(?P<host>[\w-]+(?:\.[\w-]+)+(?::\d+)?|localhost(?::\d+)?)[/#](?P<name>[\w./-]+(?:[:@][\w.:-]+)*)"
)
"""An image of a registry: a host name with a dot, as docker knows it."""

NEW_SITE = "docs/new-site.md has one for PBS"
ARCHIVES = (".tar.gz", ".tgz")
"""How the name of an environment ends that conda-pack made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlay:
    """A Python overlay that the job uses.

    path: an image, or the folder of a loose one. mount: where the image is mounted; empty for a loose one. view:
    its uenv and view, `NAME:VIEW`. base_image, base_view: the uenv that it was made on, if it was one.
    """

    path: str
    mount: str = ""
    view: str = ""
    base_image: str = ""
    base_view: str = ""

    @property
    def image(self) -> str:
        """Return its path as uenv and Slurm take it for a path and not for a label."""
        return self.path if self.path.startswith(("/", ".", "$")) else f"./{self.path}"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPlan:
    """Everything that a job's files are rendered from.

    directives: the options of sbatch, each with its value and reason. tasks: of Slurm a node. ranks: processes of
    the training a node. cores: of a task. settings: variables that the job sets, in order. gpu: the vendor of the GPUs.
    binding: of a rank to the cores beside its GPU. local: the disk of a node. extended: for an image with a network
    stack of its own. recipe: of an image whose name does not tell it. again: what makes the job again.
    """

    request: JobRequest
    knowledge: RuntimeJob
    system: str
    runtime: Runtime
    use: JobUse
    command: Command
    nodes: int
    ranks: int
    tasks: int
    cores: int
    time: str
    name: str
    image: str
    overlay: Overlay | None
    extended: bool
    settings: tuple[Setting, ...]
    gpu: str
    binding: Binding | None
    local: Local | None
    recipe: str
    again: str
    directives: tuple[Explained, ...] = ()

    @property
    def own_gpu(self) -> bool:
        """Tell if each rank sees its own GPU alone."""
        return self.request.gpu_per_rank or bool(self.binding and self.binding.gpus)

    @property
    def is_sent(self) -> bool:
        """Tell if an environment goes to each node as an archive."""
        return self.use.image == ENVIRONMENT and self.image.endswith(ARCHIVES)

    @property
    def unpacks(self) -> bool:
        """Tell if each node unpacks the overlay: it is packed, and nothing of this runtime mounts it."""
        return bool(self.overlay and self.overlay.mount) and self.use.image in (ENVIRONMENT, NO_IMAGE)

    @property
    def images(self) -> tuple[str, ...]:
        """Return the images that the job mounts: the base, and a packed overlay."""
        packed = self.overlay.image if self.overlay and self.overlay.mount else ""
        return (self.image, packed) if packed else (self.image,)

    @property
    def views(self) -> str:
        """Return the views that the uenv plugin loads, the overlay's last, so that its programs come first."""
        overlay = self.overlay
        own = overlay.base_view if overlay and self.request.view == "default" else ""
        base = own or self.request.view
        return f"{base},{overlay.view}" if overlay and overlay.mount else base

    def data(self) -> dict[str, object]:
        """Return it as data for --json."""
        return {
            "system": self.system,
            "runtime": self.runtime.name,
            "launcher": self.command.launcher,
            "nodes": self.nodes,
            "ranks_per_node": self.ranks,
            "tasks_per_node": self.tasks,
            "cores_per_task": self.cores or None,
            "time": self.time or None,
            "name": self.name,
            "image": self.image or None,
            "overlay": self.overlay.path if self.overlay else None,
            "command": list(self.command.words),
            "options": {directive.name: directive.value for directive in self.directives},
            "variables": {**{setting.name: setting.value for setting in self.settings}, **self.request.variables},
        }


def plan_job(
    request: JobRequest,
    system: System,
    uarch: str,
    runtime: Runtime,
    *,
    image: str,
    overlay: Overlay | None,
    settings: Sequence[Setting],
    facts: Facts,
    recipe: str,
    again: str,
) -> JobPlan:
    """Return the plan of a job. Raises BadInput for what the system or runtime cannot do, and says what it can.

    facts: what is known of the versions, for the binding. recipe: see JobPlan.
    """
    use, knowledge = runtime.job, system.jobs.of(runtime.name)
    node = system.nodes[uarch]
    defaults = system.scheduler.defaults
    ranks = _ranks(request, system, node)
    nodes = nodes_of(request, system, use)
    command = _command(request, system, use, runtime.name, nodes, ranks)
    most = node.gpu.count if node.gpu else 0
    named_by, named_ranks = told_ranks(command)
    if most and named_ranks > ranks:
        raise BadInput(
            f"{named_by} {named_ranks}: {command.launcher} would start more ranks than the {ranks} GPUs of a node",
            hint=f"leave {named_by} out: the job has a rank for each GPU",
        )
    tasks = 1 if command.once_a_node else ranks
    extended = bool(knowledge.extended and knowledge.extended.image.search(image))
    binding = node.binding.get(command.launcher) if ranks == most else None
    plan = JobPlan(
        request=request, knowledge=knowledge, system=system.name, runtime=runtime, use=use, command=command,
        nodes=nodes, ranks=ranks, tasks=tasks, cores=node.cores * ranks // most // tasks if most else 0,
        time=request.time or defaults.get("time", ""), name=request.name or _name_of(command.words), image=image,
        overlay=overlay, extended=extended, settings=tuple(settings), recipe=recipe, again=again,
        gpu=node.gpu.vendor if node.gpu else "", local=system.jobs.local,
        binding=binding if binding and binding.when.holds(facts) else None,
    )  # fmt: skip
    return replace(plan, directives=_joined(_directives(plan, system))) if use.scheduler == SLURM else plan


def partition_of(request: JobRequest, system: System) -> Partition | None:
    """Return what is known of a job's partition: of the one that is named, else of the system's usual one."""
    return system.jobs.partitions.get(request.partition or system.scheduler.defaults.get("partition", ""))


def uarch_of(request: JobRequest, system: System) -> str:
    """Return the node type that a job runs on: its partition's, else the system's first."""
    partition = partition_of(request, system)
    return (partition.uarch if partition else "") or next(iter(system.nodes))


def nodes_of(request: JobRequest, system: System, use: JobUse) -> int:
    """Return how many nodes a job has: what is asked for, else the system's usual number."""
    if use.scheduler == HERE or request.interactive:
        return 1
    return request.nodes or int(system.scheduler.defaults.get("nodes", 1))


def _ranks(request: JobRequest, system: System, node: NodeType) -> int:
    """Return the ranks of a node: one for each GPU."""
    most = node.gpu.count if node.gpu else 0
    ranks = request.gpus or int(system.scheduler.defaults.get("gpus-per-node", 0)) or most or 2
    if most and ranks > most:
        raise BadInput(f"--gpus {ranks}: a node of {system.name} has {most}", hint=f"at most --gpus {most}")
    return ranks


def _command(request: JobRequest, system: System, use: JobUse, runtime: str, nodes: int, ranks: int) -> Command:
    """Return what runs. Raises BadInput for a launcher that cannot start it there, or that the system does not take."""
    refused = system.jobs.refused if use.scheduler == SLURM else {}
    launchers = [name for name in use.launchers if name not in refused]
    if request.launcher and request.launcher not in use.launchers:
        hint = f"leave it out: {use.launchers[0]} starts the ranks; known: {', '.join(use.launchers)}"
        raise BadInput(f"--launcher {request.launcher}: {runtime} has no {request.launcher}", hint=hint)
    if request.nccl_test:
        if request.launcher == TORCHRUN or SRUN not in use.launchers:
            raise BadInput("--nccl-test: the tests are no Python", hint="srun starts them: leave --launcher out")
        return Command(words=NCCL_TEST, launcher=SRUN)
    words = request.words or ("sleep", "infinity")
    default = launchers[0] if request.words else NONE
    command = command_of(words, launcher=request.launcher or "", default=default, nodes=nodes, ranks=ranks)
    if command.launcher in refused:
        reason = refused[command.launcher]
        raise BadInput(f"{command.launcher}: {reason.reason} [{reason.source}]", hint=f"--launcher {launchers[0]}")
    if request.gpu_per_rank and command.launcher != SRUN:
        raise BadInput(
            f"--gpu-per-rank: {command.launcher} starts the ranks of a node, and they see all of its GPUs",
            hint='take --launcher srun; or in the program: torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
        )
    return command


def refuse_unfit(request: JobRequest, system: System, runtime: Runtime) -> None:
    """Raise BadInput for an option that the system or runtime lacks."""
    use, jobs = runtime.job, system.jobs
    in_slurm = use.scheduler == SLURM and system.scheduler.name == SLURM
    only_slurm = ("account", "partition", "requeue", "vet", "spare", "stage", "large", "option")
    if use.scheduler == SLURM and not in_slurm:
        hint = f"take its variables (`uenvtool activate --system {system.name}`) into a script of your own: {NEW_SITE}"
        raise BadInput(f"{system.name} has no Slurm, for which jobs of {runtime.name} are written", hint=hint)
    only_pods = ("pvc", "project", "uid", "interactive")
    for is_there, names, where in (
        (in_slurm, only_slurm, "Slurm"),
        (use.scheduler == KUBERNETES, only_pods, "pods"),
        (use.image == CONTAINER and use.scheduler == SLURM, ("mount",), "containers on a node"),
    ):
        given = [f"--{name.replace('_', '-')}" for name in names if getattr(request, name)]
        if given and not is_there:
            raise BadInput(f"{', '.join(given)}: only for {where}", hint=f"{system.name}, {runtime.name}: leave it out")
    lacking = [name for name in jobs.required if in_slurm and not getattr(request, name)]
    if lacking:
        missing = ", ".join(f"--{name}" for name in lacking)
        raise BadInput(f"{system.name} runs no job without {missing}", hint="your project's name, as in --account g123")
    limit = partition_of(request, system)
    nodes = nodes_of(request, system, use) + (request.spare or 0)
    if in_slurm and limit and nodes > limit.nodes:
        raise BadInput(
            f"{nodes} nodes: a job in {limit.name} of {system.name} has at most {limit.nodes}",
            hint=f"{limit.reason}; --nodes {limit.nodes}, or another --partition",
        )
    if request.large and jobs.large is None:
        raise BadInput(f"--large: {system.name} says nothing of large runs", hint="use --option '--constraint=...'")
    if request.stage and use.image == ENVIRONMENT:
        hint = "leave it out; an archive of conda-pack, named with --image, goes to each node in any case"
        raise BadInput(f"--stage: {runtime.name} has no image", hint=hint)
    if request.stage and use.step and not (request.venv or request.image):
        raise BadInput("--stage: no image is named", hint="name it with --image")
    if use.scheduler == HERE and request.nodes not in (None, 1):
        raise BadInput(
            f"--nodes {request.nodes}: `{runtime.name}` runs on this machine alone", hint="leave --nodes out"
        )


def image_for(
    request: JobRequest, runtime: Runtime, knowledge: RuntimeJob, overlay: Overlay | None, published: str
) -> str:
    """Return the image of a job as its runtime spells it: the one that is named, the overlay's base, or another.

    published: the uenv of the recipe that is named, or the one that is loaded. Raises BadInput for one that it
    cannot run.
    """
    use, named = runtime.job, request.image
    if overlay and overlay.mount and not runtime.mount and (use.scheduler == HERE or use.image == CONTAINER):
        hint = f"unpack it, and name its folder: `unsquashfs -d FOLDER {overlay.path}`"
        raise BadInput(f"--venv {overlay.path}: {runtime.name} mounts no image", hint=hint)
    if use.image == NO_IMAGE:
        if named:
            raise BadInput(
                f"--image {named}: {runtime.name} takes no image", hint="name another runtime with --runtime"
            )
        return ""
    if use.image == ENVIRONMENT:
        if overlay and named.endswith(ARCHIVES):
            hint = "install its packages in the environment before it is packed, or name the environment's folder"
            raise BadInput(f"--venv {overlay.path}: its base is not where an archive is unpacked", hint=hint)
        return named
    if use.image == CONTAINER:
        found, of_registry = named or knowledge.image, REGISTRY.fullmatch(named)
        if of_registry:
            found = filled_where_marked(use.registry, HOST=of_registry["host"], NAME=of_registry["name"])
    else:
        found = _uenv_for(named, runtime, overlay, published)
    if not found:
        hint = "name it with --image or --recipe" if use.image == UENV else "name it with --image"
        raise BadInput(f"no image is named, and {runtime.name} needs one", hint=hint)
    return found


def _uenv_for(named: str, runtime: Runtime, overlay: Overlay | None, published: str) -> str:
    """Return the uenv of a job; empty if there is none. Raises BadInput for what the uenv plugin cannot take."""
    if REGISTRY.fullmatch(named):
        hint = "name a uenv by its label, or a runtime for containers with --runtime"
        raise BadInput(f"{named} is an image of a registry, and {runtime.name} runs none", hint=hint)
    base = overlay.base_image if overlay else ""
    if named and base and overlay and not _same_image(named, base):
        raise BadInput(
            f"{overlay.path} was made on {base}, not on {named}",
            hint="leave --image out, or make the overlay anew on that image",
        )
    found = named or base or published
    for path in filter(None, (found, overlay.path if overlay and overlay.mount else "")):
        if not _UENV_PATH.fullmatch(path):
            hint = "letters, digits and _ . / - @ % only: move it"
            raise BadInput(f"the uenv plugin cannot take the path {path!r}", hint=hint)
    return found


def _same_image(one: str, other: str) -> bool:
    """Tell if two names can be of one image: a label with and without its tag, or the same path."""
    labels = [re.split(r"[:@%]", name)[0] for name in (one, other)]
    return one == other or (labels[0] == labels[1] and not one.startswith(("/", ".")))


def _name_of(words: Sequence[str]) -> str:
    """Return a job's name: of the script that runs."""
    scripts = [word.rsplit("/", 1)[-1].rsplit(".", 1)[0] for word in words if word.endswith((".py", ".sh"))]
    for word in (*scripts, words[0].rsplit("/", 1)[-1]):
        name = re.sub(r"[^\w.-]+", "-", word).strip("-")
        if name:
            return name
    return "job"


def _directives(plan: JobPlan, system: System) -> Iterator[Explained]:
    request = plan.request
    defaults = system.scheduler.defaults
    yield Explained("job-name", plan.name, "")
    if request.account:
        yield Explained("account", request.account, "")
    if request.partition or "partition" in defaults:
        yield Explained("partition", request.partition or defaults["partition"], "")
    spare = request.spare or 0
    yield Explained("nodes", str(plan.nodes + spare), f"{spare} more than training needs, see --vet" if spare else "")
    if plan.time:
        yield Explained("time", plan.time, "")
    once = {NONE: "the command starts its ranks itself"}.get(
        plan.command.launcher, f"{plan.command.launcher} starts the ranks"
    )
    yield Explained("ntasks-per-node", str(plan.tasks), once if plan.command.once_a_node else "one rank for each GPU")
    if plan.cores:
        yield Explained("cpus-per-task", str(plan.cores), "")
    if plan.own_gpu:
        closest = plan.binding.gpus if plan.binding else ""
        local = "LOCAL_RANK is 0 too" if closest else "also where LOCAL_RANK is 1 or more"
        yield Explained("gpus-per-task", "1", f"each rank sees its own as device 0, {local}")
        if plan.binding and closest:
            yield Explained("gpu-bind", closest, plan.binding.reason)
    else:
        yield Explained("gpus-per-node", str(plan.ranks), "each rank sees all; its own is device LOCAL_RANK")
    if "mem" in defaults:
        yield Explained("mem", defaults["mem"], "")
    if not request.stage:
        images = ",".join(plan.images)
        for name, value in plan.use.sbatch.items():
            yield Explained(name, filled_where_marked(value, IMAGES=images, VIEWS=plan.views), "")
    if request.workdir:
        yield Explained("chdir", request.workdir, "")
    yield Explained("output", "slurm-%x-%j.log", "all ranks, each line with its task")
    yield from _further_directives(plan, system)


def _further_directives(plan: JobPlan, system: System) -> Iterator[Explained]:
    request, knowledge = plan.request, plan.knowledge
    yield from system.jobs.options
    needed = dict.fromkeys(setting.needs.contains for setting in plan.settings if setting.needs)
    network = ",".join(needed) or (knowledge.extended.network if knowledge.extended and plan.extended else "")
    if network:
        yield Explained("network", network, "FI_CXI_RDZV_PROTO=alt_read needs it")
    if plan.local and plan.local.constraint and (plan.is_sent or plan.unpacks or request.stage):
        yield Explained("constraint", plan.local.constraint, plan.local.reason)
    if request.large and system.jobs.large:
        yield Explained("constraint", system.jobs.large.constraint, system.jobs.large.reason)
    if request.requeue:
        yield Explained("requeue", "", "")
        yield Explained("signal", "B:USR1@120", "two minutes before the limit")
        yield Explained("open-mode", "append", "a later run writes on in the same file")


def _joined(directives: Iterable[Explained]) -> tuple[Explained, ...]:
    found: dict[str, Explained] = {}
    for one in directives:
        first = found.setdefault(one.name, one)
        if first is not one:
            between = {"constraint": "&", "network": ","}.get(one.name)
            value = f"{first.value}{between}{one.value}" if between and first.value != one.value else one.value
            reason = "; ".join(dict.fromkeys(filter(None, (first.reason, one.reason))))
            found[one.name] = Explained(one.name, value, reason)
    return tuple(found.values())
