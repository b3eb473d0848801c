"""A plan as a file of variables: JSON, dotenv, EDF, Dockerfile lines, or srun's --export."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from uenvtool import quoting
from uenvtool.activation.plan import Plan, Step, decided
from uenvtool.activation.script import comment, header
from uenvtool.errors import BadInput
from uenvtool.model.tuning import UNSET


def as_json(plan: Plan, again: str) -> str:
    """Every step with what decides it, as data."""
    data = {
        "command": again,
        "system": plan.system.name,
        "uarch": plan.uarch,
        "runtimes": list(plan.runtimes),
        "recipe": plan.recipe or None,
        "versions": dict(plan.versions),
        "venv": plan.venv,
        "workarounds": [each.name for each in plan.workarounds],
        "variables": [_data(step) for step in plan.steps],
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_env(plan: Plan, again: str) -> str:
    """NAME='value' lines, which python-dotenv, Compose and shells read alike."""
    return "\n".join(
        [*header(plan, again), *_commented(plan, lambda name, value: f"{name}={dotenv_text(name, value)}")]
    )


def as_edf(plan: Plan, again: str) -> str:
    """The [env] table of an environment definition file; an empty text unsets there."""
    lines = _commented(
        plan, lambda name, value: f"{name} = {edf_text(name, value)}", unset=lambda name: f'{name} = ""  # unsets it'
    )
    return "\n".join([*header(plan, again), "[env]", *lines])


def as_docker(plan: Plan, again: str) -> str:
    """ENV lines of a Dockerfile, which cannot unset a variable."""
    return "\n".join([*header(plan, again), *_commented(plan, lambda name, value: f"ENV {name}={docker_text(value)}")])


def as_slurm(plan: Plan, again: str) -> str:
    """The option --export of srun and sbatch, to be passed as one word: srun "$(uenvtool activate ...)"."""
    return "--export=" + ",".join(["ALL", *(f"{name}={slurm_text(name, value)}" for name, value in _values(plan))])


def dotenv_text(name: str, text: str) -> str:
    """A text in single quotes, for a dotenv file.

    Raises BadInput for what its readers understand in different ways: python-dotenv takes `\\'` and `${...}`
    within single quotes, where shells do not.
    """
    if "'" in text or "\\" in text or "${" in text or "\r" in text:
        raise BadInput(f"a dotenv file cannot hold the value of {name}: {text!r}", hint="take --shell bash")
    return f"'{text}'"


def edf_text(name: str, text: str) -> str:
    """A text as an EDF's value. Raises BadInput where the Container Engine would expand a part of it."""
    if "${" in text:
        raise BadInput(f"the Container Engine would expand the value of {name}: {text!r}", hint="take another path")
    return quoting.toml(text)


def docker_text(text: str) -> str:
    """A text as a quoted word of a Dockerfile. Raises BadInput for a newline, which no ENV line can hold."""
    if "\n" in text or "\r" in text:
        raise BadInput("a Dockerfile's ENV cannot hold a value with a newline", hint="set it in a script instead")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def slurm_text(name: str, text: str) -> str:
    """A value within --export. Raises BadInput for what Slurm would take apart.

    Slurm splits at commas; quotes keep it from that, but 22.05 leaves them in the value.
    """
    if any(character in text for character in ",'\"\n"):
        raise BadInput(
            f"--export cannot hold the value of {name}: {text!r}", hint="export it in the job script instead"
        )
    return text


FORMATS = {"json": as_json, "env": as_env, "edf": as_edf, "docker": as_docker, "slurm": as_slurm}


def _commented(
    plan: Plan, line: Callable[[str, str], str], unset: Callable[[str], str] = lambda name: f"# {name} must be unset"
) -> Iterator[str]:
    """Each setting with its reason above it; what is computed where a script is sourced is left out."""
    if plan.venv:
        yield line("VIRTUAL_ENV", plan.venv)
    for step in decided(plan).steps:
        value = _value(step)
        if step.setting.policy == UNSET or value is not None:
            yield from comment(step)
            yield unset(step.setting.name) if value is None else line(step.setting.name, value)


def _values(plan: Plan) -> Iterator[tuple[str, str]]:
    """The variables that a file can set."""
    if plan.venv:
        yield "VIRTUAL_ENV", plan.venv
    for step in decided(plan).steps:
        value = _value(step)
        if value is not None:
            yield step.setting.name, value


def _value(step: Step) -> str | None:
    setting = step.setting
    return setting.otherwise if setting.computed else setting.value


def _data(step: Step) -> dict[str, object]:
    setting = step.setting
    return {
        "name": setting.name,
        "value": setting.value,
        "computed": setting.computed or None,
        "policy": setting.policy,
        "when": step.guard_text or None,
        "unseen": "apply" if setting.unseen else "skip",
        "reason": setting.reason,
        "source": setting.source.name,
        "since": setting.source.date,
    }
