"""Renders the Containerfile of a plan, and the files that it copies into the image. Writes nothing to disk.

No text of a recipe is interpreted by a shell: each command is a list of arguments that the builder runs without a
shell, and each value is quoted for the Containerfile. `scripts/fetch.sh` compares checksums during the build.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.container.plan import OUT, ContainerPlan, Stage, Step, Word
from uenvtool.core import quoting
from uenvtool.core.filling import filled
from uenvtool.knowledge.component import Release

HERE = Path(__file__).parent
WIDTH = 116
"""The number of characters after which a comment continues on the next line."""
LONGEST = 100
"""The number of characters after which a command continues on the next line."""
MOUNTED = "/run/uenvtool-"
"""The start of the path of a mounted script that is not part of the image. The name of the script follows."""
FETCH = ("sh", "/uenvtool/fetch.sh")
BASE, TOOLCHAIN, LAST = "base", "toolchain", "image"
"""The names of stages. The stages of components have a prefix, so they cannot have these names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """The parts of an image that its plan does not contain.

    base: the image to build on. protected: patterns of Python packages that keep their version. exceptions: names that
    these patterns do not protect. env: the ENV lines of the image. activation: the script that sets variables that are
    unset. sign: the variable that shows that the script was sourced.
    """

    base: str
    protected: Sequence[str]
    exceptions: Sequence[str]
    env: Sequence[str] = ()
    activation: str = ""
    sign: str = ""


def context_files(
    plan: ContainerPlan, beside: Surroundings, *, labels: Mapping[str, str], again: str
) -> dict[str, str]:
    """Return the Containerfile and the files that it copies, by name.

    again: the command that regenerates the files.
    """
    lines = [*_head(plan, again), *_stages(plan, beside), *_labels(labels)]
    files = {"Containerfile": "\n".join(lines) + "\n"}
    removes = plan.container.removes
    scripts = {
        "remove.sh": bool(removes.paths or removes.packages),
        "fetch.sh": bool(plan.stages),
        "keep.sh": bool(plan.stages),
        "packages.py": bool(plan.container.pip),
    }
    files |= {f"scripts/{name}": template(name, "scripts") for name, is_used in scripts.items() if is_used}
    if beside.activation:
        files["runtime/activate.sh"] = beside.activation
        files["runtime/hook.sh"] = filled(template("hook.sh"), SIGN=beside.sign)
        files["runtime/entrypoint.sh"] = template("entrypoint.sh")
    directories = [directory for stage in plan.stages for directory in stage.component.libraries]
    if directories:
        files["runtime/ld.so.conf"] = "".join(f"{directory}\n" for directory in directories)
    return files


def _head(plan: ContainerPlan, again: str) -> Iterator[str]:
    yield "# syntax=docker/dockerfile:1"
    yield from _comment(f"{plan.name}: {plan.container.description}")
    yield f"# For {plan.system.name}, {plan.uarch}. Made by uenvtool, again: {again}"
    if plan.stages:
        yield "#"
        width = max(len(f"{stage.name} {stage.release.version}") for stage in plan.stages)
        for stage in plan.stages:
            title = f"{stage.name} {stage.release.version}".ljust(width)
            yield from _comment(f"{title}  {stage.component.description}", indent="   ")
    yield ""


def _stages(plan: ContainerPlan, beside: Surroundings) -> Iterator[str]:
    yield f"ARG BASE={beside.base}"
    yield f"FROM ${{BASE}} AS {BASE}"
    yield from _removal(plan)
    if plan.stages:
        yield from _toolchain(plan)
    for stage in plan.stages:
        yield from _component(stage)
    yield from _last(plan, beside)


def _removal(plan: ContainerPlan) -> Iterator[str]:
    removes = plan.container.removes
    if not (removes.paths or removes.packages):
        return
    yield from _comment(f"Removed: {removes.reason}.")
    words = [*(f"package:{pattern}" for pattern in removes.packages), *removes.paths]
    yield from _run(_words("sh", f"{MOUNTED}remove.sh", *words), mounted="remove.sh")


def _toolchain(plan: ContainerPlan) -> Iterator[str]:
    yield ""
    yield "# The toolchain that builds all components."
    yield f"FROM {BASE} AS {TOOLCHAIN}"
    yield from _installed(plan.container.packages.build)
    yield "COPY scripts/fetch.sh scripts/keep.sh /uenvtool/"
    yield "ARG JOBS=16"
    yield "ENV MAKEFLAGS=-j${JOBS} CMAKE_BUILD_PARALLEL_LEVEL=${JOBS}"
    yield "WORKDIR /src"


def _component(stage: Stage) -> Iterator[str]:
    component, release = stage.component, stage.release
    yield ""
    yield from _comment(f"{stage.name} {release.version}: {component.description} [{release.source}]")
    yield f"FROM {TOOLCHAIN} AS {_stage_name(stage.name)}"
    yield from _installed(component.packages.build)
    for name, value in stage.env.items():
        yield from _comment(value.reason)
        yield f"ENV {name}={quoting.docker(name, value.word)}"
    yield from _run(_words(*_fetch(stage.name, release)))
    for patch in release.patches:
        yield from _comment(patch.reason)
        yield from _run(_words(*FETCH, "patch", f"{stage.name} {release.version}", patch.url, patch.sha256))
    for need in stage.needs:
        yield f"COPY --from={_stage_name(need)} {OUT}/ /"
    if stage.needs:
        yield from _run(_words("ldconfig"))
    for command in stage.build:
        yield from _run(command)
    if component.installs:
        yield from _run(_words("sh", "/uenvtool/keep.sh", stage.name, *(path.text for path in component.installs)))


