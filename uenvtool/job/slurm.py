"""Writes the scripts and the EDF of a batch job or an interactive shell on Slurm; pure functions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from uenvtool.check.launchers import SRUN, launcher_named
from uenvtool.check.parts import MADE_FOR
from uenvtool.core import quoting, rendezvous
from uenvtool.core.filling import filled, filled_where_marked
from uenvtool.job.disk import EDF
from uenvtool.job.edf import exports_with_named_edf, job_edf
from uenvtool.job.limits import CORES, TASKS
from uenvtool.job.plan import ENVIRONMENT, PATH_STARTS, JobPlan
from uenvtool.job.record import record
from uenvtool.job.shell import (
    PYTHON,
    aligned,
    bash_words,
    command_words,
    exports,
    exports_in_logs,
    exports_of_start,
    launcher_line,
    mounted_overlay,
    mounts_of_user,
    overlay_lines,
    sibling,
    template,
    tests_of_machine,
    with_target,
)
from uenvtool.knowledge.jobs import Explained

VET = ".vet.sh"
"""The suffix of the script that tests the nodes."""
HOST_FILE = '"$LOGS/hostfile"'
"""The file that lists the nodes, for a launcher that has an option with this value."""
PASSED = (
    *("SLURM*", "NCCL_*", "FI_*", "TORCH_*", "MASTER_*", "NNODES", "LOGS", "PYTHONUNBUFFERED", "OMP_NUM_THREADS"),
    *("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
)
"""The variables that a container needs from the job if it inherits none, as name patterns for podman."""
_PASSED_STARTS = tuple(name.removesuffix("*") for name in PASSED if name.endswith("*"))
_IS_THERE = '[ -e "{0}" ] || {{ echo "missing on $(hostname): {0}" >&2; exit 1; }}'


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
        vet = f"passed=() # the next line sets it to the nodes that pass\n. {_submitted_with(plan, VET)}\n"
        nodes = f' -N {plan.nodes} -n {plan.nodes * plan.tasks} -w "$(IFS=, && echo "${{passed[*]}}")" \\\n '
    in_file, monitor = plan.use.variables == "edf", plan.knowledge.monitor
    why = "contains the variables of the container, because srun would pass variables from here into it"
    shown = f"# {quoting.sh_word(plan.edf_file)} {why}.\n"
    return filled(
        template("slurm.sh"),
        DIRECTIVES="\n".join([*aligned(rows), *_further(plan)]),
        **_common(plan),
        STEPS=_tests(plan) if plan.request.tests else _step(plan, nodes),
        SETTINGS=shown + exports_of_start(plan) if in_file else exports(plan),
        STAGE=_staging(plan),
        MONITOR=filled(template("monitor.sh"), MONITOR=monitor) if monitor else "",
        VET=vet + _host_file(plan),
        BEFORE=template("before-requeue.sh") if plan.request.requeue else "",
    )


def _step(plan: JobPlan, nodes: str) -> str:
    bound = plan.binding.value if plan.binding and not plan.command.once_per_node else ""
    return filled(
        template("step.sh").removesuffix("\n"),
        **_in_step(plan),
        NODES=nodes,
        CORES=_cores_option(plan),
        BIND=bound or ("none" if plan.command.once_per_node else "cores"),
        BINDING=f"# {quoting.comment(f'--cpu-bind: {plan.binding.reason}')}\n" if plan.binding and bound else "",
        LAUNCH=_launch(plan).removesuffix("\n"),
        NAME=plan.command.launcher if plan.command.once_per_node else "rank",
        AFTER=_after(plan).removesuffix("\n"),
    )


def _tests(plan: JobPlan) -> str:
    function = filled(template("try-step.sh"), TEST_ON=_test_on(plan), RANKS=str(plan.ranks))
    return tests_of_machine(plan, function)


def _test_on(plan: JobPlan) -> str:
    """Return the function that runs one test on nodes of the job."""
    return filled(
        template("test-on.sh"),
        **_in_step(plan),
        GPUS=_all_gpus(plan),
        CORES=f" -c {plan.cores_of_rank}" if plan.cores_of_rank else "",
        RANK=rendezvous.RANK_OF_TASK,
        PORT=rendezvous.PORT_OF_STEP,
    )


def _all_gpus(plan: JobPlan) -> str:
    return f"--gpus-per-task={plan.ranks} --gpu-bind=none" if plan.one_gpu_per_rank else ""


def _in_step(plan: JobPlan) -> dict[str, str]:
    return {"SRUN": _srun_options(plan), "STEP": _container_step(plan), "INSIDE": _inside(plan)}


def _common(plan: JobPlan) -> dict[str, str]:
    return {
        "COMMAND": command_words(plan),
        "AGAIN": quoting.comment(plan.again),
        "MADE_FOR": quoting.comment(MADE_FOR.format(plan.recipe, plan.image)) + "\n" if plan.recipe else "",
        "CONTAINER": _modules(plan) + (_container(plan) if plan.use.step else _environment(plan)),
        "VARIABLES": filled(
            template("variables.sh"),
            NUMBER="${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" if plan.array else "$SLURM_JOB_ID",
            RECORD=record(plan, "$SLURM_JOB_NODELIST"),
            IN_LOGS=exports_in_logs(plan),
            ADDRESS=_address(plan),
            PORT=rendezvous.PORT_OF_JOB,
        ),
    }


def _interactive_script(plan: JobPlan) -> str:
    return filled(
        template("interactive.sh"),
        **_common(plan),
        **_in_step(plan),
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
        GPUS=f" {gpus}" if (gpus := _all_gpus(plan)) else "",
        ADDRESS=quoting.sh_inside(_address(plan)),
        TEST_ON=_test_on(plan),
        TESTS=template("try.python"),
        PYTHON=bash_words(PYTHON),
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


def _srun_options(plan: JobPlan) -> str:
    staged = plan.request.stage and plan.use.staged
    copies = ",".join(plan.copies)
    views = quoting.sh_word(plan.views)
    text = filled_where_marked(staged or plan.use.srun, COPIES=copies, VIEWS=views, EDF=_edf_path(plan))
    of_image = plan.extended or plan.mpi
    options = (*plan.knowledge.srun, *(of_image.srun if of_image else ()))
    return "".join(f" {option}" for option in options) + (f" \\\n  {text}" if text else "")


def _edf_path(plan: JobPlan) -> str:
    # The path contains a `/`, because srun looks for a bare name on its search path.
    if plan.edf:
        return quoting.sh_word(plan.edf.path)
    if plan.request.workdir and not plan.opens_shell:
        return _submitted_with(plan, EDF)
    edf = plan.edf_file
    return quoting.sh_word(edf if edf.startswith("/") else f"./{edf}")


def _submitted_with(plan: JobPlan, suffix: str) -> str:
    name = quoting.sh_word(sibling(plan.request.file, suffix))
    return name if name.startswith("/") else f'"$SLURM_SUBMIT_DIR"/{name}'


def _address(plan: JobPlan) -> str:
    return plan.use.address.partition(" #")[0]  # a comment would hide a `)` after the command


def _modules(plan: JobPlan) -> str:
    known = plan.knowledge
    if not known.modules:
        return ""
    folders = [f"module use {quoting.sh_word(folder)}" for folder in known.module_use]
    start = "module reset || module purge # reset fails if the site has no default modules"
    return "\n".join([start, *folders, *(f"module load {quoting.sh_word(name)}" for name in known.modules)]) + "\n"


def _environment(plan: JobPlan) -> str:
    overlay = _unpacked("overlay", ".squashfs", plan.overlay.image, plan) if plan.overlay and plan.unpacks else ""
    if plan.use.image != ENVIRONMENT or not plan.image:
        return f"\n{overlay}" if plan.knowledge.modules else overlay
    if plan.is_sent:
        return _unpacked("environment", ".tar.gz", plan.image, plan)
    return filled(template("environment.sh"), IMAGE=quoting.sh_word(plan.image)) + overlay


def _unpacked(name: str, suffix: str, image: str, plan: JobPlan) -> str:
    return filled(
        template(f"{name}-sent.sh"),
        IMAGE=quoting.sh_word(image),
        FOLDER=plan.node_folder,
        WHERE="on its own disk" if plan.local else "in its memory",
        CORES=_cores_option(plan),
        CLEANER=filled(template("cleaner.sh"), PATHS=f'"${name}" "${name}{suffix}"'),
    )


def _cores_option(plan: JobPlan) -> str:
    return ' -c "$SLURM_CPUS_PER_TASK"' if plan.cores else ""  # srun does not inherit this option from the job


def _container(plan: JobPlan) -> str:
    image = plan.image
    rows = list(aligned([(f"  {word}", reason) for word, reason in _binds(plan)]))
    is_file = image.startswith(PATH_STARTS) or ("://" in plan.use.registry and "://" not in image)
    check = f"{_IS_THERE.format('$image')}\n" if is_file else ""
    if rows:
        paths = '"${binds[@]}" "$image"' if is_file else '"${binds[@]}"'
        check = f"for path in {paths}; do\n  {_IS_THERE.format('${path%%:*}')}\ndone\n"
    return filled(
        template("container.sh"),
        HOME="" if plan.use.home else template("home.sh"),
        IMAGE=quoting.sh_word(image),
        BINDS="\n".join(["(", *rows, ")"]) if rows else "() # the paths of --mount",
        CHECK=check,
    )


def _binds(plan: JobPlan) -> Iterator[tuple[str, str]]:
    for bind in plan.knowledge.binds:
        variable, _, rest = bind.host.removeprefix("${").partition("}")
        before = f'"${{{variable}:?}}"' if bind.host.startswith("${") else ""
        yield before + quoting.sh_word(f"{rest if before else bind.host}:{bind.inside}"), bind.reason
    for mount in plan.knowledge.mounts:
        yield quoting.sh_word(with_target(mount)), ""
    packed = plan.overlay.image if plan.overlay and not plan.request.stage else ""
    for mount, reason in mounts_of_user(plan, packed):
        yield quoting.sh_word(mount), reason


def _container_step(plan: JobPlan) -> str:
    if not plan.use.step:
        return ""
    env = " ".join(f"--env {name}={quoting.sh_word(value)}" for name, value in plan.knowledge.env.items())
    names = (*(setting.name for setting in plan.settings), *plan.request.variables, *plan.request.passed)
    set_here = dict.fromkeys((*PASSED, *(name for name in names if not name.startswith(_PASSED_STARTS))))
    step = filled_where_marked(
        plan.use.step,
        ENV=f" \\\n  {env}" if env else "",
        GPU=_options_once(plan, filter(None, [plan.use.gpu.get(plan.gpu)])),
        OPTIONS=_options_once(plan, plan.use.options) + "".join(f" {option}" for option in plan.knowledge.options),
        VARIABLES="".join(f' -e "{name}"' for name in set_here),
        ENTRY=f" {plan.knowledge.entry}" if plan.knowledge.entry else "",
        IMAGE=quoting.sh_word(plan.image),
    )
    return f"\\\n  {step} "


def _options_once(plan: JobPlan, options: Iterable[str]) -> str:
    adds = plan.knowledge.adds.options if plan.knowledge.adds else ()
    given = {option.partition("=")[0] for option in (*plan.knowledge.options, *adds)}
    return "".join(f" {option}" for option in options if option.partition("=")[0] not in given)


def _inside(plan: JobPlan) -> str:
    known = plan.knowledge
    folders = {"LD_LIBRARY_PATH": known.library_path, "CPATH": known.include_path}
    lines = [f"  export {name}={':'.join(paths)}${{{name}:+:${name}}}\n" for name, paths in folders.items() if paths]
    lines += [f"  {quoting.sh_inside(line)}\n" for line in (*overlay_lines(plan), *exports_with_named_edf(plan))]
    return "".join(lines)
