"""The batch script of a job for Slurm, what looks at its nodes first, and its EDF; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from uenvtool.check.launchers import SRUN, launcher_named
from uenvtool.check.parts import MADE_FOR
from uenvtool.core import quoting, rendezvous
from uenvtool.core.filling import filled, filled_where_marked
from uenvtool.core.lines import aligned, bash_words, beside
from uenvtool.job.edf import beside_edf, job_edf
from uenvtool.job.limits import CORES, TASKS
from uenvtool.job.named_edf import EDF
from uenvtool.job.plan import ENVIRONMENT, PATH_STARTS, UENV, JobPlan
from uenvtool.job.shell import exports, exports_in_logs, launcher_line, mounted_overlay, path_line, template
from uenvtool.knowledge.jobs import Explained

VET = ".vet.sh"
"""The end of the name of what looks at nodes, in place of the job's."""
HOST_FILE = '"$LOGS/hostfile"'
"""The file of nodes for a launcher with an option of this value."""
PASSED = ("SLURM*", "NCCL_*", "FI_*", "TORCH_*", "MASTER_*", "NNODES", "LOGS", "PYTHONUNBUFFERED", "OMP_NUM_THREADS")
"""What a container that gets no variable by itself needs of the job, as podman takes names."""
_PASSED_STARTS = tuple(name.removesuffix("*") for name in PASSED if name.endswith("*"))


def slurm_files(plan: JobPlan) -> dict[str, str]:
    """Return the files of a job by their names, the batch script first."""
    files = {plan.request.file: _batch_script(plan)}
    if plan.use.variables == "edf" and plan.edf is None:
        files[beside(plan.request.file, EDF)] = job_edf(plan)
    if plan.request.vets:
        files[beside(plan.request.file, VET)] = _vetting(plan)
    return files


def _batch_script(plan: JobPlan) -> str:
    rows = [(_directive(directive), directive.reason) for directive in plan.directives]
    vet = nodes = made_for = ""
    if plan.recipe:  # the line by which `check` knows the recipe of the uenv
        made_for = quoting.comment(MADE_FOR.format(plan.recipe, plan.image)) + "\n"
    if plan.request.vets:
        vet = f"passed=() # the nodes that pass, as the next line finds out\n. {_submitted_with(plan, VET)}\n"
        nodes = f' -N {plan.nodes} -n {plan.nodes * plan.tasks} -w "$(IFS=, && echo "${{passed[*]}}")" \\\n '
    in_file = plan.use.variables == "edf"
    why = "has the container's variables: what is set here, srun would hand on into it"
    edf = plan.edf.path if plan.edf else beside(plan.request.file, EDF)
    shown = f"# {quoting.sh_word(edf)} {why}.\n"
    return filled(
        template("slurm.sh"),
        DIRECTIVES="\n".join(aligned(rows, _further(plan))),
        COMMAND=bash_words(plan.command.words),
        AGAIN=quoting.comment(plan.again),
        MADE_FOR=made_for,
        CONTAINER=_modules(plan) + (_container(plan) if plan.use.step else _environment(plan)),
        SETTINGS=shown if in_file else exports(plan),
        IN_LOGS=exports_in_logs(plan),
        ADDRESS=_address(plan),
        PORT=rendezvous.PORT_OF_JOB,
        STAGE=_staging(plan),
        MONITOR=_monitoring(plan),
        VET=vet + _host_file(plan),
        BEFORE=template("before-requeue.sh") if plan.request.requeue else "",
        NODES=nodes,
        CORES=_cores_option(plan),
        BIND="none" if plan.command.once_a_node else (plan.binding and plan.binding.value) or "cores",
        OPTIONS=_srun_options(plan),
        STEP=_step(plan),
        INSIDE=_inside(plan),
        LAUNCH=_launch(plan).removesuffix("\n"),
        NAME=plan.command.launcher if plan.command.once_a_node else "rank",
        AFTER=_after(plan).removesuffix("\n"),
    )


def _further(plan: JobPlan) -> list[str]:
    """Return the further options of sbatch, but for the ranks and cores of a job without GPUs, which it has by then."""
    taken = re.compile(rf"(?:#SBATCH )?(?:--(?:{TASKS}|{CORES})\b|-c)")
    return [option for option in plan.request.option if plan.gpus or not taken.match(option)]


