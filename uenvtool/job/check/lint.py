"""The flaws of batch scripts and EDFs, whoever wrote them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from uenvtool.core.errors import BadInput, ExitCode, Position
from uenvtool.core.files import read_named
from uenvtool.core.result import Result
from uenvtool.job.check.findings import Finding, findings, read_source
from uenvtool.job.check.parts import Source
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.jobs import job_knowledge
from uenvtool.knowledge.kinds import RULES
from uenvtool.knowledge.locate import shown
from uenvtool.knowledge.recipe_reader import read_recipe
from uenvtool.knowledge.rule_reader import load_rules
from uenvtool.knowledge.runtime_reader import load_runtime
from uenvtool.knowledge.sound import passed_over
from uenvtool.knowledge.system import System
from uenvtool.knowledge.system_reader import concrete_systems, load_system
from uenvtool.knowledge.tuning import recipe_facts
from uenvtool.settings import Settings, recipe_of_label, settings_of

RUNTIMES = ("ce", "uenv", "apptainer", "runai")
"""Of a file that shows signs of several, the first counts: a uenv can be loaded beside a container."""
MAX_BYTES = 20_000_000


def check(files: Sequence[Path], system: str | None = None) -> Result:
    """Every flaw of the files; the exit code is NO if there is one.

    system: the one that the files are for; without it, what the systems of the file's runtime agree in counts.
    Raises BadInput for a file that cannot be read or is no text.
    """
    found = []
    clean = []
    for file in files:
        here = flaws(_text(file), shown(file), system)
        found += here
        clean += [] if here else [f"{shown(file)}: fine"]
    more = (
        (f"{len(found)} {'flaw' if len(found) == 1 else 'flaws'}; `uenvtool explain RULE` gives the source of one",)
        if found
        else ()
    )
    return Result(
        data=[finding.data() for finding in found],
        problems=tuple(finding.problem for finding in found),
        notes=(*passed_over(RULES), *clean, *more),
        exit_code=ExitCode.NO if found else ExitCode.DONE,
    )


def flaws(text: str, name: str, system: str | None = None, given: Mapping[str, str] | None = None) -> list[Finding]:
    """Every flaw of a batch script or EDF. name: its name in messages. system: as in `check`.

    given: the variables that it is started with, which it need not set.
    """
    chosen = load_system(system) if system else None
    source = replace(read_source(text, name), given=given or {})
    rules = (rule for rule in load_rules().values() if rule.when.holds(_scheduler(chosen, source)) is not False)
    return findings(source, rules, functools.cache(functools.partial(_settings, chosen, source)))


def _scheduler(system: System | None, source: Source) -> Facts:
    """The version of Slurm, as a fact, if the system of a file, or all systems with its runtime, have the same."""
    runtime = runtime_of(source)
    systems = (system,) if system else _with_runtime(runtime) if runtime else ()
    packages = [found.packages["slurm"] for found in systems if "slurm" in found.packages]
    versions = {
        str(external.spec.versions.lowest)
        for package in packages
        for external in package.externals
        if external.spec.versions
    }
    return {"slurm": versions.pop()} if len(packages) == len(systems) and len(versions) == 1 else {}


def _text(file: Path) -> str:
    try:
        data = read_named(file, MAX_BYTES)
    except FileNotFoundError:
        raise BadInput("no such file", Position(shown(file)), "name a batch script or EDF") from None
    if b"\0" in data:
        raise BadInput("this is no text", Position(shown(file)), "name a batch script or EDF")
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def _settings(system: System | None, source: Source) -> Settings | None:
    """Return the settings for a file: of the system, or of what all systems with its runtime agree in.

    Where other sites have the runtime too, it does not show the network.
    """
    runtime = runtime_of(source)
    if runtime is None:
        return None
    systems = (system,) if system else _with_runtime(runtime)
    if not systems:
        return None
    facts = {
        "image": "alps" if _is_extended(source) else None,
        "netstack": _netstack(source, system),
        **_versions(source, systems[0]),
    }
    loaded = load_runtime(runtime)
    found = settings_of(systems, [loaded], facts=facts)
    return found if system or not loaded.is_common else replace(found, known={**facts, "runtime": runtime})


def _netstack(source: Source, system: System | None) -> str | None:
    """Where the Container Engine's hook of an EDF takes the network stack from; None if there is no hook."""
    entries = {part.name: part.text for part in source.parts if part.kind == "entry"}
    if entries.get("annotations.com.hooks.aws_ofi_nccl.enabled") != "true":
        return None
    default = job_knowledge(system).ce.netstack if system else ""
    return entries.get("annotations.com.hooks.netstack.source", default) or None


@functools.cache
def _with_runtime(runtime: str) -> tuple[System, ...]:
    """The systems that have a runtime; broken files of the user's are left out."""
    found = []
    for name in concrete_systems():
        try:
            found.append(load_system(name))
        except BadInput:
            continue  # told when somebody names it
    return tuple(system for system in found if runtime in system.runtimes)


def runtime_of(source: Source) -> str | None:
    """The runtime that a script shows; None if it shows none."""
    return next((name for name in RUNTIMES if name in source.kinds), None)


def recipe_of(source: Source) -> str | None:
    """Return the recipe of the uenv that a script loads, if one of its name and version is known."""
    return recipe_of_label(source.uenv)


def _versions(source: Source, system: System) -> Facts:
    """Return the versions in the uenv that a script loads, if its recipe is known."""
    name = recipe_of(source)
    return recipe_facts(read_recipe(name), system.facts(next(iter(system.nodes)))) if name else {}


def _is_extended(source: Source) -> bool:
    """Tell if an EDF takes an image of alps-extended-images, by its tag."""
    return any(
        part.kind == "entry" and part.name == "image" and re.search(r"alps\d", part.text) for part in source.parts
    )
