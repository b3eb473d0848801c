"""The flaws of batch scripts and EDFs, whoever wrote them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from uenvtool.core.errors import BadInput, ExitCode, Position
from uenvtool.core.files import read_named
from uenvtool.core.result import Result
from uenvtool.job.check.findings import Finding, findings, read_source
from uenvtool.job.check.parts import Source
from uenvtool.knowledge.condition import Facts
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


def flaws(text: str, name: str, system: str | None = None, given: Iterable[str] = ()) -> list[Finding]:
    """Every flaw of a batch script or EDF. name: its name in messages. system: as in `check`.

    given: the variables that it is started with, which it need not set.
    """
    chosen = load_system(system) if system else None
    source = replace(read_source(text, name), given=frozenset(given))
    return findings(source, load_rules().values(), functools.cache(functools.partial(_settings, chosen, source)))


def _text(file: Path) -> str:
    try:
        data = read_named(file, MAX_BYTES)
    except FileNotFoundError:
        raise BadInput("no such file", Position(shown(file)), "name a batch script or EDF") from None
    if b"\0" in data:
        raise BadInput("this is no text", Position(shown(file)), "name a batch script or EDF")
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


def _settings(system: System | None, source: Source) -> Settings | None:
    """Return the settings for a file: of the system, or of what all systems with its runtime agree in."""
    runtime = runtime_of(source)
    if runtime is None:
        return None
    systems = (system,) if system else _with_runtime(runtime)
    if not systems:
        return None
    facts = {"image": "alps" if _is_extended(source) else None, **_versions(source, systems[0])}
    return settings_of(systems, [load_runtime(runtime)], facts=facts)


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
    labels = (part.text for part in source.parts if part.kind == "directive" and part.name == "uenv")
    return recipe_of_label(next(labels, ""))


def _versions(source: Source, system: System) -> Facts:
    """Return the versions in the uenv that a script loads, if its recipe is known."""
    name = recipe_of(source)
    return recipe_facts(read_recipe(name), system.facts(next(iter(system.nodes)))) if name else {}


def _is_extended(source: Source) -> bool:
    """Tell if an EDF takes an image of alps-extended-images, by its tag."""
    return any(
        part.kind == "entry" and part.name == "image" and re.search(r"alps\d", part.text) for part in source.parts
    )
