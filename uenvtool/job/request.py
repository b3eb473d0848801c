"""What a user wants to run, checked before anything is planned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from uenvtool.core.errors import BadInput, Problem

SRUN, TORCHRUN = "srun", "torchrun"
LAUNCHERS = (SRUN, TORCHRUN)
NCCL_TEST = ("all_reduce_perf", "-b", "8", "-e", "4G", "-f", "2", "-g", "1")
"""All-reduce from 8 bytes to 4 GB, one GPU a rank (https://github.com/NVIDIA/nccl-tests)."""
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:,@+%=~-]*")
_TIME = re.compile(r"\d+(-\d+(:\d+){0,2})?|\d+(:\d+){1,2}")
_ARRAY = re.compile(r"[0-9,:%-]+")
_JOB_NAME = re.compile(r"[^/\n\r\0]+")
_PATH = re.compile(r"[^\n\r\0]+")


@dataclass(frozen=True, slots=True, kw_only=True)
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
    def bin(self) -> str:
        """The folder of its programs, where the job sees it."""
        return f"{self.mount or self.path}/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """The options of `uenvtool job`. Zero and empty: the system's own.

    command: what runs, as its words. gpus: of a node. options: further lines of the batch script. file: the name
    of the job's file, which others are named after. again: the command that makes the job again.
    """

    command: tuple[str, ...]
    runtime: str = ""
    image: str = ""
    view: str = "default"
    overlay: Overlay | None = None
    nodes: int | None = None
    gpus: int | None = None
    launcher: str = ""
    time: str = ""
    account: str = ""
    partition: str = ""
    name: str = ""
    options: tuple[str, ...] = ()
    stage: bool = False
    array: str = ""
    dependency: str = ""
    requeue: bool = False
    large: bool = False
    nccl_test: bool = False
    file: str = "job.sh"
    again: str = "uenvtool job"


def checked(request: JobRequest) -> JobRequest:
    """The request, or BadInput with everything that is wrong in it by itself."""
    problems = list(_problems(request))
    if problems:
        raise BadInput(problems)
    return request


def _problems(request: JobRequest) -> Iterator[Problem]:
    if not request.command:
        yield Problem("nothing runs: there is no command", hint="write it behind `--`: -- python train.py")
    elif any("\0" in word for word in request.command):
        yield Problem("a word of the command has a zero byte", hint="no program can take one")
    for option, number in (("--nodes", request.nodes), ("--gpus", request.gpus)):
        if number is not None and number < 1:
            yield Problem(f"{option} {number}: a job needs at least one", hint=f"for example {option} 2")
    if request.launcher not in ("", *LAUNCHERS):
        yield Problem(f"--launcher {request.launcher} is not known", hint=f"known: {', '.join(LAUNCHERS)}")
    for option, value, form, example in (
        ("--time", request.time, _TIME, "01:00:00"),
        ("--account", request.account, _WORD, "g123"),
        ("--partition", request.partition, _WORD, "normal"),
        ("--array", request.array, _ARRAY, "0-7%2"),
        ("--dependency", request.dependency, _WORD, "afterok:123"),
        ("--name", request.name, _JOB_NAME, "train"),
        ("--image", request.image, _PATH, "pytorch/v2.6.0:v1"),
    ):
        if value and not form.fullmatch(value):
            yield Problem(f"{option} {value!r} cannot stand in a job", hint=f"for example {option} {example}")
    for option in request.options:
        if not re.fullmatch(r"(#SBATCH )?-[^\n\r]+", option):
            yield Problem(f"--option {option!r} is no option of sbatch", hint="for example --option '--mem=0'")
