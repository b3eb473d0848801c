"""Writes the script and EDF of an interactive shell on a Slurm node with the settings of a job; pure functions."""

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


def not_interactive(plan: JobPlan) -> Iterator[Problem]:
    """Yield a problem for each requested option that an interactive shell on one node does not support."""
    request = plan.request
    if request.nodes not in (None, 1):
        yield Problem(f"--nodes {request.nodes}: --interactive opens a shell on one node", hint="leave --nodes out")
    if plan.unpacks and plan.overlay:
        hint = f"unpack the overlay and name its directory: `unsquashfs -d DIR {plan.overlay.path}`"
        yield Problem(f"--venv {plan.overlay.path}: --interactive cannot mount or unpack a packed overlay", hint=hint)
    if plan.is_sent:
        hint = f"unpack {plan.image}, run its bin/conda-unpack, and name the directory"
        yield Problem(f"--image {plan.image}: --interactive does not unpack archives", hint=hint)


def interactive_files(plan: JobPlan) -> dict[str, str]:
    """Return the texts of the files by name. The script that opens the shell is the first file."""
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
    options = (option for option in plan.directives if option.name != "output")
    rows = [(f"--{option.name}" + (f"={option.value}" if option.value else ""), option.reason) for option in options]
    yield from aligned([(f"  {quoting.sh_word(text)}", reason) for text, reason in rows])
    for option in plan.request.option:
        yield f"  {bash_words(shlex.split(option.removeprefix('#SBATCH ')))}"
