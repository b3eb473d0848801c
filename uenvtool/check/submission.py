"""A job as it was submitted: its batch script, held against the rules, and the options that count for sbatch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from uenvtool.check.findings import Flaw, read_source
from uenvtool.check.lint import flaws, recipe_of, runtime_of
from uenvtool.check.parts import Part
from uenvtool.check.script import options_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """A batch script with the variables and the command line that it was submitted with; empty if it is not kept.

    options: those of sbatch, by their long names. runtime, recipe: those that the script shows, None if none.
    """

    options: Mapping[str, str]
    text: str = ""
    parts: tuple[Part, ...] = ()
    flaws: tuple[Flaw, ...] = ()
    runtime: str | None = None
    recipe: str | None = None


def submission(script: str, name: str, system: str | None, environ: Mapping[str, str], line: str) -> Submission:
    """Read a job. name: the script's in messages. system: the one it is for. line: the command line of sbatch.

    environ: the variables that it was submitted with, which the script need not set. Raises BadInput for a system that
    does not exist.
    """
    if not script:
        return Submission(options=dict(_options((), environ, line)))
    source = read_source(script, name)
    return Submission(
        options=dict(_options(source.parts, environ, line)),
        text=script,
        parts=source.parts,
        flaws=tuple(flaws(source, system, environ)),
        runtime=runtime_of(source),
        recipe=recipe_of(source),
    )


def _options(parts: tuple[Part, ...], environ: Mapping[str, str], line: str) -> Iterator[tuple[str, str]]:
    """Yield the options of a job; of two the last counts, as it does for sbatch."""
    for part in parts:
        if part.kind == "directive":
            yield part.name, part.text
    for name, value in environ.items():
        if name.startswith("SBATCH_"):
            yield name.removeprefix("SBATCH_").lower().replace("_", "-"), value
    yield from options_of(line)
