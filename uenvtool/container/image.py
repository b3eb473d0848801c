"""`uenvtool container`: renders the name of an image and the files that build it, and writes or checks the files."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from uenvtool.activation import activate
from uenvtool.activation.formats import docker_lines, edf_lines, values
from uenvtool.container.containerfile import Surroundings, context_files
from uenvtool.container.deploy import DIGITS, Identity, build_script, content_hash, pipeline, test_script
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
from uenvtool.knowledge.secrets import NOT_WRITTEN, storable
from uenvtool.knowledge.settings import Settings, settings_of
from uenvtool.venv.compat import rules

IMAGES = "${SCRATCH}/ce-images"
"""The directory of the squashfs file in an EDF, and the default directory of build.sh."""
CONTAINERS = Path("containers")
TOLERATED = {*files.TOLERATED, "sources", "ci.toml"}
"""Other files that may be in the directory, such as downloads for machines without internet access, and ci.sh's EDF."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """An image: its plan, its names, and the files to build, test and run it, by name."""

    plan: ContainerPlan
    identity: Identity
    files: Mapping[str, str]


def make(request: ContainerRequest) -> Result:
    """Write, check or print the files of an image, or print its name and tag.

    Raises BadInput if a recipe or component is invalid, or if an input has no checksum and --locked is set. Raises
    AnswerIsNo if --check finds differences.
    """
    plan = planned(request)
    unlocked_inputs = list(unlocked(plan))
    if request.locked:
        BadInput.raise_any(unlocked_inputs)
    command = _again(plan, request)
    image = image_of(plan, command, is_small=request.recipe is None)
    if request.tag:
        return Result(data=_data(image), text=image.identity.canonical)
    directory = request.output or CONTAINERS / plan.name
    data = {**_data(image), "folder": str(directory)}
    notes = tuple(problem.message for problem in unlocked_inputs)
    warnings = (NOT_WRITTEN,) if plan.has_secrets or storable(request) != request else ()
    if request.dry_run:
        containerfile = image.files["Containerfile"]
        return Result(data={**data, "files": dict(image.files)}, file=containerfile, notes=notes, warnings=warnings)
    if request.check:
        output = [] if request.output is None else ["-o", shlex.quote(os.fspath(directory))]
        files.check_generated(directory, image.files, again=" ".join([command, *output]))
        return Result(data={**data, "drift": None}, notes=(f"{directory} is up to date",))
    with files.locked(directory):
        files.refuse_foreign(directory, image.files, tolerated=TOLERATED, force=request.force)
        files.write_generated(directory, image.files)
    return Result(
        data={**data, "files": list(image.files)},
        text="\n".join(str(directory / name) for name in image.files),
        notes=(image.identity.canonical, *notes),
        warnings=warnings,
        next=(f"bash {shlex.quote(str(directory / 'build.sh'))}", *_job(plan, directory)),
    )


def _job(plan: ContainerPlan, directory: Path) -> Iterator[str]:
    if image := plan.edf_name if plan.edf_reader else plan.file_name if plan.sif_program else "":
        here, _ = recognised() or ("", "")
        system = [] if here == plan.system.name else ["--system", plan.system.name]
        required = [argument for option in plan.system.jobs.required for argument in (f"--{option}", option.upper())]
        arguments = ["uenvtool", "job", *system, *required, "--image", str(directory / image)]
        yield shlex.join([*arguments, "-o", "train.sh", "--", "python", "train.py"])


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


def _again(plan: ContainerPlan, request: ContainerRequest) -> str:
    system = None if plan.system.name == (plan.container.home or plan.foundation.home) else plan.system.name
    minimal = ContainerRequest(
        recipe=None if request.recipe is None else plan.name,  # without a path, so that the command works anywhere
        base=request.base,
        pip=request.pip,
        index=request.index,
        name=request.name,
        system=system,
        uarch=request.uarch,
    )
    return " ".join(shlex.join(["uenvtool", "container", *given(storable(minimal))]).splitlines())


