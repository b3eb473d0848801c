"""`uenvtool job`: a job for any system, written and submitted; the check of batch scripts; checkpoint intervals."""

from __future__ import annotations

from pathlib import Path

import typer

from uenvtool.core.options import command
from uenvtool.core.result import Result
from uenvtool.core.verbs import BEHIND, with_verbs
from uenvtool.job.check.request import CheckRequest
from uenvtool.knowledge.options import JSON, THIS_SYSTEM, WORKAROUND


def job(
    context: typer.Context,
    system: str | None = THIS_SYSTEM,
    runtime: str = typer.Option("", "--runtime", metavar="NAME", help="uenv, ce, apptainer, runai or local."),
    recipe: str | None = typer.Option(None, "--recipe", metavar="RECIPE", help="The published uenv of this recipe."),
    image: str = typer.Option("", "--image", metavar="IMAGE", help="A uenv's label, an image's name, or a file."),
    view: str = typer.Option("default", "--view", metavar="VIEW", help="The view of the uenv."),
    venv: str | None = typer.Option(None, "--venv", metavar="PATH", help="A Python overlay, packed or a folder."),
    nodes: int | None = typer.Option(None, "--nodes", "-N", metavar="N", help="Nodes, or pods."),
    gpus: int | None = typer.Option(None, "--gpus", metavar="N", help="GPUs of a node; default: all."),
    launcher: str = typer.Option("", "--launcher", metavar="NAME", help="srun or torchrun: what starts the ranks."),
    time: str = typer.Option("", "--time", "-t", metavar="TIME", help="The time limit, as in 01:00:00."),
    account: str = typer.Option("", "--account", "-A", metavar="NAME", help="Your project."),
    partition: str = typer.Option("", "--partition", "-p", metavar="NAME", help="The partition."),
    name: str = typer.Option("", "--name", "-J", metavar="NAME", help="The job's name; default: the script's."),
    workaround: list[str] = WORKAROUND,
    option: list[str] = typer.Option([], "--option", metavar="OPTION", help="A further option of sbatch."),
    stage: bool = typer.Option(False, "--stage", help="Copy the images to the memory of each node first."),
    array: str = typer.Option("", "--array", metavar="LIST", help="A job array, as in 0-7%2."),
    dependency: str = typer.Option("", "--dependency", metavar="LIST", help="Jobs to wait for, as in afterok:123."),
    requeue: bool = typer.Option(False, "--requeue", help="SIGUSR1 to the ranks before the limit, then queue again."),
    large: bool = typer.Option(False, "--large", help="Ask for what the system has for large runs."),
    nccl_test: bool = typer.Option(False, "--nccl-test", help="Run the test of NCCL that the image has."),
    output: Path | None = typer.Option(None, "--output", "-o", metavar="FILE", help="Write the job to this file."),
    submit: bool = typer.Option(False, "--submit", help="Submit it and print its id."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the job; write and submit nothing."),
    json_: bool = JSON,
) -> int:
    """Write a job: uenvtool job --account g123 --recipe pytorch-2.6 -- python train.py

    What stands behind `--` is what runs, word by word. Without -o the job goes to stdout.

    Also: `uenvtool job check FILE...` finds the flaws of any batch script, `uenvtool job
    checkpoint-interval` says how often to write a checkpoint.
    """
    from uenvtool.core import console
    from uenvtool.job.make import make
    from uenvtool.job.order import request_of

    words: list[str] | None = context.meta[BEHIND]
    request = request_of(
        words, runtime=runtime, image=image, view=view, nodes=nodes, gpus=gpus, launcher=launcher, time=time,
        account=account, partition=partition, name=name, options=tuple(option), stage=stage, array=array,
        dependency=dependency, requeue=requeue, large=large, nccl_test=nccl_test, output=output,
        again={"--system": system, "--recipe": recipe, "--venv": venv, "--workaround": workaround},
    )  # fmt: skip
    result = make(
        request, system=system, recipe=recipe, venv=venv, workarounds=workaround, output=output, submit=submit,
        dry_run=dry_run,
    )  # fmt: skip
    return console.show(result, as_json=json_)


@command(CheckRequest)
def check(request: CheckRequest) -> Result:
    """Find the flaws of batch scripts and EDFs, also of those that nobody here wrote.

    Exit code 1 if one is an error or a warning. A comment `# uenvtool: ignore=RULE` keeps a rule from its line.
    """
    from uenvtool.job.check.lint import check as work

    return work(request)


def checkpoint_interval(
    cost: str = typer.Option(..., "--cost", metavar="T1", help="How long a checkpoint takes: 90s, 5m."),
    mtbf: str = typer.Option(..., "--mtbf", metavar="T2", help="The mean time between failures of the job: 12h, 3d."),
    json_: bool = JSON,
) -> int:
    """How often to write a checkpoint: sqrt(2 T1 T2), after Young and Daly."""
    from uenvtool.core import console
    from uenvtool.job.interval import interval

    return console.show(interval(cost, mtbf), as_json=json_)


CLASS = with_verbs({"check": check, "checkpoint-interval": checkpoint_interval}, keep_behind=True)
