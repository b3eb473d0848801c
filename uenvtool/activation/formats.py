"""Renders the settings of a plan as JSON, an EDF, a dotenv file or lines of a Dockerfile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from uenvtool.activation.script import comments, legend_of, origin
from uenvtool.core import quoting
from uenvtool.knowledge.settings import ConditionalSetting, Settings, hook_sentence
from uenvtool.knowledge.tuning import EXPECTED, PREPEND, UNSET, Setting

UNSAID = "must be unset"


def as_json(plan: Settings, again: str) -> str:
    """Return all settings with their conditions as JSON."""
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
    return "\n".join([*_header(plan, again), *lines, *_of_hook(plan)])


def as_edf(plan: Settings, again: str) -> str:
    """Return the [env] table of an environment definition file (EDF), in which an empty value unsets a variable."""
    return "\n".join([*_header(plan, again), "[env]", *edf_lines(plan)])


def edf_lines(plan: Settings, *, image_sets: bool = False) -> list[str]:
    """Return only the entries of the table, each with its reason above it. image_sets: see `Settings.held`."""
    entries = _commented(
        plan,
        lambda name, value: f"{name} = {quoting.edf(name, value)}",
        unset=lambda name: f'{name} = ""  # unsets it',
        image_sets=image_sets,
    )
    return [*entries, *_of_hook(plan)]


def _of_hook(plan: Settings) -> Iterator[str]:
    yield from comments(filter(None, [hook_sentence(plan.by_hook)]))


def docker_lines(plan: Settings) -> list[str]:
    """Return the ENV lines of a Dockerfile, each with its reason above it. A Dockerfile cannot unset a variable."""
    return list(_commented(plan, lambda name, value: f"ENV {name}={quoting.docker(name, value)}"))


FORMATS = {
    "json": as_json,
    "edf": as_edf,
    "dotenv": as_dotenv,
}


def _header(plan: Settings, again: str) -> Iterator[str]:
    runtime = plan.runtimes[0]
    yield from comments(
        [f"{plan.system.name}: {plan.system.description}", f"For {runtime.name}: {runtime.description}"]
    )
    yield from comments(origin(plan, again))
    yield from comments([*legend_of(plan), *runtime.limits])


def _commented(
    plan: Settings,
    line: Callable[[str, str], str],
    unset: Callable[[str], str] = lambda name: f"# {name} {UNSAID}",
    *,
    image_sets: bool = False,
) -> Iterator[str]:
    """Yield each setting with its reason above it, except values that only a sourced script can compute."""
    if plan.venv:
        yield line("VIRTUAL_ENV", plan.venv)
    for setting in _in_file(plan, image_sets=image_sets):
        value = _value(setting)
        if setting.policy == UNSET or value is not None:
            yield from comments([f"{quoting.comment(setting.reason)} [{setting.source.name}]"])
            yield unset(setting.name) if value is None else line(setting.name, value)


def values(plan: Settings) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the variables that a file can set."""
    if plan.venv:
        yield "VIRTUAL_ENV", plan.venv
    for setting in _in_file(plan):
        value = _value(setting)
        if value is not None:
            yield setting.name, value


def _in_file(plan: Settings, *, image_sets: bool = False) -> list[Setting]:
    """Return the settings for a container's file, which can neither check nor prepend to a variable."""
    held = plan.held(inside=True, image_sets=image_sets)
    return [setting for setting in held if setting.policy not in (EXPECTED, PREPEND)]


def _value(setting: Setting) -> str | None:
    return setting.otherwise if setting.from_ else setting.value


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
