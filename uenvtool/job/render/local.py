"""The script of a job on this machine alone; pure."""

from __future__ import annotations

from uenvtool.core.filling import filled
from uenvtool.core.lines import bash_words, in_comment
from uenvtool.job.plan import JobPlan, torchrun_words
from uenvtool.job.render.batch import path_line
from uenvtool.job.render.templates import template


def local_files(plan: JobPlan) -> dict[str, str]:
    """The script by its name."""
    text = filled(
        template("local.sh"),
        RANKS=str(plan.ranks),
        COMMAND=bash_words(torchrun_words(plan.request.command)),
        AGAIN=in_comment(plan.request.again),
        INSIDE=path_line(plan),
    )
    return {plan.request.file: text}
