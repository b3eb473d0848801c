"""This machine as a node type: its CPU target, operating system and compiler, for the system `local`."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

from uenvtool import tools
from uenvtool.errors import Position
from uenvtool.model.spec import parse_spec
from uenvtool.model.system import HOST, External, NodeType, System, SystemPackage

OS_RELEASE = Path("/etc/os-release")


def on_this_machine(system: System) -> System:
    """The system with this machine's answers in place of every `host`; another system is left as it is."""
    if all(HOST not in (node.target, node.os) for node in system.nodes.values()):
        return system
    nodes = {uarch: _looked_up(node) for uarch, node in system.nodes.items()}
    return dataclasses.replace(system, nodes=nodes, packages={**_compilers(), **system.packages})


def operating_system(release: str) -> str:
    """The operating system as Spack names it, from the text of /etc/os-release.

    Spack joins the distribution's id and its major version, for Ubuntu also the minor one. Source:
    Spack v1.1.0, lib/spack/spack/operating_systems/linux_distro.py.
    """
    found = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', release, re.MULTILINE))
    name = found.get("ID", "linux").replace("-", "_")
    version = found.get("VERSION_ID", "")
    major = ".".join(version.split(".")[: 2 if name == "ubuntu" else 1])
    return f"{name}{major}" if major else name


def _looked_up(node: NodeType) -> NodeType:
    target = _target() if node.target == HOST else node.target
    release = OS_RELEASE.read_text(encoding="utf-8") if OS_RELEASE.is_file() else ""
    return dataclasses.replace(node, target=target, os=operating_system(release) if node.os == HOST else node.os)


def _target() -> str:
    import archspec.cpu

    return str(archspec.cpu.host().name)


def _compilers() -> dict[str, SystemPackage]:
    """This machine's GCC as an external of Spack; nothing if it has none."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return {}
    completed = tools.run([gcc, "-dumpfullversion"])
    version = completed.stdout.strip()
    if completed.code != 0 or not re.fullmatch(r"[0-9.]+", version):
        return {}
    names = {"c": "gcc", "cxx": "g++", "fortran": "gfortran"}
    found = {language: path for language, name in names.items() if (path := shutil.which(name))}
    languages = ",".join({"cxx": "c++"}.get(language, language) for language in found)
    spec = parse_spec(f"gcc@{version} languages={languages}")
    prefix = str(Path(gcc).parent.parent)
    external = External(spec=spec, prefix=prefix, compilers=found, position=Position(gcc))
    return {
        "gcc": SystemPackage(
            name="gcc", position=external.position, externals=(external,), reason="this machine's compiler"
        )
    }
