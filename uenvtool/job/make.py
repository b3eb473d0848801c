"""Jobs by names as a user gives them: the plan, its files, written and submitted."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.core.result import Result
from uenvtool.core.session import loaded_views
from uenvtool.core.submit import require_program, require_sbatch, submitted
from uenvtool.job.plan import CE, LOCAL, RUNAI, UENV, WRITTEN, JobPlan, nodes_of, plan_job, refuse_unfit
from uenvtool.job.render.files import job_files
from uenvtool.job.request import JobRequest, Overlay, checked
from uenvtool.knowledge.jobs import Jobs
from uenvtool.knowledge.machine import on_this_machine
from uenvtool.knowledge.recipe import Recipe, read_recipe
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.system import System, load_system, this_system
from uenvtool.settings import Settings, recipe_of_label, settings_for

_IS_PATH = re.compile(r"[/.]")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """A planned job and the text of each of its files, the one to submit first."""

    plan: JobPlan
    texts: Mapping[str, str]


def make(
    request: JobRequest,
    *,
    system: str | None = None,
    recipe: str | None = None,
    venv: str | None = None,
    workarounds: Sequence[str] = (),
    output: Path | None = None,
    submit: bool = False,
    dry_run: bool = False,
) -> Result:
    """Write a job, and submit it if that is wanted. Raises BadInput for what cannot be.

    output: the file of the job; without it the script is the answer. dry_run: nothing is written or submitted.
    """
    job = planned(request, system=system, recipe=recipe, venv=venv, workarounds=workarounds)
    data = {**job.plan.data(), "files": dict(job.texts)}
    main = next(iter(job.texts))
    if submit and not dry_run:
        return _submitted(job, output or Path(request.file), data)
    if output is None or dry_run:
        others = [name for name in job.texts if name != main]
        note = (f"this job needs {', '.join(others)} too: -o FILE writes all of them",) if others else ()
        return Result(data=data, file=job.texts[main], notes=note)
    _write(job)
    lost = job.plan.runtime == RUNAI and not main.startswith("/")
    notes = (
        (f"the pods start {main} where their image begins: name it by its path there, -o /PATH/{main}",) if lost else ()
    )
    return Result(data=data, text="\n".join(job.texts), notes=notes, next=(_start(job.plan, main),))


def planned(
    request: JobRequest,
    *,
    system: str | None = None,
    recipe: str | None = None,
    venv: str | None = None,
    workarounds: Sequence[str] = (),
) -> JobFiles:
    """A job by names, rendered. Raises BadInput for a name that nobody knows and for what cannot be."""
    request = checked(request)
    found = on_this_machine(load_system(system or _here(request.runtime)))
    runtime = request.runtime or next((name for name in found.runtimes if name in WRITTEN), LOCAL)
    uarch = next(iter(found.nodes))
    loaded = read_recipe(recipe) if recipe else None
    overlay = _overlay(venv) if venv else None
    image = request.image or (_published(loaded, found, uarch) if loaded and runtime == UENV else "")
    image = image or (_loaded_image() if runtime == UENV and not (overlay and overlay.base_image) else "")
    if (
        request.image
        and _IS_PATH.match(request.image)
        and "$" not in request.image
        and not Path(request.image).exists()
    ):
        raise BadInput(f"--image {request.image}: there is no such file", hint="check the path, or name a label")
    request = dataclasses.replace(request, runtime=runtime, image=image, overlay=overlay)
    knowledge = found.jobs
    refuse_unfit(request, found, knowledge)
    settings = _settings(found, request, knowledge, recipe, workarounds) if runtime != LOCAL else None
    held = settings.for_job(inside=runtime in (CE, RUNAI)) if settings else ()  # Apptainer's job exports them outside
    plan = plan_job(found, uarch, request, knowledge, held)
    return JobFiles(plan=plan, texts=job_files(plan, _activation(plan, settings)))


def _settings(
    system: System, request: JobRequest, knowledge: Jobs, recipe: str | None, workarounds: Sequence[str]
) -> Settings:
    """Return the settings that hold for a job, with the workarounds that are named."""
    extended = request.runtime == CE and knowledge.ce.extended and knowledge.ce.extended.image.search(request.image)
    label = request.image or (request.overlay.base_image if request.overlay else "")
    return settings_for(
        system.name,
        runtime=request.runtime,
        recipe=recipe or (recipe_of_label(label) if request.runtime == UENV else None),
        facts={"nodes": str(nodes_of(request, system)), **({"image": "alps"} if extended else {})},
        workarounds=workarounds,
    )


def _published(recipe: Recipe, system: System, uarch: str) -> str:
    """Return the label of a recipe's published uenv; `@CLUSTER` if only another cluster of these nodes serves it.

    Raises BadInput if there is none for the node type, and says what there is.
    """
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


def _loaded_image() -> str:
    """The image of the uenv that is loaded in this shell, if there is one."""
    return next((view.image for view in loaded_views(os.environ) if view.image), "")


def _overlay(path: str) -> Overlay:
    """An overlay by the path of its image or folder. Raises BadInput if it is none."""
    from uenvtool.venv.info import described

    if not os.path.lexists(path):
        raise BadInput(f"--venv {path}: there is no such file or folder", hint="make one: uenvtool venv PATH --squash")
    data = described(Path(path))
    base = data.get("base") or {}
    packed = os.path.isfile(path)
    return Overlay(
        path=path if packed else os.path.abspath(path),
        mount=str(data.get("mount") or "/user-tools") if packed else "",
        view=f"{data.get('name')}:venv" if packed else "",
        base_image=str(base.get("image") or ""),
        base_view=str(base.get("view") or ""),
    )


def _activation(plan: JobPlan, settings: Settings | None) -> str:
    """Return the script that sets a pod up; other runtimes have their variables in the job."""
    if plan.runtime != RUNAI or settings is None:
        return ""
    from uenvtool.activation import activate

    again = activate.command(settings, "bash", None, RUNAI, {})
    return activate.text(settings, "bash", again)


def _here(runtime: str) -> str:
    """The system that this machine is; `local` for a job of this machine if it is none of those that are known."""
    if runtime == LOCAL and recognised() is None:
        return LOCAL
    return this_system()


def _write(job: JobFiles) -> None:
    for name, text in job.texts.items():
        files.write(Path(name), text)


def _start(plan: JobPlan, main: str) -> str:
    """The command that starts a job that is written."""
    if plan.runtime == RUNAI:
        return f"sh {shlex.quote(_submit_file(main))}"
    return f"{'bash' if plan.runtime == LOCAL else 'sbatch'} {shlex.quote(main)}"


def _submit_file(main: str) -> str:
    """The file that submits the pods."""
    return main.removesuffix(".sh") + ".submit.sh"


def _submitted(job: JobFiles, output: Path, data: dict[str, object]) -> Result:
    """Write the job and submit it; the answer is its id. Raises ToolMissing and ToolFailed."""
    plan = job.plan
    if plan.runtime == LOCAL:
        raise BadInput("--submit: a local job is started, not submitted", hint=f"bash {output}")
    main = next(iter(job.texts))
    if plan.runtime == RUNAI:
        require_program("runai")
        _write(job)
        number = submitted(["sh"], _submit_file(main), program="runai")
    else:
        require_sbatch()
        _write(job)
        number = submitted(["sbatch", "--parsable"], main, program="sbatch")
    return Result(data={**data, "id": number}, text=number, notes=(f"written: {', '.join(job.texts)}",))
