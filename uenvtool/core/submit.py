"""Hands a job to Slurm or Run:ai."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, ToolFailed, ToolMissing
from uenvtool.core.session import loaded_views


def require_program(program: str) -> None:
    """Raise ToolMissing if what submits a job is not here."""
    if shutil.which(program) is None:
        hint = "submit on the cluster: leave --submit out and copy the job there"
        raise ToolMissing.not_on_path(program, hint)


def require_sbatch() -> None:
    """Raise ToolMissing if sbatch is not here, BadInput if it would fail in this shell."""
    require_program("sbatch")
    if loaded_views(os.environ) and "--uenv-passthrough" in processes.run(["sbatch", "--help"]).stdout:
        raise BadInput(
            "a uenv is loaded in this shell, and uenv v10 makes sbatch fail there",
            hint="leave it (exit) and submit then, since the job loads its own; or `sbatch --uenv-passthrough=ignore`",
        )


def submitted(words: Sequence[str], script: str | Path, *, program: str) -> str:
    """Run what submits a script; gives what it prints, for `sbatch --parsable` the job's number.

    program: what has to take the job, as a user calls it. Raises ToolFailed if it does not.
    """
    done = processes.run([*words, script])
    if done.code != 0:
        hint = f"the job is in {script}: `{done.command}`"
        raise ToolFailed(f"{program} did not take the job: {done.reason}", hint=hint)
    return done.stdout.strip().split(";")[0]
