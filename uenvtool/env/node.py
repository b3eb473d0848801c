"""What a node would answer if Spack asked it: its CPU, its operating system, its C library, its compiler."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.env.environment import Environment
from uenvtool.knowledge.machine import supports_target, this_operating_system

C_LIBRARY = "glibc"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswers:
    """A node's answers. target, os: as Spack names them. libc: a spec; libc_prefix: the folder that it is in."""

    target: str
    os: str
    libc: str
    libc_prefix: str

    def text(self) -> str:
        """The answers as the script in Spack's Python reads them."""
        return json.dumps(asdict(self))


def node_answers(environment: Environment) -> NodeAnswers:
    """The answers of the environment's node type, from its system's file.

    Raises BadInput if the system names no C library or no compiler: Spack would then leave out
    compiler-wrapper and gcc-runtime, and what is installed would find no library.
    """
    system, node = environment.system, environment.node
    externals = {settings.name: settings.externals for settings in environment.packages}
    libraries = externals.get(C_LIBRARY, ())
    if not libraries or libraries[0].spec.versions is None:
        raise BadInput(
            f"{system.name} does not say which C library its nodes have",
            system.tree.position,
            "add it to the system's packages (the version is in the first line of `ldd --version` on a node):\n"
            "  glibc:\n    buildable: false\n    externals: [{spec: glibc@VERSION, prefix: /usr}]",
        )
    if not any(external.compilers for listed in externals.values() for external in listed):
        raise BadInput(
            f"{system.name} names no compiler of its nodes",
            system.tree.position,
            "add it to the system's packages, as the shipped systems do for gcc",
        )
    version = str(libraries[0].spec.versions).lstrip("=")
    return NodeAnswers(target=node.target, os=node.os, libc=f"{C_LIBRARY}@={version}", libc_prefix=libraries[0].prefix)


def machine(environment: Environment) -> str:
    """What `platform.machine()` says on the environment's node type."""
    import archspec.cpu

    return str(archspec.cpu.TARGETS[environment.node.target].family.name)


def is_this_machine(environment: Environment) -> bool:
    """Whether this machine can answer for the node: its CPU and operating system, and every compiler runs here."""
    node = environment.node
    compilers = [
        path
        for settings in environment.packages
        for external in settings.externals
        for path in external.compilers.values()
    ]
    return (
        bool(compilers)
        and all(Path(path).is_file() for path in compilers)
        and node.os == this_operating_system()
        and supports_target(node.target)
    )
