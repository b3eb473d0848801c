"""Finders for the #SBATCH lines of a script, and for the lines around them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from uenvtool.check.context import Context
from uenvtool.check.launchers import SRUN
from uenvtool.check.parts import OUTER, Hit, Part, at
from uenvtool.check.sbatch import options, rejection, unknown_to_srun
from uenvtool.check.script import BYTE_ORDER_MARK
from uenvtool.core.errors import did_you_mean
from uenvtool.core.words import counted, grouped
from uenvtool.knowledge.limits import GPUS, NODES, PARTITION, QOS, TIME, excesses


def late_options(context: Context) -> Iterator[Hit]:
    """Yield #SBATCH lines after the first command. A block of lines is one problem, and --fix moves it as a whole."""
    text = context.source.text
    if not context.source.has_shebang and _SHEBANG.search(text):  # sbatch rejects the script before it reads options
        return
    first = min((part.offset for part in context.commands), default=0)
    above = text.rfind("\n", 0, first) + 1
    block: list[Part] = []
    for part in [*context.source.of("late"), None]:
        if block and (part is None or text.count("\n", block[-1].offset, part.offset) > 1):
            yield Hit(offset=block[0].offset, end=block[0].end, edits=_moved(context, block, above))
            block = []
        block += [part] if part else []


def _moved(context: Context, block: Sequence[Part], above: int) -> tuple[tuple[int, int, str], ...]:
    """Return the edits that move option lines up, or no edits if an option already appears above or is repeated."""
    if any(part.name in context.shape.requested for part in block) or len({part.name for part in block}) < len(block):
        return ()
    text = context.source.text
    starts = sorted({text.rfind("\n", 0, part.offset) + 1 for part in block})
    lines = [(start, text.find("\n", start) + 1 or len(text)) for start in starts]
    moved = "".join(text[start:end].rstrip("\n") + "\n" for start, end in lines)
    return ((above, above, moved), *((start, end, "") for start, end in lines))


def array_indices(context: Context) -> Iterator[Hit]:
    """Yield the --array option for each list that has no element for a task, or more elements than the tasks use.

    The second problem is a hint, because the other elements may belong to another submission.
    """
    array = next(context.source.of("directive", "array"), None)
    tasks = _array_tasks(array.text) if array else ()
    if array is None or not tasks:
        return
    indexed = [match.groups() for part in context.parts("line") for match in _INDEXED.finditer(part.text)]
    unused: dict[str, set[int]] = {}
    for name, expression in list(dict.fromkeys(indexed))[:_MOST_INDICES]:
        elements = context.values.elements(name) or ()
        has_more = elements and re.search(rf"\b{name}\[[^\]\n]*\]\+?=", context.source.text)  # NAME[INDEX]=VALUE
        count, indices = 0 if has_more else len(elements), _indices(context, expression, tasks)
        left = unused.setdefault(name, set(range(count)))
        left.difference_update(index % count for index in indices if count)
        outside = next((i for i, index in enumerate(indices) if count and not -count <= index < count), None)
        if outside is not None:
            first = tasks[0] - indices[0]
            is_shifted = all(task - index == first for task, index in zip(tasks, indices, strict=True))
            fix = f"#SBATCH --array={first}-{first + count - 1}" if is_shifted and first >= 0 else ""
            detail = f"{name} has {counted(count, 'element')}, and task {tasks[outside]} uses index {indices[outside]}"
            yield at(array, detail, fix)
        if outside is not None or not indices:
            left.clear()
    for name, left in unused.items():
        if left and len(set(tasks)) > 1 and "," not in array.text and not context.mentions(f"${{{name}[@]}}"):
            yield replace(at(array, f"no task uses {counted(len(left), 'element')} of {name}"), is_certain=False)


def _indices(context: Context, expression: str, tasks: Sequence[int]) -> list[int]:
    """Return the index of a list in each task of an array, or an empty list if an index is unknown."""
    known, indices = context.values.known, list[int]()
    for known["SLURM_ARRAY_TASK_ID"] in tasks:
        index = context.values.calculated(expression)
        indices += [] if index is None else [index]
    known.pop("SLURM_ARRAY_TASK_ID")
    return indices if len(indices) == len(tasks) else []


