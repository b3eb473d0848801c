"""Renders the files of a job: templates in their own languages, filled with a plan; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from uenvtool.check.launchers import SRUN, TORCHRUN, launcher_named
from uenvtool.core import quoting, rendezvous
from uenvtool.core.errors import BadInput
from uenvtool.core.filling import filled, filled_where_marked
from uenvtool.core.lines import aligned, bash_words, beside, mountable, yaml_mapping
from uenvtool.job.launch import options_line, variables_line
from uenvtool.job.plan import CONTAINER, ENVIRONMENT, HERE, KUBERNETES, UENV, JobPlan
from uenvtool.knowledge.jobs import Explained, RuntimeJob
from uenvtool.knowledge.tuning import AT_MOST, REQUIRED, TEMPORARY, Setting

TEMPLATES = Path(__file__).parent / "templates"
NODE_FOLDER = "/tmp/$USER-$SLURM_JOB_ID"  # noqa: S108  a folder of each node, named in the job
MEMORY = "/dev/shm"  # noqa: S108  a folder of the compute node, named in the job
POD_FOLDER = "/tmp/job"  # noqa: S108  a folder of the pod, where the scripts of a job are
SUBMIT, VET = ".submit.sh", ".vet.sh"
"""The ends of the names of what submits pods, and of what looks at nodes, in place of the job's."""
HOST_FILE = '"$LOGS/hostfile"'
"""The file of nodes for a launcher with an option of this value."""
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9 ^_./:,+=%-]*")
"""What may stand within double quotes and braces."""
_PATH_STARTS = ("/", ".", "$")
PASSED = ("SLURM*", "NCCL_*", "FI_*", "TORCH_*", "MASTER_*", "NNODES", "LOGS", "PYTHONUNBUFFERED", "OMP_NUM_THREADS")
"""What a container that gets no variable by itself needs of the job, as podman takes names."""
_PASSED_STARTS = tuple(name.removesuffix("*") for name in PASSED if name.endswith("*"))


def template(name: str) -> str:
    """Return the text of a template."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def job_files(plan: JobPlan, activation: str = "") -> dict[str, str]:
    """Return the files of a job by their names, its script first.

    activation: the script that sets a pod up. Raises BadInput for a text that a file cannot hold.
    """
    if plan.use.scheduler == KUBERNETES:
        return _pod_files(plan, activation)
    if plan.use.scheduler == HERE:
        return {plan.request.file: _local_script(plan)}
    files = {plan.request.file: _batch_script(plan)}
    if plan.use.variables == "edf":
        files[edf_name(plan)] = _edf(plan)
    if plan.request.vets:
        files[beside(plan.request.file, VET)] = _vetting(plan)
    return files


def edf_name(plan: JobPlan) -> str:
    """Return the name of the environment definition file beside the job."""
    return beside(plan.request.file, ".toml")


def _made_for(plan: JobPlan) -> str:
    """Return the line by which `job check` knows the recipe of the uenv."""
    from uenvtool.check.parts import MADE_FOR

    return quoting.comment(MADE_FOR.format(plan.recipe, plan.image)) + "\n"


def _batch_script(plan: JobPlan) -> str:
    """Return the batch script: options, what the container gets, variables, and how the ranks start."""
    rows = [(_directive(directive), directive.reason) for directive in plan.directives]
    vet = nodes = ""
    if plan.request.vets:
        vet = f"passed=() # the nodes that pass, as the next line finds out\n. {_submitted_with(plan, VET)}\n"
        nodes = f' -N {plan.nodes} -n {plan.nodes * plan.tasks} -w "$(IFS=, && echo "${{passed[*]}}")" \\\n '
    in_file = plan.use.variables == "edf"
    why = "has the container's variables: what is set here, srun would hand on into it"
    shown = f"# {quoting.sh_word(edf_name(plan))} {why}.\n"
    return filled(
        template("slurm.sh"),
        DIRECTIVES="\n".join(aligned(rows, plan.request.option)),
        COMMAND=bash_words(plan.command.words),
        AGAIN=quoting.comment(plan.again),
        MADE_FOR=_made_for(plan) if plan.recipe else "",
        CONTAINER=_modules(plan) + (_container(plan) if plan.use.step else _environment(plan)),
        SETTINGS=shown if in_file else _exports(plan),
        IN_LOGS=_in_logs(plan),
        ADDRESS=_address(plan),
        PORT=rendezvous.PORT_OF_JOB,
        STAGE=_staging(plan),
        END=_at_the_end(plan),
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


def _vetting(plan: JobPlan) -> str:
    cores = plan.cores * plan.tasks // plan.ranks
    return filled(
        template("vet.sh"),
        JOB=quoting.comment(quoting.sh_word(plan.request.file)),
        AGAIN=quoting.comment(plan.again),
        RANKS=str(plan.ranks),
        NODES=str(plan.nodes),
        GPUS=f" --gpus-per-task={plan.ranks} --gpu-bind=none" if plan.own_gpu else "",
        ADDRESS=_address(plan).replace("'", "'\\''"),
        CORES=f" -c {cores}" if cores else "",
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


def _address(plan: JobPlan) -> str:
    return plan.use.address.partition(" #")[0]


def _after(plan: JobPlan) -> str:
    """Return the lines that queue the job again, if its limit came, or judge the network as tested."""
    if plan.request.requeue:
        return template("requeue.sh")
    return filled(template("verdict.sh"), SYSTEM=quoting.sh_word(plan.system)) if plan.request.nccl_test else ""


def _node_names(plan: JobPlan) -> str:
    vetted = 'printf "%s\\n" "${passed[@]}"'
    return vetted if plan.request.vets else 'scontrol show hostnames "$SLURM_JOB_NODELIST"'


def _directive(directive: Explained) -> str:
    """Return a line of sbatch's options; an option may have no value."""
    value = f"={quoting.sbatch(directive.name, directive.value)}" if directive.value else ""
    return f"#SBATCH --{directive.name}{value}"


