"""Writes the part of a script that records the facts of a run for `uenvtool diff`; pure functions."""

from __future__ import annotations

import shlex

from uenvtool.core import rendezvous
from uenvtool.core.filling import filled
from uenvtool.job.plan import PATH_STARTS, JobPlan
from uenvtool.job.shell import bash_words, template
from uenvtool.knowledge.secrets import storable

VARIABLES = f"{rendezvous.SHARED}|CUDA|GLOO|OMP|PYTORCH|RCCL"
"""The prefixes of the variables in the record, as a regular expression."""
SENSITIVE = (
    "pass|pwd|pw_|_pw|secret|token|credential|signature|cookie|jwt|session|sig=|key|auth|login|bearer|basic |curl"
)
"""The texts after which `storable` hides a value. The record hides every value of a line that contains one of them."""
WORD = "[A-Z]{0,12}[a-z]{0,15}[0-9]{0,6}|[0-9]{1,8}[A-Za-z]{0,2}|0x[0-9a-f]+|([0-9a-f]{32}){1,2}"
"""The words of the values that the record contains: words, numbers and checksums, which are not secrets."""


def record(plan: JobPlan, nodes: str) -> str:
    """Return the lines that write the facts of a job into its log directory. nodes: its nodes, as bash source."""
    overlay, command = plan.overlay.path if plan.overlay else "", shlex.join(plan.command.words)
    image = {"image": plan.image, "overlay": overlay, "command": command}
    inside = plan.settings if plan.use.variables == "edf" else ()
    variables = {setting.name: setting.value or "" for setting in inside}
    facts = {"system": plan.system, "runtime": plan.runtime.name, **image, **variables}
    files = _files(plan)
    return filled(
        template("record.sh"),
        FACTS=bash_words([storable(f"{name}={value}") for name, value in facts.items() if value]),
        NODES=nodes,
        FILES=f"  stat -c 'file %n=%s bytes, %y' {bash_words(files)}\n" if files else "",
        NAMES=VARIABLES,
        SENSITIVE=SENSITIVE,
        WORD=WORD,
    )


def _files(plan: JobPlan) -> list[str]:
    """Return the files whose size and date show whether the image or the overlay of a job has changed."""
    overlay = plan.overlay
    locks = [overlay.image if overlay.mount else f"{overlay.path}/pylock.toml"] if overlay else []
    return [*(image for image in plan.images[:1] if image.startswith(PATH_STARTS)), *locks]
