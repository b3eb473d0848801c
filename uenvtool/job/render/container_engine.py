"""The batch script and the environment definition file (EDF) of a job with the Container Engine; pure."""

from __future__ import annotations

from uenvtool.core import quoting
from uenvtool.core.errors import BadInput
from uenvtool.core.lines import bash_word, beside, mountable
from uenvtool.job.plan import JobPlan, overlay_path
from uenvtool.job.render.batch import batch_script
from uenvtool.job.render.edf import EdfEntries, render_edf, table_lines
from uenvtool.job.render.settings import reason, threads
from uenvtool.job.render.staging import copy_of
from uenvtool.knowledge.tuning import UNSET, Setting


def container_engine_files(plan: JobPlan) -> dict[str, str]:
    """The batch script and its EDF by their names."""
    name = beside(plan.request.file, ".toml")
    options = (
        "".join(f" {option}" for option in plan.knowledge.ce.extended.srun)
        if plan.extended and plan.knowledge.ce.extended
        else ""
    )
    shown = bash_word(name if "/" in name else f"./{name}")
    return {plan.request.file: batch_script(plan, "ce.sh", options=options, EDF=shown), name: _edf(plan)}


def _edf(plan: JobPlan) -> str:
    """Image, mounts, hook and variables."""
    return render_edf(
        EdfEntries(
            knowledge=plan.knowledge.ce,
            extended=plan.extended,
            image=_as_mounted(plan, 0, plan.image),
            mounts=_overlay_mount(plan),
            env=[
                *table_lines(threads(plan)),
                *(f"{setting.name} = {_edf_value(setting)} # {reason(setting)}" for setting in plan.settings),
            ],
            again=plan.request.again,
        )
    )


def _overlay_mount(plan: JobPlan) -> list[str]:
    """The line that mounts an overlay: a packed one as an image, a loose one at its own place."""
    if plan.overlay is None:
        return []
    path = mountable(overlay_path(plan.overlay))
    if not plan.overlay.mount:
        return [f"  {quoting.toml(path)}, # the Python overlay"]
    mount = f"{_as_mounted(plan, 1, path)}:{plan.overlay.mount}:sqsh"
    return [f"  {quoting.toml(mount)}, # the packed Python overlay"]


def _as_mounted(plan: JobPlan, index: int, image: str) -> str:
    """An image as an EDF names it: its copy, a path below the folder where sbatch was called, or as it is."""
    if plan.request.stage:
        return copy_of(index, image).replace("$SLURM_JOB_ID", "${SLURM_JOB_ID}")
    return "${PWD}/" + image.removeprefix("./") if image.startswith(".") else image


def _edf_value(setting: Setting) -> str:
    """A variable in an EDF; an empty text unsets it there."""
    if setting.policy == UNSET or setting.value is None:
        return '""'
    if "${" in setting.value:
        raise BadInput(f"the Container Engine would expand the value of {setting.name}", hint="take another value")
    return quoting.toml(setting.value)
