"""Renders an activation script: a table of settings, and the shell functions that this system needs below it."""

from __future__ import annotations

import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from uenvtool.activation.template import rank_program, sections
from uenvtool.core import quoting
from uenvtool.core.filling import filled
from uenvtool.knowledge.condition import Term
from uenvtool.knowledge.facts import SOFTWARE
from uenvtool.knowledge.runtime import VIEWS, Runtime, Sign
from uenvtool.knowledge.settings import Settings
from uenvtool.knowledge.sources import legend
from uenvtool.knowledge.tuning import AT_MOST, EXPECTED, PREPEND, REQUIRED, UNSET, Setting

WIDTH = 120
"""The maximum length of a line."""
SLURM = "slurm"
AGAIN = "Regenerate with: "
"""The text before the command that regenerates a file; a line with it is not wrapped."""
INDENT = 4
"""The maximum indentation of a table."""
REASON_COLUMN = 46
"""The column of the reason in a setting's line, unless its name and value are longer."""
VERBS = {AT_MOST: "at_most", PREPEND: "prepend", REQUIRED: "require", UNSET: "remove", EXPECTED: "expect"}
LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
"""The directories that are searched for libraries after the library path."""
MESSAGES = {"roce_gid_index": "roce_note"}
"""The variables with a message about this node, by the source of a computed value."""
NO_ENVIRONMENT = 'echo "uenvtool: the virtual environment was not found" >&2; exit 1'
"""The program that runs instead of the ranks' program if the requested virtual environment was not found."""

STEP = 1000
COMPARE = {">=": "-ge", "<": "-lt", ">": "-gt", "<=": "-le"}
"""The comparison operators and their options of `test`."""
LOWEST = 1000
"""The smallest number that is a version. 1 means a library of unknown version, and 0 means no library."""


class Dialect(ABC):
    """The syntax of one kind of shell.

    template: the file with the script's sections, next to the module. shells: the names of the shells for --shell.
    passes: the lines around the settings of a set, which run twice. choice: the separator between alternatives.
    """

    template: Path
    shells: tuple[str, ...]
    passes: tuple[str, str]

    @property
    def extension(self) -> str:
        """Return the file extension of the scripts."""
        return self.template.suffix.removeprefix(".")

    @abstractmethod
    def quote(self, text: str) -> str:
        """Return a text quoted as one word that the shell does not expand."""

    @abstractmethod
    def test(self, term: Term, counts_unseen: bool) -> str:
        """Return a term as a test. counts_unseen: the test also holds if the version is unknown."""

    @abstractmethod
    def branch(self, tests: Sequence[str]) -> tuple[str, str]:
        """Return the lines before and after the commands that run if all tests hold."""

    def variable(self, name: str) -> str:
        """Return the value of one of the script's internal variables as a word."""
        return f'"$ue_{name}"'

    def ended(self, lines: Sequence[str]) -> list[str]:
        """Return the lines of a script with its last section, which removes the script's functions."""
        function_names = re.findall(r"^(ue_\w+)\(\)", "\n".join(lines), re.MULTILINE)
        names = " \\\n  ".join(textwrap.wrap(" ".join(function_names), WIDTH - 9))
        return [*lines, self.block("end", FUNCTIONS=names)]

    @abstractmethod
    def shown(self, runtime: Runtime) -> str:
        """Return the test that detects a runtime by its signs."""

    @abstractmethod
    def image(self, plan: Settings) -> dict[str, str]:
        """Return the placeholders about the image in the section `runtime`, with their values."""

    @abstractmethod
    def folders(self, plan: Settings) -> list[str]:
        """Return the lines that set the directories to search for libraries."""

    @abstractmethod
    def in_variable(self, name: str) -> str:
        """Return the value of a variable that may be unset as a word."""

    choice: str

    @abstractmethod
    def assembled(self, table: Sequence[str], plan: Settings) -> list[str]:
        """Return the lines of the script without its header."""

    def block(self, name: str, **values: str) -> str:
        """Return a section of this shell's template with its placeholders filled."""
        return filled(sections(self.template)[name], **values)

    def runtime(self, plan: Settings) -> list[str]:
        """Return the lines that detect the runtime, whether it is a container, and its image."""
        names = [runtime.name for runtime in plan.runtimes]
        is_only = len(names) == 1
        lines = [] if is_only else [self.block("which_runtime")]
        lines.append(self.block("runtime", RUNTIME=names[0] if is_only else self.quote(""), **self.image(plan)))
        for runtime in sorted(plan.runtimes, key=lambda runtime: not runtime.container):
            if runtime.container or not is_only:
                section = "in_container" if runtime.container else "in_shell"
                lines.append(self.block(section, SHOWN=self.shown(runtime), NAME=runtime.name))
        if knows_runtime(plan):
            nothing = self.quote(no_runtime_message(plan))
            choices = self.choice.join(names)
            lines.append(self.block("named_runtime", CHOICES=choices, NAMES=" ".join(names), NOTHING=nothing))
        return lines

    def libraries(self, plan: Settings, facts: Sequence[str]) -> list[str]:
        """Return the lines that detect versions from libraries."""
        views = seen_by_views(plan)
        lines = [*self.folders(plan), *([self.block("of_views", NAME=views)] if views else [])]
        for fact in facts:
            software = SOFTWARE[fact]
            version = self.in_variable(software.variable) if software.variable else self.quote("")
            lines.append(self.block("of_library", FACT=fact, LIBRARY=software.library, VERSION=version))
        return lines


