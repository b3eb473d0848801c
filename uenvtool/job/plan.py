"""The plan of a job: an immutable value with everything that its files contain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from uenvtool.job.command import JobCommand
from uenvtool.job.disk import NamedEdf
from uenvtool.job.request import JobRequest
from uenvtool.knowledge.jobs import Explained, Extended, Local, Mpi, RuntimeJob
from uenvtool.knowledge.runtime import JobUse, Runtime
from uenvtool.knowledge.system import Binding
from uenvtool.knowledge.tuning import Setting

SLURM, KUBERNETES, HERE = "slurm", "kubernetes", "none"
"""The schedulers in runtime files."""
UENV, CONTAINER, ENVIRONMENT, NO_IMAGE = "uenv", "container", "environment", "none"
"""The kinds of images in runtime files."""
IMAGES = (UENV, CONTAINER, ENVIRONMENT)
ARCHIVES = (".tar.gz", ".tgz")
"""The suffixes of archives that conda-pack creates."""
ARRAY = "{array}"
"""The text in a command that the job replaces by the number of an array's task."""
PATH_STARTS = ("/", ".", "$")
"""The first characters of an image name that is a path."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlay:
    """The Python overlay of a job.

    path: the file of a packed overlay or the directory of an unpacked one. mount: the mount point of a packed overlay,
    or an empty string for an unpacked one. view: the uenv and view of the overlay, as `NAME:VIEW`. base_image,
    base_view: the uenv on which the overlay was created, if any. site: the directory of its packages, relative to the
    overlay, if another tool made it.
    """

    path: str
    mount: str = ""
    view: str = ""
    base_image: str = ""
    base_view: str = ""
    site: str = ""

    @property
    def image(self) -> str:
        """Return the overlay's path in a form that uenv and Slurm recognise as a path."""
        return self.path if self.path.startswith(PATH_STARTS) else f"./{self.path}"

    @property
    def place(self) -> str:
        """Return the directory of the overlay, as the job sees it."""
        return self.mount or self.path

    @property
    def programs(self) -> str:
        """Return the directory of the overlay's programs, as the job sees it."""
        return f"{self.place}/bin"


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
    variables itself. opens_shell: whether the job is an interactive shell on a Slurm node and not a batch job. images:
    the base, and a packed overlay that the job mounts. views: the views that the uenv plugin loads. unpacks: whether
    each node unpacks the overlay. is_sent: whether each node gets a copy of the environment as an archive. node_folder:
    the directory on each node for copied images and environments. copies: the paths of the image copies in bash syntax.
    edf_file: the path of the EDF. writes_edf: whether uenvtool writes the EDF. mpi: the needs of MPI programs in the
    image. one_gpu_per_rank: whether each rank sees only its own GPU. run: a sentence about the processes of the job.
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
    opens_shell: bool
    images: tuple[str, ...]
    views: str
    unpacks: bool
    is_sent: bool
    node_folder: str
    copies: tuple[str, ...]
    edf_file: str
    writes_edf: bool
    mpi: Mpi | None
    edf: NamedEdf | None = None
    one_gpu_per_rank: bool = False
    settings: tuple[Setting, ...] = ()
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_hook: tuple[Setting, ...] = ()
    directives: tuple[Explained, ...] = ()
    activation: str = ""
    run: str = ""
    array: str = ""

    @property
    def use(self) -> JobUse:
        """Return the description of the runtime's jobs."""
        return self.runtime.job

    @property
    def cores_of_rank(self) -> int:
        """Return the cores per rank; 0 if unknown. A task may have several ranks."""
        return self.cores * self.tasks // self.ranks

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
