"""What builds, tests and publishes an image: scripts for a person's shell and for pipelines; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from uenvtool.container.containerfile import template
from uenvtool.container.identity import Identity
from uenvtool.container.plan import ContainerPlan
from uenvtool.core import quoting
from uenvtool.core.filling import filled
from uenvtool.core.pipeline import Job, end_of_script, gitlab
from uenvtool.knowledge.container import NodeTest

STAGES = ("build", "test", "apps", "test-apps", "publish")


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """What these files are made of beside the plan.

    variables: what the image sets, by name. srun: options of srun for it. edf: the name of its EDF. again: the
    command that makes the files anew.
    """

    variables: Mapping[str, str]
    srun: Sequence[str]
    edf: str
    again: str


def squashfs_name(plan: ContainerPlan) -> str:
    """Return the name of the image as a file of the Container Engine."""
    return f"{plan.container.name}+{plan.tag}.sqsh"


def test_script(plan: ContainerPlan, deployment: Deployment) -> str:
    """Return the tests on nodes, without the name of the image: its hash is that of the tests."""
    return filled(
        template("test.sh"),
        CANONICAL=f"{plan.container.name}:{plan.tag}",
        AGAIN=deployment.again,
        OPTIONS=" ".join(map(quoting.sh_word, deployment.srun)),
        TESTS="\n".join(map(_test, plan.container.tests)) or "  :",
        VARIABLES=_printed([f"{name}={value}" for name, value in deployment.variables.items()]),
        EDF=deployment.edf,
    )


def build_script(plan: ContainerPlan, identity: Identity, again: str) -> str:
    """Return the script that builds the image by hand."""
    return filled(
        template("build.sh"),
        CANONICAL=identity.canonical,
        CANONICAL_WORD=quoting.sh_word(identity.canonical),
        FILE_WORD=quoting.sh_word(squashfs_name(plan)),
        AGAIN=again,
    )


def pipeline(plan: ContainerPlan, identity: Identity, deployment: Deployment, *, base: str = "") -> dict[str, str]:
    """Return the pipeline and the script of its steps. base: the image below, if it is ours."""
    again = deployment.again
    return {
        "ci.sh": filled(
            template("ci.sh"),
            STABLE=identity.stable,
            EDF=deployment.edf,
            AGAIN=again,
            END=end_of_script(),
            CANONICAL_WORD=quoting.sh_word(identity.canonical),
            TESTED_WORD=quoting.sh_word(identity.tested),
            STABLE_WORD=quoting.sh_word(identity.stable),
            BASE_WORD=quoting.sh_word(base) if base else "''",
        ),
        "gitlab-ci.yml": _gitlab(plan, identity, again, f"containers/{plan.name}"),
    }


def _gitlab(plan: ContainerPlan, identity: Identity, again: str, folder: str) -> str:
    """Return the pipeline. An image on one of ours is built and tested after that one."""
    name, below = plan.name, plan.below
    head = [
        f"The pipeline of {identity.stable}",
        f"Made by uenvtool, again: {again}",
        "Use it from .gitlab-ci.yml with the files of other images: "
        "include: [{local: containers/NAME/gitlab-ci.yml}, ...]",
        "Variables of the project: REGISTRY, and the tags of two runners: "
        "BUILDER has podman and skopeo, NODES starts srun.",
    ]
    needs = f'[{{job: "{below.name} test", optional: true}}]' if below else "[]"
    jobs = (
        Job(step="build", stage="apps" if below else "build", runner="BUILDER", needs=needs),
        Job(step="test", stage="test-apps" if below else "test", runner="NODES", needs=f'["{name} build"]'),
        Job(step="publish", stage="publish", runner="BUILDER", needs=f'["{name} test"]', is_for_all=True),
    )
    return gitlab(name, folder, head, STAGES, jobs, watched=[f"{folder}/**/*"])


def _test(test: NodeTest) -> str:
    """Return the line of a test; its reason, which the reader of recipes has made one line, stands above it."""
    env = ["env", *(f"{name}={value}" for name, value in test.env.items())] if test.env else []
    words = [test.name, str(test.nodes), str(test.tasks), test.prints, *env, *test.run]
    line = " ".join(quoting.sh_word(word) for word in words)
    return f"  # {test.reason}\n  run {line}"


def _printed(lines: Sequence[str]) -> str:
    if not lines:
        return "  :"
    return "  printf '%s\\n' \\\n" + " \\\n".join(f"    {quoting.sh_word(line)}" for line in lines)
