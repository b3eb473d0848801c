"""A shell on a node of Slurm, with all that a job sets: what it cannot have, its script, its EDF; pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from uenvtool.core import quoting
from uenvtool.core.errors import Problem
from uenvtool.core.filling import filled
from uenvtool.core.lines import aligned, bash_words
from uenvtool.job.edf import job_edf
from uenvtool.job.node import container_step, inside, loaded, made_for, srun_options, variables
from uenvtool.job.plan import JobPlan
from uenvtool.job.shell import exports, exports_of_start, template

_OF_BATCH = ("launcher", "nccl_test", "requeue", "vet", "spare", "stage", "submit")
"""Options of a job that runs while nobody looks."""


def not_interactive(plan: JobPlan) -> Iterator[Problem]:
    """Yield what a shell on one node cannot have."""
    request = plan.request
    given = [f"--{name.replace('_', '-')}" for name in _OF_BATCH if getattr(request, name)]
    if given:
        hint = f"leave it out; `bash {request.file}` opens the shell, and what starts the ranks is typed there"
        yield Problem(f"{', '.join(given)}: not with --interactive", hint=hint)
    if request.nodes not in (None, 1):
        yield Problem(f"--nodes {request.nodes}: --interactive opens a shell on one node", hint="leave --nodes out")
    if plan.unpacks and plan.overlay:
        hint = f"unpack it, and name its folder: `unsquashfs -d FOLDER {plan.overlay.path}`"
        yield Problem(f"--venv {plan.overlay.path}: nothing mounts it, and --interactive unpacks nothing", hint=hint)
    if plan.is_sent:
        hint = f"unpack {plan.image}, run its bin/conda-unpack, and name the folder"
        yield Problem(f"--image {plan.image}: --interactive unpacks nothing", hint=hint)


def interactive_files(plan: JobPlan) -> dict[str, str]:
    """Return the files by their names, the script that opens the shell first."""
    script = filled(
        template("interactive.sh"),
        FILE=quoting.comment(quoting.sh_word(plan.request.file)),
        OPTIONS="\n".join(_options(plan)),
        COMMAND=bash_words(plan.command.words),
        AGAIN=quoting.comment(plan.again),
        MADE_FOR=made_for(plan),
        CONTAINER=loaded(plan),
        SETTINGS=exports_of_start(plan) if plan.use.variables == "edf" else exports(plan),
        VARIABLES=variables(plan),
        STEP=container_step(plan),
        INSIDE=inside(plan),
        SRUN=srun_options(plan),
    )
    files = {plan.request.file: script}
    if plan.writes_edf:
        files[plan.edf_file] = job_edf(plan)
    return files


def _options(plan: JobPlan) -> Iterator[str]:
    options = (one for one in plan.directives if one.name != "output")
    rows = [(f"--{one.name}" + (f"={one.value}" if one.value else ""), one.reason) for one in options]
    yield from aligned([(f"  {quoting.sh_word(option)}", reason) for option, reason in rows])
    for option in plan.request.option:
        yield f"  {bash_words(shlex.split(option.removeprefix('#SBATCH ')))}"