def function_names(plan: Settings) -> list[str]:
    """Return the names of the sections with the functions that a plan's script needs, in order."""
    verbs = {verb(planned.setting) for planned in plan.scripted}
    sets = any(planned.setting.together for planned in plan.scripted)
    needed = {
        "tell": sets or "expect" in verbs or knows_runtime(plan) or "cores" in computed_from(plan),
        "keep": True,
        "require": bool(verbs & {"require", "remove", "at_most"}),
        "remove": "remove" in verbs,
        "default": bool(verbs & {"default", "at_most"}) and not sets,
        "default_set": sets,
        "at_most": "at_most" in verbs,
        "prepend": "prepend" in verbs,
        "here": bool(computed_from(plan) & set(MESSAGES)),
        "expect": "expect" in verbs,
        "libraries": bool(library_facts(plan)),
        "roce_functions": "roce_gid_index" in computed_from(plan),
    }
    return [name for name, is_needed in needed.items() if is_needed]


def first_blocks(plan: Settings, dialect: Dialect) -> list[str]:
    """Return the sections that run before the table, which detect the runtime, the libraries and other facts."""
    finds_runtime = bool(plan.facts_to_find & {"runtime", "container", "image"})
    views = bool(seen_by_views(plan)) and (bool(library_facts(plan)) or "view_root" in computed_from(plan))
    blocks = [
        "\n".join(dialect.runtime(plan)) if finds_runtime else "",
        dialect.block("along") if knows_runtime(plan) else "",
        dialect.block("views") if views else "",
        dialect.block("venv", VENV=dialect.quote(plan.venv or "")),
        "\n".join(dialect.libraries(plan, library_facts(plan))) if library_facts(plan) else "",
        dialect.block("nodes") if "nodes" in plan.facts_to_find else "",
        dialect.block("cores") if "cores" in computed_from(plan) else "",
        dialect.block("gpus") if "runai_gpus" in computed_from(plan) else "",
        dialect.block("temporary") if "temporary" in computed_from(plan) else "",
        dialect.block("roce", HCA=dialect.quote(roce_device(plan))) if "roce_gid_index" in computed_from(plan) else "",
    ]
    return [text for text in blocks if text]


def last_blocks(plan: Settings, dialect: Dialect) -> list[str]:
    """Return the sections that run after the table, except the last one."""
    blocks = [
        dialect.block("set_names") if knows_runtime(plan) else "",
        dialect.block("ranks", PROGRAM=dialect.quote(rank_program()), FAILED=dialect.quote(NO_ENVIRONMENT))
        if plan.system.scheduler.name == SLURM
        else "",
    ]
    return [text for text in blocks if text]


def knows_runtime(plan: Settings) -> bool:
    """Return whether the script detects which of several runtimes it runs in."""
    return len(plan.runtimes) > 1 and bool(plan.facts_to_find & {"runtime", "container", "image"})


def computed_from(plan: Settings) -> frozenset[str]:
    """Return the sources of computed values."""
    return frozenset(planned.setting.from_ for planned in plan.scripted if planned.setting.from_)


def library_facts(plan: Settings) -> list[str]:
    """Return the software whose versions the script detects from libraries."""
    return sorted(set(SOFTWARE) & plan.facts_to_find)


def roce_device(plan: Settings) -> str:
    """Return the default prefix of the RDMA devices' names, which is used if no device is found."""
    settings = (planned.setting for planned in plan.scripted)
    return next((setting.otherwise or "" for setting in settings if setting.from_ == "roce_hca"), "")


