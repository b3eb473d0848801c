"""Checks the command and the options of a job request before `decide.py` plans the job."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator

from uenvtool.core.errors import Problem
from uenvtool.core.options import marked_options
from uenvtool.job.plan import CONTAINER, HERE, KUBERNETES, SLURM, UENV
from uenvtool.job.request import IN_CONTAINERS, IN_EDFS, IN_UENVS, ON_BOTH, ON_PODS, ON_SLURM, For, JobRequest
from uenvtool.knowledge.runtime import JobUse, Runtime
from uenvtool.knowledge.secrets import storable

_OF_SHELL = "cannot be combined with --interactive"
_READABLE = "and everyone who can read the job's files could read it"
_OTHERWISE = (
    "leave the secret out, and let the program read it from a variable, which --env NAME passes to the job, or from a "
    "file that only you can read"
)


def kinds_of(use: JobUse) -> dict[str, bool]:
    """Return whether a runtime's jobs are of each kind that `For.jobs` can name."""
    return {
        "": True,
        ON_SLURM: use.scheduler == SLURM,
        ON_PODS: use.scheduler == KUBERNETES,
        ON_BOTH: use.scheduler != HERE,
        IN_CONTAINERS: use.image == CONTAINER and use.scheduler == SLURM,
        IN_EDFS: use.variables == "edf",
        IN_UENVS: use.image == UENV,
    }


def wrong_options(request: JobRequest, system: str, runtime: Runtime) -> Iterator[Problem]:
    """Yield a problem for a missing command, for each invalid value, and for options that this job does not have."""
    if not request.words and not (request.nccl_test or request.interactive):
        yield Problem("there is no command to run", hint="write it after `--`, as in `uenvtool job -- python train.py`")
    elif any("\0" in word for word in request.words):
        yield Problem("an argument of the command contains a zero byte", hint="remove the zero byte")
    elif (shown := storable(command := shlex.join(request.words))) != command:
        yield Problem(f"`{shown}` contains a secret, {_READABLE}", hint=_OTHERWISE)
    kinds, lacking = kinds_of(runtime.job), defaultdict[str, list[str]](list)
    for option, value, mark in marked_options(request, For):
        yield from _of_values(option, value if isinstance(value, tuple) else (value,), mark)
        if not kinds[mark.jobs]:
            lacking[f"only for {mark.jobs}"].append(option)
        elif mark.batch and request.interactive and kinds[ON_SLURM]:
            lacking[_OF_SHELL].append(option)
    for reason, options in lacking.items():
        why = f": the job runs on {system} with {runtime.name}"
        if reason == _OF_SHELL:
            why = f"; `bash {request.file}` opens the shell, in which you start the ranks yourself"
        yield Problem(f"{', '.join(options)}: {reason}", hint=f"leave {'them' if options[1:] else 'it'} out{why}")


def _of_values(option: str, values: tuple[object, ...], mark: For) -> Iterator[Problem]:
    for value in values:
        if mark.form and not re.fullmatch(mark.form, str(value)):
            wrong = "must be at least 1" if isinstance(value, int) else "not a valid value"
            shown = value if isinstance(value, int) else repr(storable(str(value)))
            yield Problem(f"{option} {shown}: {wrong}", hint=f"for example {option} {mark.example}")
        elif storable(text := str(value)) == text:
            continue
        elif option != "--env":
            yield Problem(f"{option} {storable(text)!r} contains a secret, {_READABLE}", hint=_OTHERWISE)
        elif "=" in text:
            name = text.partition("=")[0]
            yield Problem(
                f"--env {name}=...: the value looks like a secret, {_READABLE}",
                hint=f"use only --env {name}, which passes the value from the environment when the job starts; in pods "
                "it comes from a secret of the cluster",
            )
