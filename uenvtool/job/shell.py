"""Writes the common parts of job scripts: variables, the launcher's line, the overlay's PATH; pure functions."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from uenvtool.check.launchers import launcher_named
from uenvtool.core import quoting
from uenvtool.core.filling import filled, filled_where_marked
from uenvtool.job.command import options_line, variables_line
from uenvtool.job.plan import ARRAY, UENV, JobPlan
from uenvtool.knowledge.jobs import Explained
from uenvtool.knowledge.settings import ConditionalSetting, settings_of_overlay
from uenvtool.knowledge.sources import legend
from uenvtool.knowledge.tuning import AT_MOST, PREPEND, REQUIRED, TEMPORARY, Setting

PYTHON = ("bash", "-c", 'python=$(command -v python || command -v python3) || exit 3; exec "$python" -c "$@"', "python")
"""Starts the Python of the job's environment, whose name can be python3 only. The tests exit with 3 without torch."""
TEMPLATES = Path(__file__).parent / "templates"
LONGEST_LINE = 118
NODE_FOLDER = "/tmp/$USER-$SLURM_JOB_ID"  # a directory on each node, which the job names
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9 ^_./:,+=%-]*")
"""Values that need no escapes within double quotes and braces."""
_LOGS = "logs/"
WITHOUT_GPU = 1 << 22
"""The largest message of the tests on nodes without GPUs, in bytes."""
DEBUG = Explained("NCCL_DEBUG", "INFO", "NCCL prints the network that it uses; `uenvtool doctor --log FILE` reads it")
"""A variable that each job contains as a comment, for debugging."""


def template(name: str) -> str:
    """Return the text of a template."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def sibling(file: str, suffix: str) -> str:
    """Return the path of a file next to the job script, with the same name and another suffix."""
    path = PurePath(file)
    return str(path.with_name(path.name.removesuffix(".sh") + suffix))


def bash_words(words: Sequence[str]) -> str:
    """Return arguments as bash source, quoted so that bash expands nothing in them."""
    return " ".join(map(quoting.sh_word, words))


def command_words(plan: JobPlan) -> str:
    """Return the command of a job as bash source. In an array, bash expands ARRAY to the number of the task."""
    if not plan.array:
        return bash_words(plan.command.words)
    words = (word.split(ARRAY) for word in plan.command.words)
    quoted = ('"$SLURM_ARRAY_TASK_ID"'.join(quoting.sh_word(part) if part else "" for part in parts) for parts in words)
    return " ".join(text or quoting.sh_word("") for text in quoted)


def aligned(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield lines with their reasons as aligned comments. A reason that does not fit on its line is above the line."""
    width = max((len(text) for text, reason in rows if reason and len(text) <= 50), default=0)
    for text, long_reason in rows:
        reason = quoting.comment(long_reason)
        if not reason:
            yield text
        elif max(len(text), width) + len(reason) + 3 <= LONGEST_LINE:
            yield f"{text.ljust(width)} # {reason}"
        else:
            yield from (f"# {line}" for line in textwrap.wrap(reason, LONGEST_LINE - 2, break_long_words=False))
            yield text


def reason_of(setting: Setting) -> str:
    """Return the reason for a variable's value, and its source."""
    return quoting.comment(f"{setting.reason} [{setting.source.name}]")


def threads(plan: JobPlan) -> list[Explained]:
    """Return OMP_NUM_THREADS, or nothing if the system's file does not contain the number of cores per node."""
    cores = plan.cores_of_rank
    why = (
        "uenvtool sets one thread per core of a rank (torchrun would set 1); use fewer if data loaders fork "
        "[torch/distributed/run.py]"
    )
    return [Explained("OMP_NUM_THREADS", str(cores), why)] if cores else []


def settings_in_logs(plan: JobPlan) -> list[Setting]:
    """Return the settings whose values are files in the log directory, which is known only when the job runs."""
    return [setting for setting in plan.settings if (setting.value or "").startswith(_LOGS)]


