"""Makes jobs of requests: the plan, its files, written and submitted."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from uenvtool.check.launchers import SRUN, TORCHRUN
from uenvtool.core import quoting
from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.lines import beside
from uenvtool.core.options import given
from uenvtool.core.result import Result
from uenvtool.core.session import loaded_views
from uenvtool.core.submit import require_program, require_sbatch, submitted
from uenvtool.job.launch import MAX_SCRIPT, told_ranks
from uenvtool.job.plan import (
    CONTAINER,
    HERE,
    KUBERNETES,
    REGISTRY,
    SLURM,
    UENV,
    JobPlan,
    Overlay,
    image_for,
    nodes_of,
    plan_job,
    refuse_unfit,
    uarch_of,
)
from uenvtool.job.render import SUBMIT, job_files
from uenvtool.job.request import JobRequest, check
from uenvtool.knowledge.jobs import RuntimeJob
from uenvtool.knowledge.kinds import LAUNCHER, RUNTIME
from uenvtool.knowledge.load import skipped_file_notes
from uenvtool.knowledge.machine import on_this_machine
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.runtime import Runtime, all_runtimes, load_runtime
from uenvtool.knowledge.settings import Settings, recipe_of_label, settings_for, settings_of
from uenvtool.knowledge.system import System, load_system, this_system
from uenvtool.knowledge.tuning import TEMPORARY, Setting

_IS_PATH = re.compile(r"[/.]")
_RUNNER = re.compile(r"(?:env .*?)?((?:uv|poetry|pdm|pixi|hatch|pipenv) run) ")
_DEVICES = re.compile(r"((?:CUDA|HIP|ROCR)_VISIBLE_DEVICES)=([\d,]*)")
_STARTS_ITSELF = re.compile(
    r"(?m)^(?![ \t]*#)(?:.*\b(?:(?:mp|multiprocessing)\.spawn\(|deepspeed\.launcher\b)|[ \t]*(?:ray\.init|launch)\("
    r"|(?P<submits>(?:import|from) submitit\b))"
)
"""A line of a program that starts the processes of a training itself, or submits jobs for them."""
_HOST_FOLDERS = re.compile(r"/(usr|bin|sbin|lib|lib64|etc|dev|proc|sys|opt|run|tmp|var)(/|\Z)")
"""Folders that a container has of its own, or that no data of a user's lie in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A planned job and the text of each of its files, the one to submit first. warnings: what may fail."""

    plan: JobPlan
    texts: Mapping[str, str]
    warnings: tuple[str, ...] = ()


def make(request: JobRequest) -> Result:
    """Write a job, and submit it if that is wanted. Raises BadInput for what cannot be, ToolMissing and ToolFailed."""
    job = planned(request)
    plan, main, pods = job.plan, next(iter(job.texts)), job.plan.use.scheduler == KUBERNETES
    data = {**plan.data(), "files": dict(job.texts)}
    if request.dry_run or not (request.output or request.submit):
        others = [name for name in job.texts if name != main]
        note = (f"this job needs {', '.join(others)} too: -o FILE writes all of them",) if others else ()
        shown = job.texts[main]
        if request.dry_run:
            shown += "".join(f"\n# {name}\n{job.texts[name]}" for name in others if name.endswith(".toml"))
        return Result(data=data, file=shown, notes=note, warnings=job.warnings)
    if request.submit and plan.use.scheduler == HERE:
        raise BadInput("--submit: a local job is started, not submitted", hint=f"`bash {main}` starts it")
    if request.submit:
        require_program("runai") if pods else require_sbatch()
    from uenvtool.core import files

    texts = {Path(name).name: text for name, text in job.texts.items()}
    files.write_beside(Path(main).parent, texts, force=request.force)
    names, notes = list(job.texts), tuple(_logs(plan))
    if not request.submit:
        next_ = (_start(plan, main),)
        return Result(data=data, text="\n".join(names), notes=notes, warnings=job.warnings, next=next_)
    words, script = (["sh"], beside(main, SUBMIT)) if pods else (["sbatch", "--parsable"], main)
    number = submitted(words, script, program="runai" if pods else "sbatch")
    notes = (f"written: {', '.join(names)}", *notes)
    return Result(data={**data, "id": number}, text=number, notes=notes, warnings=job.warnings)


def _logs(plan: JobPlan) -> Iterator[str]:
    if plan.use.scheduler not in (HERE, KUBERNETES):
        one = "node" if plan.command.once_a_node else "rank"
        yield f"output: slurm-{plan.name}-JOB.log has all of it, logs/{plan.name}-JOB/ a file for each {one}"


