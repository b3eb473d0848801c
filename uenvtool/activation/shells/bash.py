"""Activation scripts for bash and zsh."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uenvtool.activation.script import (
    COMPARE,
    LIBRARY_FOLDERS,
    LOWEST,
    WIDTH,
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
from uenvtool.knowledge.facts import SOFTWARE
from uenvtool.knowledge.runtime import Runtime
from uenvtool.knowledge.settings import Settings


class Bash(Dialect):
    """The syntax of bash 4.2 or newer and zsh."""

    template = Path(__file__).with_suffix(".sh")
    shells = ("bash", "zsh")
    choice = " | "
    passes = ("for ue_pass in look set; do", "done")

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

    def image(self, plan: Settings) -> dict[str, str]:
        signs = {name: sign.env for runtime in plan.runtimes for name, sign in runtime.images.items()}
        return {"IMAGE": "".join(f"${{{variable}:+{name}}}" for name, variable in signs.items()) or "''"}

    def folders(self, plan: Settings) -> list[str]:
        library_path = ":".join(("${LD_LIBRARY_PATH-}", *plan.system.libraries))
        whole = f'ue_folders="{library_path}:{":".join(LIBRARY_FOLDERS)}"'
        return (
            [whole]
            if len(whole) <= WIDTH
            else [f'ue_folders="{library_path}"', f"ue_folders=$ue_folders:{':'.join(LIBRARY_FOLDERS)}"]
        )

    def in_variable(self, name: str) -> str:
        return f'"${{{name}-}}"'

    def shown(self, runtime: Runtime) -> str:
        variables, files = signs(runtime.signs)
        tests = [f"-n {''.join(f'${{{name}-}}' for name in variables)}"] if variables else []
        tests += [" || ".join(f"-e ${{UENVTOOL_ROOT-}}{file}" for file in files)] if files else []
        return f"[[ {f' ||{chr(10)}  '.join(tests)} ]]"

    def assembled(self, table: Sequence[str], plan: Settings) -> list[str]:
        settings = ["ue_settings() {", *(f"  {line}" for line in table or [":"]), "}"]
        functions = [self.block(name) for name in function_names(plan)]
        first = first_blocks(plan, self)
        globs = "ue_library " in "\n".join(first) or "ue_gid" in "\n".join(first)
        begin = [self.block("begin"), *([self.block("globbing")] if globs else [])]
        main = [*begin, *first, "ue_settings", *last_blocks(plan, self)]
        return self.ended([*settings, "", *functions, *main])


SHELL = Bash()
