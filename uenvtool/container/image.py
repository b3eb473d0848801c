"""An image with all of its files and its names, from its plan; and the use cases: written, shown, compared, named."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.activation import activate
from uenvtool.activation.formats import docker_lines, edf_lines, values
from uenvtool.container.containerfile import Surroundings, context_files
from uenvtool.container.deploy import (
    DIGITS,
    Identity,
    NodeRun,
    build_script,
    content_hash,
    pipeline,
    test_script,
)
from uenvtool.container.plan import ContainerPlan, planned, unlocked
from uenvtool.container.request import ContainerRequest
from uenvtool.core import files, quoting
from uenvtool.core.errors import BadInput
from uenvtool.core.options import given
from uenvtool.core.result import Result
from uenvtool.job.edf import VARIABLE, edf_text
from uenvtool.job.shell import debugging, tags
from uenvtool.knowledge.jobs import RuntimeJob
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.runtime import Runtime
from uenvtool.knowledge.settings import Settings, settings_of
from uenvtool.venv.compat import rules

IMAGES = "${SCRATCH}/ce-images"
"""Where an EDF finds the squashfs file, unless build.sh is told otherwise."""
TESTS_DIGITS = DIGITS // 2
CONTAINERS = Path("containers")
TOLERATED = {*files.TOLERATED, "sources", "ci.toml"}
"""Others' files beside ours: downloads for a machine without the internet, and the EDF that ci.sh makes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """The names of an image and the files that it is built, run and tested with, by name."""

    plan: ContainerPlan
    identity: Identity
    files: Mapping[str, str]


def make(request: ContainerRequest) -> Result:
    """Write the files of an image, compare them with what lies there, or only show them or its name.

    Raises BadInput for what is wrong in a recipe or component, or without a checksum if `locked`; AnswerIsNo if a
    check finds differences.
    """
    plan = planned(request)
    open_ends = list(unlocked(plan))
    if request.locked:
        BadInput.raise_any(open_ends)
    command = again(plan, request)
    image = image_of(plan, command, is_small=request.recipe is None)
    if request.tag:
        return Result(data=_data(image), text=image.identity.canonical)
    folder = request.output or CONTAINERS / plan.name
    data = {**_data(image), "folder": str(folder)}
    notes = tuple(problem.message for problem in open_ends)
    if request.dry_run:
        return Result(data={**data, "files": dict(image.files)}, file=image.files["Containerfile"], notes=notes)
    if request.check:
        output = [] if request.output is None else ["-o", shlex.quote(os.fspath(folder))]
        files.check_generated(folder, image.files, again=" ".join([command, *output]))
        return Result(data={**data, "drift": None}, notes=(f"{folder} is what its inputs give",))
    with files.locked(folder):
        files.refuse_foreign(folder, image.files, tolerated=TOLERATED, force=request.force)
        files.write_generated(folder, image.files)
    return Result(
        data={**data, "files": list(image.files)},
        text="\n".join(str(folder / name) for name in image.files),
        notes=(image.identity.canonical, *notes),
        next=(f"bash {shlex.quote(str(folder / 'build.sh'))}", *_job(plan, folder)),
    )


def _job(plan: ContainerPlan, folder: Path) -> Iterator[str]:
    """Yield the command that writes a job in the image, where a runtime reads its EDF or runs its .sif."""
    named = _edf_name(plan) if plan.edf_reader else plan.file_name if plan.sif_program else ""
    if named:
        here = recognised()
        system = [] if here and here[0] == plan.system.name else ["--system", plan.system.name]
        needed = [word for option in plan.system.jobs.required for word in (f"--{option}", option.upper())]
        words = ["uenvtool", "job", *system, *needed, "--image", str(folder / named)]
        yield shlex.join([*words, "-o", "train.sh", "--", "python", "train.py"])


def _edf_name(plan: ContainerPlan) -> str:
    return f"{plan.container.name}.toml"


def _data(image: Image) -> dict[str, Any]:
    identity = image.identity
    return {
        "recipe": image.plan.name,
        "system": image.plan.system.name,
        "uarch": image.plan.uarch,
        "canonical": identity.canonical,
        "tested": identity.tested,
        "stable": identity.stable,
        "hash": identity.content,
        "tests_hash": identity.tests,
        "components": image.plan.versions,
    }


def again(plan: ContainerPlan, request: ContainerRequest) -> str:
    """Return the command that makes the same files, wherever it is run: it names a recipe and no path."""
    recipe = None if request.recipe is None else plan.name
    system = None if plan.system.name == (plan.container.home or plan.foundation.home) else plan.system.name
    unsaid = ContainerRequest(
        base=request.base, pip=request.pip, index=request.index, name=request.name, uarch=request.uarch
    )
    words = ["uenvtool", "container", *given(dataclasses.replace(unsaid, recipe=recipe, system=system))]
    return " ".join(shlex.join(words).splitlines())


