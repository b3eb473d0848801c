"""An image with all of its files and its names, from its plan."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from uenvtool.activation import activate
from uenvtool.activation.formats import docker_lines, edf_lines, values
from uenvtool.container.containerfile import Context, context_files
from uenvtool.container.deploy import Deployment, build_script, pipeline, squashfs_name, test_script
from uenvtool.container.identity import DIGITS, Identity, content_hash
from uenvtool.container.plan import ContainerPlan
from uenvtool.container.request import ContainerRequest
from uenvtool.core import quoting
from uenvtool.core.errors import BadInput
from uenvtool.core.options import given
from uenvtool.job.render import edf_text
from uenvtool.knowledge.jobs import RuntimeJob
from uenvtool.knowledge.runtime import load_runtime
from uenvtool.settings import Settings, settings_for
from uenvtool.venv.protect import rules

EDF = "edf"
IMAGES = "${SCRATCH}/ce-images"
"""Where an EDF finds the squashfs file, unless build.sh is told otherwise."""
TESTS_DIGITS = DIGITS // 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """The names of an image and the files that it is built, run and tested with, by name."""

    plan: ContainerPlan
    identity: Identity
    files: Mapping[str, str]


def again(plan: ContainerPlan, request: ContainerRequest) -> str:
    """Return the command that makes the same files, wherever it is run: it names a recipe and no path."""
    recipe = None if request.recipe is None else plan.name
    system = None if plan.system.name == (plan.container.home or plan.foundation.home) else plan.system.name
    unsaid = ContainerRequest(base=request.base, pip=request.pip, name=request.name, uarch=request.uarch)
    words = ["uenvtool", "container", *given(dataclasses.replace(unsaid, recipe=recipe, system=system))]
    return " ".join(shlex.join(words).splitlines())


def image_of(plan: ContainerPlan, command: str, *, is_small: bool = False) -> Image:
    """Return the image of a plan. command: what makes its files again. is_small: it has no tests and no pipeline."""
    command = quoting.comment(command)
    below = image_of(plan.below, command) if plan.below else None
    base = plan.container.base.reference if plan.container.base else below.identity.canonical if below else ""
    activation = _activation(plan)
    context = Context(
        base=base,
        protected=[rule.pattern for rule in rules()],
        exceptions=[name for rule in rules() for name in rule.harmless],
        again=command,
        labels=_labels(plan, base),
    )
    if activation and plan.container.image:
        command_of_script = activate.command(
            activation, "bash", activation.uarch, activation.runtimes[0].name, activation.versions
        )
        context = dataclasses.replace(
            context,
            env=docker_lines(activation),
            activation=activate.text(activation, "bash", command_of_script) + "\n",
            sign=activation.images[plan.kind],
        )
    engine = plan.system.jobs.of(_reads_edf(plan))
    own = bool(activation and plan.kind)
    name = f"{plan.container.name}.toml"
    variables = dict(values(activation.for_format())) if own and activation else {}
    srun = _srun(engine) if own else []
    deployment = Deployment(variables=variables, srun=srun, edf=name, again=command)
    unnamed = dataclasses.replace(deployment, again="")  # a command says how a file was made, not what is in it
    identity = Identity(
        image=plan.container.name,
        tag=plan.tag,
        content=content_hash(context_files(plan, dataclasses.replace(context, again=""))),
        tests=content_hash({"test.sh": test_script(plan, unnamed)}, TESTS_DIGITS),
    )
    labels = {**context.labels, "uenvtool.hash": identity.content}
    files = {
        **context_files(plan, dataclasses.replace(context, labels=labels)),
        **({name: _edf(plan, engine, activation, command)} if _reads_edf(plan) else {}),
        "build.sh": build_script(plan, identity, command),
    }
    if not is_small:
        files["test.sh"] = test_script(plan, deployment)
        files |= pipeline(plan, identity, deployment, base=below.identity.canonical if below else "")
    return Image(plan=plan, identity=identity, files=files)


def _activation(plan: ContainerPlan) -> Settings | None:
    """Return what a container of the system is set up with; for an image with its own network stack, all of it."""
    runtime = _knows_kind(plan) if plan.kind else _reads_edf(plan)
    if not runtime:
        if plan.kind:
            hint = "name the recipe's own system with --system, or take a recipe without `image`"
            raise BadInput(f"no runtime of {plan.system.name} knows images of the kind {plan.kind}", hint=hint)
        return None
    nccl = plan.versions.get("nccl")
    versions = {"image": plan.kind, **({"nccl": nccl} if nccl else {})} if plan.kind else {}
    return settings_for(plan.system.name, uarch=plan.uarch, runtime=runtime, facts=versions)


def _knows_kind(plan: ContainerPlan) -> str:
    """Return the runtime of the system that knows images of the plan's kind; empty if there is none."""
    return next((name for name in plan.system.runtimes if plan.kind in load_runtime(name).images), "")


def _reads_edf(plan: ContainerPlan) -> str:
    """Return the runtime of the system that reads an EDF; empty if there is none."""
    return next((name for name in plan.system.runtimes if EDF in load_runtime(name).forms), "")


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
    network = [f"--network={engine.extended.network}"] if engine.extended.network else []
    return [*engine.extended.srun, *network]


def _edf(plan: ContainerPlan, engine: RuntimeJob, activation: Settings | None, command: str) -> str:
    settings = activation.beside_image().for_format() if activation else None
    return edf_text(
        engine,
        extended=bool(plan.kind),
        image=f"{IMAGES}/{squashfs_name(plan)}",
        env=edf_lines(settings) if settings else (),
        again=command,
    )
