"""Chooses the system and node type for a command, and detects the properties of this machine for the system `local`."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, Position, Problem, unknown
from uenvtool.core.session import KUBERNETES
from uenvtool.knowledge.bind import children
from uenvtool.knowledge.recipe import Recipe
from uenvtool.knowledge.recognise import concrete_systems, recognised
from uenvtool.knowledge.runtime import load_runtime
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.system import HOST, External, System, SystemPackage, load_system
from uenvtool.knowledge.yamltree import Node


@dataclass(frozen=True, slots=True)
class ChosenSystem:
    """The system and node type of a command, and the reason for this choice."""

    system: System
    uarch: str
    reason: str


def choose(recipe: Recipe, system: str | None, uarch: str | None) -> ChosenSystem:
    """Return the system and node type for a recipe: the named system, the recognised one, or the recipe's home.

    Raises BadInput if the recipe does not support the named system or node type.
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
    requested = uarch or ", ".join(chosen.nodes)
    fitting = [name for name in concrete_systems() if any(map(recipe.supports, load_system(name).nodes))]
    raise BadInput(
        f"{recipe.name} does not support {requested} (system {chosen.name})",
        recipe.tree.at(("uarchs",)).position,
        f"add {requested} to `uarchs` in a recipe that extends {recipe.name}, which supports "
        f"{', '.join(recipe.uarchs)}" + (f"; or use another system ({', '.join(fitting)})" if fitting else ""),
    )


def system_name(recipe: Recipe, system: str | None, uarch: str | None) -> tuple[str, str]:
    """Return the name of the system to use, and the reason for this choice."""
    if system is not None:
        return system, "named with --system"
    this_machine = recognised()
    if this_machine is not None:
        name, seen = this_machine
        nodes = load_system(name).nodes
        if any(recipe.supports(node) and uarch in (None, node) for node in nodes):
            return name, f"this machine is {name} ({seen})"
    return recipe.home, f"the home of {recipe.name}; use --system to choose another system"


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A program of this machine that Spack can use as an external package.

    arguments: The arguments with which the program prints its version.
    pattern: A pattern for the whole output, with the group `version`. The optional group `prefix` is needed if the
        program is not below its own prefix.
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
            "-I",  # ignores modules in the current directory
            "-c",
            "import os, sys, sysconfig\n"
            "if os.path.exists(sysconfig.get_path('include') + '/Python.h'):\n"  # builds of extensions need this header
            "    print('%d.%d.%d' % sys.version_info[:3], sys.base_prefix)",
        ),
        pattern=r"(?P<version>[0-9.]+) (?P<prefix>/[^\n]*)\n",
    ),
)
GCC = Program(package="gcc", program="gcc", arguments=("-dumpfullversion",), pattern=r"(?P<version>[0-9.]+)\n")


def on_this_machine(system: System) -> System:
    """Return the system with each `host` replaced by this machine's value. Other systems are returned unchanged."""
    if all(HOST not in (node.target, node.os) for node in system.nodes.values()):
        return system
    nodes = {}
    for uarch, node in system.nodes.items():
        target = this_target() if node.target == HOST else node.target
        os_name = this_operating_system() if node.os == HOST else node.os
        nodes[uarch] = dataclasses.replace(node, target=target, os=os_name)
    return dataclasses.replace(
        system, nodes=nodes, packages={**_compilers(), **_libraries_and_tools(), **system.packages}
    )


def this_target() -> str:
    """Return this machine's CPU target as Spack names it."""
    import archspec.cpu

    return str(archspec.cpu.host().name)


def this_operating_system() -> str:
    """Return this machine's operating system as Spack names it, by its id and its major version, for example sles15.

    For Ubuntu, it has the minor version too. Source: Spack v1.1.0, spack/operating_systems/linux_distro.py.
    """
    import platform

    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    name = release.get("ID", "linux").replace("-", "_")
    version = release.get("VERSION_ID", "")
    major = ".".join(version.split(".")[: 2 if name == "ubuntu" else 1])
    return f"{name}{major}" if major else name


