"""Activation scripts for bash and zsh."""

from __future__ import annotations

from collections.abc import Sequence

from uenvtool.activation.plan import Step
from uenvtool.activation.script import Dialect, missing, one_line
from uenvtool.activation.versions import COMPARE, number, zero_needs_care
from uenvtool.model.condition import Term
from uenvtool.model.tuning import DEFAULT, EXPECTED, UNSET
from uenvtool.quoting import sh

WIDTH = 110
"""Characters in a line of names, about."""


def guard(term: Term, unseen: bool) -> str:
    """A term as a test."""
    if term.fact.isupper():
        return f"[[ -{'n' if term.operator == 'present' else 'z'} ${{{term.fact}+x}} ]]"
    variable = f"$ue_{term.fact}"
    if term.operator in ("present", "absent"):
        return f"[[ -{'n' if term.operator == 'present' else 'z'} {variable} ]]"
    if term.fact == "runtime":
        return f"[[ {variable} {term.operator} {term.values[0]} ]]"
    test = f"{variable} {COMPARE[term.operator]} {number(term)}"
    if zero_needs_care(term, unseen):
        test += f" || {variable} == 0" if unseen else f" && {variable} != 0"
    return f"[[ {test} ]]"


def opening(tests: Sequence[str]) -> str:
    """The line before what is done where all tests hold."""
    return f"if {' && '.join(tests)}; then"


def statements(step: Step) -> list[str]:
    """The lines of one setting."""
    setting = step.setting
    name = setting.name
    reason = sh(one_line(setting.reason))
    if setting.policy == EXPECTED:
        return [f"[[ -n ${{{name}+x}} ]] || uenvtool_tell {sh(missing(step))}"]
    if setting.policy == UNSET:
        return [
            f"if [[ -n ${{{name}+x}} ]]; then",
            f"  uenvtool_override {name} unset {reason}",
            f"  unset -v {name}",
            "fi",
        ]
    if setting.computed:
        variable = f"$ue_{setting.computed}"
        return [f'[[ -n ${{{name}+x}} || -z {variable} ]] || export {name}="{variable}"']
    value = sh(setting.value or "")
    if setting.policy != DEFAULT:
        return [
            f"if [[ -z ${{{name}+x}} || ${{{name}}} != {value} ]]; then",
            f"  uenvtool_override {name} {value} {reason}",
            f"  export {name}={value}",
            "fi",
        ]
    return [f"[[ -n ${{{name}+x}} ]] || export {name}={value}", *_need(step, value)]


def _need(step: Step, value: str) -> list[str]:
    setting, need = step.setting, step.setting.needs
    if need is None:
        return []
    lacks = f"-n ${{SLURM_JOB_ID-}} && ${{{need.variable}-}} != *{need.contains}*"
    return [
        f"if [[ ${{{setting.name}-}} == {value} && {lacks} ]]; then",
        f"  uenvtool_tell {sh(missing(step))}",
        "fi",
    ]


def remembered(defaults: Sequence[str], ranks: Sequence[str]) -> list[str]:
    """Note the names that are unset now, with `ue_` before those that are set, and keep the ranks' variables."""
    lines = ['ue_undo="']
    for name in (*defaults, *ranks):
        word = f"${{{name}+ue_}}{name} "
        if len(lines[-1]) + len(word) > WIDTH:
            lines[-1] += "\\"
            lines.append("")
        lines[-1] += word
    lines[-1] = lines[-1].rstrip() + '"'
    return [*lines, *(f"[[ -z ${{{name}+x}} ]] || uenvtool_keep {name}" for name in ranks)]


BASH = Dialect("sh", sh, guard, opening, "fi", statements, " | ", remembered)