def image_of(plan: ContainerPlan, command: str, *, is_small: bool = False) -> Image:
    """Return the image of a plan. is_small: omit tests and pipeline.

    command: the command that regenerates the files. It is not hashed, since it does not affect the image.
    """
    command = quoting.comment(command)
    below = image_of(plan.below, command) if plan.below else None
    base = plan.container.base.reference if plan.container.base else below.identity.canonical if below else ""
    activation = _activation(plan)
    surroundings, labels = _surroundings(plan, base, activation), _labels(plan, base)
    reader = plan.edf_reader
    engine = plan.system.jobs.of(reader.name) if reader else RuntimeJob()
    variables = dict(values(activation)) if activation and plan.kind else {}
    extended = engine.extended if activation and plan.kind else None
    srun = [*extended.srun, *(f"--{option.name}={option.value}" for option in extended.options)] if extended else []
    identity = Identity(
        image=plan.container.name,
        tag=plan.tag,
        content=content_hash(context_files(plan, surroundings, labels=labels, again="")),
        tests=content_hash({"test.sh": test_script(plan, variables, srun, again="")}, DIGITS // 2),
    )
    labels["uenvtool.hash"] = identity.content
    texts = context_files(plan, surroundings, labels=labels, again=command)
    if reader:
        texts[plan.edf_name] = _edf(plan, engine, activation, command)
    texts["build.sh"] = build_script(plan, identity, command)
    if not is_small and not plan.sif_program:  # the tests on nodes need an EDF
        texts["test.sh"] = test_script(plan, variables, srun, command)
        texts |= pipeline(plan, identity, command, base=below.identity.canonical if below else "")
    return Image(plan=plan, identity=identity, files=texts)


def _surroundings(plan: ContainerPlan, base: str, activation: Settings | None) -> Surroundings:
    protected = [f"--keep={rule.pattern}" for rule in rules()]
    protected += [f"--except={name}" for rule in rules() for name in rule.harmless]
    surroundings = Surroundings(base=base, protected=protected)
    if activation is None or not plan.container.image:
        return surroundings
    command = activate.command(activation, "bash", activation.uarch, activation.runtimes[0].name, activation.given)
    return replace(
        surroundings,
        env=docker_lines(activation),
        activation=activate.text(activation, "bash", command) + "\n",
        sign=activation.runtimes[0].images[plan.kind].env,
    )


def _activation(plan: ContainerPlan) -> Settings | None:
    if not plan.kind:
        return settings_of([plan.system], [plan.edf_reader], uarch=plan.uarch) if plan.edf_reader else None
    runtime = next((runtime for runtime in plan.runtimes if plan.kind in runtime.images), None)
    if runtime is None:
        hint = "name the recipe's home system with --system, or use a recipe without `image`"
        raise BadInput(f"no runtime of {plan.system.name} supports images of the kind {plan.kind}", hint=hint)
    nccl = plan.versions.get("nccl")
    facts = {"image": plan.kind, **({"nccl": nccl} if nccl else {})}
    return settings_of([plan.system], [runtime], uarch=plan.uarch, facts=facts)


def _labels(plan: ContainerPlan, base: str) -> dict[str, str]:
    standard = "org.opencontainers.image"
    digest = plan.container.base.digest if plan.container.base else ""
    return {  # no date and no host, so that the image is reproducible
        f"{standard}.title": plan.container.name,
        f"{standard}.description": plan.container.description,
        f"{standard}.version": plan.tag,
        f"{standard}.base.name": base,
        **({f"{standard}.base.digest": digest} if digest else {}),
        "uenvtool.recipe": plan.name,
        **{f"uenvtool.component.{name}": version for name, version in plan.versions.items()},
    }


def _edf(plan: ContainerPlan, engine: RuntimeJob, activation: Settings | None, command: str) -> str:
    env: list[str] = []
    if activation:
        held = activation.held(inside=True, image_sets=True)
        env = [*tags(held), *edf_lines(activation, image_sets=True), debugging(VARIABLE)]
    extended = engine.extended if plan.kind else None
    return edf_text(engine, extended=extended, image=f"{IMAGES}/{plan.file_name}", env=env, again=command)
