"""Activation scripts for bash and zsh."""

from __future__ import annotations

from collections.abc import Sequence

from uenvtool.activation.plan import ActivationPlan
from uenvtool.activation.script import (
    LIBRARY_FOLDERS,
    WIDTH,
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


class Bash(Dialect):
    """bash from 4.2 on, and zsh."""

    extension = "sh"
    shells = ("bash", "zsh")

    def quote(self, text: str) -> str:
        return quoting.sh(text)

    def test(self, term: Term, counts_unseen: bool) -> str:
        flag = "-n" if term.operator == "present" else "-z"
        if term.fact.isupper():
            return f"{flag} ${{{term.fact}+x}}"
        value = f"$ue_{term.fact}"
        if term.operator in ("present", "absent"):
            if term.fact in SOFTWARE:
                return f"{value} {'!=' if term.operator == 'present' else '=='} 0"
            return f"{flag} {value}"
        if term.fact not in SOFTWARE:
            joint, operator = (" && ", "!=") if term.operator == "!=" else (" || ", "==")
            test = joint.join(f"{value} {operator} {name}" for name in term.values)
            return f"({test})" if len(term.values) > 1 else test
        test = f"{value} {COMPARE[term.operator]} {number(term)}"
        if not unseen_needs_care(term, counts_unseen):
            return test
        return f"({test} || {value} -lt {LOWEST})" if counts_unseen else f"{test} && {value} -ge {LOWEST}"

    def branch(self, tests: Sequence[str]) -> tuple[str, str]:
        return f"if [[ {' && '.join(tests)} ]]; then", "fi"

    def passes(self) -> tuple[list[str], list[str]]:
        return ["for ue_pass in look set; do"], ["done"]

    def variable(self, name: str) -> str:
        return f'"$ue_{name}"'

    def runtime(self, plan: ActivationPlan) -> list[str]:
        names = [runtime.name for runtime in plan.runtimes]
        image = "".join(f"${{{variable}:+{name}}}" for name, variable in plan.images.items()) or "''"
        lines = [
            f"ue_runtime={names[0] if len(names) == 1 else quoting.sh('')} ue_container='' ue_image={image} ue_along=''"
        ]
        containers = [runtime for runtime in plan.runtimes if runtime.container]
        others = [runtime for runtime in plan.runtimes if not runtime.container] if len(names) > 1 else []
        if len(names) > 1:
            lines = [
                "# Which runtime this is; a container's own marks count more than a variable that came along.",
                *lines,
            ]
        for runtime in containers:
            lines += [f"if {_shown(runtime)}; then", f"  ue_runtime={runtime.name} ue_container=1", "fi"]
        for runtime in others:
            lines.append(f"[[ -n $ue_runtime ]] || {{ {_shown(runtime)} && ue_runtime={runtime.name}; }} || :")
        if knows_runtime(plan):
            lines += [
                f"case ${{UENVTOOL_RUNTIME-}} in {' | '.join(names)}) ue_runtime=$UENVTOOL_RUNTIME ;;",
                f'  ?*) ue_tell "UENVTOOL_RUNTIME=$UENVTOOL_RUNTIME is none of {" ".join(names)}" ;; esac',
                f"[[ -n $ue_runtime ]] || ue_tell {quoting.sh(nothing_seen(plan))}",
            ]
        return lines

    def libraries(self, plan: ActivationPlan, facts: Sequence[str]) -> list[str]:
        views = seen_by_views(plan)
        usual = ":".join(LIBRARY_FOLDERS)
        own = ":".join(("${LD_LIBRARY_PATH-}", *plan.system.libraries))
        lines = [f'ue_folders="{own}:{usual}"']
        if len(lines[0]) > WIDTH:
            lines = [f'ue_folders="{own}"', f"ue_folders=$ue_folders:{usual}"]
        if views:
            lines.append(f"[[ $ue_runtime != {views} ]] || ue_folders=$ue_views")
        for fact in facts:
            software = SOFTWARE[fact]
            version = f'"${{{software.variable}-}}"' if software.variable else "''"
            lines.append(f'ue_library {fact} {software.library} {version} "$ue_folders"')
        return lines

    def assembled(self, table: Sequence[str], plan: ActivationPlan) -> list[str]:
        settings = ["ue_settings() {", *(f"  {line}" for line in table or [":"]), "}"]
        functions = [self.block(name) for name in function_names(plan, self)]
        first = first_blocks(plan, self)
        globs = "ue_library " in "\n".join(first) or "ue_gid" in "\n".join(first)
        begin = [self.block("begin"), *([self.block("globbing")] if globs else [])]
        main = [*begin, *first, "ue_settings", *last_blocks(plan, self)]
        whole = [*settings, "", *functions, *main]
        return [*whole, self.block("end", FUNCTIONS=wrapped(own_functions(whole)))]


def _shown(runtime: Runtime) -> str:
    """The test that a runtime's signs show."""
    variables, files = signs(runtime.signs)
    tests = [f"-n {''.join(f'${{{name}-}}' for name in variables)}"] if variables else []
    tests += [" || ".join(f"-e ${{UENVTOOL_ROOT-}}{file}" for file in files)] if files else []
    return f"[[ {f' ||{chr(10)}  '.join(tests)} ]]"