def image_of(plan: ContainerPlan, command: str, *, is_small: bool = False) -> Image:
    """Return the image of a plan. command: what makes its files again. is_small: it has no tests and no pipeline.

    The hashes in its names are of its files without that command, which says how a file was made and not what is in it.
    """
    command = quoting.comment(command)
    below = image_of(plan.below, command) if plan.below else None
    base = plan.container.base.reference if plan.container.base else below.identity.canonical if below else ""
    activation = _activation(plan)
    beside, labels = _surroundings(plan, base, activation), _labels(plan, base)
    reader = plan.edf_reader
    engine = plan.system.jobs.of(reader.name) if reader else RuntimeJob()
    edf = _edf_name(plan)
    is_own = activation is not None and bool(plan.kind)
    on_nodes = NodeRun(
        variables=dict(values(activation)) if activation and plan.kind else {},
        srun=_srun(engine) if is_own else [],
        edf=edf,
    )
    identity = Identity(
        image=plan.container.name,
        tag=plan.tag,
        content=content_hash(context_files(plan, beside, labels=labels, again="")),
        tests=content_hash({"test.sh": test_script(plan, on_nodes, again="")}, TESTS_DIGITS),
    )
    labels["uenvtool.hash"] = identity.content
    made = context_files(plan, beside, labels=labels, again=command)
    if reader:
        made[edf] = _edf(plan, engine, activation, command)
    made["build.sh"] = build_script(plan, identity, command)
    if not is_small and not plan.sif_program:  # the tests on nodes run by an EDF
        made["test.sh"] = test_script(plan, on_nodes, command)
        made |= pipeline(plan, identity, edf, command, base=below.identity.canonical if below else "")
    return Image(plan=plan, identity=identity, files=made)


def _surroundings(plan: ContainerPlan, base: str, activation: Settings | None) -> Surroundings:
    protected = [rule.pattern for rule in rules()]
    exceptions = [name for rule in rules() for name in rule.harmless]
    if activation is None or not plan.container.image:
        return Surroundings(base=base, protected=protected, exceptions=exceptions)
    command = activate.command(activation, "bash", activation.uarch, activation.runtimes[0].name, activation.given)
    return Surroundings(
        base=base,
        protected=protected,
        exceptions=exceptions,
        env=docker_lines(activation),
        activation=activate.text(activation, "bash", command) + "\n",
        sign=activation.runtimes[0].images[plan.kind].env,
    )


def _activation(plan: ContainerPlan) -> Settings | None:
    """Return what a container of the system is set up with; for an image with its own network stack, all of it."""
    runtime = _runtime_of_kind(plan) if plan.kind else plan.edf_reader
    if runtime is None:
        if plan.kind:
            hint = "name the recipe's own system with --system, or take a recipe without `image`"
            raise BadInput(f"no runtime of {plan.system.name} knows images of the kind {plan.kind}", hint=hint)
        return None
    nccl = plan.versions.get("nccl")
    versions = {"image": plan.kind, **({"nccl": nccl} if nccl else {})} if plan.kind else {}
    return settings_of([plan.system], [runtime], uarch=plan.uarch, facts=versions)


def _runtime_of_kind(plan: ContainerPlan) -> Runtime | None:
    return next((runtime for runtime in plan.runtimes if plan.kind in runtime.images), None)


def _labels(plan: ContainerPlan, base: str) -> dict[str, str]:
    """Return what the image says of itself: no date and no host, so that the same inputs give the same image."""
    standard = "org.opencontainers.image"
    digest = plan.container.base.digest if plan.container.base else ""
    return {
        f"{standard}.title": plan.container.name,
        f"{standard}.description": plan.container.description,
        f"{standard}.version": plan.tag,
        f"{standard}.base.name": base,
        **({f"{standard}.base.digest": digest} if digest else {}),
        "uenvtool.recipe": plan.name,
        **{f"uenvtool.component.{name}": version for name, version in plan.versions.items()},
    }


def _srun(engine: RuntimeJob) -> list[str]:
    if engine.extended is None:
        return []
    return [*engine.extended.srun, *(f"--{option.name}={option.value}" for option in engine.extended.options)]


def _edf(plan: ContainerPlan, engine: RuntimeJob, activation: Settings | None, command: str) -> str:
    env: list[str] = []
    if activation:
        set_here = activation.held(inside=True, image_sets=True)
        env = [*tags(set_here), *edf_lines(activation, image_sets=True), debugging(VARIABLE)]
    return edf_text(
        engine,
        extended=engine.extended if plan.kind else None,
        image=f"{IMAGES}/{plan.file_name}",
        env=env,
        again=command,
    )
