"""The facts that conditions can test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from uenvtool.knowledge.yamltree import Node, read, text

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


def _software() -> dict[str, Software]:
    path = Path(__file__).parent / "software.yaml"
    rows: dict[str, Node] = read(path, path.name).value
    fields = ("package", "library", "variable", "title")
    return {fact: Software(*(text(row, field) for field in fields)) for fact, row in rows.items()}


SOFTWARE = _software()
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
