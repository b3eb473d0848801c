"""Resolves an environment: real Spack picks every version, with the node's answers in place of this machine's."""

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
from uenvtool.env.runner import Runner, index_cache, kept_output, write_scope
from uenvtool.knowledge.lock import LOCK, Lock, parse_lock, require_installable, require_network
from uenvtool.knowledge.place import supports_target, this_operating_system, unknown_targets

SCRIPT = Path(__file__).parent / "scripts" / "resolve_for_node.py"
ANSWERS = "node.json"
FITTING = re.compile(r"1\.[12](\.|$)")
"""Versions of Spack whose internals the script knows; it was run with v1.1.0 and v1.2.0."""
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
    """Return the text of the lock that Spack resolves a part of an environment to: the same text each time.

    files: the environment's files; part: as `parts_of` names it; repos: package repositories to take from disk.
    Spack works on a copy in a folder of the tool's own, with the view off and no configuration but the
    environment's, so that it writes nowhere else but into its own cache, and the answer depends on the files alone.
    Raises BadInput if the system does not say enough of its nodes; ToolFailed if Spack fails, finds no
    solution, or writes a lock that would not install: its whole output is then in the file `log`.
    """
    answers = node_answers(environment)
    with scratch_folder() as scratch:
        words = resolving(spack, answers, scratch)
        folder, scope = scratch / "environment", scratch / "configuration"
        write_all(folder, {**files, **render_to_resolve(environment, repos)}.items())
        write_scope(scope, {"config": places(environment, scratch)})
        runner = Runner(spack=spack, folder=folder / part, scope=scope)
        completed = runner.run("python", *words, on_step=on_step)
        lock = runner.folder / LOCK
        if completed.code == 0 and lock.is_file():
            return in_order(lock.read_text(encoding="utf-8"))
        output = kept_output(completed, log, str(runner.folder), "ENVIRONMENT")
    raise explain_failure(spack, code=completed.code, output=output, log=log)


def in_order(text: str) -> str:
    """Return a lock with its roots and packages sorted: Spack's order differs from run to run, and a lock's bytes count
    for the name of an image. A text that is no lock is left as it is.
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


def resolving(spack: Spack, answers: Mapping[str, str], scratch: Path) -> list[str | Path]:
    """Return the script and its arguments by which a Spack resolves an environment as on a node."""
    if not FITTING.match(spack.version):
        return [SCRIPT]
    write(scratch / ANSWERS, json.dumps(answers))
    return [SCRIPT, scratch / ANSWERS]


def checked_lock(text: str, environment: Environment, part: str, spack: Spack) -> Lock:
    """Return the lock of a part in what Spack wrote.

    Raises ToolFailed if it is none, is for other nodes, or would not install. A package that is resolved for another
    operating system or target would build, and then fail on the nodes; one without compiler-wrapper would build, and
    then find no library.
    """
    try:
        lock = parse_lock(text, LOCK)
    except BadInput as error:
        raise ToolFailed(f"what Spack {spack.version} wrote is not a lock of Spack", hint="run it again") from error
    node = environment.node
    strays = sorted(package.name for package in lock.packages if (package.os, package.target) != (node.os, node.target))
    if strays:
        named = ", ".join(strays[:5])
        raise ToolFailed(
            f"Spack {spack.version} resolved {named} for another machine than {environment.architecture}",
            hint="the packages' requirements must name the architecture; please report this with the recipe",
        )
    require_installable(lock, f"what Spack {spack.version} resolved")
    if not part:
        require_network(lock, environment.needs, f"what Spack {spack.version} resolved")
    return lock


def places(environment: Environment, scratch: Path) -> dict[str, object]:
    """Return where Spack keeps what it would otherwise write beside itself."""
    return {
        "install_tree": {"root": str(scratch / "store")},
        "misc_cache": index_cache(machine(environment), environment.pins),
    }


def node_answers(environment: Environment) -> dict[str, str]:
    """Return the answers of the environment's node type, from its system's file, as SCRIPT reads them.

    target, os: as Spack names them. libc: a spec; libc_prefix: the folder that it is in.
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
    libc = {"libc": f"{C_LIBRARY}@={version}", "libc_prefix": libraries[0].prefix}
    return {"target": node.target, "os": node.os, **libc}


def machine(environment: Environment) -> str:
    """Return what `platform.machine()` says on the environment's node type. Raises BadInput if its target is none."""
    BadInput.raise_any(unknown_targets(environment.system.tree))
    return environment.node.machine


def is_this_machine(environment: Environment) -> bool:
    """Tell whether this machine can answer for the node: its CPU and operating system, and every compiler runs here."""
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
