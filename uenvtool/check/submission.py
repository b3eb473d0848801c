"""Reads a submitted job: its sbatch options, and its batch script with the problems in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from uenvtool.check.lint import problems_in, recipe_of, runtime_of
from uenvtool.check.parts import Part
from uenvtool.check.problems import Problem, read_source
from uenvtool.check.script import options_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """A submitted job. The text of its batch script is empty if Slurm did not store the script.

    options: the sbatch options from script, environment and command line, by long name.
    runtime, recipe: None if the script does not show them.
    """

    options: Mapping[str, str]
    text: str = ""
    parts: tuple[Part, ...] = ()
    problems: tuple[Problem, ...] = ()
    runtime: str | None = None
    recipe: str | None = None


def submission(
    script: str, name: str, system: str | None, environ: Mapping[str, str], line: str, directory: str = ""
) -> Submission:
    """Parse and check the script of a job that ran on a system. Raises BadInput if the system does not exist.

    name: the script's name for messages.
    environ: the environment variables at submission.
    line: the sbatch command line.
    directory: the job's directory, which may contain the training program, or "" if it is unknown.
    """
    source = read_source(script, name)
    options = {part.name: part.text for part in source.of("directive")}
    in_environment = {name: value for name, value in environ.items() if name.startswith("SBATCH_")}
    # sbatch reads the script first, then the environment, and then the command line
    options |= {name[7:].lower().replace("_", "-"): value for name, value in in_environment.items()}
    options |= options_of(line)
    if not script:
        return Submission(options=options)
    return Submission(
        options=options,
        text=script,
        parts=source.parts,
        problems=tuple(problems_in(source, system, environ, Path(directory) if directory else None)),
        runtime=runtime_of(source),
        recipe=recipe_of(source),
    )
