"""Writes the Container Engine's environment definition file (EDF) of a job or an image; pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uenvtool.core import quoting
from uenvtool.core.filling import filled
from uenvtool.core.words import is_within, wrapped
from uenvtool.job.disk import SUBMITTED_IN
from uenvtool.job.plan import JobPlan
from uenvtool.job.shell import (
    export,
    mounts_of_user,
    of_threads,
    of_user,
    other_settings,
    reason_of,
    remarks,
    tags,
    template,
    threads,
    with_target,
)
from uenvtool.knowledge.jobs import Explained, Extended, RuntimeJob
from uenvtool.knowledge.settings import hook_sentence
from uenvtool.knowledge.tuning import Setting

WIDTH = 120
"""The width of comments in an EDF."""

VARIABLE = '{} = "{}"'
"""The form of a line that sets a variable in an EDF."""


def job_edf(plan: JobPlan) -> str:
    """Return the EDF of a job."""
    packed = _as_mounted(plan, 1, plan.overlay.image) if plan.overlay and plan.overlay.mount else ""
    env = [
        *tags([*other_settings(plan), *plan.by_hook]),
        *_table(plan.mpi.env if plan.mpi else ()),
        *_table(threads(plan)),
        *(f"{setting.name} = {_value(setting)} # {reason_of(setting)}" for setting in other_settings(plan)),
        *(f"{name} = {quoting.edf(name, value)} # --env" for name, value in plan.request.variables.items()),
        *remarks(plan, VARIABLE),
        *(wrapped(hook_sentence(plan.by_hook), WIDTH, "# ", "#   ") if plan.by_hook else ()),
    ]
    return edf_text(
        plan.knowledge,
        extended=plan.extended,
        image=_as_mounted(plan, 0, plan.image),
        mounts=[f"  {quoting.toml(mount)}, # {why}" for mount, why in mounts_of_user(plan, packed)],
        env=env,
        again=plan.again,
        workdir=plan.request.workdir,
        annotations=plan.request.annotations,
    )


def exports_with_named_edf(plan: JobPlan) -> list[str]:
    """Return the lines in which each rank sets the job's variables that are not in the user's EDF, if any."""
    if plan.edf is None:
        return []
    mpi = [
        (f"export {variable.name}={variable.value}", variable.reason) for variable in (plan.mpi.env if plan.mpi else ())
    ]
    workarounds = [(export(setting), "") for setting in other_settings(plan) if setting.workaround]
    rows = [*of_threads(plan), *mpi, *workarounds, *of_user(plan)]
    return [f"{line} # {reason}" if reason else line for line, reason in rows]


def edf_text(
    known: RuntimeJob,
    *,
    extended: Extended | None,
    image: str,
    again: str,
    mounts: Sequence[str] = (),
    env: Sequence[str] = (),
    workdir: str = "",
    annotations: Mapping[str, str] | None = None,
) -> str:
    """Return the text of an EDF.

    extended: the requirements of an image with its own network stack. mounts, env: additional entries for these
    tables. workdir: the working directory; default: the directory where srun is called. The EDF mounts the directory,
    because a container cannot change to a directory that is not mounted. annotations: the user's annotations, which
    override the annotations of the site. Every mount has a destination, because Sarus Suite requires a destination.
    """
    asked = annotations or {}
    site_annotations = extended.annotations if extended else known.annotations
    of_site = [annotation for annotation in site_annotations if annotation.name not in asked]
    folder = workdir or known.workdir or SUBMITTED_IN
    places = [f"  {quoting.toml(with_target(place))}," for place in known.mounts]
    if not any(is_within(folder, place) for place in known.mounts):
        places.append(f"  {quoting.toml(with_target(folder))}, # where the job runs")
    return filled(
        template("ce.toml"),
        AGAIN=quoting.comment(again),
        IMAGE=quoting.toml(image),
        MOUNTS="\n".join([*places, *mounts]),
        WORKDIR=quoting.toml(folder),
        ENTRYPOINT="true # the entry point sets up the image's network stack" if extended else "false",
        ANNOTATIONS="\n".join(
            [*_table(of_site), *(f"{name} = {quoting.toml(value)} # --annotation" for name, value in asked.items())]
        ),
        ENV="\n".join([*_table(extended.env if extended else ()), *env]),
    )


def _as_mounted(plan: JobPlan, index: int, image: str) -> str:
    if plan.request.stage:
        return plan.copies[index].replace("$SLURM_JOB_ID", "${SLURM_JOB_ID}")
    return f"{SUBMITTED_IN}/{image.removeprefix('./')}" if image.startswith(".") else image


def _value(setting: Setting) -> str:
    # An empty value unsets the variable.
    return '""' if setting.removes or setting.value is None else quoting.edf(setting.name, setting.value)


def _table(entries: Sequence[Explained]) -> list[str]:
    return [
        f"{entry.name} = {quoting.toml(entry.value)}" + (f" # {quoting.comment(entry.reason)}" if entry.reason else "")
        for entry in entries
    ]
