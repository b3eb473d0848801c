"""Activations for commands: a plan by names, its text for a shell or format, the committed scripts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from uenvtool.activation.formats import FORMATS
from uenvtool.activation.plan import ActivationPlan, known_facts, plan_activation
from uenvtool.activation.script import render_script
from uenvtool.activation.shells import dialects, shells
from uenvtool.core import drift, files
from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.result import Result
from uenvtool.knowledge.choice import system_name
from uenvtool.knowledge.kinds import SYSTEM
from uenvtool.knowledge.recipe_reader import read_recipe
from uenvtool.knowledge.runtime import Runtime
from uenvtool.knowledge.runtime_reader import known_images, load_runtime
from uenvtool.knowledge.sound import passed_over
from uenvtool.knowledge.system import System
from uenvtool.knowledge.system_reader import concrete_systems, load_system, this_system
from uenvtool.knowledge.tuning import recipe_facts
from uenvtool.knowledge.tuning_reader import load_tuning

JSON = "json"


def activate(
    system: str | None,
    *,
    uarch: str | None = None,
    runtime: str | None = None,
    recipe: str | None = None,
    facts: Mapping[str, str] | None = None,
    workarounds: Sequence[str] = (),
    venv: str | None = None,
    shell: str = "bash",
) -> Result:
    """The script or file that sets a shell or a job up. Raises BadInput for names that do not exist."""
    versions = known_facts(facts or {}, known_images())
    activation = plan(
        system,
        uarch=uarch,
        runtime=runtime,
        recipe=recipe,
        versions=versions,
        workarounds=workarounds,
        venv=venv,
        shell=shell,
    )
    return Result(file=text(activation, shell, command(activation, shell, uarch, runtime, versions)))


def write(folder: Path, *, force: bool = False) -> Result:
    """Write the committed scripts, one a system and shell."""
    written = write_scripts(folder, force=force)
    return Result(text="\n".join(str(folder / name) for name in written), notes=passed_over(SYSTEM))


def check(folder: Path) -> Result:
    """Raise AnswerIsNo with a diff if the committed scripts are not what tuning and systems give."""
    found = scripts()
    strays = {path.name for path in folder.glob("*.*sh")} - set(found)
    drift.check(
        folder,
        found,
        left_over={*strays, *files.left_over(folder, found)},
        remarks=["a run that wrote here did not end"] if files.read_record(folder).writing else (),
        again="uenvtool activate --write",
    )
    return Result(notes=(f"{folder} is what its inputs give",))


def plan(
    system: str | None,
    *,
    uarch: str | None = None,
    runtime: str | None = None,
    recipe: str | None = None,
    versions: Mapping[str, str | None] | None = None,
    workarounds: Sequence[str] = (),
    venv: str | None = None,
    shell: str = "bash",
) -> ActivationPlan:
    """The plan for names as a user gives them. Raises BadInput for those that do not exist."""
    loaded = read_recipe(recipe) if recipe else None
    chosen = load_system(system_name(loaded, system, uarch)[0] if loaded else system or this_system())
    given: dict[str, str | None] = {}
    if loaded:
        node = uarch if uarch in chosen.nodes else next(iter(chosen.nodes))
        given = dict(recipe_facts(loaded, chosen.facts(node)))
    return plan_activation(
        chosen,
        runtimes_for(chosen, runtime, shell),
        load_tuning(chosen.tuning, chosen.tree.position),
        uarch=uarch,
        versions={**given, **(versions or {})},
        workarounds=workarounds,
        venv=venv,
        recipe=recipe or "",
    )


def runtimes_for(system: System, runtime: str | None, shell: str) -> tuple[Runtime, ...]:
    """The runtimes that a script or file is for: the one that is named, else for a form the first that reads it.

    Raises BadInput for a runtime that the system does not have, and for a form that none of its runtimes reads.
    """
    known = {name: load_runtime(name, system.tree.at(("runtimes",)).position) for name in system.runtimes}
    if runtime is not None and runtime not in known:
        raise BadInput([unknown(f"runtime of {system.name}", runtime, known)])
    candidates = tuple(found for name, found in known.items() if runtime in (None, name))
    if shell in shells() or shell == JSON or shell not in FORMATS:
        return candidates
    readers = [found for found in candidates if shell in found.forms]
    if not readers:
        reads = "; ".join(f"{found.name} reads {', '.join(found.forms)}" for found in known.values())
        raise BadInput(f"no runtime of {system.name} reads --shell {shell}", hint=f"{reads}; or take --shell bash")
    return (readers[0],)


def text(activation: ActivationPlan, shell: str, again: str) -> str:
    """The script or file of a plan; again: the command that makes it again."""
    if shell in shells():
        return render_script(activation, shells()[shell], again)
    if shell in FORMATS:
        return FORMATS[shell](activation, again)
    raise BadInput([unknown("shell or format", shell, [*shells(), *FORMATS])])


def command(
    activation: ActivationPlan, shell: str, uarch: str | None, runtime: str | None, facts: Mapping[str, str | None]
) -> str:
    """The command that makes the same text again, wherever it is run."""
    words = ["uenvtool", "activate", "--system", activation.system.name]
    given = {"--uarch": uarch, "--runtime": runtime, "--recipe": activation.recipe, "--venv": activation.venv}
    words += [word for option, value in given.items() if value for word in (option, value)]
    words += [word for name, value in facts.items() for word in ("--fact", f"{name}={value}")]
    words += [word for workaround in activation.workarounds for word in ("--workaround", workaround.name)]
    return shlex.join([*words, "--shell", shell])


def scripts() -> dict[str, str]:
    """The committed scripts: name to text, one a system and shell."""
    found = {}
    for name in concrete_systems():
        activation = plan(name)
        for dialect in dialects():
            again = "uenvtool activate --write"
            found[f"{name}.{dialect.extension}"] = render_script(activation, dialect, again)
    return found


def write_scripts(folder: Path, *, force: bool = False) -> list[str]:
    """Write the committed scripts; their names. Raises BadInput for files that are not the tool's.

    force: replace scripts of the tool's that were changed by hand.
    """
    found = scripts()
    with files.locked(folder):
        files.refuse_foreign(folder, found, force=force)
        files.write_generated(folder, found)
    return sorted(found)
