"""The facts that conditions can ask for."""

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
"""Those of a system and one of its node types, which a recipe's conditions can ask for."""


@dataclass(frozen=True, slots=True)
class Software:
    """A package whose version is a fact; see software.yaml. library, variable: empty where nothing shows it.

    title: its name in a sentence, if it is not the fact's.
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
"""All of them, which a setting's condition can ask for: of the system and node type, the runtime, whether this is
inside a container, its image, the kind of image whose variables a hook sets there, whether a virtual environment lies
over the base, how many nodes the job has, and versions."""
