"""What the batch scripts of all runtimes share: options, and how the ranks start; pure."""

from __future__ import annotations

from pathlib import PurePath

from uenvtool.core import quoting, rendezvous
from uenvtool.core.errors import BadInput
from uenvtool.core.filling import filled
from uenvtool.core.lines import aligned, bash_word, bash_words, in_comment, option_value
from uenvtool.job.plan import APPTAINER, UENV, JobPlan, run_command, torchrun_words
from uenvtool.job.render.staging import at_the_end, staging
from uenvtool.job.render.templates import template
from uenvtool.job.request import TORCHRUN
from uenvtool.knowledge.jobs import Explained


def batch_script(plan: JobPlan, name: str, *, options: str = "", monitor: str = "", **more: str) -> str:
    """The batch script of a template, by its name. options: further ones of srun. more: the template's own marks."""
    torchrun = plan.launcher == TORCHRUN
    command = run_command(plan.request)
    requeue = plan.request.requeue
    return filled(
        template(name),
        DIRECTIVES="\n".join(
            aligned([(_directive(directive), directive.reason) for directive in plan.directives], plan.request.options)
        ),
        COMMAND=bash_words(torchrun_words(command) if torchrun else command),
        AGAIN=in_comment(plan.request.again),
        FOLDER=bash_word(str(PurePath(plan.output).parent)),
        OUTPUT=bash_word(plan.output),
        BIND="none" if torchrun else "sockets",
        OPTIONS=options,
        INSIDE=_inside(plan),
        LAUNCH=_launch(plan),
        PORT=rendezvous.PORT_OF_JOB,
        LAUNCHER="torchrun" if torchrun else "rank",
        STAGE=staging(plan),
        END=at_the_end(plan, monitor),
        BEFORE=template("before-requeue.sh") if requeue else "",
        AFTER=template("requeue.sh").removesuffix("\n") if requeue else "",
        **more,
    )


def path_line(plan: JobPlan, indent: str = "") -> str:
    """The line that puts an overlay's programs first; none without an overlay.

    Raises BadInput for a path that bash would not take as it is.
    """
    if plan.overlay is None:
        return ""
    folder = plan.overlay.bin
    if not quoting.PLAIN_WORD.fullmatch(folder):
        hint = "letters, digits and _ . / - only: move it"
        raise BadInput(f"the overlay's path {folder!r} cannot stand in a job", hint=hint)
    return f"{indent}export PATH={folder}:$PATH # python and torchrun of the overlay\n"


def _launch(plan: JobPlan) -> str:
    """How the ranks start, in what srun runs."""
    if plan.launcher == TORCHRUN:
        return filled(template("launch-torchrun.sh"), RANKS=str(plan.ranks)).removesuffix("\n")
    return filled(template("launch-srun.sh"), RANK=rendezvous.RANK_OF_TASK).removesuffix("\n")


def _inside(plan: JobPlan) -> str:
    """The lines of a step before its ranks start, within single quotes."""
    lines = []
    if plan.runtime == APPTAINER:
        known = plan.knowledge.apptainer
        for name, folders in (("LD_LIBRARY_PATH", known.library_path), ("CPATH", known.include_path)):
            if folders:
                lines.append(f"  export {name}={':'.join(folders)}:${name}\n")
    if plan.runtime != UENV or not (plan.overlay and plan.overlay.mount):  # a view puts a packed one first
        lines.append(path_line(plan, "  "))
    if plan.request.requeue and plan.launcher == TORCHRUN:
        lines.append(template("ignore-signal.sh"))
    return "".join(lines)


def _directive(directive: Explained) -> str:
    """A line of sbatch's options; an option may have no value."""
    value = f"={option_value(directive.value)}" if directive.value else ""
    return f"#SBATCH --{directive.name}{value}"
