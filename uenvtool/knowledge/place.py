"""Where a command works: the system and node type that are named or seen, and this machine as one (`local`)."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, Position, Problem, unknown
from uenvtool.knowledge.bind import children
from uenvtool.knowledge.recipe import Recipe
from uenvtool.knowledge.recognise import concrete_systems, recognised
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.system import HOST, External, NodeType, System, SystemPackage, load_system
from uenvtool.knowledge.yamltree import Node


@dataclass(frozen=True, slots=True)
class ChosenSystem:
    """The system and node type that a command works for, and why these."""

    system: System
    uarch: str
    reason: str


def choose(recipe: Recipe, system: str | None, uarch: str | None) -> ChosenSystem:
    """Return the system and node type for a recipe: the named, else the recognised, else the recipe's home.

    Raises BadInput if the recipe does not support what was named.
    """
    name, reason = system_name(recipe, system, uarch)
    chosen = on_this_machine(load_system(name))
    supported = [node for node in chosen.nodes if recipe.supports(node)]
    if uarch is None and supported:
        return ChosenSystem(chosen, supported[0], reason)
    if uarch in supported:
        return ChosenSystem(chosen, uarch, reason)
    if uarch is not None and uarch not in chosen.nodes:
        raise BadInput([unknown(f"node type of {chosen.name}", uarch, chosen.nodes)])
    wanted = uarch or ", ".join(chosen.nodes)
    fitting = [name for name in concrete_systems() if any(map(recipe.supports, load_system(name).nodes))]
    raise BadInput(
        [
            Problem(
                f"{recipe.name} does not support {wanted} (system {chosen.name})",
                recipe.tree.at(("uarchs",)).position,
                f"it supports {', '.join(recipe.uarchs)}; add {wanted} to `uarchs` in a recipe that extends it"
                + (f", or choose another system ({', '.join(fitting)})" if fitting else ""),
            )
        ]
    )


def system_name(recipe: Recipe, system: str | None, uarch: str | None) -> tuple[str, str]:
    """Return the name of the system to work for, and why it is that one."""
    if system is not None:
        return system, "named with --system"
    here = recognised()
    if here is not None:
        name, seen = here
        nodes = load_system(name).nodes
        if any(recipe.supports(node) and uarch in (None, node) for node in nodes):
            return name, f"this machine is {name} ({seen})"
    return recipe.home, f"the home of {recipe.name}; --system names another"


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A program that Spack can take from the machine.

    arguments: those that make it print its version. pattern: matches all that it prints, with the
    groups `version` and, if the prefix is not the program's own, `prefix`.
    """

    package: str
    program: str
    arguments: tuple[str, ...]
    pattern: str


TOOLS = (
    Program(package="gmake", program="make", arguments=("--version",), pattern=r"GNU Make (?P<version>[0-9.]+)\n.*"),
    Program(package="perl", program="perl", arguments=("-e", "printf '%vd', $^V"), pattern=r"(?P<version>[0-9.]+)"),
    Program(
        package="python",
        program="python3",
        arguments=(
            "-I",  # not what lies in the current folder
            "-c",
            "import os, sys, sysconfig\n"
            "if os.path.exists(sysconfig.get_path('include') + '/Python.h'):\n"  # extensions are built with it
            "    print('%d.%d.%d' % sys.version_info[:3], sys.base_prefix)",
        ),
        pattern=r"(?P<version>[0-9.]+) (?P<prefix>/[^\n]*)\n",
    ),
)
GCC = Program(package="gcc", program="gcc", arguments=("-dumpfullversion",), pattern=r"(?P<version>[0-9.]+)\n")


def on_this_machine(system: System) -> System:
    """Return the system with this machine's answers in place of every `host`; another system is left as it is."""
    if all(HOST not in (node.target, node.os) for node in system.nodes.values()):
        return system
    nodes = {uarch: _looked_up(node) for uarch, node in system.nodes.items()}
    return dataclasses.replace(
        system, nodes=nodes, packages={**_compilers(), **_libraries_and_tools(), **system.packages}
    )


