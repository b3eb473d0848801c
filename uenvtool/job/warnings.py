"""Warnings about a job that may fail or waste resources when it runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import PurePath
from textwrap import shorten

from uenvtool.check.launchers import NONE, OF_RANK, PYTHON_NAME, SRUN, TORCHRUN
from uenvtool.check.program import read_program
from uenvtool.core.words import counted, is_within
from uenvtool.job.command import is_inline
from uenvtool.job.disk import SUBMITTED_IN, text_of
from uenvtool.job.environment import starts_without_it
from uenvtool.job.images import on_another_machine, on_another_tag, on_unknown_recipe
from uenvtool.job.limits import TASKS
from uenvtool.job.plan import ARRAY, ENVIRONMENT, KUBERNETES, SLURM, UENV
from uenvtool.job.refusals import HOST_FOLDERS, Case
from uenvtool.knowledge.kinds import LAUNCHER, RUNTIME
from uenvtool.knowledge.load import skipped_file_notes
from uenvtool.knowledge.place import missing_rdma

_DEVICES = re.compile(r"((?:CUDA|HIP|ROCR)_VISIBLE_DEVICES)=([\d,]*)")
_OF_SLURM = re.compile(r"\$\{?(?:SLURM_\w+|(?:LOCAL_|NODE_)?RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|NNODES|LOGS)\b\}?")
"""A variable that only the job or its ranks have."""
_STARTS_ITSELF = re.compile(
    r"(?m)^(?![ \t]*#)(?:.*\b(?:(?:mp|multiprocessing)\.spawn\(|deepspeed\.launcher\b)|[ \t]*(?:ray\.init|launch)\("
    r"|(?P<submits>(?:import|from) submitit\b))"
)
"""A line of a program that starts the training processes itself or submits jobs for them."""


def warnings(case: Case) -> Iterator[str]:
    """Yield warnings about skipped files, the program, GPUs, cores, storage and the overlay."""
    plan, system = case.plan, case.system
    yield from skipped_file_notes(RUNTIME, LAUNCHER)
    yield from _of_missing_program(case)
    yield from _of_other_python(case)
    yield from _of_start(case)
    yield from _of_words(case)
    yield from _of_idle_gpus(case)
    yield from _of_program(case)
    yield from starts_without_it(plan, case.disk)
    if plan.use.scheduler == SLURM and not plan.gpus and (plan.request.gpus is None or plan.nodes * plan.ranks > 1):
        where = system.name if plan.request.gpus is None else "the job"
        yield f"{where} has no GPUs; connect the ranks with torch.distributed.init_process_group('gloo')"
    if plan.use.scheduler == SLURM and not plan.cores:
        yield (
            f"the file of {system.name} does not contain the cores of a node; the job requests none and may get one "
            "core per task"
        )
    if plan.use.scheduler == KUBERNETES and not plan.request.pvc and not plan.request.interactive:
        yield "the pods see only their image; mount the storage of your program with --pvc CLAIM:PATH"
    if plan.use.scheduler == KUBERNETES and plan.nodes > 1:
        for problem in missing_rdma(system.tree):
            yield f"{system.name}: {problem.message}"
    if case.disk.environment and case.disk.environment.newer:
        newer = case.disk.environment.newer
        yield f"{plan.request.venv} is older than {newer}; pack it again with `uenvtool venv {newer} --squash`"
    yield from on_another_machine(plan)
    yield from case.disk.environment.outdated if case.disk.environment else ()
    yield from on_unknown_recipe(plan)
    yield from on_another_tag(plan, case.published if case.recipe else "")
    yield from _of_home(case)
    if plan.edf:
        yield from _of_edf_image(case)


def _of_other_python(case: Case) -> Iterator[str]:
    """Yield a warning if the command starts a Python that is neither the overlay's nor the image's."""
    plan, typed = case.plan, case.typed
    base = plan.overlay.path if plan.overlay else plan.image
    if not base:
        return
    if typed.runner and not {base, base.removeprefix("./")}.intersection(typed.words):
        yield (
            f"{typed.runner} starts the Python of its own environment, without the packages of {base}; install the "
            f"project with `uenvtool venv`, name the overlay with --venv, and leave {typed.runner} out"
        )
    word = typed.words[typed.start]
    is_path = "/" in word and "$" not in word
    is_python = typed.launcher or PYTHON_NAME.fullmatch(os.path.basename(word))
    if is_path and is_python and _is_other(case, os.path.abspath(case.folder / word)):
        name = os.path.basename(word)
        yield f"{word} is not the {name} of {base} and does not see its packages; write {name} without a path"


def _is_other(case: Case, path: str) -> bool:
    plan = case.plan
    if plan.overlay:
        return plan.unpacks or not is_within(path, plan.overlay.place)
    if plan.use.image == UENV:
        _, _, mount = plan.image.rpartition(":")  # NAME/VERSION:TAG or IMAGE:/MOUNT
        return not is_within(path, mount if mount.startswith("/") and mount != plan.image else case.system.mount)
    if plan.use.image == ENVIRONMENT:
        return plan.is_sent or not is_within(path, os.path.abspath(plan.image))
    return os.path.exists(path) and not HOST_FOLDERS.match(path)  # a path in the container may be the image's Python


def _of_idle_gpus(case: Case) -> Iterator[str]:
    plan = case.plan
    option, ranks = plan.command.ranks_option
    if ranks and plan.gpu and ranks < plan.ranks:
        yield f"{option} {ranks}: the job requests {plan.ranks} GPUs per node; use --gpus {ranks} to request fewer"
    assigned = (*plan.command.program, *plan.command.words, *plan.request.env)
    for name, value in (match.groups() for match in map(_DEVICES.fullmatch, assigned) if match):
        visible = list(takewhile(lambda device: int(device) < plan.ranks, filter(None, value.split(","))))
        if plan.gpu and plan.use.scheduler == SLURM and len(visible) < plan.ranks:
            yield f"{name}={value}: a rank sees only {len(visible)} of the {plan.ranks} GPUs that the job has on a node"


def _of_program(case: Case) -> Iterator[str]:
    plan = case.plan
    file = _program_file(case)
    if not file or plan.opens_shell or case.typed.alone:
        return
    launcher, text, name = plan.command.launcher, text_of(file), PurePath(file).name
    match = _STARTS_ITSELF.search(text)
    if match and launcher in (SRUN, TORCHRUN):
        place = f"{file}:{text.count(chr(10), 0, match.start()) + 1}"
        if match["submits"]:
            yield f"{place} submits jobs with submitit; start the program on a login node, not in a job"
        else:
            yield (
                f"{place} starts processes itself, but {launcher} starts {name} once for each GPU; "
                "use `--launcher none` to start it once per node"
            )
    processes = plan.nodes * (1 if launcher == NONE else plan.ranks)
    is_known = match or case.typed.inner or OF_RANK.search(f"{' '.join(plan.command.words)} {case.typed.script}")
    if is_known or processes == 1:
        return
    program = read_program(file, text, str(case.folder), text_of)
    if not program.reads_rank:
        yield from _of_same_work(case, name)
    if program.first_gpu and plan.gpus and launcher != NONE and plan.ranks > 1 and not plan.one_gpu_per_rank:
        ways = 'call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) first'
        ways += ", or use --gpu-per-rank" if launcher == SRUN else ""
        yield (
            f"{program.first_gpu} uses the first GPU of the node in each of the {plan.ranks} ranks, so NCCL fails with "
            f'"Duplicate GPU detected"; {ways}'
        )


def _of_same_work(case: Case, name: str) -> Iterator[str]:
    plan, run = case.plan, case.plan.run
    if plan.command.launcher == NONE:
        yield f"{run}; {name} reads no rank, so each node does the whole work; use --nodes 1"
    else:
        one = "--nodes 1 --gpus 1" if plan.gpus else f"--nodes 1 --option --{TASKS}=1"
        ways = f"use {one}, or --launcher none with --nodes 1 if one process uses all GPUs of a node"
        yield f"{run}; {name} reads no rank, so each does the whole work; {ways if plan.gpus else f'use {one}'}"


def run_of(case: Case) -> str:
    """Return one sentence about the processes of a job and their nodes and GPUs."""
    plan = case.plan
    command, nodes = shorten(_shown(case), 60, placeholder=" ..."), counted(plan.nodes, "node")
    gpus = f", {counted(plan.ranks, 'GPU')}{' each' if plan.nodes > 1 else ''}" if plan.gpus else ""
    default = case.system.qos("") if plan.use.scheduler == SLURM and not plan.request.qos else None
    gpus += f", {plan.time} in {default.name}, the default QOS ({default.limits})" if default else ""
    gpus += f", for each number of the array {plan.array}" if plan.array else ""
    if plan.command.launcher == NONE:
        return f"`{command}` runs once on {f'each of {nodes}' if plan.nodes > 1 else nodes}{gpus}"
    return f"{counted(plan.nodes * plan.ranks, 'rank')} of `{command}` on {nodes}{gpus}"


def _shown(case: Case) -> str:
    """Return the command up to its program, without the arguments, which may be long or contain secrets."""
    words = case.typed.words[case.typed.start :]
    if is_inline(words):
        return " ".join(words[:3])
    ends = (
        i for i, word in enumerate(words, start=1) if word.endswith((".py", ".sh")) or words[i - 2 : i - 1] == ("-m",)
    )
    return " ".join(words[: next(ends, 1)])


def _program_file(case: Case) -> str:
    """Return the path of the Python program in the command, or else in its shell script, or "" without a program."""
    words, folder = case.plan.command.words, case.folder
    pairs = zip(("", *words), words, strict=False)
    named = next((word for before, word in pairs if word.endswith(".py") or before == "-m"), "")
    if named and not named.endswith(".py"):
        path = folder / named.replace(".", "/")
        main = path / "__main__.py"
        return str(main) if os.path.exists(str(main)) else f"{path}.py"
    in_script = (
        word for word in re.findall(r"[\w./-]+\.py\b", case.typed.script) if os.path.exists(str(folder / word))
    )
    named = named or next(in_script, "")
    return str(folder / named) if named else ""


def _of_missing_program(case: Case) -> Iterator[str]:
    workdir, words, folder = case.plan.request.workdir, case.plan.command.words, case.folder
    for before, word in zip(("", *words), words, strict=False):
        is_named = word.endswith((".py", ".sh")) and not word.startswith(("/", "$", "-"))
        if is_named and not os.path.exists(str(folder / word)):
            yield f"file not found: '{word}'; the job looks for it in {workdir or 'the directory where you submit it'}"
            break
        package = word.partition(".")[0]
        if before == "-m" and not any(os.path.exists(str(folder / f"{package}{end}")) for end in ("", ".py")):
            packages = case.disk.environment.packages if case.disk.environment else ()
            names = {name.replace("-", "_") for name in packages}
            if package not in names:
                yield f"-m {word}: {package} was not found here; the image or the overlay must contain it"
            break


def _of_start(case: Case) -> Iterator[str]:
    """Yield a warning if the command is a file here that the system cannot start as a program."""
    plan, word = case.plan, case.typed.words[case.typed.start]
    file = str(case.folder / word)
    if not os.path.isfile(file) or (plan.command.launcher == TORCHRUN and word.endswith(".py")):
        return
    is_script = text_of(file).startswith("#!") if word.endswith((".py", ".sh")) else True
    if "/" not in word:
        why = "is not on PATH"
    elif not os.access(file, os.X_OK):
        why = "is not executable"
    elif not is_script:
        why = "has no #! line"
    else:
        return
    needs_bash = word.endswith(".sh") or not os.access(file, os.X_OK)
    starter = "python" if word.endswith(".py") else "bash" if needs_bash else ""
    yield f"'{word}' {why}, so the job cannot start it; use `{f'{starter} {word}' if starter else f'./{word}'}`"


def _of_words(case: Case) -> Iterator[str]:
    """Yield a warning for each argument with a variable of Slurm, which no shell expands, and for `{array}`."""
    plan, words = case.plan, case.typed.words[case.typed.start :]
    for word in () if is_inline(words) else words:
        match = _OF_SLURM.search(word)
        if match:
            way = f"quote the whole command as one argument: -- '{case.typed.program} ... \"{match[0]}\"'"
            if "ARRAY_TASK_ID" in match[0]:
                way = f"write {ARRAY} instead of {match[0]}{'' if plan.array else ', and add --array 0-9'}"
            yield f"the program gets '{word}' as it is, because no shell expands {match[0]} in an argument; {way}"
    if not plan.array and any(ARRAY in word for word in words):
        yield f"{ARRAY} stays as it is, because the job is no array; add --array 0-9 to run one task for each number"


def _of_home(case: Case) -> Iterator[str]:
    """Yield a warning if an EDF of the job mounts the whole home directory."""
    plan, home = case.plan, os.path.expanduser("~").rstrip("/")
    folder = plan.request.workdir or plan.knowledge.workdir or SUBMITTED_IN
    folder = folder.replace(SUBMITTED_IN, os.getcwd())
    mounted = [folder, *(mount.partition(":")[0] for mount in plan.request.mount)]
    if plan.writes_edf and home and any(path.rstrip("/") == home for path in mounted):
        yield (
            f"the container mounts the whole home directory {home}, so its start-up files and caches reach the "
            "container; write and submit the job in a directory below it, or name one with --workdir"
        )


def _of_edf_image(case: Case) -> Iterator[str]:
    image = os.path.expandvars(case.plan.image)
    if image.startswith("/") and "$" not in image and not os.path.exists(image):
        yield f"file not found: '{image}', the image in {case.plan.request.image}"