def _address(plan: JobPlan) -> str:
    """Return the command that says a node's address, without a remark: behind it a `)` would be one too."""
    return plan.use.address.partition(" #")[0]


def _vetting(plan: JobPlan) -> str:
    return filled(
        template("vet.sh"),
        JOB=quoting.comment(quoting.sh_word(plan.request.file)),
        AGAIN=quoting.comment(plan.again),
        RANKS=str(plan.ranks),
        NODES=str(plan.nodes),
        GPUS=f" --gpus-per-task={plan.ranks} --gpu-bind=none" if plan.own_gpu else "",
        ADDRESS=quoting.sh_inside(_address(plan)),
        CORES=f" -c {plan.cores_of_rank}" if plan.cores_of_rank else "",
        OPTIONS=_srun_options(plan),
        STEP=_step(plan),
        INSIDE=_inside(plan),
        RANK=rendezvous.RANK_OF_TASK,
        PORT=rendezvous.PORT_OF_STEP,
        NUMBERS=template("all-reduce.python"),
    )


def _submitted_with(plan: JobPlan, suffix: str) -> str:
    """Return the word of bash for a file beside the job, whose name counts from the folder where sbatch was called."""
    name = quoting.sh_word(beside(plan.request.file, suffix))
    return name if name.startswith("/") else f'"$SLURM_SUBMIT_DIR"/{name}'


def _after(plan: JobPlan) -> str:
    """Return the lines that queue the job again, if its limit came, or judge the network as tested."""
    if plan.request.requeue:
        return template("requeue.sh")
    return filled(template("verdict.sh"), SYSTEM=quoting.sh_word(plan.system)) if plan.request.nccl_test else ""


def _directive(directive: Explained) -> str:
    value = f"={quoting.sbatch(directive.name, directive.value)}" if directive.value else ""
    return f"#SBATCH --{directive.name}{value}"


def _srun_options(plan: JobPlan) -> str:
    staged = plan.request.stage and plan.use.staged
    copies = ",".join(plan.copies)
    views = quoting.sh_word(plan.views)
    text = filled_where_marked(staged or plan.use.srun, COPIES=copies, VIEWS=views, EDF=_edf_path(plan))
    of_image = plan.extended or plan.mpi
    options = (*plan.knowledge.srun, *(of_image.srun if of_image else ()))
    return "".join(f" {option}" for option in options) + (f" \\\n  {text}" if text else "")


def _edf_path(plan: JobPlan) -> str:
    """Return the path of the EDF as a word of bash: srun takes a name without a `/` for one of its search path."""
    if plan.edf:
        return quoting.sh_word(plan.edf.path)
    if plan.request.workdir:
        return _submitted_with(plan, EDF)
    edf = beside(plan.request.file, EDF)
    return quoting.sh_word(edf if edf.startswith("/") else f"./{edf}")


def _step(plan: JobPlan) -> str:
    """Return the command that starts the container in each task, if one does."""
    if not plan.use.step:
        return ""
    env = " ".join(f"--env {name}={quoting.sh_word(value)}" for name, value in plan.knowledge.env.items())
    names = (*(setting.name for setting in plan.settings), *plan.request.variables)
    set_here = [*PASSED, *(name for name in dict.fromkeys(names) if not name.startswith(_PASSED_STARTS))]
    step = filled_where_marked(
        plan.use.step,
        ENV=f" \\\n  {env}" if env else "",
        GPU=f" {plan.use.gpu[plan.gpu]}" if plan.gpu in plan.use.gpu else "",
        OPTIONS="".join(f" {option}" for option in plan.knowledge.options),
        VARIABLES="".join(f' -e "{name}"' for name in set_here),
        ENTRY=f" {plan.knowledge.entry}" if plan.knowledge.entry else "",
        IMAGE=quoting.sh_word(plan.image),
    )
    return f"\\\n  {step} "


def _modules(plan: JobPlan) -> str:
    known = plan.knowledge
    if not known.modules:
        return ""
    folders = [f"module use {quoting.sh_word(folder)}" for folder in known.module_use]
    start = "module reset || module purge # a site without modules of its own has nothing to reset to"
    return "\n".join([start, *folders, *(f"module load {quoting.sh_word(name)}" for name in known.modules)]) + "\n"


