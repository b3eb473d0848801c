"""Submits a job to Slurm or Run:ai."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, ToolFailed, ToolMissing
from uenvtool.core.session import loaded_views


def require_program(program: str) -> None:
    """Raise ToolMissing if the program that submits a job is not on PATH."""
    if shutil.which(program) is None:
        hint = "leave --submit out, copy the job to the cluster and submit it there"
        raise ToolMissing.not_on_path(program, hint)


def require_sbatch() -> None:
    """Raise ToolMissing if sbatch is not on PATH, and BadInput if it would fail in this shell."""
    require_program("sbatch")
    if loaded_views(os.environ) and "--uenv-passthrough" in processes.ask(["sbatch", "--help"]).stdout:
        raise BadInput(
            "a uenv is loaded in this shell, and uenv v10 makes sbatch fail in such a shell",
            hint="leave the uenv (exit) and submit again, because the job loads its own; or submit with "
            "`sbatch --uenv-passthrough=ignore`",
        )


def submitted(command: Sequence[str], script: str | Path, *, program: str) -> str:
    """Submit a script and return the output, which is the job ID for `sbatch --parsable`.

    command: the command that submits the script. program: the name in the message of ToolFailed, which is raised if
    the command fails.
    """
    done = processes.run([*command, script])
    if done.code != 0:
        hint = f"fix the cause, then submit {script} again: `{done.command}`"
        raise ToolFailed(f"{program} rejected the job: {done.reason}", hint=hint)
    return done.stdout.strip().split(";")[0]
