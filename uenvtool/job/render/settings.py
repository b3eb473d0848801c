"""The variables that a job sets, as lines of bash; pure."""

from __future__ import annotations

import re

from uenvtool.core.lines import aligned, bash_word, in_comment
from uenvtool.job.plan import JobPlan
from uenvtool.knowledge.jobs import Explained
from uenvtool.knowledge.tuning import AT_MOST, REQUIRED, UNSET, Setting

_PLAIN_VALUE = re.compile(r"[A-Za-z0-9 ^_./:,+=%-]*")
"""What may stand within double quotes and braces."""


def exports(plan: JobPlan) -> str:
    """The variables of a job, a line each, with the reason."""
    rows = [(f'export {value.name}="${{{value.name}-{value.value}}}"', value.reason) for value in threads(plan)]
    rows += [(_export(setting), reason(setting)) for setting in plan.settings]
    if not rows:
        return ""
    head = "# A value that is set before sbatch stays, but for those without a `-`. `uenvtool explain NAME` says more."
    return "\n".join([head, *aligned(rows)]) + "\n\n"


def _export(setting: Setting) -> str:
    """A setting by its policy: removed, set in any case, over a larger number, or only if it is unset."""
    if setting.policy == UNSET or setting.value is None:
        return f"unset {setting.name}"
    if setting.policy == REQUIRED:
        return f"export {setting.name}={bash_word(setting.value)}"
    if setting.policy == AT_MOST:
        return (
            f'[ "${{{setting.name}:-none}}" -le {setting.value} ] 2>/dev/null || export {setting.name}={setting.value}'
        )
    if not _PLAIN_VALUE.fullmatch(setting.value):
        return f'[ -n "${{{setting.name}+x}}" ] || export {setting.name}={bash_word(setting.value)}'
    return f'export {setting.name}="${{{setting.name}-{setting.value}}}"'


def threads(plan: JobPlan) -> list[Explained]:
    """OMP_NUM_THREADS, if the system's file says how many cores a node has."""
    cores = plan.cores * plan.tasks // plan.ranks if plan.cores else 0
    return (
        [Explained("OMP_NUM_THREADS", str(cores), "the cores of a rank; fewer if data loaders fork")] if cores else []
    )


def reason(setting: Setting) -> str:
    """Why a variable is set, its first clause, and who says so."""
    return in_comment(f"{setting.reason.split('; ')[0]} [{setting.source.name}]")
