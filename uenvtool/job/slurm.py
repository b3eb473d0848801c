"""Writes the files of a Slurm job: the script of a batch job or an interactive shell, the node test and the EDF.

All functions are pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from uenvtool.check.launchers import SRUN, launcher_named
from uenvtool.core import quoting, rendezvous
from uenvtool.core.filling import filled
from uenvtool.job.edf import job_edf
from uenvtool.job.limits import CORES, TASKS
from uenvtool.job.node import (
    address,
    container_step,
    cores_option,
    inside,
    loaded,
    made_for,
    srun_options,
    submitted_with,
    variables,
)
from uenvtool.job.plan import PATH_STARTS, JobPlan
from uenvtool.job.shell import (
    aligned,
    bash_words,
    exports,
    exports_of_start,
    launcher_line,
    mounted_overlay,
    sibling,
    template,
)
from uenvtool.knowledge.jobs import Explained

VET = ".vet.sh"
"""The suffix of the script that tests the nodes."""
HOST_FILE = '"$LOGS/hostfile"'
"""The file that lists the nodes, for a launcher that has an option with this value."""


def slurm_files(plan: JobPlan) -> dict[str, str]:
    """Return the texts of a job's files by name; the script is first."""
    files = {plan.request.file: _interactive_script(plan) if plan.opens_shell else _batch_script(plan)}
    if plan.writes_edf:
        files[plan.edf_file] = job_edf(plan)
    if plan.request.vets:
        files[sibling(plan.request.file, VET)] = _vetting(plan)
    return files


def _directive(directive: Explained) -> str:
    value = f"={quoting.sbatch(directive.name, directive.value)}" if directive.value else ""
    return f"#SBATCH --{directive.name}{value}"


def _batch_script(plan: JobPlan) -> str:
    rows = [(_directive(directive), directive.reason) for directive in plan.directives]
    vet = nodes = ""
    if plan.request.vets:
        vet = f"passed=() # the next line sets it to the nodes that pass\n. {submitted_with(plan, VET)}\n"
        nodes = f' -N {plan.nodes} -n {plan.nodes * plan.tasks} -w "$(IFS=, && echo "${{passed[*]}}")" \\\n '
    bound = plan.binding.value if plan.binding and not plan.command.once_per_node else ""
    in_file, monitor = plan.use.variables == "edf", plan.knowledge.monitor
    why = "contains the variables of the container, because srun would pass variables from here into it"
    shown = f"# {quoting.sh_word(plan.edf_file)} {why}.\n"
    return filled(
        template("slurm.sh"),
        DIRECTIVES="\n".join([*aligned(rows), *_further(plan)]),
        **_common(plan),
        SETTINGS=shown + exports_of_start(plan) if in_file else exports(plan),
        STAGE=_staging(plan),
        MONITOR=filled(template("monitor.sh"), MONITOR=monitor) if monitor else "",
        VET=vet + _host_file(plan),
        BEFORE=template("before-requeue.sh") if plan.request.requeue else "",
        NODES=nodes,
        CORES=cores_option(plan),
        BIND=bound or ("none" if plan.command.once_per_node else "cores"),
        BINDING=f"# {quoting.comment(f'--cpu-bind: {plan.binding.reason}')}\n" if plan.binding and bound else "",
        LAUNCH=_launch(plan).removesuffix("\n"),
        NAME=plan.command.launcher if plan.command.once_per_node else "rank",
        AFTER=_after(plan).removesuffix("\n"),
    )


def _common(plan: JobPlan) -> dict[str, str]:
    return {
        "COMMAND": bash_words(plan.command.words),
        "AGAIN": quoting.comment(plan.again),
        "MADE_FOR": made_for(plan),
        "CONTAINER": loaded(plan),
        "VARIABLES": variables(plan),
        "SRUN": srun_options(plan),
        "STEP": container_step(plan),
        "INSIDE": inside(plan),
    }


def _interactive_script(plan: JobPlan) -> str:
    return filled(
        template("interactive.sh"),
        **_common(plan),
        FILE=quoting.comment(quoting.sh_word(plan.request.file)),
        OPTIONS="\n".join(_interactive_options(plan)),
        SETTINGS=exports_of_start(plan) if plan.use.variables == "edf" else exports(plan),
    )


def _interactive_options(plan: JobPlan) -> Iterator[str]:
    options = (option for option in plan.directives if option.name != "output")
    rows = [(f"--{option.name}" + (f"={option.value}" if option.value else ""), option.reason) for option in options]
    yield from aligned([(f"  {quoting.sh_word(text)}", reason) for text, reason in rows])
    for option in plan.request.option:
        yield f"  {bash_words(shlex.split(option.removeprefix('#SBATCH ')))}"


