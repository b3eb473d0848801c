"""The request of `uenvtool job`: its options and arguments."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from uenvtool.knowledge import complete

what_option, where_option, image_option, slurm_option, pod_option, advanced_option = (
    partial(Option, rich_help_panel=panel)
    for panel in ("What runs", "Where it runs", "The image", "Slurm", "Pods", "Advanced")
)
"""Options in the panels of `--help`. Options without a panel are the most common ones and come first."""
ON_SLURM, ON_PODS, ON_BOTH = "Slurm", "pods", "Slurm and pods"
IN_CONTAINERS, IN_EDFS, IN_UENVS = "containers on a node", "an EDF", "a uenv"
"""The kinds of jobs that have an option, as messages name them; `options.py` knows the runtimes of each kind."""
_COUNT = r"[1-9]\d*"
_ARRAY = r"\d+(-\d+(:\d+)?)?(,\d+(-\d+(:\d+)?)?)*(%\d+)?"
_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.:,@+%=~-]*"


@dataclass(frozen=True, kw_only=True, slots=True)
class For:
    """The mark of an option: the jobs that have the option, and the form of its values.

    jobs: the kind of jobs, such as ON_SLURM; default: all jobs. batch: whether an interactive shell on a Slurm node
    lacks the option. form: a regular expression that each value matches; default: later checks reject invalid values.
    example: a valid value.
    """

    jobs: str = ""
    batch: bool = False
    form: str = ""
    example: str = ""


Account = Annotated[
    str,
    Option("--account", "-A", metavar="NAME", help="Your project in Slurm."),
    For(jobs=ON_SLURM, form=_WORD, example="g123"),
]
Partition = Annotated[
    str,
    slurm_option("--partition", "-p", metavar="NAME", help="The partition."),
    For(jobs=ON_SLURM, form=_WORD, example="normal"),
]
Time = Annotated[
    str,
    Option("--time", "-t", metavar="TIME", help="The time limit, as in 01:00:00."),
    For(jobs=ON_SLURM, form=r"\d+(-\d+(:\d+){0,2})?|\d+(:\d+){1,2}", example="01:00:00"),
]
FurtherOptions = Annotated[
    tuple[str, ...],
    slurm_option("--option", metavar="OPTION", help="An additional sbatch option."),
    For(jobs=ON_SLURM, form=r"(#SBATCH )?-[^\n\r]+", example="'--mem=0'"),
]
Force = Annotated[bool, advanced_option("--force", help="Replace generated files that were changed by hand."), For()]
DryRun = Annotated[bool, advanced_option("--dry-run", help="Print the job; write and submit nothing."), For()]


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedOptions:
    """The options of `job` and `try` for the place, the image and the nodes. The system provides the other values."""

    system: Annotated[
        str | None,
        where_option(
            "--system",
            "-s",
            metavar="SYSTEM",
            help="The system; default: the one you are on.",
            autocompletion=complete.systems,
        ),
        For(example="clariden"),
    ] = None
    runtime: Annotated[
        str,
        where_option(
            "--runtime",
            metavar="NAME",
            help="A runtime of the system, such as uenv, ce or apptainer; local: this machine.",
        ),
        For(example="uenv"),
    ] = ""
    recipe: Annotated[
        str | None,
        Option("--recipe", metavar="RECIPE", help="Use the published uenv of this recipe."),
        For(jobs=ON_BOTH, example="pytorch-2.6"),
    ] = None
    image: Annotated[
        str,
        image_option("--image", metavar="IMAGE", help="A uenv (image name and tag), a registry image, or a file."),
        For(form=r"[^\n\r\0]+", example="pytorch/v2.6.0:v1"),
    ] = ""
    view: Annotated[
        str, image_option("--view", metavar="VIEW", help="The view of the uenv."), For(jobs=IN_UENVS, example="develop")
    ] = "default"
    venv: Annotated[
        str | None,
        image_option("--venv", metavar="PATH", help="A Python overlay, packed or unpacked."),
        For(example=".venv"),
    ] = None
    nodes: Annotated[
        int | None,
        Option("--nodes", "-N", metavar="N", help="The number of nodes or pods."),
        For(form=_COUNT, example="2"),
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest(SharedOptions):
    """A request for a job.

    tests: the largest message in bytes of the tests that `uenvtool try` runs instead of a command; 0 for other jobs.
    """

    tests: int = 0
    gpus: Annotated[
        int | None,
        what_option("--gpus", metavar="N", help="GPUs per node; default: all; 0: a job without GPUs."),
        For(form=r"\d+", example="2"),
    ] = None
    launcher: Annotated[
        Literal["srun", "torchrun", "none"] | None,
        what_option(
            "--launcher",
            metavar="NAME",
            help="srun or torchrun: start the ranks with it; none: run your command once per node.",
        ),
        For(batch=True, example="srun"),
    ] = None
    gpu_per_rank: Annotated[
        bool,
        what_option(
            "--gpu-per-rank", help="Each rank sees only its own GPU, as device 0; default: all GPUs of the node."
        ),
        For(),
    ] = False
    time: Time = ""
    account: Account = ""
    partition: Partition = ""
    name: Annotated[
        str,
        slurm_option(
            "--name", "-J", metavar="NAME", help="The name of the job; default: from -o, or else from the program."
        ),
        For(jobs=ON_BOTH, form=r"[^/\n\r\0]+", example="train"),
    ] = ""
    array: Annotated[
        str,
        slurm_option(
            "--array",
            "-a",
            metavar="NUMBERS",
            help="Run one job for each number, as in 0-99%8; {array} in the command is the number.",
        ),
        For(jobs=ON_SLURM, batch=True, form=_ARRAY, example="0-99"),
    ] = ""
    workaround: Annotated[
        tuple[str, ...],
        advanced_option(
            "--workaround",
            metavar="NAME",
            help="Also apply this named workaround.",
            autocompletion=complete.workarounds,
        ),
        For(jobs=ON_BOTH, example="flight-recorder"),
    ] = ()
    option: FurtherOptions = ()
    mount: Annotated[
        tuple[str, ...],
        image_option("--mount", metavar="PATH[:PATH]", help="A directory to mount in the container."),
        For(jobs=IN_CONTAINERS, form=r"/[^:,$\n\r\0]*(:/[^:,$\n\r\0]*)?", example="/capstor/store/g123:/data"),
    ] = ()
    annotation: Annotated[
        tuple[str, ...],
        image_option(
            "--annotation",
            metavar="NAME=VALUE",
            help="An annotation of the container's EDF, such as com.hooks.ssh.enabled=true.",
        ),
        For(jobs=IN_EDFS, form=r"[\w-]+(\.[\w-]+)+=[\s\S]*", example="com.hooks.ssh.enabled=true"),
    ] = ()
    env: Annotated[
        tuple[str, ...],
        what_option(
            "--env",
            metavar="NAME[=VALUE]",
            help="A variable of the ranks; NAME alone: take its value from the environment when the job starts "
            "(for secrets).",
        ),
        For(form=r"[A-Za-z_]\w*(=[\s\S]*)?", example="HF_HOME=/data/hf"),
    ] = ()
    workdir: Annotated[
        str,
        what_option("--workdir", metavar="PATH", help="The working directory; default: where sbatch is called."),
        For(jobs=ON_BOTH, form=r"/[^\n\r\0]*", example="/capstor/scratch/cscs/me"),
    ] = ""
    stage: Annotated[
        bool,
        image_option("--stage", help="First copy the images to each node (local disk or memory)."),
        For(jobs=ON_SLURM, batch=True),
    ] = False
    requeue: Annotated[
        bool,
        slurm_option("--requeue", help="Before the time limit, send SIGUSR1 to the ranks and requeue."),
        For(jobs=ON_SLURM, batch=True),
    ] = False
    vet: Annotated[
        bool, advanced_option("--vet", help="Test each node first; exclude bad ones."), For(jobs=ON_SLURM, batch=True)
    ] = False
    spare: Annotated[
        int | None,
        advanced_option("--spare", metavar="N", help="Request N more nodes, so that --vet can exclude bad ones."),
        For(jobs=ON_SLURM, batch=True, form=_COUNT, example="2"),
    ] = None
    large: Annotated[
        bool,
        advanced_option("--large", help="Add the system's sbatch constraint for large runs, such as GPU boost."),
        For(jobs=ON_SLURM),
    ] = False
    nccl_test: Annotated[
        bool, what_option("--nccl-test", help="Run the NCCL all-reduce test of the image."), For(batch=True)
    ] = False
    pvc: Annotated[
        tuple[str, ...],
        pod_option(
            "--pvc", metavar="CLAIM:PATH", help="A PVC (persistent volume claim) and its mount point in the pods."
        ),
        For(jobs=ON_PODS, form=r"[a-z0-9][a-z0-9.-]*:/[^:,\n\r\0]*", example="scratch:/mnt/scratch"),
    ] = ()
    project: Annotated[
        str,
        pod_option("--project", metavar="NAME", help="Your project in Run:ai."),
        For(jobs=ON_PODS, form=_WORD, example="course-cs-433-user"),
    ] = ""
    node_type: Annotated[
        str,
        pod_option("--node-type", metavar="POOL", help="The node pool, such as h100."),
        For(jobs=ON_PODS, example="h100"),
    ] = ""
    uid: Annotated[
        str,
        pod_option("--uid", metavar="UID[:GID]", help="The user and group ID of the pods."),
        For(jobs=ON_PODS, form=r"\d+(:\d+)?", example="1234:5678"),
    ] = ""
    interactive: Annotated[
        bool,
        what_option("--interactive", help="Open a shell on a node, or start a pod that waits for you."),
        For(jobs=ON_BOTH),
    ] = False
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write the job to this file."), For(example="job.sh")
    ] = None
    force: Force = False
    submit: Annotated[
        bool, slurm_option("--submit", help="Submit the job and print its ID."), For(jobs=ON_BOTH, batch=True)
    ] = False
    dry_run: DryRun = False
    words: Annotated[
        tuple[str, ...],
        Argument(metavar="-- COMMAND...", help="The command to run, with its arguments.", show_default=False),
    ] = ()

    @property
    def file(self) -> str:
        """Return the name of the job's file, from which the names of its other files are derived."""
        return str(self.output) if self.output else "job.sh"

    @property
    def in_partition(self) -> str:
        """Return the partition, which an additional sbatch option can also name, or "" if none is given."""
        return self.further("partition", "p") or self.partition

    def further(self, name: str, letter: str = "") -> str:
        """Return the value of an additional sbatch option, or "" if it is not given. letter: its short name."""
        form = rf"(?:#SBATCH )?(?:--{name}[= ]{f'|-{letter} ?' if letter else ''})(\S+)"
        matches = (re.match(form, option) for option in self.option)
        return next((match[1] for match in reversed([*matches]) if match), "")

    @property
    def qos(self) -> str:
        """Return the QOS that an additional sbatch option names, or "" if none is given."""
        return self.further("qos", "q")

    @property
    def vets(self) -> bool:
        """Return whether each node is tested before training starts."""
        return self.vet or self.spare is not None

    @property
    def annotations(self) -> dict[str, str]:
        """Return the annotations of the EDF."""
        return dict(pair.split("=", 1) for pair in self.annotation)

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables of the ranks that have a value."""
        return dict(word.split("=", 1) for word in self.env if "=" in word)

    @property
    def passed(self) -> tuple[str, ...]:
        """Return the names of the variables that take their values from the environment when the job starts."""
        return tuple(word for word in self.env if "=" not in word)
