"""The variables that a job was submitted with, against the tuning for that job."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping

from uenvtool.core.errors import BadInput
from uenvtool.doctor.checks import Fault
from uenvtool.doctor.examine import faults
from uenvtool.doctor.snapshot import Snapshot, Tuned
from uenvtool.doctor.tuned import tuned_here
from uenvtool.job.check.lint import recipe_of, runtime_of
from uenvtool.job.check.parts import Source
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.tuning import DEFAULT

CORES, NETWORK = "cpus-per-task", "network"
_ACTIVATES = re.compile(r"uenvtool|activate/[\w-]+\.(sh|csh|fish)\b")
"""A line of a script that sets up what the tuning gives; a default keeps what was set before."""


def tuned_job(
    environ: Mapping[str, str], script: Source | None, *, system: str | None, runtime: str | None, recipe: str | None
) -> tuple[Tuned | None, str]:
    """The tuning for a job, or why there is none. A job runs where Slurm is asked, if nothing names the system.

    Raises BadInput for names that do not exist.
    """
    seen = None if system else recognised(environ) or recognised(os.environ)
    name = system or (seen[0] if seen else None)
    shown = runtime or (runtime_of(script) if script else None)
    known = recipe or (recipe_of(script) if script else None)
    try:
        return tuned_here(environ, system=name, runtime=shown, recipe=known, folders=(), python=None)
    except BadInput as error:
        if system or runtime or recipe:
            raise
        return None, f"variables: {error}"  # such as a runtime that this system is not known to have


def environment_faults(
    environ: Mapping[str, str], script: Source | None, tuned: Tuned | None, options: Mapping[str, str]
) -> Iterator[Fault]:
    """What is wrong with the variables that a job was submitted with, but for those that its script sets itself.

    What is missing is a matter of the script. options: those of sbatch.
    """
    own = set(_set_by(script)) if script else set()
    environ = {name: value for name, value in environ.items() if name not in own}
    if tuned:
        activates = script is not None and _ACTIVATES.search(script.text) is not None
        settings = [setting for setting in tuned.settings if setting.policy == DEFAULT or not activates]
        tuned = dataclasses.replace(tuned, settings=tuple(setting for setting in settings if setting.name not in own))
    cores = options.get(CORES, "")
    yield from faults(
        Snapshot(
            environ={"SLURM_NETWORK": options.get(NETWORK, ""), **environ},
            cores=int(cores[:6]) if cores.isdecimal() else None,
            tuned=tuned,
        )
    )


def _set_by(script: Source) -> Iterator[str]:
    """The variables that a script sets or takes away, anywhere in it."""
    for part in script.parts:
        if part.kind == "variable":
            yield part.name
        elif part.kind == "command" and part.name == "unset":
            yield from part.text.split()[1:]
