"""`uenvtool activate`: the text of settings for a shell or a file, and the committed scripts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from uenvtool.activation.formats import FORMATS
from uenvtool.activation.request import ActivateRequest
from uenvtool.activation.script import render_script
from uenvtool.activation.shells import shells
from uenvtool.activation.shells.bash import SHELL
from uenvtool.core import files
from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.result import Result
from uenvtool.knowledge.kinds import SYSTEM
from uenvtool.knowledge.load import skipped_file_notes
from uenvtool.knowledge.recognise import concrete_systems
from uenvtool.knowledge.settings import Settings, known_facts, settings_for

JSON = "json"
FOLDER = Path("activate")
"""Where the committed scripts lie."""


def activate(request: ActivateRequest) -> Result:
    """Return the script or file that sets a shell or a job up, or write or check the committed scripts.

    Raises BadInput for names that do not exist.
    """
    if request.check:
        return _check(request.output or FOLDER)
    if request.write:
        return _write(request.output or FOLDER, force=request.force)
    if request.output:
        raise BadInput("-o names the folder of --write and --check", hint="one script goes to stdout: > FILE keeps it")
    if request.venv and os.path.exists(request.venv) and not os.path.isdir(request.venv):
        hint = "name the folder of a virtual environment; `uenvtool job --venv` takes a packed one too"
        raise BadInput(f"--venv {request.venv}: this is not a folder", hint=hint)
    facts = known_facts(request.facts)
    settings = settings_for(
        request.system,
        uarch=request.uarch,
        runtime=request.runtime,
        form=request.shell if request.shell in FORMATS and request.shell != JSON else "",
        recipe=request.recipe,
        facts=facts,
        workarounds=request.workaround,
        venv=request.venv,
    )
    again = command(settings, request.shell, request.uarch, request.runtime, facts)
    return Result(file=text(settings, request.shell, again))


def _write(folder: Path, *, force: bool) -> Result:
    """Write the committed scripts. Raises BadInput for files that are not the tool's; force: not for changed ones."""
    found = scripts()
    with files.locked(folder):
        files.refuse_foreign(folder, found, force=force)
        files.write_generated(folder, found)
    return Result(text="\n".join(str(folder / name) for name in sorted(found)), notes=skipped_file_notes(SYSTEM))


def _check(folder: Path) -> Result:
    """Raise AnswerIsNo with a diff if the committed scripts are not what tuning and systems give."""
    found = scripts()
    strays = {path.name for path in folder.glob("*.sh")} - set(found)
    files.check_generated(folder, found, strays=strays, again="uenvtool activate --write")
    return Result(notes=(f"{folder} is what its inputs give",))


def text(settings: Settings, shell: str, again: str) -> str:
    """Return the script or file of settings; again: the command that makes it again."""
    if shell in shells():
        return render_script(settings, shells()[shell], again)
    if shell in FORMATS:
        return FORMATS[shell](settings, again)
    raise BadInput([unknown("shell or format", shell, [*shells(), *FORMATS])])


def command(
    settings: Settings, shell: str, uarch: str | None, runtime: str | None, facts: Mapping[str, str | None]
) -> str:
    """Return the command that makes the same text again, wherever it is run."""
    words = ["uenvtool", "activate", "--system", settings.system.name]
    options = {"--uarch": uarch, "--runtime": runtime, "--recipe": settings.recipe, "--venv": settings.venv}
    words += [word for option, value in options.items() if value for word in (option, value)]
    words += [word for name, value in facts.items() for word in ("--fact", f"{name}={value}")]
    words += [word for workaround in settings.workarounds for word in ("--workaround", workaround.name)]
    return shlex.join([*words, "--shell", shell])


def scripts() -> dict[str, str]:
    """Return the committed scripts: name to text, one a system."""
    return {
        f"{name}.{SHELL.extension}": render_script(settings_for(name), SHELL, "uenvtool activate --write")
        for name in concrete_systems()
    }