def _srun_options(plan: JobPlan) -> str:
    staged = plan.request.stage and plan.use.staged
    copies = ",".join(_copies(plan))
    edf = edf_name(plan)
    named = (
        _submitted_with(plan, ".toml") if plan.request.workdir else quoting.sh_word(edf if "/" in edf else f"./{edf}")
    )
    text = filled_where_marked(staged or plan.use.srun, COPIES=copies, VIEWS=quoting.sh_word(plan.views), EDF=named)
    extended = plan.knowledge.extended.srun if plan.knowledge.extended and plan.extended else ()
    return "".join(f" {option}" for option in (*plan.knowledge.srun, *extended)) + (f" \\\n  {text}" if text else "")


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
    on_nodes = {"FOLDER": _local(plan), "CORES": _cores_option(plan)}
    overlay = ""
    if plan.overlay and plan.unpacks:
        overlay = filled(template("overlay-unpacked.sh"), IMAGE=quoting.sh_word(plan.overlay.image), **on_nodes)
    if plan.use.image != ENVIRONMENT or not plan.image:
        return f"\n{overlay}" if plan.knowledge.modules else overlay
    image = quoting.sh_word(plan.image)
    if not plan.is_sent:
        return filled(template("environment.sh"), IMAGE=image) + overlay
    return filled(template("environment-sent.sh"), IMAGE=image, **on_nodes)


def _local(plan: JobPlan) -> str:
    return plan.local.folder if plan.local else MEMORY


def _cores_option(plan: JobPlan) -> str:
    return ' -c "$SLURM_CPUS_PER_TASK"' if plan.cores else ""


def _container(plan: JobPlan) -> str:
    image = plan.image
    rows = list(aligned([(f"  {word}", reason) for word, reason in _binds(plan)]))
    is_file = image.startswith(_PATH_STARTS) or ("://" in plan.use.registry and "://" not in image)
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
    path = mountable(plan.overlay.image)
    if not plan.overlay.mount:
        yield quoting.sh_word(f"{path}:{path}"), "the Python overlay"
    elif not plan.request.stage:
        yield quoting.sh_word(_mounted(plan, path)), "the packed Python overlay"


def _mounted(plan: JobPlan, image: str) -> str:
    place = plan.overlay.mount if plan.overlay else ""
    return filled_where_marked(plan.runtime.mount, IMAGE=image, MOUNT=place)