def _environment(plan: JobPlan) -> str:
    overlay = _unpacked("overlay", ".squashfs", plan.overlay.image, plan) if plan.overlay and plan.unpacks else ""
    if plan.use.image != ENVIRONMENT or not plan.image:
        return f"\n{overlay}" if plan.knowledge.modules else overlay
    if plan.is_sent:
        return _unpacked("environment", ".tar.gz", plan.image, plan)
    return filled(template("environment.sh"), IMAGE=quoting.sh_word(plan.image)) + overlay


def _unpacked(name: str, suffix: str, image: str, plan: JobPlan) -> str:
    """Return the lines that send an archive to the nodes and unpack it there."""
    return filled(
        template("overlay-unpacked.sh" if name == "overlay" else "environment-sent.sh"),
        IMAGE=quoting.sh_word(image),
        FOLDER=plan.node_folder,
        WHERE="on its own disk" if plan.local else "in its memory",
        CORES=_cores_option(plan),
        CLEANER=filled(template("cleaner.sh"), PATHS=f'"${name}" "${name}{suffix}"'),
    )


def _cores_option(plan: JobPlan) -> str:
    return ' -c "$SLURM_CPUS_PER_TASK"' if plan.cores else ""


def _container(plan: JobPlan) -> str:
    image = plan.image
    rows = list(aligned([(f"  {word}", reason) for word, reason in _binds(plan)]))
    is_file = image.startswith(PATH_STARTS) or ("://" in plan.use.registry and "://" not in image)
    return filled(
        template("container.sh"),
        IMAGE=quoting.sh_word(image),
        BINDS="\n".join(["", *rows, ""]) if rows else "",
        CHECKED=' "$image"' if is_file else "",
    )


def _binds(plan: JobPlan) -> Iterator[tuple[str, str]]:
    """Yield what the container sees of the host, with the reason. A staged overlay is added when it is there."""
    for bind in plan.knowledge.binds:
        variable, _, rest = bind.host.removeprefix("${").partition("}")
        before = f'"${{{variable}:?}}"' if bind.host.startswith("${") else ""
        yield before + quoting.sh_word(f"{rest if before else bind.host}:{bind.inside}"), bind.reason
    for mount in plan.knowledge.mounts:
        yield quoting.sh_word(mount), ""
    for mount in plan.request.mount:
        yield quoting.sh_word(mount), "--mount"
    if plan.overlay is None:
        return
    path = plan.overlay.image
    if not plan.overlay.mount:
        yield quoting.sh_word(f"{path}:{path}"), "the Python overlay"
    elif not plan.request.stage:
        yield quoting.sh_word(mounted_overlay(plan, path)), "the packed Python overlay"


def _launch(plan: JobPlan) -> str:
    launcher, requeue = plan.command.launcher, plan.request.requeue
    if launcher == SRUN:
        own = "  export LOCAL_RANK=0 # of the GPUs that the rank sees\n" if plan.binding and plan.binding.gpus else ""
        return filled(
            template("launch-srun.sh"), RANK=rendezvous.RANK_OF_TASK, TASKS=rendezvous.TASKS_OF_NODE, LOCAL=own
        )
    program = quoting.sh_inside(launcher_line(plan, str(plan.ranks)))
    known = launcher_named(launcher)
    logs = known.logs if known else ""
    if not logs:
        return filled(template("launch-node.sh"), PROGRAM=program, SIGNAL='""' if requeue else ":")
    ignored = '  trap "" USR1 # torchrun itself ignores the signal; the ranks get it too\n'
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


def _inside(plan: JobPlan) -> str:
    known = plan.knowledge
    folders = {"LD_LIBRARY_PATH": known.library_path, "CPATH": known.include_path}
    lines = [f"  export {name}={':'.join(paths)}:${name}\n" for name, paths in folders.items() if paths]
    if plan.use.image != UENV or not (plan.overlay and plan.overlay.mount):  # a view puts a packed one first
        lines.append(path_line(plan, "  "))
    lines += [f"  {quoting.sh_inside(line)}\n" for line in beside_edf(plan)]
    return "".join(lines)


def _staging(plan: JobPlan) -> str:
    """Return the lines that copy the images to all nodes; empty if that is not wanted."""
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


def _monitoring(plan: JobPlan) -> str:
    """Return the lines that start a monitor, and end it when the job ends; empty if there is none."""
    monitor = plan.knowledge.monitor
    return filled(template("monitor.sh"), MONITOR=monitor) if monitor else ""