def planned(request: JobRequest) -> Job:
    """Return a job, rendered. Raises BadInput for a name that nobody knows and for what cannot be."""
    check(request)
    system = on_this_machine(load_system(request.system or _here(request.runtime)))
    uarch = uarch_of(request, system)
    runtime = _runtime(request, system)
    knowledge = system.jobs.of(runtime.name)
    refuse_unfit(request, system, runtime)
    named = request.image
    if _IS_PATH.match(named) and "$" not in named and not Path(named).exists():
        raise BadInput(f"--image {named}: there is no such file", hint="check the path, or name a label")
    data = _described(request.venv) if request.venv else {}
    overlay = _overlay(request.venv, data) if request.venv else None
    is_uenv, published = runtime.job.image == UENV, ""
    if is_uenv and not named:
        loaded = (view.image for view in loaded_views(os.environ) if view.image)
        published = _published(request.recipe, system, uarch) if request.recipe else next(loaded, "")
    image = image_for(request, runtime, knowledge, overlay, published)
    settings = _settings(system, uarch, runtime, knowledge, request, image)
    inside = runtime.job.variables in ("edf", "activation")  # others export outside
    untold = request.recipe if is_uenv and recipe_of_label(image) != request.recipe else None
    plan = plan_job(
        request, system, uarch, runtime,
        image=image, overlay=overlay, facts={**system.facts(uarch), **(settings.given if settings else {})},
        settings=_written_down(settings, inside=inside) if settings else (),
        recipe=untold or "", again=_again(request, system.name),
    )  # fmt: skip
    _refuse_unmounted(plan)
    texts = job_files(plan, _activation(plan, settings))
    return Job(plan=plan, texts=texts, warnings=tuple(_warnings(plan, data, system, uarch)))


def _runtime(request: JobRequest, system: System) -> Runtime:
    """Return the runtime of a job: the one that is named, the first for containers of a registry's image, or the first.

    Raises BadInput for one that it lacks.
    """
    of_registry = REGISTRY.fullmatch(request.image)
    known: dict[str, Runtime] = {}
    for found in _runtimes(system):
        is_usual = not of_registry or found.job.image == CONTAINER
        if found.name == request.runtime or (not request.runtime and is_usual):
            return found
        known[found.name] = found
    if known and not request.runtime:
        return next(iter(known.values()))
    raise BadInput([unknown(f"runtime of {system.name}", request.runtime, known)])


def _runtimes(system: System) -> Iterator[Runtime]:
    """Yield the runtimes that a job can be written for, each read when it is wanted: the system's, then all's."""
    yield from (found for name in system.runtimes if (found := load_runtime(name)).job.scheduler)
    yield from (found for found in all_runtimes() if found.job.scheduler == HERE)


def _settings(
    system: System, uarch: str, runtime: Runtime, knowledge: RuntimeJob, request: JobRequest, image: str
) -> Settings | None:
    """Return the settings that hold for a job; None if it sets nothing."""
    if runtime.job.variables == "nowhere":
        return None
    extended = knowledge.extended and knowledge.extended.image.search(image)
    recipe = request.recipe or (recipe_of_label(image) if runtime.job.image == UENV else None)
    facts = {"nodes": str(nodes_of(request, system, runtime.job)), **({"image": "alps"} if extended else {})}
    chosen = request.workaround
    if recipe:
        return settings_for(
            system.name, uarch=uarch, runtime=runtime.name, recipe=recipe, facts=facts, workarounds=chosen
        )
    return settings_of([system], [runtime], uarch=uarch, facts=facts, workarounds=chosen)


def _written_down(settings: Settings, *, inside: bool) -> tuple[Setting, ...]:
    """Return what a job writes down: settings with a value, and those that must be unset. inside: of the container.

    What is put in front of another value, or found out on the node, is left to the job's own lines.
    """
    is_file = settings.runtimes[0].job.variables == "edf"  # which has no value of its own for each job
    return tuple(
        setting
        for setting in settings.held(inside=inside, beside_image=True)
        if setting.removes or setting.is_fixed or (setting.from_ == TEMPORARY and not is_file)
    )


