"""The EDFs that a batch script names with `srun --environment=`, where they lie beside it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from uenvtool.check.edf import read_edf
from uenvtool.check.launch import job_shape, options
from uenvtool.check.parts import OUTER, CheckedFile
from uenvtool.check.values import Values

ENVIRONMENT = "environment"
"""The option of srun that names one."""
_SUBMITTED = re.compile(rf"(?:\./|[${OUTER}]\{{?(?:PWD|SLURM_SUBMIT_DIR)\}}?/)+")
"""What stands for the folder where sbatch is called."""


@dataclass(frozen=True, slots=True)
class StepEdf:
    """An EDF of a step. offset: where its srun stands. nodes: of the step; None where that is not known."""

    offset: int
    nodes: int | None
    file: CheckedFile


def step_edfs(source: CheckedFile, read: Callable[[str], tuple[str, str]]) -> list[StepEdf]:
    """Return the EDFs of a script's steps. read: gives the name of a file, as messages show it, and its text, if any.

    A name without a folder or extension is one of the Container Engine's search path, and not looked for.
    """
    if "slurm" not in source.kinds or f"--{ENVIRONMENT}" not in source.text:
        return []
    values = Values(source)
    job = job_shape(source, values)
    is_told = any(source.of("directive", "nodes", "ntasks"))  # else sbatch may be given more than one
    found = []
    for part in source.of("command", "srun", "| srun"):
        given, _ = options(values.expanded(part.words)[1:])
        name = _SUBMITTED.sub("", "".join(values.expanded([given.get(ENVIRONMENT, "")])), count=1)
        shown, text = read(name) if "/" in name or name.endswith(".toml") else ("", "")
        if text:
            nodes = values.number(given["nodes"].split("-")[0]) if "nodes" in given else job.nodes if is_told else None
            found.append(StepEdf(part.offset, nodes, read_edf(text.replace("\r\n", "\n"), shown)))
    return found
