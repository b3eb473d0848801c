"""Implements `uenvtool activate`, which prints settings as a script or file, and writes the committed scripts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from uenvtool.activation.formats import FORMATS
from uenvtool.activation.request import ActivateRequest
from uenvtool.activation.script import render_script
from uenvtool.core import files
from uenvtool.core.errors import BadInput, unknown
from uenvtool.core.options import given
from uenvtool.core.result import Result
from uenvtool.knowledge.kinds import SYSTEM
from uenvtool.knowledge.load import usable_and_skipped
from uenvtool.knowledge.recognise import concrete_systems
from uenvtool.knowledge.settings import Settings, known_facts, settings_for
from uenvtool.knowledge.system import load_system

DIRECTORY = Path("activate")
"""The default directory of the committed scripts."""


def activate(request: ActivateRequest) -> Result:
    """Return a script or file with a system's settings, or write or check the committed scripts.

    Raises BadInput if a name or an option is invalid.
    """
    if request.check or request.write:
        return _committed(request)
    if request.output:
        hint = "add --write or --check, or save one script with > FILE"
        raise BadInput("--output requires --write or --check", hint=hint)
    if request.venv and os.path.exists(request.venv) and not os.path.isdir(request.venv):
        hint = "name the directory of a virtual environment; only `uenvtool job --venv` accepts a packed one"
        raise BadInput(f"--venv: not a directory: '{request.venv}'", hint=hint)
    facts = known_facts(request.facts)
    settings = settings_for(
        request.system,
        uarch=request.uarch,
        runtime=request.runtime,
        form=request.shell if request.shell in ("edf", "dotenv") else "",
        recipe=request.recipe,
        facts=facts,
        workarounds=request.workaround,
        venv=request.venv,
    )
    again = command(settings, request.shell, request.uarch, request.runtime, facts)
    return Result(file=text(settings, request.shell, again))


def _committed(request: ActivateRequest) -> Result:
    """Write or check the committed scripts. Without --force, only scripts that nobody changed are replaced."""
    for_all = ActivateRequest(
        system=request.system, check=request.check, write=request.write, force=request.force, output=request.output
    )
    if options := [word for word in given(request) if word not in list(given(for_all))]:
        mode = "--check" if request.check else "--write"
        hint = "leave the option out, or save one script with > FILE instead"
        raise BadInput(f"{options[0]} cannot be combined with {mode}, which uses the default scripts", hint=hint)
    directory = request.output or DIRECTORY
    texts, kept, notes = _scripts(request.system)
    if request.check:
        strays = {path.name for path in directory.glob("*.sh")} - {*texts, *kept}
        again = f"uenvtool activate --write{f' --system {request.system}' if request.system else ''}"
        files.check_generated(directory, texts, kept=kept, strays=strays, again=again)
        return Result(notes=(*notes, f"{directory} is up to date"))
    with files.locked(directory):
        files.refuse_foreign(directory, texts, keep=kept, force=request.force)
        files.write_generated(directory, texts, keep=kept)
    return Result(text="\n".join(str(directory / name) for name in sorted(texts)), notes=notes)


def _scripts(system: str | None) -> tuple[dict[str, str], list[str], tuple[str, ...]]:
    """Return the committed scripts by file name, the names of other scripts to keep, and notes about skipped systems.

    The scripts are those of one system, or of all systems. Raises BadInput if the system is unknown.
    """
    usable, notes = usable_and_skipped(SYSTEM)
    known = concrete_systems(usable)
    names = [load_system(system).name] if system else known
    texts = {f"{name}.sh": render_script(settings_for(name), "uenvtool activate --write") for name in names}
    return texts, [f"{name}.sh" for name in known] if system else [], notes


def text(settings: Settings, shell: str, again: str) -> str:
    """Return the settings as a script or file. again: the command that regenerates this text."""
    if shell not in FORMATS:
        raise BadInput([unknown("shell or format", shell, FORMATS)])
    return FORMATS[shell](settings, again)


def command(
    settings: Settings, shell: str, uarch: str | None, runtime: str | None, facts: Mapping[str, str | None]
) -> str:
    """Return the `uenvtool activate` command that regenerates the same text on any machine."""
    arguments = ["uenvtool", "activate", "--system", settings.system.name]
    options = {"--uarch": uarch, "--runtime": runtime, "--recipe": settings.recipe, "--venv": settings.venv}
    arguments += [argument for option, value in options.items() if value for argument in (option, value)]
    arguments += [argument for name, value in facts.items() for argument in ("--fact", f"{name}={value}")]
    arguments += [argument for workaround in settings.workarounds for argument in ("--workaround", workaround.name)]
    return shlex.join([*arguments, "--shell", shell])
