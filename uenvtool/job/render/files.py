"""The files of a job for its runtime; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from uenvtool.job.plan import APPTAINER, CE, LOCAL, RUNAI, UENV, JobPlan
from uenvtool.job.render.apptainer import apptainer_files
from uenvtool.job.render.container_engine import container_engine_files
from uenvtool.job.render.local import local_files
from uenvtool.job.render.pods import pod_files
from uenvtool.job.render.uenv import uenv_files

RENDERERS: Mapping[str, Callable[[JobPlan], dict[str, str]]] = {
    UENV: uenv_files,
    CE: container_engine_files,
    APPTAINER: apptainer_files,
    LOCAL: local_files,
}


def job_files(plan: JobPlan, activation: str = "") -> dict[str, str]:
    """The files of a job by their names, its script first.

    activation: the script that sets a pod up, for Run:ai. Raises BadInput for a text that a file cannot hold.
    """
    return pod_files(plan, activation) if plan.runtime == RUNAI else RENDERERS[plan.runtime](plan)
