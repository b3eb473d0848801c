"""Writes the lines of a job script that set up modules, environment, container and overlay; pure functions."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.check.parts import MADE_FOR
from uenvtool.core import quoting, rendezvous
from uenvtool.core.filling import filled, filled_where_marked
from uenvtool.job.disk import EDF
from uenvtool.job.edf import exports_with_named_edf
from uenvtool.job.plan import ENVIRONMENT, PATH_STARTS, UENV, JobPlan
from uenvtool.job.shell import aligned, exports_in_logs, mounted_overlay, path_line, sibling, template

PASSED = ("SLURM*", "NCCL_*", "FI_*", "TORCH_*", "MASTER_*", "NNODES", "LOGS", "PYTHONUNBUFFERED", "OMP_NUM_THREADS")
"""The variables that a container needs from the job if it inherits none, as name patterns for podman."""
_PASSED_STARTS = tuple(name.removesuffix("*") for name in PASSED if name.endswith("*"))
_IS_THERE = '[ -e "{0}" ] || {{ echo "missing on $(hostname): {0}" >&2; exit 1; }}'


def srun_options(plan: JobPlan) -> str:
    """Return the options of srun that the runtime and the image need."""
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
        return submitted_with(plan, EDF)
    edf = plan.edf_file
    return quoting.sh_word(edf if edf.startswith("/") else f"./{edf}")


def submitted_with(plan: JobPlan, suffix: str) -> str:
    """Return the quoted path of a file next to the job, relative to the directory where sbatch was called."""
    name = quoting.sh_word(sibling(plan.request.file, suffix))
    return name if name.startswith("/") else f'"$SLURM_SUBMIT_DIR"/{name}'


def address(plan: JobPlan) -> str:
    """Return the command that prints a node's address, without its comment, which would hide a `)` on the same line."""
    return plan.use.address.partition(" #")[0]


def made_for(plan: JobPlan) -> str:
    """Return the comment that names the uenv's recipe for `check`, or nothing if the image name identifies it."""
    return quoting.comment(MADE_FOR.format(plan.recipe, plan.image)) + "\n" if plan.recipe else ""


def variables(plan: JobPlan) -> str:
    """Return the lines that set the rendezvous address of the ranks and the directory of their output."""
    return filled(
        template("variables.sh"), IN_LOGS=exports_in_logs(plan), ADDRESS=address(plan), PORT=rendezvous.PORT_OF_JOB
    )


def loaded(plan: JobPlan) -> str:
    """Return the lines that load modules, and an environment or the variables that start the container."""
    return _modules(plan) + (_container(plan) if plan.use.step else _environment(plan))


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
        CORES=cores_option(plan),
        CLEANER=filled(template("cleaner.sh"), PATHS=f'"${name}" "${name}{suffix}"'),
    )


def cores_option(plan: JobPlan) -> str:
    """Return the srun option for the cores per task, which srun does not inherit from the job."""
    return ' -c "$SLURM_CPUS_PER_TASK"' if plan.cores else ""


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


def container_step(plan: JobPlan) -> str:
    """Return the command that starts the container in each task, or an empty string if the runtime needs none."""
    if not plan.use.step:
        return ""
    env = " ".join(f"--env {name}={quoting.sh_word(value)}" for name, value in plan.knowledge.env.items())
    names = (*(setting.name for setting in plan.settings), *plan.request.variables, *plan.request.passed)
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


def inside(plan: JobPlan) -> str:
    """Return the lines that run in each task, inside its container if it has one."""
    known = plan.knowledge
    folders = {"LD_LIBRARY_PATH": known.library_path, "CPATH": known.include_path}
    lines = [f"  export {name}={':'.join(paths)}:${name}\n" for name, paths in folders.items() if paths]
    if plan.use.image != UENV or not (plan.overlay and plan.overlay.mount):  # the view of a packed overlay sets PATH
        lines.append(path_line(plan, "  "))
    lines += [f"  {quoting.sh_inside(line)}\n" for line in exports_with_named_edf(plan)]
    return "".join(lines)