def _published(name: str, system: System, uarch: str) -> str:
    """Return the label of a recipe's published uenv; `@CLUSTER` if only another cluster of these nodes serves it.

    Raises BadInput if there is none for the node type, and says what there is.
    """
    from uenvtool.knowledge.recipe import read_recipe

    recipe = read_recipe(name)
    label, clusters = recipe.deployment.label, recipe.deployment.clusters
    serving = [cluster for cluster, uarchs in clusters.items() if uarch in uarchs]
    if label and system.name in serving:
        return f"{label}:v1"
    if label and serving:
        return f"{label}:v1@{serving[0]}"
    published = ", ".join(f"{cluster} ({', '.join(uarchs)})" for cluster, uarchs in clusters.items())
    raise BadInput(
        f"no uenv of {recipe.name} is published for {uarch}, the nodes of {system.name}"
        + (f"; {label} is on {published}" if label else ""),
        hint="build one (`uenvtool build`, `uenvtool image build`) and name it with --image, or take a container",
    )


def _described(path: str) -> dict[str, Any]:
    """Return what is known of an overlay by the path of its image or folder. Raises BadInput if it is none."""
    from uenvtool.venv.info import described

    if not os.path.lexists(path):
        raise BadInput(
            f"--venv {path}: there is no such file or folder", hint="make one: `uenvtool venv PATH --squash`"
        )
    return described(Path(path))


def _overlay(path: str, data: Mapping[str, Any]) -> Overlay:
    base = data.get("base") or {}
    packed = os.path.isfile(path)
    return Overlay(
        path=path if packed else os.path.abspath(path),
        mount=str(data.get("mount") or "/user-tools") if packed else "",
        view=f"{data.get('name')}:venv" if packed else "",
        base_image=str(base.get("image") or ""),
        base_view=str(base.get("view") or ""),
    )


def _warnings(plan: JobPlan, overlay: Mapping[str, Any], system: System, uarch: str) -> Iterator[str]:
    """Yield what it leaves out of its user's, and may miss when it runs: its script, cores, storage, a fit overlay."""
    yield from skipped_file_notes(RUNTIME, LAUNCHER)
    yield from _missing_script(plan, overlay)
    runner = _RUNNER.match(" ".join((*plan.command.program, *plan.command.words)))
    if runner and plan.image:
        yield (
            f"{runner[1]} starts the Python of an environment of its own, without the torch of {plan.image}: "
            "lay the project over that with `uenvtool venv`, name it with --venv, and leave the words out"
        )
    yield from _unseen_gpus(plan)
    yield from _started_by_program(plan)
    if plan.use.scheduler == SLURM and not plan.cores:
        yield f"{system.name} does not say how many cores a node has: the job asks for none, and may get one a task"
    if plan.use.scheduler == KUBERNETES and not plan.request.pvc and not plan.request.interactive:
        yield "the pods see only their image: storage that has your program comes by --pvc CLAIM:PATH"
    if overlay:
        yield from _unfit_overlay(plan, overlay, system, uarch)


def _unseen_gpus(plan: JobPlan) -> Iterator[str]:
    named_by, named_ranks = told_ranks(plan.command)
    if named_ranks and plan.gpu and named_ranks < plan.ranks:
        yield (
            f"{named_by} {named_ranks}: the job asks for {plan.ranks} GPUs of a node; "
            f"--gpus {named_ranks} asks for as many"
        )
    assigned = (*plan.command.program, *plan.command.words, *plan.request.env)
    for name, value in (found.groups() for found in map(_DEVICES.fullmatch, assigned) if found):
        seen = list(takewhile(lambda one: int(one) < plan.ranks, filter(None, value.split(","))))
        if plan.gpu and plan.use.scheduler == SLURM and len(seen) < plan.ranks:
            yield f"{name}={value}: a rank sees {len(seen)} of the {plan.ranks} GPUs that the job has on a node"


def _started_by_program(plan: JobPlan) -> Iterator[str]:
    """Yield that a Python program, which is started once for each GPU, starts processes on all of them itself."""
    file = _program_file(plan)
    if plan.command.launcher not in (SRUN, TORCHRUN) or file is None or not file.is_file():
        return
    from uenvtool.core.files import read_named

    text = read_named(file, MAX_SCRIPT).decode("utf-8", "replace")
    found = _STARTS_ITSELF.search(text)
    if found is None:
        return
    place = f"{file}:{text.count(chr(10), 0, found.start()) + 1}"
    if found["submits"]:
        yield f"{place} submits jobs itself, by submitit: start it on a login node, not in a job"
    else:
        launcher = plan.command.launcher
        yield (
            f"{place} starts processes of its own, and {launcher} starts {file.name} once for each GPU: "
            "where it does, `--launcher none` starts it once a node"
        )


