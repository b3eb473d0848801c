"""How the processes of a Slurm job find each other, in words of sh: activation scripts and jobs take them from here."""

from __future__ import annotations

RANK_OF_TASK = 'RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_STEP_NUM_TASKS"'
"""The assignments that give a task of a step its rank. Slurm sets these for each task (srun(1))."""
TASKS_OF_NODE = 'LOCAL_WORLD_SIZE="${SLURM_STEP_TASKS_PER_NODE%%[,(]*}"'
"""How many ranks a node has, as torchrun says it; Slurm writes 4(x2) for two nodes of four tasks (srun(1)).

Without it nanotron takes the nodes of more than eight ranks for nodes of eight (src/nanotron/parallel/context.py).
"""
FIRST_PORT, PORTS = 10_000, 20_000
"""Above 6000, which X11 takes, and below the ports that the kernel gives out."""


def port(number: str) -> str:
    """Return the port of a job or step, so that two on a node do not meet. number: its own, as shells calculate it."""
    return f"$(({FIRST_PORT} + {number} % {PORTS}))"


PORT_OF_JOB = port("SLURM_JOB_ID")
PORT_OF_STEP = port("(SLURM_JOB_ID + 7919 * ${SLURM_STEP_ID:-0})")
"""For the first step it is the job's."""