def _launch(plan: JobPlan) -> str:
    launcher, requeue = plan.command.launcher, plan.request.requeue
    if launcher == SRUN:
        own = "  export LOCAL_RANK=0 # of the GPUs that the rank sees\n" if plan.binding and plan.binding.gpus else ""
        return filled(
            template("launch-srun.sh"), RANK=rendezvous.RANK_OF_TASK, TASKS=rendezvous.TASKS_OF_NODE, LOCAL=own
        )
    program = _program(plan, str(plan.ranks)).replace("'", "'\\''")
    known = launcher_named(launcher)
    logs = known.logs if known else ""
    if not logs:
        return filled(template("launch-node.sh"), PROGRAM=program, SIGNAL='""' if requeue else ":")
    ignored = '  trap "" USR1 # torchrun itself ignores the signal; the ranks get it too\n'
    bound = f"--numa-binding={plan.binding.value}" if plan.binding else ""
    why = quoting.comment(plan.binding.reason).replace("'", "'\\''") if plan.binding else ""
    numa = f"  bind=; command -v numactl >/dev/null && bind={bound} # {why}\n" if plan.binding else ""
    return filled(
        template("launch-torchrun.sh"),
        PROGRAM=program.rstrip(),
        LOGS=logs,
        SIGNAL=ignored if requeue else "",
        NUMA=quoting.comment(numa.rstrip()) + "\n" if numa else "",
        BINDING=" $bind" if numa else "",
    )


def _program(plan: JobPlan, ranks: str) -> str:
    """Return the launcher with its options for a node of a job, in words of bash, and a space; nothing without one."""
    launcher = launcher_named(plan.command.launcher)
    if launcher is None:
        return ""
    program = f"{variables_line(launcher, ranks)}{bash_words(plan.command.program)}"
    words = f"{program} {options_line(launcher, ranks)}".rstrip().split(" --")
    lines, rest = " --".join(words[:4]), "".join(f" --{word}" for word in words[4:])
    return f"{lines} \\\n   {rest} " if rest else f"{lines} "


def _host_file(plan: JobPlan) -> str:
    launcher = launcher_named(plan.command.launcher)
    if launcher is None or HOST_FILE not in launcher.options.values():
        return ""
    return f'{_node_names(plan)} | sed "s/$/ slots={plan.ranks}/" >{HOST_FILE}\n'


def _inside(plan: JobPlan) -> str:
    known = plan.knowledge
    folders = {"LD_LIBRARY_PATH": known.library_path, "CPATH": known.include_path}
    lines = [f"  export {name}={':'.join(paths)}:${name}\n" for name, paths in folders.items() if paths]
    if plan.use.image != UENV or not (plan.overlay and plan.overlay.mount):  # a view puts a packed one first
        lines.append(_path_line(plan, "  "))
    return "".join(lines)


def _path_line(plan: JobPlan, indent: str = "") -> str:
    """Return the line that puts an overlay's programs first; none without an overlay.

    Raises BadInput for a path that bash would not take as it is.
    """
    if plan.overlay is None or plan.unpacks:
        return ""
    folder = f"{plan.overlay.mount or plan.overlay.path}/bin"
    if not quoting.PLAIN_WORD.fullmatch(folder):
        hint = "letters, digits and _ . / - only: move it"
        raise BadInput(f"the overlay's path {folder!r} cannot stand in a job", hint=hint)
    return f"{indent}export PATH={folder}:$PATH # python and torchrun of the overlay\n"


def _exports(plan: JobPlan) -> str:
    rows = [(f'export {value.name}="${{{value.name}-{value.value}}}"', value.reason) for value in _threads(plan)]
    rows += [(_export(setting), _reason(setting)) for setting in plan.settings if not _is_in_logs(setting)]
    given = [(f"export {name}={quoting.sh_word(value)}", "--env") for name, value in plan.request.variables.items()]
    if not rows and not given:
        return ""
    head = "# A value that is set before sbatch stays, but for those without a `-`. `uenvtool explain NAME` says more."
    return "\n".join([*([head] if rows else []), *aligned(rows), *aligned(given)]) + "\n\n"


def _export(setting: Setting) -> str:
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


def _is_in_logs(setting: Setting) -> bool:
    """Tell if a value is a file among the job's own logs, whose folder only the job can name."""
    return (setting.value or "").startswith("logs/")


def _in_logs(plan: JobPlan) -> str:
    rows = [
        (f'export {setting.name}="$PWD/$LOGS/{(setting.value or "").removeprefix("logs/")}"', _reason(setting))
        for setting in plan.settings
        if _is_in_logs(setting)
    ]
    return "".join(f"{line}\n" for line in aligned(rows))


def _threads(plan: JobPlan) -> list[Explained]:
    """Return OMP_NUM_THREADS, if the system's file says how many cores a node has."""
    cores = plan.cores * plan.tasks // plan.ranks if plan.cores else 0
    why = "the cores of a rank; fewer if data loaders fork"
    return [Explained("OMP_NUM_THREADS", str(cores), why)] if cores else []