def _program_file(plan: JobPlan) -> Path | None:
    """Return the Python file that a command names first, by its path or as a module; None if it names none."""
    words = plan.command.words
    for before, word in zip(("", *words), words, strict=False):
        if word.endswith(".py") or before == "-m":
            return Path(plan.request.workdir or ".", word if word.endswith(".py") else f"{word.replace('.', '/')}.py")
    return None


def _missing_script(plan: JobPlan, overlay: Mapping[str, Any]) -> Iterator[str]:
    """Yield that the script or module which the command names first is not here."""
    folder = Path(plan.request.workdir or ".")
    for before, word in zip(("", *plan.command.words), plan.command.words, strict=False):
        if word.endswith((".py", ".sh")) and not word.startswith(("/", "$", "-")) and not (folder / word).exists():
            where = plan.request.workdir or "the folder where the job is submitted"
            yield f"{word} is not here: it is looked for in {where}"
            break
        package = word.partition(".")[0]
        if before == "-m" and not any((folder / f"{package}{end}").exists() for end in ("", ".py")):
            names = {row["name"].replace("-", "_") for row in overlay.get("packages", ())}
            if package not in names:
                yield f"-m {word}: {package} is not here; the image or the overlay must have it"
            break


def _unfit_overlay(plan: JobPlan, overlay: Mapping[str, Any], system: System, uarch: str) -> Iterator[str]:
    path, base = plan.request.venv, overlay.get("base") or {}
    newer = overlay.get("overlay") or {}
    if newer.get("newer"):
        yield f"{path} is older than {newer['path']}: pack it again with `uenvtool venv {newer['path']} --squash`"
    platform, target = str(base.get("platform") or ""), system.nodes[uarch].machine
    if target and platform and target not in platform.replace("-", "_"):
        yield f"{path} was made for {platform}, and the nodes of {system.name} are {target}: make it anew there"
    if base and plan.use.image == CONTAINER and not base.get("in_container"):
        of_uenv = "the uenv " if base.get("kind") == "uenv" else ""
        yield f"{path} was made on {of_uenv}{base.get('name')}: a container has another Python, make it anew inside"
    if base.get("in_container") and plan.use.image != CONTAINER and plan.use.scheduler != KUBERNETES:
        yield f"{path} was made in a container: {plan.runtime.name} has another Python, make it anew outside"


def _refuse_unmounted(plan: JobPlan) -> None:
    """Raise BadInput for a path in the command that is here, and that the container would not see."""
    if plan.use.image != CONTAINER or plan.use.scheduler == KUBERNETES:
        return
    home = [os.path.expanduser("~")] if plan.use.step else []
    seen = [mount.partition(":")[0] for mount in (*plan.knowledge.mounts, *plan.request.mount)]
    seen += [bind.inside for bind in plan.knowledge.binds] + [plan.request.workdir or os.getcwd(), *home]
    inside = [mount.rpartition(":")[2] for mount in plan.request.mount]
    for word in plan.command.words:
        path = word.rpartition("=")[2]
        if not path.startswith("/") or _HOST_FOLDERS.match(path) or not os.path.exists(path):
            continue
        if not any(path == mount or path.startswith(f"{mount.rstrip('/')}/") for mount in (*seen, *inside)):
            raise BadInput(f"{path} is not mounted in the container", hint=f"--mount {os.path.dirname(path)}")


def _activation(plan: JobPlan, settings: Settings | None) -> str:
    """Return the script that sets a pod up; other runtimes have their variables in the job."""
    if plan.use.variables != "activation" or settings is None:
        return ""
    from uenvtool.activation import activate

    facts = {"nodes": str(plan.nodes)}
    return activate.text(settings, "bash", activate.command(settings, "bash", None, plan.runtime.name, facts))


def _again(request: JobRequest, system: str) -> str:
    """Return the command that makes the same files, wherever it is run."""
    wanted = replace(request, system=system, submit=False, dry_run=False, force=False)
    words = ["uenvtool", "job", *given(wanted), *(["--", *request.words] if request.words else [])]
    return " ".join(map(quoting.bash_line, words))


def _here(runtime: str) -> str:
    """Return the system that this machine is; `local` for a job of this machine if it is none of those known."""
    if runtime == "local" and recognised() is None:
        return "local"
    return this_system()


def _start(plan: JobPlan, main: str) -> str:
    pods = plan.use.scheduler == KUBERNETES
    program = "sh" if pods else "bash" if plan.use.scheduler == HERE else "sbatch"
    return f"{program} {shlex.quote(beside(main, SUBMIT) if pods else main)}"