def this_target() -> str:
    """Return this machine's CPU target as Spack names it."""
    import archspec.cpu

    return str(archspec.cpu.host().name)


def this_operating_system() -> str:
    """Return this machine's operating system as Spack names it.

    Spack joins the distribution's id and its major version, for Ubuntu also the minor one. Source:
    Spack v1.1.0, lib/spack/spack/operating_systems/linux_distro.py.
    """
    import platform

    try:
        found = platform.freedesktop_os_release()
    except OSError:
        found = {}
    name = found.get("ID", "linux").replace("-", "_")
    version = found.get("VERSION_ID", "")
    major = ".".join(version.split(".")[: 2 if name == "ubuntu" else 1])
    return f"{name}{major}" if major else name


def supports_target(name: str) -> bool:
    """Tell if this machine's CPU runs what is built for a target of archspec's."""
    import archspec.cpu

    return name in archspec.cpu.TARGETS and bool(archspec.cpu.host() >= archspec.cpu.TARGETS[name])


def unknown_targets(tree: Node) -> list[Problem]:
    """Return the problems of CPU targets in the tree of a system that archspec does not know."""
    import archspec.cpu

    targets = [target for _, node in children(tree, "nodes") if (target := node.get("target"))]
    return [
        unknown("target", target.value, archspec.cpu.TARGETS, target.position, listed_by="spack arch --known-targets")
        for target in targets
        if target.value not in (HOST, *archspec.cpu.TARGETS)
    ]


def _looked_up(node: NodeType) -> NodeType:
    target = this_target() if node.target == HOST else node.target
    return dataclasses.replace(node, target=target, os=this_operating_system() if node.os == HOST else node.os)


def _libraries_and_tools() -> dict[str, SystemPackage]:
    found = {}
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    if name == "glibc":
        library = _external(f"{name}@{version}", "/usr", "this machine's C library")
        found[name] = dataclasses.replace(library, buildable=False)
    for tool in TOOLS:
        answer = _answer(tool, shutil.which(tool.program))
        if answer and _is_in_a_home(answer[1]):
            answer = _answer(tool, shutil.which(tool.program, path=os.defpath))
        if answer and not _is_in_a_home(answer[1]):
            version, prefix = answer
            found[tool.package] = _external(f"{tool.package}@{version}", prefix, "this machine's own; it builds others")
    return found


def _answer(tool: Program, program: str | None) -> tuple[str, str] | None:
    """Return the version and the prefix of a program; None if it is not what is needed."""
    answer = processes.run([program, *tool.arguments]) if program else None
    match = re.fullmatch(tool.pattern, answer.stdout, re.DOTALL) if answer and answer.code == 0 else None
    if program is None or match is None:
        return None
    return match["version"], match.groupdict().get("prefix") or str(Path(program).parent.parent)


def _is_in_a_home(prefix: str) -> bool:
    """Tell if others may not look there: an image links to an external at its place, wherever it is loaded."""
    return any(Path(prefix).is_relative_to(home) for home in (Path.home(), Path("/root"), Path("/home")))


def _external(spec: str, prefix: str, reason: str, compilers: dict[str, str] | None = None) -> SystemPackage:
    external = External(spec=parse_spec(spec), prefix=prefix, compilers=compilers or {}, position=Position(prefix))
    return SystemPackage(name=external.spec.package, position=external.position, externals=(external,), reason=reason)


def _compilers() -> dict[str, SystemPackage]:
    """Return this machine's GCC as an external of Spack; nothing if it has none."""
    answer = _answer(GCC, shutil.which(GCC.program))
    if answer is None:
        return {}
    version, prefix = answer
    names = {"c": "gcc", "cxx": "g++", "fortran": "gfortran"}
    found = {language: path for language, name in names.items() if (path := shutil.which(name))}
    languages = ",".join({"cxx": "c++"}.get(language, language) for language in found)
    return {"gcc": _external(f"gcc@{version} languages={languages}", prefix, "this machine's compiler", found)}