def _further(plan: JobPlan) -> list[str]:
    in_plan = re.compile(rf"(?:#SBATCH )?(?:--(?:{TASKS}|{CORES})\b|-c)")  # without GPUs, the plan has these options
    options = (option for option in plan.request.option if plan.gpus or not in_plan.match(option))
    return [f"#SBATCH {option.removeprefix('#SBATCH ')}" for option in options]


def _vetting(plan: JobPlan) -> str:
    return filled(
        template("vet.sh"),
        JOB=quoting.comment(quoting.sh_word(plan.request.file)),
        AGAIN=quoting.comment(plan.again),
        RANKS=str(plan.ranks),
        NODES=str(plan.nodes),
        GPUS=f" --gpus-per-task={plan.ranks} --gpu-bind=none" if plan.one_gpu_per_rank else "",
        ADDRESS=quoting.sh_inside(address(plan)),
        CORES=f" -c {plan.cores_of_rank}" if plan.cores_of_rank else "",
        OPTIONS=srun_options(plan),
        STEP=container_step(plan),
        INSIDE=inside(plan),
        RANK=rendezvous.RANK_OF_TASK,
        PORT=rendezvous.PORT_OF_STEP,
        NUMBERS=template("all-reduce.python"),
    )


def _after(plan: JobPlan) -> str:
    if plan.request.requeue:
        return template("requeue.sh")
    return filled(template("verdict.sh"), SYSTEM=quoting.sh_word(plan.system)) if plan.request.nccl_test else ""


def _launch(plan: JobPlan) -> str:
    launcher, requeue = plan.command.launcher, plan.request.requeue
    if launcher == SRUN:
        local = "  export LOCAL_RANK=0 # the rank sees only one GPU\n" if plan.binding and plan.binding.gpus else ""
        return filled(
            template("launch-srun.sh"), RANK=rendezvous.RANK_OF_TASK, TASKS=rendezvous.TASKS_OF_NODE, LOCAL=local
        )
    program = quoting.sh_inside(launcher_line(plan, str(plan.ranks)))
    known = launcher_named(launcher)
    logs = known.logs if known else ""
    if not logs:
        return filled(template("launch-node.sh"), PROGRAM=program, SIGNAL='""' if requeue else ":")
    ignored = '  trap "" USR1 # torchrun ignores the signal, which Slurm also sends to the ranks\n'
    bound = f"--numa-binding={plan.binding.value}" if plan.binding else ""
    why = quoting.sh_inside(quoting.comment(plan.binding.reason)) if plan.binding else ""
    numa = f"  bind=; command -v numactl >/dev/null && bind={bound} # {why}\n" if plan.binding else ""
    return filled(
        template("launch-torchrun.sh"),
        PROGRAM=program.rstrip(),
        LOGS=logs,
        SIGNAL=ignored if requeue else "",
        NUMA=quoting.comment(numa.rstrip()) + "\n" if numa else "",
        BINDING=" $bind" if numa else "",
    )


def _host_file(plan: JobPlan) -> str:
    launcher = launcher_named(plan.command.launcher)
    if launcher is None or HOST_FILE not in launcher.options.values():
        return ""
    names = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
    if plan.request.vets:
        names = 'printf "%s\\n" "${passed[@]}"'
    return f'{names} | sed "s/$/ slots={plan.ranks}/" >{HOST_FILE}\n'


def _staging(plan: JobPlan) -> str:
    if not plan.request.stage:
        return ""
    copies = " ".join(f'"{copy}"' for copy in plan.copies)
    lines = [
        f"# Each node mounts its own copy of the images, {'on its own disk' if plan.local else 'in memory'}.",
        filled(template("cleaner.sh"), PATHS=copies).removesuffix("\n"),
    ]
    for index, (image, copy) in enumerate(zip(plan.images, plan.copies, strict=True)):
        lines.append(f'sbcast --force {_source(image)} "{copy}"')
        if plan.use.step:
            packed = f'binds+=("{mounted_overlay(plan, copy)}") # the packed Python overlay'
            lines.append(packed if index else f'image="{copy}"')
    return "\n".join(lines) + "\n"


def _source(image: str) -> str:
    if image.startswith(PATH_STARTS):
        return quoting.sh_word(image)
    return f"\"$(uenv image inspect --format='{{sqfs}}' {quoting.sh_word(image)})\""
