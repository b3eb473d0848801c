"""Images that each node copies to its memory before it mounts them, and what is done when a job ends; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from uenvtool.core.errors import BadInput
from uenvtool.core.lines import bash_word
from uenvtool.job.plan import APPTAINER, CE, JobPlan, mounted_images
from uenvtool.job.render.templates import template

MEMORY = "/dev/shm"  # noqa: S108  a folder of the compute node, named in the job
_IS_PATH = ("/", ".", "$")


def copy_of(index: int, image: str) -> str:
    """Where each node has its copy of the image with that index."""
    suffix = PurePath(image).suffix if image.startswith(_IS_PATH) else ""
    return f"{MEMORY}/$SLURM_JOB_ID-{index}{suffix if re.fullmatch(r'[.][A-Za-z]+', suffix) else '.squashfs'}"


def staging(plan: JobPlan) -> str:
    """The lines that copy the images to all nodes; empty if that is not wanted."""
    if not plan.request.stage:
        return ""
    lines = ["# Each node mounts its own copy of the images, in memory."]
    for index, image in enumerate(mounted_images(plan)):
        lines.append(f'sbcast --force {_source(plan, image)} "{copy_of(index, image)}"')
        if plan.runtime == APPTAINER:
            lines.append(_for_apptainer(plan, index, image))
    return "\n".join(lines) + "\n"


def at_the_end(plan: JobPlan, monitor: str) -> str:
    """The lines that start a monitor and, however the job ends, end it and remove the copies; empty if there is none.

    monitor: the command of the monitor, which runs beside the ranks.
    """
    parts = list(_end(plan, monitor))
    start = f'{monitor} >"{PurePath(plan.output).parent}/gpu-$SLURM_JOB_ID.csv" &\nmonitor=$!\n' if monitor else ""
    return start + template("at-the-end.sh").replace("@PARTS@", "; ".join(parts)) if parts else ""


def _end(plan: JobPlan, monitor: str) -> Iterator[str]:
    if monitor:
        yield 'kill "$monitor" 2>/dev/null || :'
    if plan.request.stage:
        copies = " ".join(f'"{copy_of(index, image)}"' for index, image in enumerate(mounted_images(plan)))
        yield f'srun -N "$SLURM_NNODES" -n "$SLURM_NNODES" --ntasks-per-node=1 --overlap rm -f {copies}'


def _source(plan: JobPlan, image: str) -> str:
    """The word of bash that names the file of an image. Raises BadInput if there is no such file."""
    if image.startswith(_IS_PATH):
        return bash_word(image)
    if plan.runtime == CE:
        raise BadInput(f"--stage: {image} is no file", hint="import it with enroot, and name the .sqsh file")
    return f"\"$(uenv image inspect --format='{{sqfs}}' {bash_word(image)})\""


def _for_apptainer(plan: JobPlan, index: int, image: str) -> str:
    """The line by which Apptainer takes a copy."""
    if index == 0:
        return f'image="{copy_of(index, image)}"'
    mount = plan.overlay.mount if plan.overlay else ""
    return f'binds+=("{copy_of(index, image)}:{mount}:image-src=/") # the packed Python overlay'