def other_settings(plan: JobPlan) -> list[Setting]:
    """Return the settings that `settings_in_logs` does not return."""
    return [setting for setting in plan.settings if not (setting.value or "").startswith(_LOGS)]


def exports(plan: JobPlan) -> str:
    """Return the lines that set the variables of a job, each with its reason."""
    rows = [*of_threads(plan), *((export(setting), reason_of(setting)) for setting in other_settings(plan))]
    given = [*of_user(plan), *of_start(plan)]
    if not rows and not given:
        return ""
    head = (
        "# Lines with ${NAME-...} keep a value that you set before you start the job. All other lines replace it.\n"
        "# `uenvtool explain NAME` explains a variable."
    )
    above = [head, *tags(plan.settings)] if rows else []
    more = remarks(plan, "export {}={}")
    return "\n".join([*above, *aligned(rows), *aligned(given), *more]) + "\n\n"


def of_threads(plan: JobPlan) -> list[tuple[str, str]]:
    """Return the line that sets OMP_NUM_THREADS if it is unset, with its reason; empty if `threads` is empty."""
    return [
        (f'export {variable.name}="${{{variable.name}-{variable.value}}}"', variable.reason)
        for variable in threads(plan)
    ]


def of_user(plan: JobPlan) -> list[tuple[str, str]]:
    """Return the lines that set the variables of --env, each with `--env` as its reason."""
    return [(f"export {name}={quoting.sh_word(value)}", "--env") for name, value in plan.request.variables.items()]


def of_start(plan: JobPlan) -> list[tuple[str, str]]:
    """Return the lines that export the variables of --env without a value, and end the job if one is not set."""
    return [
        (f'export {name}="${{{name}:?export it before you start the job}}"', "--env: no file contains its value")
        for name in plan.request.passed
    ]


def exports_of_start(plan: JobPlan) -> str:
    """Return the lines of `of_start` as text, for a script whose other variables are in an EDF."""
    return "".join(f"{line}\n" for line in aligned(of_start(plan)))


def tags(settings: Sequence[Setting]) -> list[str]:
    """Return comments that explain the source tags after the reasons."""
    lines = [quoting.comment(line) for line in legend(setting.source for setting in settings)]
    return [f"# {part}" for line in lines for part in textwrap.wrap(line, LONGEST_LINE - 2, subsequent_indent="  ")]


def remarks(plan: JobPlan, form: str) -> list[str]:
    """Return comments on the variables that the job does not set. form: the form of a line that sets a variable."""
    waiting = [f"Not set ({reason}): {', '.join(names)}" for reason, names in plan.left_out.items()]
    lines = [f"# {line}" for text in waiting for line in textwrap.wrap(quoting.comment(text), LONGEST_LINE - 2)]
    if plan.gpu and plan.settings and DEBUG.name not in plan.request.variables:
        lines.append(debugging(form))
    return lines


def debugging(form: str) -> str:
    """Return the commented-out line that makes NCCL print its network. form: as in `remarks`."""
    return f"# {form.format(DEBUG.name, DEBUG.value)} # {DEBUG.reason}"


def exports_in_logs(plan: JobPlan) -> str:
    """Return the lines that set the variables of `settings_in_logs`, with their reasons."""
    rows = [
        (f'export {setting.name}="$PWD/$LOGS/{(setting.value or "").removeprefix(_LOGS)}"', reason_of(setting))
        for setting in settings_in_logs(plan)
    ]
    above = tags(settings_in_logs(plan)) if plan.use.variables == "edf" else []  # other scripts contain them above
    return "".join(f"{line}\n" for line in (*above, *aligned(rows)))


