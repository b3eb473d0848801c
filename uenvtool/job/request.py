"""What a user asks of `uenvtool job`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from uenvtool.knowledge import complete
from uenvtool.knowledge.options import named_texts

WHAT, WHERE, IMAGE, SLURM, PODS, ADVANCED = "What runs", "Where it runs", "The image", "Slurm", "Pods", "Advanced"
"""The panels of `--help`; options without one, which everybody needs, come first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest:
    """A request for a job. What is not given is the system's own."""

    system: Annotated[
        str | None,
        Option(
            "--system",
            "-s",
            metavar="SYSTEM",
            help="The system; default: this one.",
            autocompletion=complete.systems,
            rich_help_panel=WHERE,
        ),
    ] = None
    runtime: Annotated[
        str,
        Option(
            "--runtime",
            metavar="NAME",
            help="A runtime of the system, such as uenv, ce or apptainer; or local.",
            rich_help_panel=WHERE,
        ),
    ] = ""
    recipe: Annotated[str | None, Option("--recipe", metavar="RECIPE", help="The published uenv of this recipe.")] = (
        None
    )
    image: Annotated[
        str,
        Option(
            "--image",
            metavar="IMAGE",
            help="A uenv's label, an image of a registry, or a file.",
            rich_help_panel=IMAGE,
        ),
    ] = ""
    view: Annotated[str, Option("--view", metavar="VIEW", help="The view of the uenv.", rich_help_panel=IMAGE)] = (
        "default"
    )
    venv: Annotated[
        str | None,
        Option("--venv", metavar="PATH", help="A Python overlay, packed or a folder.", rich_help_panel=IMAGE),
    ] = None
    nodes: Annotated[int | None, Option("--nodes", "-N", metavar="N", help="Nodes, or pods.")] = None
    gpus: Annotated[
        int | None, Option("--gpus", metavar="N", help="GPUs of a node; default: all.", rich_help_panel=WHAT)
    ] = None
    launcher: Annotated[
        Literal["srun", "torchrun", "none"] | None,
        Option(
            "--launcher",
            metavar="NAME",
            help="srun or torchrun: what starts the ranks; none: the command does, once a node.",
            rich_help_panel=WHAT,
        ),
    ] = None
    gpu_per_rank: Annotated[
        bool,
        Option(
            "--gpu-per-rank",
            help="Each rank sees its own GPU alone, as device 0; default: all.",
            rich_help_panel=WHAT,
        ),
    ] = False
    time: Annotated[str, Option("--time", "-t", metavar="TIME", help="The time limit, as in 01:00:00.")] = ""
    account: Annotated[str, Option("--account", "-A", metavar="NAME", help="Your project in Slurm.")] = ""
    partition: Annotated[
        str, Option("--partition", "-p", metavar="NAME", help="The partition.", rich_help_panel=SLURM)
    ] = ""
    name: Annotated[
        str,
        Option(
            "--name",
            "-J",
            metavar="NAME",
            help="The job's name; default: that of -o, else the program's.",
            rich_help_panel=SLURM,
        ),
    ] = ""
    workaround: Annotated[
        tuple[str, ...],
        Option(
            "--workaround",
            metavar="NAME",
            help="Set a named workaround too.",
            autocompletion=complete.workarounds,
            rich_help_panel=ADVANCED,
        ),
    ] = ()
    option: Annotated[
        tuple[str, ...],
        Option("--option", metavar="OPTION", help="A further option of sbatch.", rich_help_panel=SLURM),
    ] = ()
    mount: Annotated[
        tuple[str, ...],
        Option("--mount", metavar="PATH[:PATH]", help="A folder that the container sees too.", rich_help_panel=IMAGE),
    ] = ()
    annotation: Annotated[
        tuple[str, ...],
        Option(
            "--annotation",
            metavar="NAME=VALUE",
            help="An annotation of the container's EDF, such as com.hooks.ssh.enabled=true.",
            rich_help_panel=IMAGE,
        ),
    ] = ()
    env: Annotated[
        tuple[str, ...],
        Option(
            "--env",
            metavar="NAME[=VALUE]",
            help="A variable of the ranks; NAME alone: as it is set when the job starts, for secrets.",
            rich_help_panel=WHAT,
        ),
    ] = ()
    workdir: Annotated[
        str,
        Option(
            "--workdir",
            metavar="PATH",
            help="Where it runs; default: where sbatch is called.",
            rich_help_panel=WHAT,
        ),
    ] = ""
    stage: Annotated[
        bool,
        Option("--stage", help="Copy the images to the memory of each node first.", rich_help_panel=IMAGE),
    ] = False
    requeue: Annotated[
        bool,
        Option("--requeue", help="SIGUSR1 to the ranks before the limit, then queue again.", rich_help_panel=SLURM),
    ] = False
    vet: Annotated[
        bool,
        Option(
            "--vet",
            help="Look at each node before training starts; one that is bad gets no rank.",
            rich_help_panel=ADVANCED,
        ),
    ] = False
    spare: Annotated[
        int | None,
        Option(
            "--spare",
            metavar="N",
            help="Ask for N nodes more, from which --vet takes those that are good.",
            rich_help_panel=ADVANCED,
        ),
    ] = None
    large: Annotated[
        bool, Option("--large", help="Ask for what the system has for large runs.", rich_help_panel=ADVANCED)
    ] = False
    nccl_test: Annotated[
        bool, Option("--nccl-test", help="Run the test of NCCL that the image has.", rich_help_panel=WHAT)
    ] = False
    pvc: Annotated[
        tuple[str, ...], Option("--pvc", metavar="CLAIM:PATH", help="Storage of the pods.", rich_help_panel=PODS)
    ] = ()
    project: Annotated[
        str, Option("--project", metavar="NAME", help="Your project in Run:ai.", rich_help_panel=PODS)
    ] = ""
    node_type: Annotated[
        str, Option("--node-type", metavar="POOL", help="The pool of nodes, such as h100.", rich_help_panel=PODS)
    ] = ""
    uid: Annotated[
        str, Option("--uid", metavar="UID[:GID]", help="The user that the pods run as.", rich_help_panel=PODS)
    ] = ""
    interactive: Annotated[
        bool, Option("--interactive", help="A shell on a node, or a pod that waits for you.", rich_help_panel=WHAT)
    ] = False
    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write the job to this file.")] = None
    force: Annotated[
        bool,
        Option("--force", help="Replace files of uenvtool's that were changed by hand.", rich_help_panel=ADVANCED),
    ] = False
    submit: Annotated[bool, Option("--submit", help="Submit it and print its id.", rich_help_panel=SLURM)] = False
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print the job; write and submit nothing.", rich_help_panel=ADVANCED)
    ] = False
    words: Annotated[
        tuple[str, ...], Argument(metavar="-- COMMAND...", help="What runs, word by word.", show_default=False)
    ] = ()

    @property
    def file(self) -> str:
        """Return the name of the job's file, which others are named after."""
        return str(self.output) if self.output else "job.sh"

    @property
    def in_partition(self) -> str:
        """Return the partition that is named, also by a further option of sbatch; empty if none is."""
        return self.further("partition", "p") or self.partition

    def further(self, name: str, letter: str = "") -> str:
        """Return the value of a further option of sbatch; empty if it is not given. letter: its short name."""
        form = rf"(?:#SBATCH )?(?:--{name}[= ]{f'|-{letter} ?' if letter else ''})(\S+)"
        found = (re.match(form, option) for option in self.option)
        return next((one[1] for one in reversed([*found]) if one), "")

    @property
    def vets(self) -> bool:
        """Tell if each node is looked at before training starts."""
        return self.vet or self.spare is not None

    @property
    def annotations(self) -> dict[str, str]:
        """Return the annotations of the EDF. Raises BadInput for a word that names none."""
        return named_texts(self.annotation, "--annotation", "com.hooks.ssh.enabled=true")

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables of the ranks that have a value. Raises BadInput for a word that names none."""
        return named_texts((word for word in self.env if "=" in word), "--env", "OMP_NUM_THREADS=8")

    @property
    def passed(self) -> tuple[str, ...]:
        """Return the names of the variables that are passed on as they are set when the job starts."""
        return tuple(word for word in self.env if "=" not in word)
