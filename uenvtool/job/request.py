"""What a user asks of `uenvtool job`, checked before anything is planned."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from uenvtool.core.errors import BadInput, Problem
from uenvtool.core.options import BEHIND
from uenvtool.knowledge.options import ThisSystemName, Workarounds, named_texts

_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.:,@+%=~-]*"
_TIME = r"\d+(-\d+(:\d+){0,2})?|\d+(:\d+){1,2}"
_FORMS = {
    "time": (_TIME, "01:00:00"),
    "account": (_WORD, "g123"),
    "partition": (_WORD, "normal"),
    "name": (r"[^/\n\r\0]+", "train"),
    "image": (r"[^\n\r\0]+", "pytorch/v2.6.0:v1"),
    "project": (_WORD, "course-cs-433-user"),
    "workdir": (r"/[^\n\r\0]*", "/capstor/scratch/cscs/me"),
}
"""The form of each text, and an example; `re` compiles those that are asked for."""
_MOUNT = r"/[^:,$\n\r\0]*(:/[^:,$\n\r\0]*)?"
_CLAIM = r"[a-z0-9][a-z0-9.-]*:/[^:,\n\r\0]*"
_VARIABLE = r"[A-Za-z_]\w*"


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


def check(request: JobRequest) -> None:
    """Raise BadInput with everything that is wrong in a request by itself."""
    BadInput.raise_any(_problems(request))


def _problems(request: JobRequest) -> Iterator[Problem]:
    if not request.words and not (request.nccl_test or request.interactive):
        yield Problem(
            "nothing runs: there is no command", hint="write it behind `--`, as in `uenvtool job -- python train.py`"
        )
    elif any("\0" in word for word in request.words or ()):
        yield Problem("a word of the command has a zero byte", hint="no program can take one")
    for name in ("nodes", "gpus", "spare"):
        option, number = f"--{name.replace('_', '-')}", getattr(request, name)
        if number is not None and number < 1:
            yield Problem(f"{option} {number}: a job needs at least one", hint=f"for example {option} 2")
    for option, (form, example) in _FORMS.items():
        value = getattr(request, option)
        if value and not re.fullmatch(form, value):
            name = f"--{option.replace('_', '-')}"
            yield Problem(f"{name} {value!r} cannot stand in a job", hint=f"for example {name} {example}")
    for words, form, option, example in (
        (request.option, r"(#SBATCH )?-[^\n\r]+", "option", "'--mem=0'"),
        (request.mount, _MOUNT, "mount", "/capstor/store/g123:/data"),
        (request.pvc, _CLAIM, "pvc", "scratch:/mnt/scratch"),
        ([request.uid] if request.uid else [], r"\d+(:\d+)?", "uid", "1234:5678"),
        (request.variables, _VARIABLE, "env", "HF_HOME=/data/hf"),
    ):
        for word in words:
            if not re.fullmatch(form, word):
                yield Problem(f"--{option} {word!r} cannot stand in a job", hint=f"for example --{option} {example}")
