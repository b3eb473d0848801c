"""Checks the values of a job request that are invalid on any system."""

from __future__ import annotations

import re
from collections.abc import Iterator

from uenvtool.core.errors import Problem
from uenvtool.job.request import JobRequest
from uenvtool.knowledge.secrets import has_secret

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
"""The regular expression of each text option, and an example."""
_MOUNT = r"/[^:,$\n\r\0]*(:/[^:,$\n\r\0]*)?"
_CLAIM = r"[a-z0-9][a-z0-9.-]*:/[^:,\n\r\0]*"
_ANNOTATION = r"[\w-]+(\.[\w-]+)+"
_VARIABLE = r"[A-Za-z_]\w*"


def malformed(request: JobRequest) -> Iterator[Problem]:
    """Yield the problems of a request that do not depend on the system.

    Raises BadInput if a value that must be NAME=VALUE is not.
    """
    if not request.words and not (request.nccl_test or request.interactive):
        yield Problem("there is no command to run", hint="write it after `--`, as in `uenvtool job -- python train.py`")
    elif any("\0" in word for word in request.words or ()):
        yield Problem("an argument of the command contains a zero byte", hint="remove the zero byte")
    for name in ("nodes", "gpus", "spare"):
        number = getattr(request, name)
        if number is not None and number < 1:
            yield Problem(f"--{name} {number}: must be at least 1", hint=f"for example --{name} 2")
    for name, (form, example) in _FORMS.items():
        value = getattr(request, name)
        if value and not re.fullmatch(form, value):
            yield Problem(f"--{name} {value!r}: not a valid value", hint=f"for example --{name} {example}")
    for values, form, name, example in (
        (request.option, r"(#SBATCH )?-[^\n\r]+", "option", "'--mem=0'"),
        (request.mount, _MOUNT, "mount", "/capstor/store/g123:/data"),
        (request.pvc, _CLAIM, "pvc", "scratch:/mnt/scratch"),
        ([request.uid] if request.uid else [], r"\d+(:\d+)?", "uid", "1234:5678"),
        ((*request.variables, *request.passed), _VARIABLE, "env", "HF_HOME=/data/hf"),
        (request.annotations, _ANNOTATION, "annotation", "com.hooks.ssh.enabled=true"),
    ):
        for given in values:
            if not re.fullmatch(form, given):
                yield Problem(f"--{name} {given!r}: not a valid value", hint=f"for example --{name} {example}")
    for name, value in request.variables.items():
        if has_secret(f"{name}={value}"):
            yield Problem(
                f"--env {name}=...: the value looks like a secret, and everyone who can read the job's files could "
                "read it",
                hint=f"use only --env {name}, which passes the value from the environment when the job starts; in pods "
                "it comes from a secret of the cluster",
            )
