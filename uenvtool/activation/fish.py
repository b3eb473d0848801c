"""Activation scripts for fish."""

from __future__ import annotations

from collections.abc import Sequence

from uenvtool.activation.plan import ActivationPlan
from uenvtool.activation.script import (
    LIBRARY_FOLDERS,
    Dialect,
    first_blocks,
    function_names,
    knows_runtime,
    last_blocks,
    nothing_seen,
    own_functions,
    seen_by_views,
    signs,
    wrapped,
)
from uenvtool.activation.versions import COMPARE, LOWEST, number, unseen_needs_care
from uenvtool.core import quoting
from uenvtool.knowledge.condition import Term
from uenvtool.knowledge.runtime import Runtime
from uenvtool.knowledge.tuning import SOFTWARE


class Fish(Dialect):
    """fish from 3.2 on."""

    extension = "fish"
    shells = ("fish",)

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

    def passes(self) -> tuple[list[str], list[str]]:
        return ["for ue_pass in look set"], ["end"]

    def variable(self, name: str) -> str:
        return f'"$ue_{name}"'

    def runtime(self, plan: ActivationPlan) -> list[str]:
        names = [runtime.name for runtime in plan.runtimes]
        alone = len(names) == 1
        lines = [
            f"set -l ue_runtime {names[0]}" if alone else "set -l ue_runtime",
            "set -l ue_container",
            "set -l ue_image",
        ]
        if not alone:
            lines = [
                "# Which runtime this is; a container's own marks count more than a variable that came along.",
                *lines,
            ]
        for runtime in (runtime for runtime in plan.runtimes if runtime.container):
            lines += [f"if {_shown(runtime)}", f"    set ue_runtime {runtime.name}", "    set ue_container 1", "end"]
        for runtime in (runtime for runtime in plan.runtimes if not runtime.container and not alone):
            lines.append(f'test -z "$ue_runtime"; and {_shown(runtime)}; and set ue_runtime {runtime.name}')
        lines += [f'test -n "${name}"; and set ue_image {image}' for image, name in plan.images.items()]
        if knows_runtime(plan):
            lines += [
                f'if contains -- "$UENVTOOL_RUNTIME" {" ".join(names)}',
                "    set ue_runtime $UENVTOOL_RUNTIME",
                'else if test -n "$UENVTOOL_RUNTIME"',
                f'    ue_tell "UENVTOOL_RUNTIME=$UENVTOOL_RUNTIME is none of {" ".join(names)}"',
                "end",
                f'test -n "$ue_runtime"; or ue_tell {quoting.fish(nothing_seen(plan))}',
            ]
        return lines

    def libraries(self, plan: ActivationPlan, facts: Sequence[str]) -> list[str]:
        views = seen_by_views(plan)
        lines = ["set -l ue_folders (string split ':' -- \"$LD_LIBRARY_PATH\")"]
        lines += [f"set -a ue_folders {' '.join(found)}" for found in (plan.system.libraries, LIBRARY_FOLDERS) if found]
        if views:
            lines.append(f'test "$ue_runtime" = {views}; and set ue_folders $ue_views')
        for fact in facts:
            software = SOFTWARE[fact]
            version = f'"${software.variable}"' if software.variable else "''"
            lines += [f"set -l ue_{fact} 0", f"ue_library {fact} {software.library} {version} $ue_folders"]
        return lines

    def assembled(self, table: Sequence[str], plan: ActivationPlan) -> list[str]:
        settings = ["function ue_settings --no-scope-shadowing", *(f"    {line}" for line in table), "end"]
        functions = [self.block(name) for name in function_names(plan, self)]
        sets = ["set -l ue_pass", "set -l ue_other"] if "default_set" in function_names(plan, self) else []
        main = [self.block("begin"), *sets, *first_blocks(plan, self), "ue_settings", *last_blocks(plan, self)]
        whole = [*settings, "", *functions, "", *main]
        return [*whole, self.block("end", FUNCTIONS=wrapped(own_functions(whole)))]


def _shown(runtime: Runtime) -> str:
    """The test that a runtime's signs show."""
    variables, files = signs(runtime.signs)
    tests = [f'-n "{"".join(f"${name}" for name in variables)}"'] if variables else []
    tests += [f'-e "$UENVTOOL_ROOT{file}"' for file in files]
    return "test " + f" -o {chr(92)}{chr(10)}        ".join(tests)
