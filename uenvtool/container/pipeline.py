"""Renders what pipelines have in common: GitLab's file, whose jobs run steps of one script, and that script's end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core import quoting

DEFAULT_BRANCH = "- if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH"


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineJob:
    """A job that runs a step of ci.sh. runner: the variable with the tag of its runner. needs: the jobs before it, as
    YAML. is_for_all: on the default branch alone, since others see what it gives.
    """

    step: str
    stage: str
    runner: str
    needs: str
    is_for_all: bool = False


def gitlab(
    name: str,
    folder: str,
    head: Sequence[str],
    stages: Sequence[str],
    jobs: Sequence[PipelineJob],
    *,
    watched: Sequence[str],
) -> str:
    """Return a file for `include:` of .gitlab-ci.yml. watched: the paths whose changes start it; head: its comments."""
    lines = [*(f"# {line}" for line in head), f"stages: [{', '.join(stages)}]", "", f'".{name}":', "  rules:"]
    lines += [f"  - changes: [{_quoted(watched)}]", f"  {DEFAULT_BRANCH}"]
    for job in jobs:
        lines += ["", f'"{name} {job.step}":', f'  extends: ".{name}"', f"  stage: {job.stage}"]
        lines += [f"  tags: [${job.runner}]", f"  needs: {job.needs}"]
        lines += ["  rules:", f"  {DEFAULT_BRANCH}"] if job.is_for_all else []
        lines += ["  script:", f"  - bash {folder}/ci.sh {job.step}"]
    return "\n".join(lines) + "\n"


def end_of_script() -> str:
    """Return the end of a ci.sh: what asks the registry of REGISTRY, what stops, and the call of main."""
    return (Path(__file__).parent / "registry.sh").read_text(encoding="utf-8")


def _quoted(paths: Sequence[str]) -> str:
    return ", ".join(map(quoting.toml, paths))  # JSON's strings are YAML's
