"""Activation scripts for fish."""

from __future__ import annotations

from collections.abc import Sequence

from uenvtool.activation.plan import Step
from uenvtool.activation.script import Dialect, missing, one_line
from uenvtool.activation.versions import COMPARE, number, zero_needs_care
from uenvtool.model.condition import Term
from uenvtool.model.tuning import DEFAULT, EXPECTED, UNSET
from uenvtool.quoting import fish


def guard(term: Term, unseen: bool) -> str:
    """A term as a test."""
    negated = "" if term.operator == "present" else "not "
    if term.fact.isupper():
        return f"{negated}set -q {term.fact}"
    variable = f'"$ue_{term.fact}"'
    if term.operator in ("present", "absent"):
        return f"{negated}test -n {variable}"
    if term.fact == "runtime":
        return f"test {variable} {term.operator.replace('==', '=')} {term.values[0]}"
    test = f"test {variable} {COMPARE[term.operator]} {number(term)}"
    if not zero_needs_care(term, unseen):
        return test
    return f"{test} -o {variable} = 0" if unseen else f"{test} -a {variable} != 0"


def opening(tests: Sequence[str]) -> str:
    """The line before what is done where all tests hold."""
    return f"if {'; and '.join(tests)}"


def statements(step: Step) -> list[str]:
    """The lines of one setting."""
    setting = step.setting
    name = setting.name
    reason = fish(one_line(setting.reason))
    if setting.policy == EXPECTED:
        return [f"set -q {name}; or uenvtool_tell {fish(missing(step))}"]
    if setting.policy == UNSET:
        return [f"if set -q {name}", f"  uenvtool_override {name} unset {reason}", f"  set -e {name}", "end"]
    if setting.computed:
        variable = f"ue_{setting.computed}"
        lines = [f'if not set -q {name}; and test -n "${variable}"']
        return [*lines, f"  uenvtool_keep {name}", f"  set -gx {name} ${variable}", "end"]
    value = fish(setting.value or "")
    if setting.policy != DEFAULT:
        lines = [f'if not set -q {name}; or test "${name}" != {value}']
        return [*lines, f"  uenvtool_override {name} {value} {reason}", f"  set -gx {name} {value}", "end"]
    lines = [f"set -q {name}; or begin; uenvtool_keep {name}; set -gx {name} {value}; end"]
    if setting.needs:
        need = setting.needs
        lines += [
            f'if test "${name}" = {value} -a -n "$SLURM_JOB_ID"',
            f"  string match -q -- '*{need.contains}*' \"${need.variable}\"; or uenvtool_tell {fish(missing(step))}",
            "end",
        ]
    return lines


def remembered(defaults: Sequence[str], ranks: Sequence[str]) -> list[str]:
    """Keep what the ranks' variables are; the others are kept where they are set."""
    return [f"uenvtool_keep {name}" for name in ranks]


FISH = Dialect("fish", fish, guard, opening, "end", statements, " ", remembered)
