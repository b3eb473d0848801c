"""Computes the names of an image, and renders the scripts and the pipeline that build, test and publish it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from uenvtool.container.containerfile import template
from uenvtool.container.plan import ContainerPlan
from uenvtool.core import quoting
from uenvtool.core.filling import filled
from uenvtool.knowledge.container import NodeTest

STAGES = ("build", "test", "apps", "test-apps", "publish")
DEFAULT_BRANCH = "- if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH"
DIGITS = 32
"""The number of hexadecimal digits of the content hash in a tag. The hash of the tests has half as many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """The names of an image. content: the hash of the files that it is built from. tests: the hash of its tests."""

    image: str
    tag: str
    content: str
    tests: str

    @property
    def stable(self) -> str:
        """The image name and tag for users. It is given to one image and never moved to another one."""
        return f"{self.image}:{self.tag}"

    @property
    def canonical(self) -> str:
        """The image name and tag with the content hash."""
        return f"{self.stable}-{self.content}"

    @property
    def tested(self) -> str:
        """The image name and tag that is added when the tests have passed."""
        return f"{self.canonical}-tested-{self.tests}"


def content_hash(files: Mapping[str, str], digits: int = DIGITS) -> str:
    """Return the hash of files by name and content, independent of their order.

    The hash is the SHA-256 of the output of `sha256sum` for the files, sorted by name, so that anyone can verify it.
    """
    lines = "".join(f"{hashlib.sha256(files[name].encode()).hexdigest()}  {name}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()[:digits]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRun:
    """The facts that a test on nodes needs.

    variables: the variables that the image sets. srun: the options of srun. edf: the file name of the EDF.
    """

    variables: Mapping[str, str]
    srun: Sequence[str]
    edf: str


def test_script(plan: ContainerPlan, on_nodes: NodeRun, again: str) -> str:
    """Return the script of the tests on nodes. Its hash identifies the tests, so it has no hash of the image."""
    return filled(
        template("test.sh"),
        CANONICAL=f"{plan.container.name}:{plan.tag}",
        AGAIN=again,
        OPTIONS=" ".join(map(quoting.sh_word, on_nodes.srun)),
        TESTS="\n".join(map(_test, plan.container.tests)) or "  :",
        VARIABLES=_printed([f"{name}={value}" for name, value in on_nodes.variables.items()]),
        EDF=on_nodes.edf,
    )


def build_script(plan: ContainerPlan, identity: Identity, again: str) -> str:
    """Return the script with which a user builds the image."""
    return filled(
        template("build.sh"),
        CANONICAL=identity.canonical,
        CANONICAL_WORD=quoting.sh_word(identity.canonical),
        FILE_WORD=quoting.sh_word(plan.file_name),
        AGAIN=again,
        **_file_format_values(plan.sif_program),
    )


def _file_format_values(program: str) -> dict[str, str]:
    """Return the values for build.sh that depend on the file format. program: see `ContainerPlan.sif_program`."""
    if program:
        to_file = filled(template("to-sif.sh"), PROGRAM=program)
        return {"KIND": ".sif file", "RUNTIME": program, "FOLDER": "$PWD", "TO_FILE": to_file}
    return {
        "KIND": "squashfs file",
        "RUNTIME": "the Container Engine",
        "FOLDER": "${SCRATCH:-$PWD}/ce-images",
        "TO_FILE": template("to-sqsh.sh"),
    }


def pipeline(plan: ContainerPlan, identity: Identity, edf: str, again: str, *, base: str = "") -> dict[str, str]:
    """Return the pipeline and the script of its steps, by file name.

    edf: the file name of the EDF. base: the image name and tag of the base if uenvtool builds it, otherwise "".
    """
    return {
        "ci.sh": filled(
            template("ci.sh"),
            STABLE=identity.stable,
            EDF=edf,
            AGAIN=again,
            CANONICAL_WORD=quoting.sh_word(identity.canonical),
            TESTED_WORD=quoting.sh_word(identity.tested),
            STABLE_WORD=quoting.sh_word(identity.stable),
            BASE_WORD=quoting.sh_word(base) if base else "''",
        ),
        "gitlab-ci.yml": _gitlab(plan, identity, again),
    }


def _gitlab(plan: ContainerPlan, identity: Identity, again: str) -> str:
    """Return a file for `include:` in .gitlab-ci.yml. The jobs run after those of the base, if uenvtool builds it."""
    name, below, directory = plan.name, plan.below, f"containers/{plan.name}"
    lines = [
        f"# The pipeline of {identity.stable}",
        f"# Made by uenvtool, again: {again}",
        "# Include it in .gitlab-ci.yml with the files of other images: "
        "include: [{local: containers/NAME/gitlab-ci.yml}, ...]",
        "# Set these project variables: REGISTRY, and the tags of two runners. BUILDER needs podman and skopeo, "
        "NODES needs srun.",
        f"stages: [{', '.join(STAGES)}]",
        "",
        f'".{name}":',
        "  rules:",
        f"  - changes: [{quoting.toml(f'{directory}/**/*')}]",  # JSON's strings are YAML's
        f"  {DEFAULT_BRANCH}",
    ]
    needs = f'[{{job: "{below.name} test", optional: true}}]' if below else "[]"
    for step, stage, runner, after in (
        ("build", "apps" if below else "build", "BUILDER", needs),
        ("test", "test-apps" if below else "test", "NODES", f'["{name} build"]'),
        ("publish", "publish", "BUILDER", f'["{name} test"]'),
    ):
        lines += ["", f'"{name} {step}":', f'  extends: ".{name}"', f"  stage: {stage}"]
        lines += [f"  tags: [${runner}]", f"  needs: {after}"]
        lines += ["  rules:", f"  {DEFAULT_BRANCH}"] if step == "publish" else []  # only this step affects users
        lines += ["  script:", f"  - bash {directory}/ci.sh {step}"]
    return "\n".join(lines) + "\n"


def _test(test: NodeTest) -> str:
    """Return the line of a test, with its reason above. The recipe reader ensures that the reason is one line."""
    env = ["env", *(f"{name}={value}" for name, value in test.env.items())] if test.env else []
    arguments = [test.name, str(test.nodes), str(test.tasks), test.prints, *env, *test.run]
    line = " ".join(quoting.sh_word(argument) for argument in arguments)
    return f"  # {test.reason}\n  run {line}"


def _printed(lines: Sequence[str]) -> str:
    if not lines:
        return "  :"
    return "  printf '%s\\n' \\\n" + " \\\n".join(f"    {quoting.sh_word(line)}" for line in lines)
