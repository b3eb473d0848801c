"""An environment definition file (EDF) of the Container Engine; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uenvtool.core import quoting
from uenvtool.core.filling import filled
from uenvtool.core.lines import in_comment
from uenvtool.job.render.templates import template
from uenvtool.knowledge.jobs import ContainerEngine, Explained


@dataclass(frozen=True, slots=True, kw_only=True)
class EdfEntries:
    """What an EDF of a system has beside its image. extended: for an image with a network stack of its own.

    mounts, env: further lines, as they stand in the file. again: the command that makes the file.
    """

    knowledge: ContainerEngine
    extended: bool
    image: str
    mounts: Sequence[str] = ()
    env: Sequence[str] = ()
    again: str


def render_edf(entries: EdfEntries) -> str:
    """The text of an EDF."""
    known = entries.knowledge
    annotations = known.extended.annotations if entries.extended and known.extended else known.annotations
    env = [*table_lines(known.extended.env if entries.extended and known.extended else ()), *entries.env]
    return filled(
        template("ce.toml"),
        AGAIN=in_comment(entries.again),
        IMAGE=quoting.toml(entries.image),
        MOUNTS="\n".join([*(f"  {quoting.toml(mount)}," for mount in known.mounts), *entries.mounts]),
        WORKDIR=quoting.toml(known.workdir or "${PWD}"),
        ENTRYPOINT="entrypoint = true # sets the image's network stack up\n" if entries.extended else "",
        ANNOTATIONS="\n".join(table_lines(annotations)),
        ENV="\n".join(env),
    )


def table_lines(entries: Sequence[Explained]) -> list[str]:
    """Entries of a table, each with its reason."""
    return [
        f"{entry.name} = {quoting.toml(entry.value)}" + (f" # {in_comment(entry.reason)}" if entry.reason else "")
        for entry in entries
    ]