def _array_tasks(text: str) -> Sequence[int]:
    """Return the task numbers of --array, only some of a long range, or () if it has another form."""
    ranges = [_RANGE.fullmatch(part) for part in text.partition("%")[0].split(",")]
    if not all(ranges):
        return ()
    numbers = [[int(number or 0) for number in match.groups()] for match in ranges if match]
    tasks = [range(first, max(first, last) + 1, step or 1) for first, last, step in numbers]
    return [task for some in tasks for task in (*some[:_MOST_TASKS], some[-1])]


_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?")
_MOST_TASKS, _MOST_INDICES = 500, 20
"""The maximum number of tasks in a row, and of different indices, that are calculated."""
_INDEXED = re.compile(r"\$\{(\w+)\[((?:[^\[\]]|\[[@*]\])+)\]\}")


def repeated_options(context: Context) -> Iterator[Hit]:
    """Yield sbatch options that an earlier #SBATCH line sets to another value, except in a heterogeneous job."""
    if any(_HETEROGENEOUS.match(part.text) for part in context.parts("sbatch")):
        return
    given: dict[str, str] = {}
    for part in context.source.of("directive"):
        before = given.setdefault(part.name, part.text)
        if part.text != before:
            adds = part.name == "mail-type"  # before Slurm 25.05, sbatch adds the events
            detail = f"--{part.name}={part.text} replaces {before}{' since Slurm 25.05' if adds else ''}"
            fix = f"#SBATCH --mail-type={before},{part.text}" if adds else ""
            yield replace(at(part, detail, fix), is_certain=not adds)
            given[part.name] = part.text


_HETEROGENEOUS = re.compile(r"hetjob|packjob")


def rejected_options(context: Context) -> Iterator[Hit]:
    """Yield the #SBATCH lines that sbatch rejects, and the options that srun does not have."""
    for part in context.parts("sbatch"):
        found = rejection(part.text)
        if found:
            yield replace(at(part, found.reason, found.fix), is_certain=found.is_certain)
    for step in context.source.of("command", SRUN):
        unknown = unknown_to_srun(step.argv[1:])
        if unknown:
            place = max(context.source.text.find(f"--{unknown[0]}", step.offset, step.end), step.offset)
            yield Hit(offset=place, end=step.end, detail=f"srun has no option --{unknown[0]}", is_certain=False)


def no_shebang(context: Context) -> Iterator[Hit]:
    """Yield the start of a file that has #SBATCH lines but does not begin with `#!`.

    The problem is a hint if no line has `#!`, because the file may be a fragment that another file includes.
    """
    if context.source.has_shebang or {"directive", "late", "ignored"}.isdisjoint(
        part.kind for part in context.source.parts
    ):
        return
    text = context.source.text
    follows_mark = text.startswith(f"{BYTE_ORDER_MARK}#!")
    detail = "a byte order mark precedes it" if follows_mark else ""
    edits = ((0, 1, ""),) if follows_mark else ()
    is_certain = _SHEBANG.search(text) is not None
    fix = "remove the text before #!" if is_certain and any(context.source.of("late")) else ""
    yield Hit(offset=0, end=max(text.find("\n"), 1), detail=detail, fix=fix, edits=edits, is_certain=is_certain)


_SHEBANG = re.compile(rf"^[\s{BYTE_ORDER_MARK}]*#[ \t]*![ \t]*/", re.MULTILINE)


def options_as_comments(context: Context) -> Iterator[Hit]:
    """Yield one problem for all #SBATCH lines that sbatch ignores as comments.

    A line with a space before `#`, or with a misspelt SBATCH, is a certain problem. `# SBATCH` is only a hint if the
    file has valid #SBATCH lines, because it may switch an option off.
    """
    are_all = not any(context.source.of("directive"))
    ignored = list(context.source.of("ignored"))
    certain = [part for part in ignored if are_all or not part.text.startswith("# ")]
    lines = certain or ignored
    if lines:
        detail = f"{len(lines)} lines" if len(lines) > 1 else ""
        edits = tuple((part.offset, part.offset + part.text.index("-"), "#SBATCH ") for part in certain)
        first, is_certain = lines[0], bool(certain)
        yield Hit(offset=first.offset, end=first.end, detail=detail, edits=edits, is_certain=is_certain)


def dos_line_ends(context: Context) -> Iterator[Hit]:
    """Yield the first line with a CRLF line ending, with edits for all such lines."""
    returns = context.source.carriage_returns
    if returns:
        start = context.source.text.rfind("\n", 0, returns[0]) + 1
        edits = tuple((place, place + 1, "") for place in returns)
        yield Hit(offset=start, end=returns[0], detail=counted(len(returns), "line"), edits=edits)