def _reason(setting: Setting) -> str:
    return quoting.comment(f"{setting.reason} [{setting.source.name}]")


def _copies(plan: JobPlan) -> list[str]:
    named = (PurePath(image).suffix if image.startswith(_PATH_STARTS) else "" for image in plan.images)
    suffixes = (suffix if re.fullmatch(r"[.][A-Za-z]+", suffix) else ".squashfs" for suffix in named)
    return [f"{_local(plan)}/$SLURM_JOB_ID-{index}{suffix}" for index, suffix in enumerate(suffixes)]


def _staging(plan: JobPlan) -> str:
    """Return the lines that copy the images to all nodes; empty if that is not wanted."""
    if not plan.request.stage:
        return ""
    lines = ["# Each node mounts its own copy of the images, in memory."]
    for index, (image, copy) in enumerate(zip(plan.images, _copies(plan), strict=True)):
        lines.append(f'sbcast --force {_source(plan, image)} "{copy}"')
        if plan.use.step:
            packed = f'binds+=("{_mounted(plan, copy)}") # the packed Python overlay'
            lines.append(packed if index else f'image="{copy}"')
    return "\n".join(lines) + "\n"


def _source(plan: JobPlan, image: str) -> str:
    """Return the word of bash that names the file of an image. Raises BadInput if there is no such file."""
    if image.startswith(_PATH_STARTS):
        return quoting.sh_word(image)
    if plan.use.image == CONTAINER:
        raise BadInput(f"--stage: {image} is no file", hint="import it with enroot, and name the .sqsh file")
    return f"\"$(uenv image inspect --format='{{sqfs}}' {quoting.sh_word(image)})\""


def _at_the_end(plan: JobPlan) -> str:
    """Return the lines that start a monitor and, however the job ends, end it and remove copies; empty if none is."""
    monitor = plan.knowledge.monitor
    parts: list[str] = []
    on_each_node = 'srun -N "$SLURM_NNODES" -n "$SLURM_NNODES" --ntasks-per-node=1 --overlap'
    if monitor:
        parts.append('kill "$monitor" 2>/dev/null || :')
    if plan.request.stage:
        copies = " ".join(f'"{copy}"' for copy in _copies(plan))
        parts.append(f"{on_each_node} rm -f {copies}")
    sent = [name for name, is_there in (("environment", plan.is_sent), ("overlay", plan.unpacks)) if is_there]
    parts += [f'{on_each_node} rm -rf "${name}"' for name in sent]
    start = f'{monitor} >"$LOGS/gpu.csv" &\nmonitor=$!\n' if monitor else ""
    return start + filled(template("at-the-end.sh"), PARTS="; ".join(parts)) if parts else ""


def _local_script(plan: JobPlan) -> str:
    """Return the script of a job on this machine alone."""
    launcher = launcher_named(plan.command.launcher)
    options = launcher.one_node.replace("@RANKS@", str(plan.ranks)) if launcher else ""
    program = "".join(f"{part} " for part in (bash_words(plan.command.program), options) if part)
    return filled(
        template("local.sh"),
        RANKS=str(plan.ranks),
        COMMAND=bash_words(plan.command.words),
        AGAIN=quoting.comment(plan.again),
        INSIDE=_path_line(plan) + _exports(plan),
        PROGRAM=program,
    )


# --- the Container Engine's environment definition file


def _edf(plan: JobPlan) -> str:
    env = [
        *table_lines(_threads(plan)),
        *(
            f"{setting.name} = {_edf_value(setting)} # {_reason(setting)}"
            for setting in plan.settings
            if not _is_in_logs(setting)
        ),
        *(f"{name} = {quoting.edf(name, value)} # --env" for name, value in plan.request.variables.items()),
    ]
    return edf_text(
        plan.knowledge,
        extended=plan.extended,
        image=_as_mounted(plan, 0, plan.image),
        mounts=[*_edf_mounts(plan)],
        env=env,
        again=plan.again,
        workdir=plan.request.workdir,
    )


