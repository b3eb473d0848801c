"""Shell code that lets the processes of a Slurm job find each other, for activation scripts and jobs."""

from __future__ import annotations

RANK_OF_TASK = 'RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_STEP_NUM_TASKS"'
"""The assignments that give a Slurm task its rank. Slurm sets the variables on their right for each task (srun(1))."""
TASKS_OF_NODE = 'LOCAL_WORLD_SIZE="${SLURM_STEP_TASKS_PER_NODE%%[,(]*}"'
"""The number of ranks on a node, in the variable of torchrun. Slurm writes 4(x2) for four tasks on each of two nodes
(srun(1)).

Without this variable, nanotron assumes eight ranks per node in a job of more than eight ranks
(src/nanotron/parallel/context.py).
"""
SHARED = "NCCL|FI|MPICH|OFI|TORCH|UCX|OMPI_MCA|PMIX_MCA|NVSHMEM|HSA"
"""The prefixes of the variables that must have the same value on all ranks, as a regular expression."""
FIRST_PORT, PORTS = 10_000, 20_000
"""A range above 6000, which X11 uses, and below the ephemeral ports of the kernel."""


def port(number: str) -> str:
    """Return a port that differs between jobs on a node. number: shell arithmetic that identifies the job or step."""
    return f"$(({FIRST_PORT} + {number} % {PORTS}))"


PORT_OF_JOB = port("SLURM_JOB_ID")
PORT_OF_STEP = port(f"(${{SLURM_STEP_NUM_TASKS:+7919 * (SLURM_STEP_ID + {PORTS}) + }}SLURM_JOB_ID)")
"""The port of a step. In the first step of a job and in the batch script, it equals `PORT_OF_JOB`.

Only steps of srun have SLURM_STEP_NUM_TASKS. Since Slurm 26.05, a batch script also has SLURM_STEP_ID, which is -5. The
summand PORTS keeps the result positive if an interactive step has a negative number.
"""
