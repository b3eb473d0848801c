"""The names of an image, and the scripts that build, test and publish it, by hand and in pipelines; pure."""

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
"""Hexadecimal digits of a hash in a tag; of the tests' hash half as many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """An image by name. content: the hash of what it is made of. tests: the hash of what it is tested with."""

    image: str
    tag: str
    content: str
    tests: str

    @property
    def stable(self) -> str:
        """Return the name that users take; it is given to one image, and never again."""
        return f"{self.image}:{self.tag}"

    @property
    def canonical(self) -> str:
        """Return the name that says what is in the image."""
        return f"{self.stable}-{self.content}"

    @property
    def tested(self) -> str:
        """Return the second name that the image gets when its tests have passed."""
        return f"{self.canonical}-tested-{self.tests}"


def content_hash(files: Mapping[str, str], digits: int = DIGITS) -> str:
    """Return the hash of files, name and content, in whatever order they come.

    It is that of the lines `sha256sum` prints for them, sorted by name, so that anybody can make it again.
    """
    lines = "".join(f"{hashlib.sha256(files[name].encode()).hexdigest()}  {name}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()[:digits]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRun:
    """How the image runs on nodes.

    variables: what the image sets, by name. srun: options of srun for it. edf: the name of its EDF.
    """

    variables: Mapping[str, str]
    srun: Sequence[str]
    edf: str


def test_script(plan: ContainerPlan, on_nodes: NodeRun, again: str) -> str:
    """Return the tests on nodes, without the name of the image: its hash is that of the tests."""
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
    """Return the script that builds the image by hand."""
    return filled(
        template("build.sh"),
        CANONICAL=identity.canonical,
        CANONICAL_WORD=quoting.sh_word(identity.canonical),
        FILE_WORD=quoting.sh_word(plan.file_name),
        AGAIN=again,
        **_of_file(plan.sif_program),
    )


def _of_file(program: str) -> dict[str, str]:
    """Return what build.sh says of the file that the image becomes. program: see `ContainerPlan.sif_program`."""
    if program:
        to_file = filled(template("to-sif.sh"), PROGRAM=program)
        return {"KIND": ".sif", "RUNTIME": program, "FOLDER": "$PWD", "TO_FILE": to_file}
    return {
        "KIND": "squashfs file",
        "RUNTIME": "the Container Engine",
        "FOLDER": "${SCRATCH:-$PWD}/ce-images",
        "TO_FILE": template("to-sqsh.sh"),
    }


def pipeline(plan: ContainerPlan, identity: Identity, edf: str, again: str, *, base: str = "") -> dict[str, str]:
    """Return the pipeline and the script of its steps. edf: the name of the EDF. base: the image below, if ours."""
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
    """Return a file for `include:` of .gitlab-ci.yml. An image on one of ours is built and tested after that one."""
    name, below, folder = plan.name, plan.below, f"containers/{plan.name}"
    lines = [
        f"# The pipeline of {identity.stable}",
        f"# Made by uenvtool, again: {again}",
        "# Use it from .gitlab-ci.yml with the files of other images: "
        "include: [{local: containers/NAME/gitlab-ci.yml}, ...]",
        "# Variables of the project: REGISTRY, and the tags of two runners: "
        "BUILDER has podman and skopeo, NODES starts srun.",
        f"stages: [{', '.join(STAGES)}]",
        "",
        f'".{name}":',
        "  rules:",
        f"  - changes: [{quoting.toml(f'{folder}/**/*')}]",  # JSON's strings are YAML's
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
        lines += ["  rules:", f"  {DEFAULT_BRANCH}"] if step == "publish" else []  # others see what it gives
        lines += ["  script:", f"  - bash {folder}/ci.sh {step}"]
    return "\n".join(lines) + "\n"


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