def _edf_mounts(plan: JobPlan) -> Iterator[str]:
    folder = plan.request.workdir or "${PWD}"
    if not any(folder == mount or folder.startswith(f"{mount}/") for mount in plan.knowledge.mounts):
        yield f"  {quoting.toml(f'{folder}:{folder}')}, # where the job runs"
    for mount in plan.request.mount:
        yield f"  {quoting.toml(mount if ':' in mount else f'{mount}:{mount}')}, # --mount"
    if plan.overlay is None:
        return
    path = mountable(plan.overlay.image)
    if not plan.overlay.mount:
        yield f"  {quoting.toml(path)}, # the Python overlay"
    else:
        yield f"  {quoting.toml(_mounted(plan, _as_mounted(plan, 1, path)))}, # the packed Python overlay"


def _as_mounted(plan: JobPlan, index: int, image: str) -> str:
    """Return an image as an EDF names it: its copy, a path below the folder where sbatch was called, or as it is."""
    if plan.request.stage:
        return _copies(plan)[index].replace("$SLURM_JOB_ID", "${SLURM_JOB_ID}")
    return _from_submission(image)


def _from_submission(image: str) -> str:
    return "${PWD}/" + image.removeprefix("./") if image.startswith(".") else image


def _edf_value(setting: Setting) -> str:
    """Return a variable in an EDF; an empty text unsets it there."""
    return '""' if setting.removes or setting.value is None else quoting.edf(setting.name, setting.value)


def edf_text(
    known: RuntimeJob,
    *,
    extended: bool,
    image: str,
    again: str,
    mounts: Sequence[str] = (),
    env: Sequence[str] = (),
    workdir: str = "",
) -> str:
    """Return the text of an EDF.

    extended: for an image with a network stack of its own. mounts, env: further lines, as they stand in the file.
    """
    own = known.extended if extended else None
    return filled(
        template("ce.toml"),
        AGAIN=quoting.comment(again),
        IMAGE=quoting.toml(image),
        MOUNTS="\n".join([*(f"  {quoting.toml(mount)}," for mount in known.mounts), *mounts]),
        WORKDIR=quoting.toml(workdir or known.workdir or "${PWD}"),
        ENTRYPOINT="entrypoint = true # sets the image's network stack up\n" if own else "",
        ANNOTATIONS="\n".join(table_lines(own.annotations if own else known.annotations)),
        ENV="\n".join([*table_lines(own.env if own else ()), *env]),
    )


def table_lines(entries: Sequence[Explained]) -> list[str]:
    """Return entries of a table, each with its reason."""
    return [
        f"{entry.name} = {quoting.toml(entry.value)}" + (f" # {quoting.comment(entry.reason)}" if entry.reason else "")
        for entry in entries
    ]


# --- pods


def _pod_files(plan: JobPlan, activation: str) -> dict[str, str]:
    """Return the files by their names, the pod's script first. activation: the script that sets a pod up."""
    file = plan.request.file
    activate, submit, manifest = (beside(file, suffix) for suffix in (".activate.sh", SUBMIT, ".yaml"))
    again = quoting.comment(plan.again)
    script = filled(
        template("pod.sh"),
        PODS=str(plan.nodes),
        RANKS=str(plan.ranks),
        AGAIN=again,
        COMMAND=bash_words(plan.command.words),
        SUBMIT=f"sh {quoting.comment(quoting.sh_word(submit))}",
        ACTIVATION=PurePath(activate).name,
        FLAGS=_network_flags(plan).replace('"', ""),
        INSIDE=_path_line(plan),
        PROGRAM=_pod_program(plan),
    )
    line = filled(
        template("runai-submit.sh"),
        AGAIN=again,
        PODS=str(plan.nodes),
        SUBMIT=_submit_words(plan),
        FLAGS=_flags(plan),
        SCRIPT=quoting.sh_word(PurePath(file).name),
        ACTIVATION=quoting.sh_word(PurePath(activate).name),
    )
    scripts = {PurePath(file).name: script, PurePath(activate).name: activation}
    return {file: script, activate: activation, submit: line, manifest: _manifest(plan, manifest, scripts)}


def _pod_program(plan: JobPlan) -> str:
    launcher = launcher_named(plan.command.launcher)
    program = _program(plan, '"$GPUS"').replace(' --rdzv-id="$SLURM_JOB_ID"', "")
    once = "--max-restarts=0 " if plan.command.launcher == TORCHRUN else ""
    return f"{program}{once}\\\n  {launcher.logs} " if launcher and launcher.logs else program


