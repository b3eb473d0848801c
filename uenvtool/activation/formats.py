"""A plan as a file of variables: JSON, an EDF, a dotenv file; and the lines of a Dockerfile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from uenvtool.activation.script import comments, legend, origin
from uenvtool.core import quoting
from uenvtool.knowledge.tuning import UNSET
from uenvtool.settings import ConditionalSetting, Settings

UNSAID = "must be unset"


def as_json(plan: Settings, again: str) -> str:
    """Return every setting with what decides it, as data."""
    data = {
        "command": again,
        "system": plan.system.name,
        "uarch": plan.uarch,
        "runtimes": [runtime.name for runtime in plan.runtimes],
        "recipe": plan.recipe or None,
        "versions": dict(plan.versions),
        "venv": plan.venv,
        "workarounds": [workaround.name for workaround in plan.workarounds],
        "variables": [_data(planned) for planned in plan.settings],
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_dotenv(plan: Settings, again: str) -> str:
    """Return NAME='value' lines, which Compose, python-dotenv and shells read alike."""
    lines = _commented(plan.for_format(), lambda name, value: f"{name}={quoting.dotenv(name, value)}")
    return "\n".join([*_header(plan, again), *lines])


def as_edf(plan: Settings, again: str) -> str:
    """Return the [env] table of an environment definition file; an empty text unsets there."""
    return "\n".join([*_header(plan, again), "[env]", *edf_lines(plan.for_format())])


def edf_lines(plan: Settings) -> list[str]:
    """Return the entries of the table alone, of a plan with nothing left open, each with its reason above it."""
    return list(
        _commented(
            plan,
            lambda name, value: f"{name} = {quoting.edf(name, value)}",
            unset=lambda name: f'{name} = ""  # unsets it',
        )
    )


def docker_lines(plan: Settings) -> list[str]:
    """Return ENV lines of a Dockerfile, which cannot unset a variable, each with its reason above it."""
    return list(_commented(plan.for_format(), lambda name, value: f"ENV {name}={quoting.docker(name, value)}"))


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
    yield from comments([*legend(plan), *runtime.limits])


def _commented(
    plan: Settings,
    line: Callable[[str, str], str],
    unset: Callable[[str], str] = lambda name: f"# {name} {UNSAID}",
) -> Iterator[str]:
    """Yield each setting with its reason above it; what is computed where a script is sourced is left out."""
    if plan.venv:
        yield line("VIRTUAL_ENV", plan.venv)
    for planned in plan.settings:
        setting, value = planned.setting, _value(planned)
        if setting.policy == UNSET or value is not None:
            yield from comments([f"{quoting.comment(setting.reason)} [{setting.source.name}]"])
            yield unset(setting.name) if value is None else line(setting.name, value)


def values(plan: Settings) -> Iterator[tuple[str, str]]:
    """Yield the variables that a file can set."""
    if plan.venv:
        yield "VIRTUAL_ENV", plan.venv
    for planned in plan.settings:
        value = _value(planned)
        if value is not None:
            yield planned.setting.name, value


def _value(planned: ConditionalSetting) -> str | None:
    return planned.setting.otherwise if planned.setting.from_ else planned.setting.value


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
