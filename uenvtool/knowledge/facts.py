"""The facts that conditions can test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput, Position, unknown
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.yamltree import read

_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")

SYSTEM_FACTS = (
    "system",
    "site",
    "uarch",
    "target",
    "os",
    "fabric",
    "mpi",
    "scheduler",
    "slurm",
    "exclusive",
    "gpu",
    "cuda_arch",
    "amdgpu_target",
)
"""The facts of a system and one of its node types, which the conditions of recipes can test."""


@dataclass(frozen=True, slots=True)
class Software:
    """A package whose version is a fact, as software.yaml describes it.

    library, variable: The library and the environment variable that reveal the version, or empty strings.
    title: The name in a sentence, if it differs from the name of the fact.
    """

    package: str
    library: str = ""
    variable: str = ""
    title: str = ""


_ROWS = read(Path(__file__).with_name("software.yaml"), "software.yaml").plain()
SOFTWARE = {fact: Software(**row) for fact, row in _ROWS.items()}
FACTS = (*SYSTEM_FACTS, "runtime", "container", "image", "hook", "overlay", "nodes", *SOFTWARE)
"""All facts, which the conditions of settings can test.

In addition to SYSTEM_FACTS and the versions of software:

runtime: The name of the runtime.
container: Present inside a container.
image: The kind of the container's image.
hook: The kind of image whose variables a container hook sets.
overlay: Present if a virtual environment is used on top of the base.
nodes: The number of nodes of the job.
"""


def filled(text: str, facts: Facts, position: Position) -> str:
    """Return a text with each `${fact}` replaced by its value. Raises BadInput if a fact is unknown or has no value."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in facts:
            raise BadInput([unknown("fact", name, facts, position)])
        known = facts[name]
        if known is None:
            raise BadInput(
                f"${{{name}}} has no value on {facts.get('system')}, node type {facts.get('uarch')}",
                position,
                "write a condition, such as `when: gpu == nvidia`, or list only node types that have the value",
            )
        return known

    return _PLACEHOLDER.sub(value, text)
