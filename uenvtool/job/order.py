"""A user's words as the request for a job, and the command that makes the same job again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput
from uenvtool.job.request import NCCL_TEST, JobRequest


def request_of(
    words: Sequence[str] | None,
    *,
    again: Mapping[str, str | Sequence[str] | None],
    output: Path | None = None,
    **options: Any,
) -> JobRequest:
    """The request of a command line. words: behind `--`; None if there is no `--`.

    again: the options that are no part of the request. Raises BadInput if there is nothing to run.
    """
    if not words and not options.get("nccl_test"):
        raise BadInput("nothing runs: there is no command", hint="write it behind `--`: -- python train.py")
    file = str(output) if output else "job.sh"
    request = JobRequest(command=tuple(words or NCCL_TEST), file=file, **options)
    return _with_again(request, shlex.join(_again(request, again, words)))


def _with_again(request: JobRequest, again: str) -> JobRequest:
    import dataclasses

    return dataclasses.replace(request, again=again)


def _again(
    request: JobRequest, more: Mapping[str, str | Sequence[str] | None], words: Sequence[str] | None
) -> Iterator[str]:
    yield from ("uenvtool", "job")
    named = {
        **more, "--runtime": request.runtime, "--image": request.image,
        "--view": "" if request.view == "default" else request.view, "--nodes": request.nodes, "--gpus": request.gpus,
        "--launcher": request.launcher, "--time": request.time, "--account": request.account,
        "--partition": request.partition, "--name": request.name, "--option": request.options, "--stage": request.stage,
        "--array": request.array, "--dependency": request.dependency, "--requeue": request.requeue,
        "--large": request.large, "--nccl-test": request.nccl_test,
    }  # fmt: skip
    for option, value in named.items():
        if value is True:
            yield option
        elif isinstance(value, (str, int)) and value and value is not True:
            yield f"{option}={value}"
        elif isinstance(value, (list, tuple)):
            yield from (f"{option}={item}" for item in value)
    if words:
        yield from ("--", "COMMAND")
