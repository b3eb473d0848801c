"""Resolves an environment with Spack for the CPU and operating system of the nodes, not of this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.files import scratch_folder, write, write_all
from uenvtool.core.result import Step
from uenvtool.env.environment import Environment
from uenvtool.env.manifest import render_to_resolve
from uenvtool.env.output import explain_failure
from uenvtool.env.program import Spack
from uenvtool.env.runner import Runner, index_cache, log_output, write_scope
from uenvtool.knowledge.lock import LOCK, Lock, parse_lock, require_installable, require_network
from uenvtool.knowledge.place import supports_target, this_operating_system, unknown_targets

SCRIPT = Path(__file__).parent / "scripts" / "resolve_for_node.py"
ANSWERS = "node.json"
FITTING = re.compile(r"1\.[12](\.|$)")
"""The Spack versions that SCRIPT supports. SCRIPT was tested with v1.1.0 and v1.2.0."""
C_LIBRARY = "glibc"


def resolve(
    spack: Spack,
    environment: Environment,
    files: Mapping[str, str],
    part: str,
    *,
    repos: Mapping[str, Path],
    log: Path,
    on_step: Step | None = None,
) -> str:
    """Let Spack resolve a part of an environment, and return the text of the lock. The text is reproducible.

    files: the environment's files. part: a part, see `parts_of`. repos: package repositories to use from disk.
    Spack works on a copy in a scratch directory, without a view and with only the environment's configuration.
    Therefore Spack writes only to its cache, and the lock depends only on the files. Raises BadInput if the system file
    lacks facts about the nodes. If Spack fails or finds no solution, writes Spack's complete output to the file `log`
    and raises ToolFailed.
    """

    def handle(line: str) -> None:
        if on_step and line.startswith("==>") and not line.startswith("==> Error"):
            on_step(line.removeprefix("==>").strip())

    answers = node_answers(environment)
    with scratch_folder() as scratch:
        directory, scope = scratch / "environment", scratch / "configuration"
        write_all(directory, {**files, **render_to_resolve(environment, repos)}.items())
        write_scope(scope, {"config": config_section(environment, scratch)})
        write(scratch / ANSWERS, json.dumps(answers))
        answers_file = [scratch / ANSWERS] if FITTING.match(spack.version) else []  # without a file: this machine
        runner = Runner(spack=spack, directory=directory / part, scope=scope)
        completed = runner.run("python", SCRIPT, *answers_file, on_line=handle)
        lock = runner.directory / LOCK
        if completed.code == 0 and lock.is_file():
            return sorted_lock(lock.read_text(encoding="utf-8"))
        output = log_output(completed, log, str(runner.directory), "ENVIRONMENT")
    raise explain_failure(spack, code=completed.code, output=output, log=log)


def sorted_lock(text: str) -> str:
    """Return a lock with sorted roots and packages, or any other text unchanged.

    Spack's order differs between runs, and the name of an image depends on the bytes of its lock.
    """
    try:
        lock = json.loads(text)
        roots = sorted(lock["roots"], key=lambda root: (root["spec"], root["hash"]))
        return json.dumps(
            {**lock, "roots": roots, "concrete_specs": dict(sorted(lock["concrete_specs"].items()))},
            separators=(",", ":"),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return text


def parse_resolved_lock(text: str, environment: Environment, part: str, spack: Spack) -> Lock:
    """Return the lock of a part. Raises ToolFailed if the text is not a lock, or if the software would not work.

    Spack can build a package for another operating system or target, but the package fails on the nodes. Spack can also
    build a package without compiler-wrapper, but the package does not find its libraries.
    """
    try:
        lock = parse_lock(text, LOCK)
    except BadInput as error:
        raise ToolFailed(f"Spack {spack.version} wrote an invalid lock", hint="run the command again") from error
    node = environment.node
    strays = sorted(package.name for package in lock.packages if (package.os, package.target) != (node.os, node.target))
    if strays:
        named = ", ".join(strays[:5])
        raise ToolFailed(
            f"Spack {spack.version} resolved {named} for another machine than {environment.architecture}",
            hint="report this as a uenvtool bug with the recipe: the generated requirements must set the architecture",
        )
    require_installable(lock, f"the lock from Spack {spack.version}")
    if not part:
        require_network(lock, environment.needs, f"the lock from Spack {spack.version}")
    return lock


def config_section(environment: Environment, scratch: Path) -> dict[str, object]:
    """Return a configuration that moves Spack's working directories out of Spack's own installation.

    Raises BadInput if the CPU target of the nodes is unknown.
    """
    BadInput.raise_any(unknown_targets(environment.system.tree))
    return {
        "install_tree": {"root": str(scratch / "store")},
        "misc_cache": index_cache(environment.node.machine, environment.pins),
    }


def node_answers(environment: Environment) -> dict[str, str]:
    """Return the facts about the node type that SCRIPT reads (see its docstring), from the system file.

    Raises BadInput if the system file names no C library or no compiler. Without them, Spack would omit
    compiler-wrapper and gcc-runtime, and the installed packages would not find their libraries.
    """
    system, node = environment.system, environment.node
    externals = {settings.name: settings.externals for settings in environment.packages}
    libraries = externals.get(C_LIBRARY, ())
    if not libraries or libraries[0].spec.versions is None:
        raise BadInput(
            f"{system.name} does not name the C library of its nodes",
            system.tree.position,
            "add it to the system's `packages`; `ldd --version` on a node prints the version in its first line:\n"
            "  glibc:\n    buildable: false\n    externals: [{spec: glibc@VERSION, prefix: /usr}]",
        )
    if not any(external.compilers for listed in externals.values() for external in listed):
        raise BadInput(
            f"{system.name} does not name a compiler of its nodes",
            system.tree.position,
            "add it to the system's `packages`, as the built-in systems do for gcc",
        )
    version = str(libraries[0].spec.versions).lstrip("=")
    libc = {"libc": f"{C_LIBRARY}@={version}", "libc_prefix": libraries[0].prefix}
    return {"target": node.target, "os": node.os, **libc}


def can_resolve(spack: Spack, environment: Environment) -> bool:
    """Return whether SCRIPT supports this Spack, or else whether this machine resolves like a node.

    For the latter, the CPU and operating system must match, and all compilers must exist.
    """
    node, externals = environment.node, [external for each in environment.packages for external in each.externals]
    compilers = [path for external in externals for path in external.compilers.values()]
    return FITTING.match(spack.version) is not None or (
        bool(compilers)
        and all(Path(path).is_file() for path in compilers)
        and node.os == this_operating_system()
        and supports_target(node.target)
    )
