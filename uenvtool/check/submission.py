"""A job as it was submitted, with the problems in its batch script and the sbatch options that apply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from uenvtool.check.lint import problems_in, recipe_of, runtime_of
from uenvtool.check.parts import Part
from uenvtool.check.problems import Problem, read_source
from uenvtool.check.script import options_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """A submitted batch script, whose text is empty if Slurm did not keep it.

    options: the sbatch options from script, environment and command line, by long name.
    runtime, recipe: the runtime and recipe that the script uses, or None if it does not show them.
    """

    options: Mapping[str, str]
    text: str = ""
    parts: tuple[Part, ...] = ()
    problems: tuple[Problem, ...] = ()
    runtime: str | None = None
    recipe: str | None = None


def submission(script: str, name: str, system: str | None, environ: Mapping[str, str], line: str) -> Submission:
    """Parse and check a submitted job.

    name: the script's name for messages.
    system: the system on which the job ran.
    environ: the environment variables at submission, which the script need not set.
    line: the sbatch command line.

    Raises BadInput if the system does not exist.
    """
    if not script:
        return Submission(options=dict(_options((), environ, line)))
    source = read_source(script, name)
    return Submission(
        options=dict(_options(source.parts, environ, line)),
        text=script,
        parts=source.parts,
        problems=tuple(problems_in(source, system, environ)),
        runtime=runtime_of(source),
        recipe=recipe_of(source),
    )


def _options(parts: tuple[Part, ...], environ: Mapping[str, str], line: str) -> Iterator[tuple[str, str]]:
    """Yield the options of a job in the order in which sbatch applies them; the last value of an option holds."""
    for part in parts:
        if part.kind == "directive":
            yield part.name, part.text
    for name, value in environ.items():
        if name.startswith("SBATCH_"):
            yield name.removeprefix("SBATCH_").lower().replace("_", "-"), value
    yield from options_of(line)
