"""The batch script of a job with a uenv; pure."""

from __future__ import annotations

from uenvtool.core.lines import bash_word
from uenvtool.job.plan import JobPlan, mounted_images, uenv_views
from uenvtool.job.render.batch import batch_script
from uenvtool.job.render.settings import exports
from uenvtool.job.render.staging import copy_of


def uenv_files(plan: JobPlan) -> dict[str, str]:
    """The batch script by its name. sbatch's options load the images, or srun's if the job copies them first."""
    options = ""
    if plan.request.stage:
        copies = ",".join(copy_of(index, image) for index, image in enumerate(mounted_images(plan)))
        options = f' \\\n  --uenv="{copies}" --view={bash_word(uenv_views(plan))}'
    return {plan.request.file: batch_script(plan, "uenv.sh", options=options, SETTINGS=exports(plan))}
