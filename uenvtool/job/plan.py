"""The plan of a job: everything that its files are rendered from, decided; a value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from uenvtool.core.lines import sibling
from uenvtool.job.command import JobCommand
from uenvtool.job.named_edf import EDF, NamedEdf
from uenvtool.job.request import JobRequest
from uenvtool.knowledge.jobs import Explained, Extended, Local, Mpi, RuntimeJob
from uenvtool.knowledge.runtime import JobUse, Runtime
from uenvtool.knowledge.system import Binding
from uenvtool.knowledge.tuning import Setting

SLURM, KUBERNETES, HERE = "slurm", "kubernetes", "none"
"""Who starts a job, as the files of runtimes say it."""
UENV, CONTAINER, ENVIRONMENT, NO_IMAGE = "uenv", "container", "environment", "none"
"""What a job runs, as the files of runtimes say it."""
ARCHIVES = (".tar.gz", ".tgz")
"""How the name of an environment ends that conda-pack made."""
PATH_STARTS = ("/", ".", "$")
"""How the name of an image begins that is a path and no label."""
MEMORY = "/dev/shm"  # a folder of the compute node, named in the job


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
        return self.path if self.path.startswith(PATH_STARTS) else f"./{self.path}"

    @property
    def programs(self) -> str:
        """Return the folder of its programs, as the job sees it."""
        return f"{self.mount or self.path}/bin"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPlan:
    """Everything that a job's files are rendered from.

    directives: the options of sbatch, each with its value and reason. tasks: of Slurm a node. ranks: processes of
    the training a node. gpus: of a node; 0 where it has none. cores: of a task. settings: variables that the job
    sets, in order; by_hook: those that a hook of the runtime sets. gpu: the vendor of the GPUs. binding: of a rank
    to the cores beside its GPU. local: the disk of a node. extended: what an image with a network stack of its own
    needs, if it is one. recipe: of an image whose name does not tell it. again: what makes the job again. edf: the
    user's own, which is taken as it is. left_out: variables that are not set for the version of some software
    alone, by the reason. activation: the script that sets a pod up; empty where the job sets its variables itself.
    """

    request: JobRequest
    knowledge: RuntimeJob
    system: str
    runtime: Runtime
    command: JobCommand
    nodes: int
    ranks: int
    tasks: int
    gpus: int
    cores: int
    time: str
    name: str
    image: str
    overlay: Overlay | None
    extended: Extended | None
    gpu: str
    binding: Binding | None
    local: Local | None
    recipe: str
    again: str
    edf: NamedEdf | None = None
    settings: tuple[Setting, ...] = ()
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_hook: tuple[Setting, ...] = ()
    directives: tuple[Explained, ...] = ()
    activation: str = ""

    @property
    def use(self) -> JobUse:
        """Return how the runtime's jobs are made."""
        return self.runtime.job

    @property
    def edf_file(self) -> str:
        """Return the EDF of the job: the user's own, or the one that is written beside the job's file."""
        return self.edf.path if self.edf else sibling(self.request.file, EDF)

    @property
    def writes_edf(self) -> bool:
        """Tell if the job has an EDF of its own."""
        return self.use.variables == "edf" and self.edf is None

    @property
    def opens_shell(self) -> bool:
        """Tell if it is no batch job: a shell on a node of Slurm."""
        return self.request.interactive and self.use.scheduler == SLURM

    @property
    def cores_of_rank(self) -> int:
        """Return the cores of a rank, of which a task may have several; 0 if they are not known."""
        return self.cores * self.tasks // self.ranks

    @property
    def own_gpu(self) -> bool:
        """Tell if each rank sees its own GPU alone."""
        return self.request.gpu_per_rank or bool(self.binding and self.binding.gpus)

    @property
    def mpi(self) -> Mpi | None:
        """Return what the MPI of the image needs, if its programs run and it has no network stack of its own."""
        return self.knowledge.mpi if self.request.nccl_test and self.extended is None else None

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

    @property
    def node_folder(self) -> str:
        """Return the folder of each node that images and environments are sent to."""
        return self.local.folder if self.local else MEMORY

    @property
    def copies(self) -> list[str]:
        """Return the copies of the images on each node, as paths of bash."""
        named = (PurePath(image).suffix if image.startswith(PATH_STARTS) else "" for image in self.images)
        suffixes = (suffix if re.fullmatch(r"[.][A-Za-z]+", suffix) else ".squashfs" for suffix in named)
        return [f"{self.node_folder}/$SLURM_JOB_ID-{index}{suffix}" for index, suffix in enumerate(suffixes)]

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
            "variables": {
                **{setting.name: setting.value for setting in self.settings},
                **self.request.variables,
                **dict.fromkeys(self.request.passed),
            },
        }
