"""What a user asks of `uenvtool job`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from uenvtool.core.options import BEHIND
from uenvtool.knowledge.options import ThisSystemName, Workarounds, named_texts


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest:
    """A request for a job. What is not given is the system's own."""

    system: ThisSystemName = None
    runtime: Annotated[
        str, Option(metavar="NAME", help="A runtime of the system, such as uenv, ce or apptainer; or local.")
    ] = ""
    recipe: Annotated[str | None, Option(metavar="RECIPE", help="The published uenv of this recipe.")] = None
    image: Annotated[str, Option(metavar="IMAGE", help="A uenv's label, an image of a registry, or a file.")] = ""
    view: Annotated[str, Option(metavar="VIEW", help="The view of the uenv.")] = "default"
    venv: Annotated[str | None, Option(metavar="PATH", help="A Python overlay, packed or a folder.")] = None
    nodes: Annotated[int | None, Option("-N", metavar="N", help="Nodes, or pods.")] = None
    gpus: Annotated[int | None, Option(metavar="N", help="GPUs of a node; default: all.")] = None
    launcher: Annotated[
        Literal["srun", "torchrun", "none"] | None,
        Option(metavar="NAME", help="srun or torchrun: what starts the ranks; none: the command does, once a node."),
    ] = None
    gpu_per_rank: Annotated[bool, Option(help="Each rank sees its own GPU alone, as device 0; default: all.")] = False
    time: Annotated[str, Option("-t", metavar="TIME", help="The time limit, as in 01:00:00.")] = ""
    account: Annotated[str, Option("-A", metavar="NAME", help="Your project in Slurm.")] = ""
    partition: Annotated[str, Option("-p", metavar="NAME", help="The partition.")] = ""
    name: Annotated[str, Option("-J", metavar="NAME", help="The job's name; default: the script's.")] = ""
    workaround: Workarounds = ()
    option: Annotated[tuple[str, ...], Option(metavar="OPTION", help="A further option of sbatch.")] = ()
    mount: Annotated[tuple[str, ...], Option(metavar="PATH[:PATH]", help="A folder that the container sees too.")] = ()
    env: Annotated[tuple[str, ...], Option(metavar="NAME=VALUE", help="A variable of the ranks.")] = ()
    workdir: Annotated[str, Option(metavar="PATH", help="Where it runs; default: where sbatch is called.")] = ""
    stage: Annotated[bool, Option(help="Copy the images to the memory of each node first.")] = False
    requeue: Annotated[bool, Option(help="SIGUSR1 to the ranks before the limit, then queue again.")] = False
    vet: Annotated[bool, Option(help="Look at each node before training starts; one that is bad gets no rank.")] = False
    spare: Annotated[
        int | None, Option(metavar="N", help="Ask for N nodes more, from which --vet takes those that are good.")
    ] = None
    large: Annotated[bool, Option(help="Ask for what the system has for large runs.")] = False
    nccl_test: Annotated[bool, Option(help="Run the test of NCCL that the image has.")] = False
    pvc: Annotated[tuple[str, ...], Option(metavar="CLAIM:PATH", help="Storage of the pods.")] = ()
    project: Annotated[str, Option(metavar="NAME", help="Your project in Run:ai.")] = ""
    uid: Annotated[str, Option(metavar="UID[:GID]", help="The user that the pods run as.")] = ""
    interactive: Annotated[bool, Option(help="A pod that waits for you, for debugging.")] = False
    output: Annotated[Path | None, Option("-o", metavar="FILE", help="Write the job to this file.")] = None
    force: Annotated[bool, Option(help="Replace files of uenvtool's that were changed by hand.")] = False
    submit: Annotated[bool, Option(help="Submit it and print its id.")] = False
    dry_run: Annotated[bool, Option(help="Print the job; write and submit nothing.")] = False
    words: Annotated[tuple[str, ...] | None, BEHIND] = None

    @property
    def file(self) -> str:
        """Return the name of the job's file, which others are named after."""
        return str(self.output) if self.output else "job.sh"

    @property
    def vets(self) -> bool:
        """Tell if each node is looked at before training starts."""
        return self.vet or self.spare is not None

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables of the ranks. Raises BadInput for a word that names none."""
        return named_texts(self.env, "--env", "OMP_NUM_THREADS=8")