def output_folders(context: Context) -> Iterator[Hit]:
    """Yield one problem for each output directory that does not exist, because Slurm does not create it."""
    submits = any(part.name == "sbatch" and re.search(r"\$\{?(0|BASH_SOURCE)", part.text) for part in context.commands)
    if submits and any(part.name == "mkdir" for part in context.commands):  # it creates them and submits itself
        return
    comments = "\n".join(re.findall(r"^[ \t]*#.*\bmkdir\b(.*)", context.source.text, re.MULTILINE))
    seen = set()
    for part in context.source.of("directive", "output", "error"):
        path, _, name = part.text.removeprefix("./").rpartition("/")
        if path in seen:
            continue
        seen.add(path)
        exists = path in ("", ".", "..") or _UNKNOWN_PATH.match(path) or context.has_directory(path)
        is_elsewhere = path[:1] == "/" and not context.has_directory("/".join(path.split("/")[:2]))
        if not exists and not is_elsewhere and path not in comments:
            fixed, percent, rest = path.partition("%")  # a directory with the job ID cannot exist before the job
            new = "-".join((*(each for each in f"{percent}{rest}".split("/") if each not in name), name))
            renamed = f"#SBATCH --{part.name}={fixed}{new}" if percent else ""
            made = f"mkdir -p {fixed.rstrip('/')}  # in the submit directory, before sbatch" if fixed else ""
            yield at(part, fix=", ".join(filter(None, (renamed, made))))


_UNKNOWN_PATH = re.compile(rf"[~]|.*[<>{{}}\[\]${OUTER}]|(?i:.*\b(path/to|your|my[_-]))")
"""The paths that the rule does not check: paths with variables, and placeholders."""


def required_options(context: Context) -> Iterator[Hit]:
    """Yield the sbatch options that are missing although the given system requires them."""
    first = next(context.source.of("directive"), None)
    for name in context.system.jobs.required if context.system else ():
        if first is not None and name not in context.shape.requested:
            yield at(first, f"--{name}", f"#SBATCH --{name}=NAME")


def limits(context: Context) -> Iterator[Hit]:
    """Yield one option that exceeds a limit of the job's partition, and one that exceeds a limit of its QOS."""
    system, shape = context.system, context.shape
    given = {part.name: part for part in context.source.of("directive")}
    if system is None or not given:
        return
    partition, qos, time = (shape.requested.get(name, "") for name in (PARTITION, QOS, TIME))
    nodes = shape.nodes or 1
    try:
        gpus = nodes * (shape.gpus or 0)
        found = min((list(excesses(system, name, qos, nodes, gpus, time)) for name in partition.split(",")), key=len)
    except ValueError:  # for example if the time is a placeholder
        return
    for kind, (excess, *_) in grouped((excess.kind, excess) for excess in found).items():
        names = (excess.of, *_SETTING[excess.of], *given)
        part = next(given[name] for name in names if name in given)
        most = f"--{excess.of}={excess.most}" if excess.of != GPUS else "fewer GPUs" if excess.most else ""
        ways = (most, f"--{kind}={' or '.join(excess.others)}" if excess.others else "")
        hit = at(part, f"--{part.name}={part.text}: {excess.says}", f"use {', or '.join(filter(None, ways))}")
        # the command line of sbatch may contain the number of nodes
        yield replace(hit, is_certain=shape.nodes is not None and bool({"nodes", "ntasks"} & given.keys()))


_SETTING = {TIME: (), NODES: ("ntasks",), GPUS: ("gpus-per-node", "gres", "gpus-per-task", PARTITION)}
"""By kind of limit, the other options that set the value, in addition to the option of the same name."""


def views(context: Context) -> Iterator[Hit]:
    """Yield the views that the image of the script does not contain."""
    recipe = context.recipe
    if recipe is None or any("," in part.text for part in context.source.of("directive", "uenv")):
        return
    steps = ((part, options(part.argv[1:])[0].get("view", "")) for part in context.source.of("command", SRUN))
    for part, text in (*((part, part.text) for part in context.source.of("directive", "view")), *steps):
        for view in filter(None, text.split(",")):
            if view not in recipe.all_views and ":" not in view and not view.startswith(("$", "<", "{")):
                fix = did_you_mean(view, recipe.all_views) or f"use {' or '.join(sorted(recipe.all_views))}"
                yield at(part, f"{recipe.name} has no view {view!r}", fix)
