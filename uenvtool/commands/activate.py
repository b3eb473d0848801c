"""Activations for commands: a plan by names, its text for a shell or format, the committed scripts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from uenvtool import drift, files
from uenvtool.activation.bash import BASH
from uenvtool.activation.fish import FISH
from uenvtool.activation.formats import FORMATS
from uenvtool.activation.plan import Plan, known_facts, plan_activation
from uenvtool.activation.script import render_script
from uenvtool.activation.tcsh import TCSH
from uenvtool.errors import BadInput, unknown
from uenvtool.knowledge import system_name
from uenvtool.model.kinds import SYSTEM
from uenvtool.model.locate import available
from uenvtool.model.reader import is_abstract
from uenvtool.model.recipe_reader import read_recipe
from uenvtool.model.source import read
from uenvtool.model.system_reader import load_system, recognised
from uenvtool.model.tuning import recipe_facts
from uenvtool.model.tuning_reader import load_tuning
from uenvtool.result import Result

SHELLS = {"bash": BASH, "zsh": BASH, "fish": FISH, "tcsh": TCSH}
EDF, CONTAINER_ENGINE = "edf", "ce"


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
    versions = known_facts(facts or {})
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
    return Result(text="\n".join(str(folder / name) for name in write_scripts(folder, force=force)))


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
) -> Plan:
    """The plan for names as a user gives them. Raises BadInput for those that do not exist."""
    loaded = read_recipe(recipe) if recipe else None
    chosen = load_system(system_name(loaded, system, uarch)[0] if loaded else system or _here())
    if shell == EDF and runtime is None and CONTAINER_ENGINE in chosen.runtimes:
        runtime = CONTAINER_ENGINE  # nothing else reads such a file
    given: dict[str, str | None] = {}
    if loaded:
        node = uarch if uarch in chosen.nodes else next(iter(chosen.nodes))
        given = dict(recipe_facts(loaded, chosen.facts(node)))
    return plan_activation(
        chosen,
        load_tuning(chosen.tuning, chosen.tree.position),
        uarch=uarch,
        runtime=runtime,
        versions={**given, **(versions or {})},
        workarounds=workarounds,
        venv=venv,
        recipe=recipe or "",
    )


def text(activation: Plan, shell: str, again: str) -> str:
    """The script or file of a plan; again: the command that makes it again."""
    if shell in SHELLS:
        return render_script(activation, SHELLS[shell], again)
    if shell in FORMATS:
        return FORMATS[shell](activation, again)
    raise BadInput([unknown("shell or format", shell, [*SHELLS, *FORMATS])])


def command(
    activation: Plan, shell: str, uarch: str | None, runtime: str | None, facts: Mapping[str, str | None]
) -> str:
    """The command that makes the same text again, wherever it is run."""
    words = ["uenvtool", "activate", "--system", activation.system.name]
    asked = {"--uarch": uarch, "--runtime": runtime, "--recipe": activation.recipe, "--venv": activation.venv}
    words += [word for option, value in asked.items() if value for word in (option, value)]
    words += [word for name, value in facts.items() for word in ("--fact", f"{name}={value}")]
    words += [word for each in activation.workarounds for word in ("--workaround", each.name)]
    return shlex.join([*words, "--shell", shell])


def scripts() -> dict[str, str]:
    """The committed scripts: name to text, one a system and shell."""
    found = {}
    for name in _concrete_systems():
        system = load_system(name)
        activation = plan_activation(system, load_tuning(system.tuning, system.tree.position))
        for dialect in dict.fromkeys(SHELLS.values()):
            found[f"{name}.{dialect.extension}"] = render_script(
                activation, dialect, f"uenvtool activate --write, or --system {name} for this one"
            )
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


def _here() -> str:
    """The system that this machine is."""
    here = recognised()
    if here is None:
        hint = f"name one with --system: {', '.join(_concrete_systems())}"
        raise BadInput("this machine is none of the known systems", hint=hint)
    return here[0]


def _concrete_systems() -> list[str]:
    """The systems that do not only exist to be extended."""
    found = available(SYSTEM).values()
    return [location.name for location in found if not is_abstract(read(location.path, location.shown))]