def _fetch(name: str, release: Release) -> list[str]:
    kind = "git" if release.git else "archive"
    revision = release.checksum or (f"refs/tags/{release.tag}" if release.git else "unchecked")
    return [*FETCH, kind, f"{name} {release.version}", release.address, revision]


def _last(plan: ContainerPlan, beside: Surroundings) -> Iterator[str]:
    yield ""
    yield "# The image, with only the files that are needed at run time."
    yield f"FROM {BASE} AS {LAST}"
    packages = [package for stage in plan.stages for package in stage.component.packages.runtime]
    yield from _installed([*plan.container.packages.runtime, *packages])
    for stage in plan.stages:
        if stage.component.installs:
            yield f"COPY --from={_stage_name(stage.name)} /runtime/ /"
    if any(stage.component.libraries for stage in plan.stages):
        yield "COPY runtime/ld.so.conf /etc/ld.so.conf.d/00-uenvtool.conf"
    if plan.stages:
        yield from _run(_words("ldconfig"))
    for stage in plan.stages:
        for command in stage.check:
            yield from _run(command)
    for stage in plan.stages:
        yield from (f"ENV {name}={quoting.docker(name, value)}" for name, value in stage.sets.items())
    yield from _pip(plan, beside)
    yield from _runtime(plan, beside)


def _labels(labels: Mapping[str, str]) -> list[str]:
    words = [f"{name}={quoting.docker(name, value)}" for name, value in labels.items()]
    return ["LABEL " + " \\\n      ".join(words)]


def _pip(plan: ContainerPlan, beside: Surroundings) -> Iterator[str]:
    if not plan.container.pip:
        return
    words = [
        *(f"--keep={pattern}" for pattern in beside.protected),
        *(f"--except={pattern}" for pattern in beside.exceptions),
        *(f"--index={url}" for url in plan.container.index),
        *plan.container.pip,
    ]
    yield "# Keep the torch of the base and the packages that belong to it: another torch brings another CUDA and NCCL."
    yield from _run(_words("python3", f"{MOUNTED}packages.py", *words), mounted="packages.py")


def _runtime(plan: ContainerPlan, beside: Surroundings) -> Iterator[str]:
    if not beside.activation:
        return
    base = plan.container.base
    yield from _one_step(beside.env)
    yield "COPY runtime/activate.sh runtime/hook.sh runtime/entrypoint.sh /opt/uenvtool/"
    yield "COPY runtime/hook.sh /etc/profile.d/99-uenvtool.sh"
    if base and base.hooks:
        yield f"COPY runtime/hook.sh {base.hooks}/99-uenvtool.sh"
    elif base:
        yield 'ENTRYPOINT ["/bin/bash", "/opt/uenvtool/entrypoint.sh"]'


def _one_step(lines: Sequence[str]) -> Iterator[str]:
    """Yield ENV lines as one step, since the builder commits the image, of many gigabytes, after each step."""
    variables = [index for index, line in enumerate(lines) if line.startswith("ENV ")]
    if variables:
        yield "ENV \\"
    for index, line in enumerate(lines[: variables[-1] + 1] if variables else ()):
        continued = " \\" if index != variables[-1] else ""
        yield line if line.startswith("#") else f"    {line.removeprefix('ENV ')}{continued}"


def _installed(packages: Sequence[str]) -> Iterator[str]:
    if packages:
        names = " ".join(sorted(set(packages)))
        yield "RUN apt-get update && \\"
        yield f"    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends {names} && \\"
        yield "    rm -rf /var/lib/apt/lists/*"


def _run(command: Step, mounted: str = "") -> Iterator[str]:
    """Yield the lines of a RUN step, with each reason above its argument. mounted: a script to mount for the step."""
    options = f"--mount=type=bind,source=scripts/{mounted},target={MOUNTED}{mounted} " if mounted else ""
    yield from _comment(command[0].reason)
    line = f"RUN {options}[{json.dumps(command[0].word)}"
    for argument in command[1:]:
        word = json.dumps(argument.word)
        if argument.reason or len(line) + len(word) > LONGEST:
            yield f"{line}, \\"
            yield from _comment(argument.reason, indent="     ")
            line = f"      {word}"
        else:
            line += f", {word}"
    yield f"{line}]"


def _words(*words: str) -> Step:
    return tuple(Word(word) for word in words)


def _stage_name(component: str) -> str:
    return f"build-{component}"


def _comment(text: str, indent: str = " ") -> list[str]:
    """Return a text as comment lines. No part of the text can end the comment."""
    lines = textwrap.wrap(quoting.comment(text), WIDTH, break_long_words=False, break_on_hyphens=False)
    return [f"#{indent}{line}" for line in lines]


def template(name: str, directory: str = "templates") -> str:
    """Return the text of a template or a script."""
    return (HERE / directory / name).read_text(encoding="utf-8")
