"""Activation scripts for tcsh.

tcsh has no functions: its verbs are aliases, and the table stands first because the script jumps over it and back.
"""

from __future__ import annotations

from collections.abc import Sequence

from uenvtool.activation.fragments import fragment
from uenvtool.activation.plan import ActivationPlan
from uenvtool.activation.script import (
    LIBRARY_FOLDERS,
    Dialect,
    first_blocks,
    function_names,
    knows_runtime,
    last_blocks,
    nothing_seen,
    seen_by_views,
)
from uenvtool.activation.versions import LOWEST, number, unseen_needs_care
from uenvtool.core import quoting
from uenvtool.knowledge.condition import Term
from uenvtool.knowledge.runtime import Runtime
from uenvtool.knowledge.tuning import SOFTWARE

LATER = ("require", "remove", "at_most", "prepend", "expect", "need")
"""The verbs that are noted in the table and done after it."""
MISSING = ("keep", "libraries", "roce_functions")
"""What is no function here."""


class Tcsh(Dialect):
    """tcsh."""

    extension = "csh"
    shells = "tcsh"
    extends_default = True

    def quote(self, text: str) -> str:
        return quoting.csh(text)

    def test(self, term: Term, counts_unseen: bool) -> str:
        negated = "" if term.operator == "present" else "! "
        if term.fact.isupper():
            return f"{negated}$?{term.fact}"
        value = f'"$ue_{term.fact}"'
        if term.operator in ("present", "absent"):
            nothing = "0" if term.fact in SOFTWARE else "''"
            return f"{value} {'!=' if term.operator == 'present' else '=='} {nothing}"
        if term.fact not in SOFTWARE:
            joint, operator = (" && ", "!=") if term.operator == "!=" else (" || ", "==")
            test = joint.join(f"{value} {operator} {name}" for name in term.values)
            return f"( {test} )" if len(term.values) > 1 else test
        test = f"$ue_{term.fact} {term.operator} {number(term)}"
        if not unseen_needs_care(term, counts_unseen):
            return test
        known = f"$ue_{term.fact} >= {LOWEST}"
        return f"( {test} || ! ( {known} ) )" if counts_unseen else f"{test} && {known}"

    def branch(self, tests: Sequence[str]) -> tuple[str, str]:
        return f"if ( {' && '.join(tests)} ) then", "endif"

    def passes(self) -> tuple[list[str], list[str]]:
        return ["foreach ue_pass ( look set )", "  eval ue_pass_$ue_pass"], ["end"]

    def variable(self, name: str) -> str:
        return f"$ue_{name}:q"

    def runtime(self, plan: ActivationPlan) -> list[str]:
        names = [runtime.name for runtime in plan.runtimes]
        alone = len(names) == 1
        lines = [
            f"set ue_runtime = '{names[0] if alone else ''}'",
            "set ue_container = ''",
            "set ue_image = ''",
            "set ue_along = ''",
        ]
        if not alone:
            lines = [
                "# Which runtime this is; a container's own marks count more than a variable that came along.",
                *lines,
            ]
        for runtime in sorted(plan.runtimes, key=lambda runtime: not runtime.container):
            if runtime.container or not alone:
                lines += _shown(runtime)
        for image, name in plan.images.items():
            lines += [f"if ( $?{name} ) then", f"  if ( ${name}:q != '' ) set ue_image = {image}", "endif"]
        if knows_runtime(plan):
            lines += [
                "if ( $?UENVTOOL_RUNTIME ) then",
                "  set ue_is = 0",
                f"  foreach ue_name ( {' '.join(names)} )",
                "    if ( $UENVTOOL_RUNTIME:q == $ue_name ) set ue_is = 1",
                "  end",
                "  if ( $ue_is ) then",
                "    set ue_runtime = $UENVTOOL_RUNTIME",
                "  else if ( $UENVTOOL_RUNTIME:q != '' ) then",
                f"    ue_tell 'UENVTOOL_RUNTIME is none of {' '.join(names)}'",
                "  endif",
                "endif",
                "if ( \"$ue_runtime\" == '' ) then",
                f"  ue_tell {quoting.csh(nothing_seen(plan))}",
                "endif",
            ]
        return lines

    def libraries(self, plan: ActivationPlan, facts: Sequence[str]) -> list[str]:
        views = seen_by_views(plan)
        lines = ["set ue_folders = ( )"]
        usual = " ".join((*plan.system.libraries, *LIBRARY_FOLDERS))
        lines += [
            "if ( $?LD_LIBRARY_PATH ) then",
            "  set noglob  # a brace in it would end the script",
            "  set ue_folders = ( $LD_LIBRARY_PATH:as/)/?/:as/:/ / )  # a word that begins with ) would, too",
            "  unset noglob",
            "endif",
            "set ue_folders = ( $ue_folders:q \\",
            f"  {usual} )",
        ]
        if views:
            lines.append(f'if ( "$ue_runtime" == {views} ) set ue_folders = ( $ue_views:q )')
        for fact in facts:
            software = SOFTWARE[fact]
            lines += [f"set ue_{fact} = 0", "set ue_seen = ( )"]
            if software.variable:
                lines += [
                    f"if ( $?{software.variable} ) then",
                    f"  set ue_seen = ( {software.library}.${software.variable}:q )",
                    "endif",
                ]
            lines.append(self.block("library", FACT=fact, LIBRARY=software.library))
        return lines

    def assembled(self, table: Sequence[str], plan: ActivationPlan) -> list[str]:
        names = [name for name in function_names(plan, self) if name not in MISSING]
        later = [name for name in names if name in LATER]
        return [
            "goto ue_begin # the settings are gone through after it",
            "ue_settings:",
            *table,
            "goto ue_done",
            "",
            "ue_begin:",
            self.block("begin"),
            *(self.block(name) for name in names if name not in later),
            *([self.block("rows")] if later else []),
            *(self.block(name) for name in later),
            *first_blocks(plan, self),
            "goto ue_settings",
            "",
            "ue_done:",
            *([self.block("todo")] if later else []),
            *last_blocks(plan, self),
            self.block("end"),
        ]

    def block(self, name: str, **values: str) -> str:
        keep = {"KEEP": fragment(self.extension, "keep")} if "@KEEP@" in fragment(self.extension, name) else {}
        return super().block(name, **values, **keep)


def _shown(runtime: Runtime) -> list[str]:
    """The lines that look for a runtime's signs."""
    found = f"set ue_runtime = {runtime.name}"
    lines = ["set ue_is = 0"]
    for sign in runtime.signs:
        if sign.env:
            lines += [f"if ( $?{sign.env} ) then", f"  if ( ${sign.env}:q != '' ) set ue_is = 1", "endif"]
        else:
            lines.append(f'if ( -e "${{ue_root}}{sign.file}" ) set ue_is = 1')
    if runtime.container:
        return [*lines, "if ( $ue_is ) then", f"  {found}", "  set ue_container = 1", "endif"]
    return [*lines, f"if ( $ue_is && \"$ue_runtime\" == '' ) {found}"]
