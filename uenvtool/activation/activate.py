"""Activations for commands: a plan by names, its text for a shell or format, the committed scripts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from uenvtool.activation.formats import FORMATS
from uenvtool.activation.script import render_script
from uenvtool.activation.shells import dialects, shells
from uenvtool.core import drift, files
from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.result import Result
from uenvtool.knowledge.kinds import SYSTEM
from uenvtool.knowledge.runtime_reader import known_images
from uenvtool.knowledge.sound import passed_over
from uenvtool.knowledge.system_reader import concrete_systems
from uenvtool.settings import Settings, known_facts, settings_for

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
    activation = settings_for(
        system,
        uarch=uarch,
        runtime=runtime,
        form=shell if shell in FORMATS and shell != JSON else "",
        recipe=recipe,
        facts=versions,
        workarounds=workarounds,
        venv=venv,
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


def text(activation: Settings, shell: str, again: str) -> str:
    """The script or file of a plan; again: the command that makes it again."""
    if shell in shells():
        return render_script(activation, shells()[shell], again)
    if shell in FORMATS:
        return FORMATS[shell](activation, again)
    raise BadInput([unknown("shell or format", shell, [*shells(), *FORMATS])])


def command(
    activation: Settings, shell: str, uarch: str | None, runtime: str | None, facts: Mapping[str, str | None]
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
        activation = settings_for(name)
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
