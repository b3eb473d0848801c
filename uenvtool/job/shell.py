"""What the scripts of several formats have in common: variables, the launcher's line, the overlay's programs; pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from uenvtool.check.launchers import launcher_named
from uenvtool.core import quoting
from uenvtool.core.filling import filled_where_marked
from uenvtool.core.lines import LONGEST_LINE, aligned, bash_words
from uenvtool.job.command import options_line, variables_line
from uenvtool.job.plan import JobPlan
from uenvtool.knowledge.jobs import Explained
from uenvtool.knowledge.sources import legend
from uenvtool.knowledge.tuning import AT_MOST, REQUIRED, TEMPORARY, Setting

TEMPLATES = Path(__file__).parent / "templates"
NODE_FOLDER = "/tmp/$USER-$SLURM_JOB_ID"  # a folder of each node, named in the job
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9 ^_./:,+=%-]*")
"""What may stand within double quotes and braces."""
_LOGS = "logs/"
DEBUG = Explained("NCCL_DEBUG", "INFO", "NCCL says which network it takes; `uenvtool doctor --log FILE` reads it")
"""What a job has as a comment, for who wants to see it."""


def template(name: str) -> str:
    """Return the text of a template."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def reason_of(setting: Setting) -> str:
    """Return why a variable is set, with the source."""
    return quoting.comment(f"{setting.reason} [{setting.source.name}]")


def threads(plan: JobPlan) -> list[Explained]:
    """Return OMP_NUM_THREADS, if the system's file says how many cores a node has."""
    cores = plan.cores_of_rank
    why = "the cores of a rank; fewer if data loaders fork"
    return [Explained("OMP_NUM_THREADS", str(cores), why)] if cores else []


def settings_in_logs(plan: JobPlan) -> list[Setting]:
    """Return the variables that name a file among the job's own logs, whose folder only the job can name."""
    return [setting for setting in plan.settings if (setting.value or "").startswith(_LOGS)]


def other_settings(plan: JobPlan) -> list[Setting]:
    """Return the other variables."""
    return [setting for setting in plan.settings if not (setting.value or "").startswith(_LOGS)]


def exports(plan: JobPlan) -> str:
    """Return the lines that set the variables of a job, each with its reason."""
    rows = [*of_threads(plan), *((export(setting), reason_of(setting)) for setting in other_settings(plan))]
    given = [*of_user(plan), *of_start(plan)]
    if not rows and not given:
        return ""
    head = (
        "# If you set one of these before you start the job, your value stays where the line has ${NAME-...};\n"
        "# any other line replaces it. `uenvtool explain NAME` says why."
    )
    above = [head, *tags(plan.settings)] if rows else []
    more = remarks(plan, "export {}={}")
    return "\n".join([*above, *aligned(rows), *aligned(given), *more]) + "\n\n"


def of_threads(plan: JobPlan) -> list[tuple[str, str]]:
    """Return the line that sets OMP_NUM_THREADS where it is unset, with its reason; none as for `threads`."""
    return [(f'export {one.name}="${{{one.name}-{one.value}}}"', one.reason) for one in threads(plan)]


def of_user(plan: JobPlan) -> list[tuple[str, str]]:
    """Return the lines that set what a user asks for, each with where it is from."""
    return [(f"export {name}={quoting.sh_word(value)}", "--env") for name, value in plan.request.variables.items()]


def of_start(plan: JobPlan) -> list[tuple[str, str]]:
    """Return the lines that pass on what is set when the job starts, and end it where nothing is."""
    return [
        (f'export {name}="${{{name}:?export it before you start the job}}"', "--env: its value is in no file")
        for name in plan.request.passed
    ]


def exports_of_start(plan: JobPlan) -> str:
    """Return the same as text, for a script whose other variables stand elsewhere."""
    return "".join(f"{line}\n" for line in aligned(of_start(plan)))


def tags(settings: Sequence[Setting]) -> list[str]:
    """Return comments that say what the tags behind reasons stand for."""
    lines = [quoting.comment(line) for line in legend(setting.source for setting in settings)]
    return [f"# {part}" for line in lines for part in textwrap.wrap(line, LONGEST_LINE - 2, subsequent_indent="  ")]


def remarks(plan: JobPlan, form: str) -> list[str]:
    """Return comments on variables that are not set: those that wait for a version, and what shows the network.

    form: how the file sets a variable to a value.
    """
    waiting = [f"Not set ({reason}): {', '.join(names)}" for reason, names in plan.left_out.items()]
    lines = [f"# {line}" for text in waiting for line in textwrap.wrap(quoting.comment(text), LONGEST_LINE - 2)]
    if plan.gpu and plan.settings and DEBUG.name not in plan.request.variables:
        lines.append(debugging(form))
    return lines


def debugging(form: str) -> str:
    """Return the comment that lets NCCL say what it does, once its `# ` is taken away. form: as for `remarks`."""
    return f"# {form.format(DEBUG.name, DEBUG.value)} # {DEBUG.reason}"


def exports_in_logs(plan: JobPlan) -> str:
    """Return the lines that set the variables of `settings_in_logs`."""
    rows = [
        (f'export {setting.name}="$PWD/$LOGS/{(setting.value or "").removeprefix(_LOGS)}"', reason_of(setting))
        for setting in settings_in_logs(plan)
    ]
    above = tags(settings_in_logs(plan)) if plan.use.variables == "edf" else []  # others have them above
    return "".join(f"{line}\n" for line in (*above, *aligned(rows)))


def export(setting: Setting) -> str:
    """Return a setting by its policy: removed, set in any case, over a larger number, or only if it is unset."""
    name, value = setting.name, setting.value
    if setting.from_ == TEMPORARY:
        return f'export {name}="${{{name}-{NODE_FOLDER}}}"'
    if setting.removes or value is None:
        return f"unset {name}"
    if setting.policy == REQUIRED:
        return f"export {name}={quoting.sh_word(value)}"
    if setting.policy == AT_MOST:
        return f'[ "${{{name}:-none}}" -le {value} ] 2>/dev/null || export {name}={value}'
    if not _PLAIN_VALUE.fullmatch(value):
        return f'[ -n "${{{name}+x}}" ] || export {name}={quoting.sh_word(value)}'
    return f'export {name}="${{{name}-{value}}}"'


def launcher_line(plan: JobPlan, ranks: str) -> str:
    """Return the launcher with its options for a node of a job, in words of bash, and a space; nothing without one."""
    launcher = launcher_named(plan.command.launcher)
    if launcher is None:
        return ""
    program = f"{variables_line(launcher, ranks)}{bash_words(plan.command.program)}"
    words = f"{program} {options_line(launcher, ranks)}".rstrip().split(" --")
    lines, rest = " --".join(words[:4]), "".join(f" --{word}" for word in words[4:])
    return f"{lines} \\\n   {rest} " if rest else f"{lines} "


def mounted_overlay(plan: JobPlan, image: str) -> str:
    """Return how the runtime mounts a packed overlay. image: the file, as the job's file names it."""
    place = plan.overlay.mount if plan.overlay else ""
    return filled_where_marked(plan.runtime.mount, IMAGE=image, MOUNT=place)


def path_line(plan: JobPlan, indent: str = "") -> str:
    """Return the line that puts an overlay's programs first; none without an overlay."""
    if plan.overlay is None or plan.unpacks:
        return ""
    return f"{indent}export PATH={plan.overlay.programs}:$PATH # python and torchrun of the overlay\n"
