"""Activation scripts for tcsh."""

from __future__ import annotations

from collections.abc import Sequence

from uenvtool.activation.plan import Step
from uenvtool.activation.script import Dialect, missing, one_line
from uenvtool.activation.versions import number, zero_needs_care
from uenvtool.model.condition import Term
from uenvtool.model.tuning import DEFAULT, EXPECTED, UNSET
from uenvtool.quoting import csh


def guard(term: Term, unseen: bool) -> str:
    """A term as an expression."""
    negated = "" if term.operator == "present" else "! "
    if term.fact.isupper():
        return f"{negated}$?{term.fact}"
    variable = f'"$ue_{term.fact}"'
    if term.operator in ("present", "absent"):
        return f"{variable} {'!=' if term.operator == 'present' else '=='} ''"
    if term.fact == "runtime":
        return f"{variable} {term.operator} {term.values[0]}"
    test = f"$ue_{term.fact} {term.operator} {number(term)}"
    if not zero_needs_care(term, unseen):
        return test
    return f"( {test} || $ue_{term.fact} == 0 )" if unseen else f"{test} && $ue_{term.fact} != 0"


def opening(tests: Sequence[str]) -> str:
    """The line before what is done where all tests hold."""
    return f"if ( {' && '.join(tests)} ) then"


def statements(step: Step) -> list[str]:
    """The lines of one setting."""
    setting = step.setting
    name = setting.name
    value = csh(setting.value or "")
    if setting.policy == EXPECTED:
        told = f"  echo {csh('uenvtool: ' + missing(step))} >>! /dev/stderr"
        return [f"if ( ! $?{name} && $ue_say && ! $ue_again ) then", told, "endif"]
    if setting.policy == UNSET:
        return [f"if ( $?{name} ) then", *_overridden(step, "unset"), f"  unsetenv {name}", "endif"]
    if setting.computed:
        variable = f"ue_{setting.computed}"
        return [f"if ( ! $?{name} && \"${variable}\" != '' ) setenv {name} ${variable}:q"]
    if setting.policy != DEFAULT:
        return [
            f"if ( ! $?{name} ) then",
            *_indented(_kept(name)),
            f"  setenv {name} {value}",
            f"else if ( ${name}:q != {value} ) then",
            *_overridden(step, value),
            f"  setenv {name} {value}",
            "endif",
        ]
    return [f"if ( ! $?{name} ) setenv {name} {value}", *_need(step, value)]


def _overridden(step: Step, value: str) -> list[str]:
    """Keep what a variable was, and say that it changes."""
    name, reason = step.setting.name, one_line(step.setting.reason)
    said = f"'uenvtool: {name} was something else, now '{value}': '{csh(reason)}"
    return _indented(["if ( $ue_say ) then", f"  echo {said} >>! /dev/stderr", "endif", *_kept(name)])


def _kept(name: str) -> list[str]:
    """Keep what a variable is, unless it is kept already; a list cannot hold an empty word."""
    kept = "uenvtool_deactivate"
    return [
        f"if ( \"$ue_undo\" !~ *' {name}'[\\ \\;]* ) then",
        f"  if ( $?{name} ) then",
        f"    if ( ${name}:q == '' ) then",
        f"      set ue_undo = \"$ue_undo setenv {name} '';\"",
        "    else",
        f"      set {kept} = ( ${kept}:q ${name}:q )",
        f'      set ue_undo = "$ue_undo setenv {name} "\\$"{kept}[$#{kept}]:q;"',
        "    endif",
        "  else",
        f'    set ue_undo = "$ue_undo unsetenv {name};"',
        "  endif",
        "endif",
    ]


def remembered(defaults: Sequence[str], ranks: Sequence[str]) -> list[str]:
    """Note the names that are unset now, and keep the ranks' variables."""
    lines = [f'if ( ! $?{name} ) set ue_undo = "$ue_undo unsetenv {name};"' for name in defaults]
    return [*lines, *(line for name in ranks for line in _kept(name))]


def overlay() -> list[str]:
    """Keep what a virtual environment changes."""
    return [line for name in ("VIRTUAL_ENV", "PATH", "PYTHONHOME") for line in _kept(name)]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _need(step: Step, value: str) -> list[str]:
    setting, need = step.setting, step.setting.needs
    if need is None:
        return []
    return [
        f"if ( ${setting.name}:q == {value} && $?SLURM_JOB_ID && $ue_say && ! $ue_again ) then",
        "  set ue_there = 0",
        f"  if ( $?{need.variable} ) then",
        f"    if ( ${need.variable}:q =~ *{need.contains}* ) set ue_there = 1",
        "  endif",
        "  if ( ! $ue_there ) then",
        f"    echo {csh('uenvtool: ' + missing(step))} >>! /dev/stderr",
        "  endif",
        "endif",
    ]


TCSH = Dialect("csh", csh, guard, opening, "endif", statements, " ", remembered, overlay)
