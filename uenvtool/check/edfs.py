"""The EDFs that a batch script names with `srun --environment=`, if they can be read from its directory."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from uenvtool.check.edf import read_edf
from uenvtool.check.launch import job_shape, options
from uenvtool.check.parts import OUTER, CheckedFile
from uenvtool.check.values import Values

ENVIRONMENT = "environment"
"""The srun option that names an EDF."""
_SUBMITTED = re.compile(rf"(?:\./|[${OUTER}]\{{?(?:PWD|SLURM_SUBMIT_DIR)\}}?/)+")
"""The spellings of the directory where sbatch is called."""


@dataclass(frozen=True, slots=True)
class StepEdf:
    """An EDF that a step uses.

    offset: the offset of the step's srun command.
    nodes: the number of nodes of the step, or None if it is unknown.
    """

    offset: int
    nodes: int | None
    file: CheckedFile


def step_edfs(source: CheckedFile, read: Callable[[str], tuple[str, str]]) -> list[StepEdf]:
    """Return the EDFs of a script's steps.

    read: a function that returns the file name for messages and the text of a file, both empty if it cannot be read.
    The Container Engine looks up a name without directory or extension in its search path; such an EDF is skipped.
    """
    if "slurm" not in source.kinds or f"--{ENVIRONMENT}" not in source.text:
        return []
    values = Values(source)
    job = job_shape(source, values)
    has_size = any(source.of("directive", "nodes", "ntasks"))  # otherwise sbatch's command line may request more nodes
    edfs = []
    for part in source.of("command", "srun", "| srun"):
        given, _ = options(values.expanded(part.argv)[1:])
        name = _SUBMITTED.sub("", "".join(values.expanded([given.get(ENVIRONMENT, "")])), count=1)
        shown, text = read(name) if "/" in name or name.endswith(".toml") else ("", "")
        if text:
            nodes = values.number(given["nodes"].split("-")[0]) if "nodes" in given else job.nodes if has_size else None
            edfs.append(StepEdf(part.offset, nodes, read_edf(text.replace("\r\n", "\n"), shown)))
    return edfs
