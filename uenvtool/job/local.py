"""Writes the script of a job on this machine, without a scheduler; pure functions."""

from __future__ import annotations

from uenvtool.check.launchers import launcher_named
from uenvtool.core import quoting
from uenvtool.core.filling import filled
from uenvtool.job.plan import JobPlan
from uenvtool.job.record import record
from uenvtool.job.shell import bash_words, exports, overlay_lines, template, tests_of_machine


def local_files(plan: JobPlan) -> dict[str, str]:
    """Return the text of the script by its file name."""
    launcher = launcher_named(plan.command.launcher)
    options = launcher.one_node.replace("@RANKS@", str(plan.ranks)) if launcher else ""
    program = "".join(f"{part} " for part in (bash_words(plan.command.program), options) if part)
    run = f'{program}"${{command[@]}}"'
    if plan.request.tests:
        run = tests_of_machine(plan, filled(template("try-step-local.sh"), RANKS=str(plan.ranks)))
    script = filled(
        template("local.sh"),
        RANKS=str(plan.ranks),
        COMMAND=bash_words(plan.command.words),
        AGAIN=quoting.comment(plan.again),
        NAME=plan.name,
        RECORD=record(plan, "$(uname -n)"),
        INSIDE="".join(f"{line}\n" for line in overlay_lines(plan)) + exports(plan),
        RUN=run,
    )
    return {plan.request.file: script}