def _network_flags(plan: JobPlan) -> str:
    known = plan.knowledge
    pairs = [("--annotation", entry.name, entry.value) for entry in known.annotations]
    pairs += [("--extended-resource", name, value) for name, value in known.resources.items()]
    return " ".join(f"{option} {quoting.sh_word(f'{name}={value}')}" for option, name, value in pairs)


def _submit_words(plan: JobPlan) -> str:
    common = f"-g {plan.ranks} -i {quoting.sh_word(plan.image)} --large-shm"
    if plan.request.interactive:
        return f"submit {quoting.sh_word(_pod_name(plan))} --interactive {common}"
    return f"submit-dist pytorch --name {quoting.sh_word(_pod_name(plan))} --workers={plan.nodes - 1} {common}"


def _flags(plan: JobPlan) -> str:
    """Return the further options of runai: devices, project, user, storage, variables, folder."""
    request = plan.request
    user, _, group = request.uid.partition(":")
    storage = [claim.partition(":") for claim in request.pvc]
    words = [
        *(["-p", request.project] if request.project else []),
        *(["--run-as-uid", user] if user else []),
        *(["--run-as-gid", group] if group else []),
        *(word for name, _, path in storage for word in ("--existing-pvc", f"claimname={name},path={path}")),
        *(word for name, value in request.variables.items() for word in ("-e", f"{name}={value}")),
        *(["--working-dir", request.workdir] if request.workdir else []),
    ]
    return " ".join(filter(None, [_network_flags(plan), bash_words(words)]))


def _manifest(plan: JobPlan, name: str, scripts: dict[str, str]) -> str:
    """Return the job as Kubernetes objects: the scripts, and a PyTorchJob that runs them."""
    request = plan.request
    user, _, group = request.uid.partition(":")
    context = {"runAsUser": user, **({"runAsGroup": group} if group else {})} if user else {}
    storage = [claim.partition(":") for claim in request.pvc]
    own = "".join(
        [
            f"            workingDir: {quoting.toml(request.workdir)}\n" if request.workdir else "",
            "            env:\n" if request.variables else "",
            *(
                f"            - {{name: {key}, value: {quoting.toml(value.replace('$(', '$$('))}}}\n"
                for key, value in request.variables.items()
            ),
        ]
    )
    return filled(
        template("pytorchjob.yaml"),
        AGAIN=quoting.comment(plan.again),
        RANKS=str(plan.ranks),
        FILE=quoting.comment(quoting.sh_word(name)),
        NAME=quoting.toml(_pod_name(plan)),
        IMAGE=quoting.toml(plan.image),
        SCRIPTS="\n".join(_literal(key, text) for key, text in scripts.items()),
        SCRIPT=quoting.toml(f"{POD_FOLDER}/{PurePath(request.file).name}".replace("$(", "$$(")),
        ANNOTATIONS=yaml_mapping({entry.name: entry.value for entry in plan.knowledge.annotations}),
        LIMITS=yaml_mapping({"nvidia.com/gpu": str(plan.ranks), **plan.knowledge.resources}),
        CONTAINER=own,
        MOUNTS="".join(
            f"            - {{name: storage-{index}, mountPath: {quoting.toml(path)}}}\n"
            for index, (_, _, path) in enumerate(storage)
        ),
        USER=f"          securityContext: {{{', '.join(f'{key}: {value}' for key, value in context.items())}}}\n"
        if user
        else "",
        VOLUMES="".join(
            f"          - {{name: storage-{index}, persistentVolumeClaim: {{claimName: {quoting.toml(claim)}}}}}\n"
            for index, (claim, _, _) in enumerate(storage)
        ),
        WORKER=f"    Worker:\n      replicas: {plan.nodes - 1}\n      restartPolicy: Never\n      template: *pod\n"
        if plan.nodes > 1
        else "",
    )


def _literal(name: str, text: str) -> str:
    """Return a text as a block of YAML, or in quotes if a line of it could not stand in one."""
    if all(line.isprintable() for line in text.split("\n")):
        lines = "".join(f"    {line}\n" if line else "\n" for line in text.rstrip("\n").split("\n"))
        return f"  {quoting.toml(name)}: |\n{lines}".rstrip("\n")
    return f"  {quoting.toml(name)}: {quoting.toml(text)}"


def _pod_name(plan: JobPlan) -> str:
    """Return a name as Kubernetes takes it (RFC 1123)."""
    return re.sub(r"[^a-z0-9-]+", "-", plan.name.lower()).strip("-")[:50].strip("-") or "job"
