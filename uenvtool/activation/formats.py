"""Renders settings as JSON, an EDF, a dotenv file or lines of a Dockerfile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from uenvtool.activation.script import SHELLS, comments, legend_of, origin, render_script
from uenvtool.core import quoting
from uenvtool.knowledge.settings import ConditionalSetting, Settings, hook_sentence
from uenvtool.knowledge.tuning import EXPECTED, PREPEND, UNSET


def as_json(plan: Settings, again: str) -> str:
    """Return all settings as JSON, with their conditions."""
    data = {
        "command": again,
        "system": plan.system.name,
        "uarch": plan.uarch,
        "runtimes": [runtime.name for runtime in plan.runtimes],
        "recipe": plan.recipe or None,
        "versions": dict(plan.given),
        "venv": plan.venv,
        "workarounds": [workaround.name for workaround in plan.workarounds],
        "variables": [_data(planned) for planned in plan.scripted],
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_dotenv(plan: Settings, again: str) -> str:
    """Return NAME='value' lines in the syntax that Compose, python-dotenv and shells have in common."""
    lines = _commented(plan, lambda name, value: f"{name}={quoting.dotenv(name, value)}")
    return "\n".join([*_header(plan, again), *lines, *comments(filter(None, [hook_sentence(plan.by_hook)]))])


def as_edf(plan: Settings, again: str) -> str:
    """Return the [env] table of an environment definition file (EDF), in which an empty value unsets a variable."""
    return "\n".join([*_header(plan, again), "[env]", *edf_lines(plan)])


def edf_lines(plan: Settings, *, image_sets: bool = False) -> list[str]:
    """Return the entries of the [env] table, each with its reason above it. image_sets: see `Settings.held`."""
    entries = _commented(
        plan,
        lambda name, value: f"{name} = {quoting.edf(name, value)}",
        unset=lambda name: f'{name} = ""  # unsets it',
        image_sets=image_sets,
    )
    return [*entries, *comments(filter(None, [hook_sentence(plan.by_hook)]))]


def docker_lines(plan: Settings) -> list[str]:
    """Return the ENV lines of a Dockerfile, each with its reason above it. A Dockerfile cannot unset a variable."""
    return list(_commented(plan, lambda name, value: f"ENV {name}={quoting.docker(name, value)}"))


FORMATS = {**dict.fromkeys(SHELLS, render_script), "json": as_json, "edf": as_edf, "dotenv": as_dotenv}
"""The function that renders settings for each value of --shell."""


def _header(plan: Settings, again: str) -> Iterator[str]:
    system, runtime = plan.system, plan.runtimes[0]
    about = (f"{system.name}: {system.description}", f"For {runtime.name}: {runtime.description}")
    yield from comments([*about, *origin(plan, again), *legend_of(plan), *runtime.limits])


def _commented(
    plan: Settings,
    line: Callable[[str, str], str],
    unset: Callable[[str], str] = lambda name: f"# {name} must be unset",
    *,
    image_sets: bool = False,
) -> Iterator[str]:
    for name, value, reasons in _in_file(plan, image_sets=image_sets):
        yield from comments(reasons)
        yield unset(name) if value is None else line(name, value)


def values(plan: Settings) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the variables that a file can set."""
    yield from ((name, value) for name, value, _ in _in_file(plan) if value is not None)


def _in_file(plan: Settings, *, image_sets: bool = False) -> Iterator[tuple[str, str | None, list[str]]]:
    """Yield each variable with its value, or None to unset it, and its reason. A file cannot test or prepend."""
    if plan.venv:
        yield "VIRTUAL_ENV", plan.venv, []
    for setting in plan.held(inside=True, image_sets=image_sets):
        value = setting.otherwise if setting.from_ else setting.value
        if setting.policy == UNSET or (value is not None and setting.policy not in (EXPECTED, PREPEND)):
            yield setting.name, value, [f"{quoting.comment(setting.reason)} [{setting.source.name}]"]


def _data(planned: ConditionalSetting) -> dict[str, object]:
    setting = planned.setting
    return {
        "name": setting.name,
        "value": setting.value,
        "computed": setting.from_ or None,
        "policy": setting.policy,
        "set": setting.together or None,
        "when": " and ".join(map(str, planned.guard)) or None,
        "unseen": sorted(setting.unseen),
        "reason": setting.reason,
        "source": setting.source.name,
        "since": setting.source.date,
    }