def supports_target(name: str) -> bool:
    """Return whether this machine's CPU can run programs built for an archspec target."""
    import archspec.cpu

    return name in archspec.cpu.TARGETS and bool(archspec.cpu.host() >= archspec.cpu.TARGETS[name])


def unknown_targets(tree: Node) -> list[Problem]:
    """Return a problem for each CPU target in a system's YAML tree that is unknown to archspec."""
    import archspec.cpu

    targets = [target for _, node in children(tree, "nodes") if (target := node.get("target"))]
    return [
        unknown("target", target.value, archspec.cpu.TARGETS, target.position, listed_by="spack arch --known-targets")
        for target in targets
        if target.value not in (HOST, *archspec.cpu.TARGETS)
    ]


def missing_rdma(tree: Node) -> list[Problem]:
    """Return a problem for each runtime of a RoCE system whose pods get no RDMA device. tree: the extended system.

    An empty value, such as `annotations: {}`, states that the pods need none.
    """
    fabric, problems = tree.get("fabric"), []
    for _, node in children(tree, "runtimes") if fabric and fabric.value == "roce" else ():
        name = str(node.value)
        if load_runtime(name).job.scheduler != KUBERNETES:
            continue
        known = dict(children(tree, "jobs", "runtimes", name))
        lacking = [f"jobs.runtimes.{name}.{field}" for field in ("annotations", "resources") if field not in known]
        if lacking:
            are = "are" if lacking[1:] else "is"
            hint = "add the values of your cluster, as in `uenvtool show rcp`, or {} if the pods need none"
            what = f"pods may get no RoCE device: {' and '.join(lacking)} {are} missing"
            problems.append(Problem(what, node.position, hint=hint))
    return problems


def _libraries_and_tools() -> dict[str, SystemPackage]:
    packages = {}
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    if name == "glibc":
        library = _external(f"{name}@{version}", "/usr", "the C library of this machine")
        packages[name] = dataclasses.replace(library, buildable=False)
    for tool in TOOLS:
        answer = _answer(tool, shutil.which(tool.program))
        if answer and _is_in_a_home(answer[1]):
            answer = _answer(tool, shutil.which(tool.program, path=os.defpath))
        if answer and not _is_in_a_home(answer[1]):
            version, prefix = answer
            packages[tool.package] = _external(
                f"{tool.package}@{version}", prefix, "from this machine; it is used to build packages"
            )
    return packages


def _answer(tool: Program, program: str | None) -> tuple[str, str] | None:
    answer = processes.ask([program, *tool.arguments]) if program else None
    match = re.fullmatch(tool.pattern, answer.stdout, re.DOTALL) if answer and answer.code == 0 else None
    if program is None or match is None:
        return None
    return match["version"], match.groupdict().get("prefix") or str(Path(program).parent.parent)


def _is_in_a_home(prefix: str) -> bool:
    # an image links to externals at their path, and other users cannot read a home directory
    return any(Path(prefix).is_relative_to(home) for home in (Path.home(), Path("/root"), Path("/home")))


def _external(spec: str, prefix: str, reason: str, compilers: dict[str, str] | None = None) -> SystemPackage:
    external = External(spec=parse_spec(spec), prefix=prefix, compilers=compilers or {}, position=Position(prefix))
    return SystemPackage(name=external.spec.package, position=external.position, externals=(external,), reason=reason)


def _compilers() -> dict[str, SystemPackage]:
    answer = _answer(GCC, shutil.which(GCC.program))
    if answer is None:
        return {}
    version, prefix = answer
    names = {"c": "gcc", "cxx": "g++", "fortran": "gfortran"}
    paths = {language: path for language, name in names.items() if (path := shutil.which(name))}
    languages = ",".join({"cxx": "c++"}.get(language, language) for language in paths)
    return {"gcc": _external(f"gcc@{version} languages={languages}", prefix, "the compiler of this machine", paths)}
