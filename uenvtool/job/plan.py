"""The plan of a job: an immutable value with everything that its files contain."""

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
"""The schedulers in runtime files."""
UENV, CONTAINER, ENVIRONMENT, NO_IMAGE = "uenv", "container", "environment", "none"
"""The kinds of images in runtime files."""
ARCHIVES = (".tar.gz", ".tgz")
"""The suffixes of archives that conda-pack creates."""
PATH_STARTS = ("/", ".", "$")
"""The first characters of an image name that is a path."""
MEMORY = "/dev/shm"  # a directory on the compute node, which the job names


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlay:
    """The Python overlay of a job.

    path: the file of a packed overlay or the directory of an unpacked one. mount: the mount point of a packed overlay;
    empty for an unpacked one. view: its uenv and view, `NAME:VIEW`. base_image, base_view: the uenv on which it was
    created, if any.
    """

    path: str
    mount: str = ""
    view: str = ""
    base_image: str = ""
    base_view: str = ""

    @property
    def image(self) -> str:
        """Return its path in a form that uenv and Slurm recognise as a path."""
        return self.path if self.path.startswith(PATH_STARTS) else f"./{self.path}"

    @property
    def programs(self) -> str:
        """Return the directory of its programs, as the job sees it."""
        return f"{self.mount or self.path}/bin"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPlan:
    """Everything that the files of a job contain.

    directives: the sbatch options, each with its value and reason. tasks: Slurm tasks per node. ranks: training
    processes per node. gpus: GPUs per node; 0 without GPUs. cores: cores per task. settings: the variables that the job
    sets, in order. by_hook: the variables that a hook of the runtime sets. gpu: the vendor of the GPUs. binding: binds
    each rank to the cores closest to its GPU. local: the local disk of a node. extended: the needs of an image that
    contains its own network stack. recipe: the recipe of an image whose name does not identify it. again: the command
    that writes the job again. edf: the user's own EDF, which is not changed. left_out: variables that are not set only
    because of a software version, by reason. activation: the activation script of a pod; empty if the job sets its
    variables itself.
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
        """Return the description of the runtime's jobs."""
        return self.runtime.job

    @property
    def edf_file(self) -> str:
        """Return the path of the job's EDF: the user's own, or the one written next to the job's file."""
        return self.edf.path if self.edf else sibling(self.request.file, EDF)

    @property
    def writes_edf(self) -> bool:
        """Return whether uenvtool writes the EDF of the job."""
        return self.use.variables == "edf" and self.edf is None

    @property
    def opens_shell(self) -> bool:
        """Return whether the job is an interactive shell on a Slurm node and not a batch job."""
        return self.request.interactive and self.use.scheduler == SLURM

    @property
    def cores_of_rank(self) -> int:
        """Return the cores per rank; 0 if unknown. A task may have several ranks."""
        return self.cores * self.tasks // self.ranks

    @property
    def one_gpu_per_rank(self) -> bool:
        """Return whether each rank sees only its own GPU."""
        return self.request.gpu_per_rank or bool(self.binding and self.binding.gpus)

    @property
    def mpi(self) -> Mpi | None:
        """Return the needs of the image's MPI if the job runs MPI programs on the host's network stack."""
        return self.knowledge.mpi if self.request.nccl_test and self.extended is None else None

    @property
    def is_sent(self) -> bool:
        """Return whether the environment is copied to each node as an archive."""
        return self.use.image == ENVIRONMENT and self.image.endswith(ARCHIVES)

    @property
    def unpacks(self) -> bool:
        """Return whether each node unpacks the overlay, because it is packed and this runtime cannot mount it."""
        return bool(self.overlay and self.overlay.mount) and self.use.image in (ENVIRONMENT, NO_IMAGE)

    @property
    def images(self) -> tuple[str, ...]:
        """Return the images that the job mounts: the base, and a packed overlay."""
        packed = self.overlay.image if self.overlay and self.overlay.mount else ""
        return (self.image, packed) if packed else (self.image,)

    @property
    def views(self) -> str:
        """Return the views that the uenv plugin loads; the overlay's is last, so its programs are first on PATH."""
        overlay = self.overlay
        base_view = overlay.base_view if overlay and self.request.view == "default" else ""
        base = base_view or self.request.view
        return f"{base},{overlay.view}" if overlay and overlay.mount else base

    @property
    def node_folder(self) -> str:
        """Return the directory on each node for copied images and environments."""
        return self.local.folder if self.local else MEMORY

    @property
    def copies(self) -> list[str]:
        """Return the paths of the image copies on each node, as bash source."""
        named = (PurePath(image).suffix if image.startswith(PATH_STARTS) else "" for image in self.images)
        suffixes = (suffix if re.fullmatch(r"[.][A-Za-z]+", suffix) else ".squashfs" for suffix in named)
        return [f"{self.node_folder}/$SLURM_JOB_ID-{index}{suffix}" for index, suffix in enumerate(suffixes)]

    def data(self) -> dict[str, object]:
        """Return the plan as data for --json."""
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
