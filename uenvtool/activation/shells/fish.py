"""Activation scripts for fish."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uenvtool.activation.script import (
    COMPARE,
    LIBRARY_FOLDERS,
    LOWEST,
    Dialect,
    first_blocks,
    function_names,
    last_blocks,
    number,
    signs,
    unseen_needs_care,
)
from uenvtool.core import quoting
from uenvtool.knowledge.condition import Term
from uenvtool.knowledge.runtime import Runtime
from uenvtool.knowledge.tuning import SOFTWARE
from uenvtool.settings import Settings


class Fish(Dialect):
    """fish from 3.2 on."""

    template = Path(__file__).with_suffix(".fish")
    shells = ("fish",)
    passes = ("for ue_pass in look set", "end")

    def quote(self, text: str) -> str:
        return quoting.fish(text)

    def test(self, term: Term, counts_unseen: bool) -> str:
        negated = "" if term.operator == "present" else "not "
        if term.fact.isupper():
            return f"{negated}set -q {term.fact}"
        value = f'"$ue_{term.fact}"'
        if term.operator in ("present", "absent"):
            return f"{negated}test {value} != 0" if term.fact in SOFTWARE else f"{negated}test -n {value}"
        if term.fact not in SOFTWARE:
            if len(term.values) == 1:
                return f"test {value} {'!=' if term.operator == '!=' else '='} {term.values[0]}"
            return f"contains -- {value} {' '.join(term.values)}"
        test = f"test {value} {COMPARE[term.operator]} {number(term)}"
        if not unseen_needs_care(term, counts_unseen):
            return test
        return f"{test} -o {value} -lt {LOWEST}" if counts_unseen else f"{test} -a {value} -ge {LOWEST}"

    def branch(self, tests: Sequence[str]) -> tuple[str, str]:
        return f"if {'; and '.join(tests)}", "end"

    def image(self, plan: Settings) -> dict[str, str]:
        return {}  # each image has a line of its own

    def folders(self, plan: Settings) -> list[str]:
        lines = ["set -l ue_folders (string split ':' -- \"$LD_LIBRARY_PATH\")"]
        return lines + [
            f"set -a ue_folders {' '.join(found)}" for found in (plan.system.libraries, LIBRARY_FOLDERS) if found
        ]

    def in_variable(self, name: str) -> str:
        return f'"${name}"'

    def shown(self, runtime: Runtime) -> str:
        variables, files = signs(runtime.signs)
        tests = [f'-n "{"".join(f"${name}" for name in variables)}"'] if variables else []
        tests += [f'-e "$UENVTOOL_ROOT{file}"' for file in files]
        return "test " + f" -o {chr(92)}{chr(10)}        ".join(tests)

    def assembled(self, table: Sequence[str], plan: Settings) -> list[str]:
        settings = ["function ue_settings --no-scope-shadowing", *(f"    {line}" for line in table), "end"]
        names = function_names(plan)
        sets = ["set -l ue_pass", "set -l ue_other"] if "default_set" in names else []
        main = [self.block("begin"), *sets, *first_blocks(plan, self), "ue_settings", *last_blocks(plan, self)]
        return self.ended([*settings, "", *map(self.block, names), "", *main])


SHELL = Fish()