def export(setting: Setting) -> str:
    """Return the line for a setting by its policy: unset, set always, reduced to a maximum, or set only if unset."""
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
    """Return the launcher with its options on a node, as bash source and a space, or "" without a launcher."""
    launcher = launcher_named(plan.command.launcher)
    if launcher is None:
        return ""
    program = f"{variables_line(launcher, ranks)}{bash_words(plan.command.program)}"
    options = f"{program} {options_line(launcher, ranks)}".rstrip().split(" --")
    lines, rest = " --".join(options[:4]), "".join(f" --{option}" for option in options[4:])
    return f"{lines} \\\n   {rest} " if rest else f"{lines} "


def tests_of_machine(plan: JobPlan, function: str) -> str:
    """Return the tests of `uenvtool try` as bash source. function: defines `test_on`, which runs one test on nodes."""
    largest = str(plan.request.tests if plan.gpus else WITHOUT_GPU)
    text, tests = template("try.sh").removesuffix("\n"), template("try.python")
    names = {"SYSTEM": quoting.sh_word(plan.system), "RUNTIME": plan.runtime.name}
    return filled(text, **names, TESTS=tests, LARGEST=largest, FUNCTION=function, RANKS=str(plan.ranks))


def mounted_overlay(plan: JobPlan, image: str) -> str:
    """Return the mount specification of a packed overlay for the runtime. image: the file as the job names it."""
    place = plan.overlay.mount if plan.overlay else ""
    return filled_where_marked(plan.runtime.mount, IMAGE=image, MOUNT=place)


def mounts_of_user(plan: JobPlan, packed: str) -> Iterator[tuple[str, str]]:
    """Yield the mounts of --mount and --venv, each with its reason. packed: the file of a packed overlay, if any."""
    yield from ((with_target(mount), "--mount") for mount in plan.request.mount)
    if plan.overlay and not plan.overlay.mount:
        yield with_target(plan.overlay.image), "the Python overlay"
    elif packed:
        yield mounted_overlay(plan, packed), "the packed Python overlay"


def overlay_lines(plan: JobPlan) -> list[str]:
    """Return the lines of a step that activate the overlay, or end the step if the overlay has no Python.

    An overlay orders its packages itself. For another tool's environment, PYTHONPATH and ~/.local would
    take precedence, so the step sets the same variables as an activation script.
    """
    overlay = plan.overlay
    if overlay is None:
        return []
    place = f"{plan.node_folder}/overlay-$SLURM_JOB_ID" if plan.unpacks else overlay.place
    has_view = plan.use.image == UENV and overlay.mount  # the view of a packed overlay sets PATH and PYTHONPATH
    missing = f"overlay {quoting.sh_word(overlay.path)} not found: $HOSTNAME has no {place}/bin/python"
    lines = [f'[ -x "{place}/bin/python" ] || {{ echo {missing} >&2; exit 1; }}']
    if not plan.unpacks and not has_view:
        lines.append(f"export PATH={overlay.programs}:$PATH # python and torchrun of the overlay")
    if overlay.site:
        lines.append("unset PYTHONHOME # Python would ignore the overlay")
        given = {*plan.request.variables, *plan.request.passed, *(["PYTHONPATH"] if has_view else [])}
        rows = settings_of_overlay(plan.runtime.name)
        lines += [_overlay_line(row, f"{place}/{overlay.site}") for row in rows if row.setting.name not in given]
    return lines


def _overlay_line(row: ConditionalSetting, site: str) -> str:
    """Return the line that applies a setting of a virtual environment. site: the environment's package directory."""
    name = row.setting.name
    tests = "".join(f'[ {"-n" if term.operator == "absent" else "-z"} "${{{term.fact}+x}}" ] || ' for term in row.guard)
    prepended = f'export {name}="{site}${{{name}:+:${name}}}"'
    line = prepended if row.setting.policy == PREPEND else export(row.setting)
    return f"{tests}{line} # {reason_of(row.setting)}"


def with_target(mount: str) -> str:
    """Return a mount as `SOURCE:TARGET`. podman creates an empty volume for a mount without a target."""
    return mount if ":" in mount else f"{mount}:{mount}"
