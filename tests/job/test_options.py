"""Test that each option of `job` declares the jobs that support it, and that all other jobs reject it."""

from __future__ import annotations

import json
import re
import shlex
import typing

import pytest
from typer.models import OptionInfo

from tests.conftest import Cli, Write
from uenvtool.core.options import option_name
from uenvtool.job.options import kinds_of
from uenvtool.job.request import For, JobRequest
from uenvtool.knowledge.runtime import load_runtime

JOBS = {
    "uenv": "-s clariden --runtime uenv -A a --image pytorch/v2.6.0:v1",
    "ce": "-s clariden --runtime ce -A a --image nvcr.io/nvidia/pytorch:25.06-py3",
    "apptainer": "-s olivia --runtime apptainer -A a --image ./image.sif",
    "conda": "-s isambard-ai --runtime conda --image ./env",
    "modules": "-s olivia --runtime modules -A a",
    "runai": "-s rcp --runtime runai --image registry.example/image:1",
    "local": "-s local --runtime local",
}
"""A job of each kind of runtime."""
COMMAND = ("--", "python", "train.py")
WITHOUT_TEXT = {"--output", "--force", "--dry-run", "--submit", "--recipe"}
"""The options that need not change the text of a job; --recipe only adds versions if the job has its own image."""
VALUES = {
    "--system": "no-system",
    "--runtime": "no-runtime",
    "--image": "./no-image",
    "--view": "spack",
    "--nodes": "3",
    "--gpus": "1",
    "--launcher": "none",
    "--time": "00:10:00",
    "--name": "mine",
}
"""Values that the jobs do not have by default; other options have the example of their mark."""


def marked() -> dict[str, list[For]]:
    """The marks of each option of `job`."""
    hints = typing.get_type_hints(JobRequest, include_extras=True)
    parts = {name: typing.get_args(hint) for name, hint in hints.items()}
    return {
        option_name(JobRequest, name): [mark for mark in values if isinstance(mark, For)]
        for name, values in parts.items()
        if any(isinstance(mark, OptionInfo) for mark in values)
    }


MARKS = {option: marks[0] for option, marks in marked().items() if marks}


def typed(option: str) -> tuple[str, ...]:
    value = VALUES.get(option) or MARKS[option].example
    return (f"{option}={shlex.split(value)[0]}",) if value else (option,)


def has(runtime: str, option: str) -> bool:
    return kinds_of(load_runtime(runtime).job)[MARKS[option].jobs]


@pytest.fixture
def files(write: Write) -> None:
    for name in ("image.sif", "env/bin/python", "train.py", ".venv/pyvenv.cfg"):
        write(name, "")


def test_every_option_has_one_mark_with_an_example_that_has_its_form() -> None:
    for option, marks in marked().items():
        assert len(marks) == 1, option
        example = shlex.split(marks[0].example)
        assert not marks[0].form or re.fullmatch(marks[0].form, *example), option


@pytest.mark.parametrize(
    ("runtime", "option"), [(name, option) for name in JOBS for option in MARKS if not has(name, option)]
)
@pytest.mark.usefixtures("files")
def test_a_job_refuses_an_option_that_it_does_not_have(cli: Cli, runtime: str, option: str) -> None:
    answer = cli("job", *shlex.split(JOBS[runtime]), *typed(option), *COMMAND)

    assert (answer.code, answer.stdout) == (2, "")
    assert f"{option}: only for {MARKS[option].jobs}\nhint: leave it out" in answer.stderr


def text(cli: Cli, runtime: str, *words: str) -> str:
    """The files of a job without the command that writes them again, or the error if it is refused."""
    answer = cli("job", "--json", *shlex.split(JOBS[runtime]), *words, *COMMAND)
    files = json.loads(answer.stdout)["files"].values() if answer.code == 0 else (answer.stderr,)
    return re.sub("Regenerate with: .*", "", "\n".join(text.replace("\\n", "\n") for text in files))


@pytest.mark.parametrize("runtime", JOBS)
@pytest.mark.usefixtures("files")
def test_no_job_ignores_an_option(cli: Cli, runtime: str) -> None:
    without = text(cli, runtime)
    options = [option for option in MARKS if has(runtime, option) and option not in WITHOUT_TEXT]

    assert "train.py" in without
    assert [option for option in options if text(cli, runtime, *typed(option)) == without] == []