def render_script(plan: Settings, dialect: Dialect, again: str) -> str:
    """Return the activation script of a plan. again: the command that regenerates the script."""
    table = list(_table(plan, dialect))
    lines = [*_script_header(plan, dialect, again), "", *dialect.assembled(table, plan)]
    return "\n".join(line.rstrip() for text in lines for line in text.split("\n")) + "\n"


def comments(texts: Iterable[str], indent: str = "", continuation: str = "  ") -> Iterator[str]:
    """Yield comment lines with each text wrapped at WIDTH. continuation: the prefix of a text's other lines."""
    for text in texts:
        wrapped = textwrap.wrap(
            quoting.comment(text),
            WIDTH - len(indent) - 2,
            subsequent_indent=continuation,
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield from (f"{indent}# {line}" for line in (wrapped if AGAIN not in text else [quoting.comment(text)]))


def legend_of(plan: Settings) -> list[str]:
    """Return the sources of a plan's settings, one line per source."""
    settings = (*(planned.setting for planned in plan.scripted), *plan.by_hook)
    return [f"  {line}" for line in legend(setting.source for setting in settings)]


def origin(plan: Settings, again: str) -> list[str]:
    """Return the inputs of a generated file and the command that regenerates it, as one or two lines."""
    versions_given = {
        fact: "absent" if value is None else value or "(any version)" for fact, value in plan.given.items()
    }
    versions = ", ".join(f"{fact} {value}" for fact, value in sorted(versions_given.items()))
    with_versions = f" with {versions}{f' of {plan.recipe}' if plan.recipe else ''}" if versions else ""
    inputs = ", ".join(_by_directory(plan.inputs))
    header = f"Generated by uenvtool from {inputs}{with_versions}"
    one_line = f"{header}. {AGAIN}{again}"
    return [one_line] if len(one_line) < WIDTH - 2 else [f"{header}.", f"{AGAIN}{again}"]


def _by_directory(paths: Sequence[str]) -> Iterator[str]:
    """Yield paths with the names in one directory combined: `directory/{one,other}.yaml`."""
    for (directory, suffix), group in groupby(
        paths, key=lambda path: (path.rpartition("/")[0], path.rpartition(".")[2])
    ):
        names = [path.rpartition("/")[2].removesuffix(f".{suffix}") for path in group]
        yield f"{directory}/{names[0] if len(names) == 1 else '{' + ','.join(names) + '}'}.{suffix}"


def verb(setting: Setting) -> str:
    """Return the name of the function that applies a setting, without its prefix ue_."""
    return VERBS.get(setting.policy, "default")


def _script_header(plan: Settings, dialect: Dialect, again: str) -> Iterator[str]:
    system = plan.system
    name = f"activate/{system.name}.{dialect.extension}"
    usage = {f"source {name}": "sets unset variables and prints the variables that it overrides"}
    if system.scheduler.name == SLURM:
        usage["srun sh -uc 'eval \"$UENVTOOL_RANK\"' python train.py"] = (
            "sets RANK, MASTER_ADDR and so on for each task"
        )
    usage["uenvtool_deactivate"] = "restores the previous environment"
    options = "Set before sourcing: UENVTOOL_VENV=PATH for a virtual environment, UENVTOOL_QUIET=1 to omit messages"
    if len(plan.runtimes) > 1:
        options += f", UENVTOOL_RUNTIME={'|'.join(runtime.name for runtime in plan.runtimes)}"
    width = max(map(len, usage))
    yield from comments([f"{system.name}: {system.description} For {' and '.join(dialect.shells)}."])
    yield from comments(
        [f"  {command.ljust(width)}  {effect}" for command, effect in usage.items()], continuation=" " * (width + 4)
    )
    yield from comments([f"{options}."])
    yield from comments(origin(plan, again))
    sources = legend_of(plan)
    if sources:
        yield from comments(sources, continuation=" " * 4)
    yield "# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154"


def _table(plan: Settings, dialect: Dialect) -> Iterator[str]:
    """Yield the rows of the table, grouped by condition; settings without a condition come first."""
    groups: dict[tuple[tuple[Term, ...], frozenset[str]], dict[str, list[Setting]]] = {((), frozenset()): {}}
    for planned in plan.scripted:
        setting = planned.setting
        counting_unseen = frozenset(term.fact for term in planned.guard if term.fact in SOFTWARE) & setting.unseen
        groups.setdefault((planned.guard, counting_unseen), {}).setdefault(setting.together, []).append(setting)
    for (guard, counting_unseen), by_set in groups.items():
        opening, closing = (
            dialect.branch([dialect.test(term, term.fact in counting_unseen) for term in guard]) if guard else ("", "")
        )
        indent = "  " if guard else ""
        if guard:
            yield from _branch_line(opening, guard, counting_unseen)
        for together, settings in by_set.items():
            if together:
                yield from _set(plan, dialect, settings, indent)
            else:
                yield from (line for setting in settings for line in _rows(setting, dialect, indent))
        if guard:
            yield closing


def _branch_line(opening: str, guard: Sequence[Term], counting_unseen: frozenset[str]) -> Iterator[str]:
    """Yield the line that begins a condition, with a comment that lists its versions in readable form."""
    versions = [str(term) for term in guard if term.fact in SOFTWARE and term.values]
    unseen = f", or the version of {' or '.join(sorted(counting_unseen))} is unknown" if counting_unseen else ""
    note = " and ".join(versions) + unseen
    yield from _with_note(opening, note if versions else "", "")


def _with_note(line: str, note: str, indent: str, column: int = 0) -> Iterator[str]:
    lines = (f"{line.ljust(column)} # {note}", f"{line} # {note}")
    fitting = [whole for whole in lines if len(whole) <= WIDTH - INDENT]
    if note and fitting:
        yield fitting[0]
    else:
        yield from comments([note], indent) if note else ()
        yield line


def _set(plan: Settings, dialect: Dialect, settings: Sequence[Setting], indent: str) -> Iterator[str]:
    """Yield the rows of a set, which run twice: to find variables with other values, and to set the variables."""
    name = settings[0].together
    opening, closing = dialect.passes
    yield from _with_note(indent + opening, f"set together or not at all: {plan.tuning.sets[name].reason}", indent)
    yield from (line for setting in settings for line in _rows(setting, dialect, indent + "  "))
    yield indent + closing
    need = next((setting.needs for setting in settings if setting.needs), None)
    needed = f" {need.variable} {need.contains} {dialect.quote(need.hint)}" if need else ""
    yield f"{indent}ue_together {name}{needed}"


def _rows(setting: Setting, dialect: Dialect, indent: str) -> Iterator[str]:
    row = [f"ue_{verb(setting)}", setting.name]
    source = f"[{setting.source.name}]"
    reason = quoting.comment(setting.reason)
    if setting.from_:
        row.append(dialect.variable(setting.from_))
        if setting.from_ in MESSAGES:
            yield f"{indent}ue_here {setting.name} {dialect.variable(MESSAGES[setting.from_])}"
    elif setting.policy not in (UNSET, EXPECTED):
        row.append(_word(setting.value or "", dialect))
    if setting.policy in (AT_MOST, REQUIRED, UNSET, EXPECTED):
        yield from _with_message(" ".join(row), dialect.quote(reason), source, indent)
    else:
        yield from _with_note(indent + " ".join(row), f"{reason} {source}", indent, REASON_COLUMN)


def _with_message(row: str, reason: str, source: str, indent: str) -> Iterator[str]:
    """Yield a row whose last argument is the reason that it prints, on a second line if the row is too long."""
    line = f"{indent}{row} {reason} # {source}"
    if len(line) <= WIDTH - INDENT:
        yield line
    else:
        yield from (f"{indent}{row} \\", f"{indent}  {reason} # {source}")


def _word(text: str, dialect: Dialect) -> str:
    is_plain = bool(text) and all(character.isalnum() or character in "_./:-" for character in text)
    return text if is_plain and not text.startswith("-") else dialect.quote(text)


def signs(runtime_signs: Iterable[Sign]) -> tuple[list[str], list[str]]:
    """Return the variables and the files among a runtime's signs."""
    return [sign.env for sign in runtime_signs if sign.env], [sign.file for sign in runtime_signs if sign.file]


def seen_by_views(plan: Settings) -> str:
    """Return the name of the runtime whose libraries are in views, or an empty string."""
    return next((runtime.name for runtime in plan.runtimes if runtime.libraries == VIEWS), "")


def no_runtime_message(plan: Settings) -> str:
    """Return the message for a shell in which no runtime is detected."""
    names = [runtime.name for runtime in plan.runtimes]
    not_found = f"neither {' nor '.join(names)}" if len(names) == 2 else f"none of {', '.join(names)}"
    return f"{not_found} detected: only common variables are set"


def number(term: Term) -> int:
    """Return the version in a term as one number; the version has two parts (see knowledge/tuning.py)."""
    major, minor = map(int, term.values[0].split("."))
    return major * STEP + minor


def unseen_needs_care(term: Term, counts_unseen: bool) -> bool:
    """Return whether an unknown version needs a test in addition to the comparison."""
    return counts_unseen != term.operator.startswith("<")
