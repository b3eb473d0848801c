"""The script of a plan: what is set first, as a table, and the machinery that this system needs below it."""

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
"""No line is longer."""
SLURM = "slurm"
AGAIN = "again: "
"""What stands before the command that makes a file again, at the end of a line that is not wrapped."""
INDENT = 4
"""How far in a table stands at most."""
REASON_COLUMN = 46
"""Where the reason beside a setting begins, if its name and value are not longer."""
VERBS = {AT_MOST: "at_most", PREPEND: "prepend", REQUIRED: "require", UNSET: "remove", EXPECTED: "expect"}
LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
"""Where libraries lie beside the library path."""
MESSAGES = {"roce_gid_index": "roce_note"}
"""What is said of this node with a computed value, by what it is computed from."""
NO_ENVIRONMENT = 'echo "uenvtool: the virtual environment is not there" >&2; exit 1'
"""The program that takes the place of the ranks' if another Python than the wanted one would run."""

STEP = 1000
COMPARE = {">=": "-ge", "<": "-lt", ">": "-gt", "<=": "-le"}
"""The comparisons as `test` knows them."""
LOWEST = 1000
"""A smaller number is no version: 1 of a library that does not show it, 0 of none."""


class Dialect(ABC):
    """How one shell says things.

    template: the file beside its module, in sections. shells: those that read its scripts, as --shell names them.
    passes: the lines around the settings of a set, which are gone through twice.
    """

    template: Path
    shells: tuple[str, ...]
    passes: tuple[str, str]

    @property
    def extension(self) -> str:
        """Return the extension of its scripts."""
        return self.template.suffix.removeprefix(".")

    @abstractmethod
    def quote(self, text: str) -> str:
        """Return a text as one word that is only data."""

    @abstractmethod
    def test(self, term: Term, counts_unseen: bool) -> str:
        """Return a term as a test; counts_unseen: it also holds if a version is not seen."""

    @abstractmethod
    def branch(self, tests: Sequence[str]) -> tuple[str, str]:
        """Return the lines around what is done if all tests hold."""

    def variable(self, name: str) -> str:
        """Return the value of one of the script's own variables, as a word."""
        return f'"$ue_{name}"'

    def ended(self, lines: Sequence[str]) -> list[str]:
        """Return the lines of a script with its end, which removes the script's own functions."""
        own = re.findall(r"^(ue_\w+)\(\)", "\n".join(lines), re.MULTILINE)
        names = " \\\n  ".join(textwrap.wrap(" ".join(own), WIDTH - 9))
        return [*lines, self.block("end", FUNCTIONS=names)]

    @abstractmethod
    def shown(self, runtime: Runtime) -> str:
        """Return the test that a sign of a runtime shows."""

    @abstractmethod
    def image(self, plan: Settings) -> dict[str, str]:
        """Return the marks of the section `runtime` that are about the image."""

    @abstractmethod
    def folders(self, plan: Settings) -> list[str]:
        """Return the lines that name the folders where libraries lie."""

    @abstractmethod
    def in_variable(self, name: str) -> str:
        """Return the value of a variable that may be unset, as a word."""

    choice: str
    """What stands between the words of a choice."""

    @abstractmethod
    def assembled(self, table: Sequence[str], plan: Settings) -> list[str]:
        """Return the lines of the script but for its header."""

    def block(self, name: str, **values: str) -> str:
        """Return a section of this shell's template with its marks filled."""
        return filled(sections(self.template)[name], **values)

    def runtime(self, plan: Settings) -> list[str]:
        """Return the lines that find out the runtime, if it is a container, and its image."""
        names = [runtime.name for runtime in plan.runtimes]
        alone = len(names) == 1
        lines = [] if alone else [self.block("which_runtime")]
        lines.append(self.block("runtime", RUNTIME=names[0] if alone else self.quote(""), **self.image(plan)))
        for runtime in sorted(plan.runtimes, key=lambda runtime: not runtime.container):
            if runtime.container or not alone:
                place = "in_container" if runtime.container else "in_shell"
                lines.append(self.block(place, SHOWN=self.shown(runtime), NAME=runtime.name))
        if knows_runtime(plan):
            nothing = self.quote(nothing_seen(plan))
            choices = self.choice.join(names)
            lines.append(self.block("named_runtime", CHOICES=choices, NAMES=" ".join(names), NOTHING=nothing))
        return lines

    def libraries(self, plan: Settings, facts: Sequence[str]) -> list[str]:
        """Return the lines that find out versions from libraries."""
        views = seen_by_views(plan)
        lines = [*self.folders(plan), *([self.block("of_views", NAME=views)] if views else [])]
        for fact in facts:
            software = SOFTWARE[fact]
            version = self.in_variable(software.variable) if software.variable else self.quote("")
            lines.append(self.block("of_library", FACT=fact, LIBRARY=software.library, VERSION=version))
        return lines


def function_names(plan: Settings) -> list[str]:
    """Return the sections with the functions that a plan's table and machinery need, in order."""
    verbs = {verb(planned.setting) for planned in plan.scripted}
    sets = any(planned.setting.together for planned in plan.scripted)
    wanted = {
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
    return [name for name, is_wanted in wanted.items() if is_wanted]


def first_blocks(plan: Settings, dialect: Dialect) -> list[str]:
    """Return what is found out before the table is gone through."""
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
    """Return what is done after the table, but for the end."""
    blocks = [
        dialect.block("set_names") if knows_runtime(plan) else "",
        dialect.block("ranks", PROGRAM=dialect.quote(rank_program()), FAILED=dialect.quote(NO_ENVIRONMENT))
        if plan.system.scheduler.name == SLURM
        else "",
    ]
    return [text for text in blocks if text]


def knows_runtime(plan: Settings) -> bool:
    """Tell if the script finds out which of several runtimes this is."""
    return len(plan.runtimes) > 1 and bool(plan.facts_to_find & {"runtime", "container", "image"})


def computed_from(plan: Settings) -> frozenset[str]:
    """Return what values are computed from."""
    return frozenset(planned.setting.from_ for planned in plan.scripted if planned.setting.from_)


def library_facts(plan: Settings) -> list[str]:
    """Return the versions that the script finds out from libraries."""
    return sorted(set(SOFTWARE) & plan.facts_to_find)


def roce_device(plan: Settings) -> str:
    """Return the start of the RDMA devices' names, if none is found."""
    settings = (planned.setting for planned in plan.scripted)
    return next((setting.otherwise or "" for setting in settings if setting.from_ == "roce_hca"), "")


def render_script(plan: Settings, dialect: Dialect, again: str) -> str:
    """Return the script of a plan in a shell; again: the command that makes it again."""
    table = list(_table(plan, dialect))
    lines = [*_script_header(plan, dialect, again), "", *dialect.assembled(table, plan)]
    return "\n".join(line.rstrip() for text in lines for line in text.split("\n")) + "\n"


def comments(texts: Iterable[str], indent: str = "", more: str = "  ") -> Iterator[str]:
    """Yield comment lines, each text wrapped at the width with `more` before what follows."""
    for text in texts:
        wrapped = textwrap.wrap(
            quoting.comment(text),
            WIDTH - len(indent) - 2,
            subsequent_indent=more,
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield from (f"{indent}# {line}" for line in (wrapped if AGAIN not in text else [quoting.comment(text)]))


def legend_of(plan: Settings) -> list[str]:
    """Return the sources of a plan's settings, a line each."""
    settings = (*(planned.setting for planned in plan.scripted), *plan.by_hook)
    return [f"  {line}" for line in legend(setting.source for setting in settings)]


def origin(plan: Settings, again: str) -> list[str]:
    """Return what a generated file came from, and how to make it again."""
    shown = {fact: "absent" if value is None else value or "of any version" for fact, value in plan.given.items()}
    versions = ", ".join(f"{fact} {value}" for fact, value in sorted(shown.items()))
    of = f" with {versions}{f' of {plan.recipe}' if plan.recipe else ''}" if versions else ""
    inputs = ", ".join(_by_folder(plan.inputs))
    made = f"Generated by uenvtool from {inputs}{of}"
    together = f"{made}; again: {again}"
    return [together] if len(together) < WIDTH - 2 else [f"{made}.", f"{AGAIN}{again}"]


def _by_folder(paths: Sequence[str]) -> Iterator[str]:
    """Yield paths as `folder/{one,other}.yaml`."""
    for (folder, suffix), group in groupby(paths, key=lambda path: (path.rpartition("/")[0], path.rpartition(".")[2])):
        names = [path.rpartition("/")[2].removesuffix(f".{suffix}") for path in group]
        yield f"{folder}/{names[0] if len(names) == 1 else '{' + ','.join(names) + '}'}.{suffix}"


def verb(setting: Setting) -> str:
    """Return what the table says to a setting."""
    return VERBS.get(setting.policy, "default")


def _script_header(plan: Settings, dialect: Dialect, again: str) -> Iterator[str]:
    system = plan.system
    name = f"activate/{system.name}.{dialect.extension}"
    usage = {f"source {name}": "sets what is unset, says what it overrides"}
    if system.scheduler.name == SLURM:
        usage["srun sh -uc 'eval \"$UENVTOOL_RANK\"' python train.py"] = (
            "gives each task its RANK, MASTER_ADDR and so on"
        )
    usage["uenvtool_deactivate"] = "brings the environment back as it was"
    before = "Before: UENVTOOL_VENV=PATH for a virtual environment, UENVTOOL_QUIET=1 for silence"
    if len(plan.runtimes) > 1:
        before += f", UENVTOOL_RUNTIME={'|'.join(runtime.name for runtime in plan.runtimes)}"
    width = max(map(len, usage))
    yield from comments([f"{system.name}: {system.description} For {' and '.join(dialect.shells)}."])
    yield from comments(
        [f"  {command.ljust(width)}  {what}" for command, what in usage.items()], more=" " * (width + 4)
    )
    yield from comments([f"{before}."])
    yield from comments(origin(plan, again))
    sources = legend_of(plan)
    if sources:
        yield from comments(sources, more=" " * 4)
    yield "# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154"


def _table(plan: Settings, dialect: Dialect) -> Iterator[str]:
    """Yield the rows of the table; what has the same condition stands together, what has none first."""
    groups: dict[tuple[tuple[Term, ...], frozenset[str]], dict[str, list[Setting]]] = {((), frozenset()): {}}
    for planned in plan.scripted:
        setting = planned.setting
        counts = frozenset(term.fact for term in planned.guard if term.fact in SOFTWARE) & setting.unseen
        groups.setdefault((planned.guard, counts), {}).setdefault(setting.together, []).append(setting)
    for (guard, counts), by_set in groups.items():
        before, after = (
            dialect.branch([dialect.test(term, term.fact in counts) for term in guard]) if guard else ("", "")
        )
        indent = "  " if guard else ""
        if guard:
            yield from _branch_line(before, guard, counts)
        for together, settings in by_set.items():
            if together:
                yield from _set(plan, dialect, settings, indent)
            else:
                yield from (line for setting in settings for line in _rows(setting, dialect, indent))
        if guard:
            yield after


def _branch_line(before: str, guard: Sequence[Term], counts: frozenset[str]) -> Iterator[str]:
    """Yield the line that opens a condition, with the versions in it as the knowledge writes them."""
    versions = [str(term) for term in guard if term.fact in SOFTWARE and term.values]
    unseen = f", or no {' or '.join(sorted(counts))} is seen" if counts else ""
    note = " and ".join(versions) + unseen
    yield from _beside(before, note if versions else "", "")


def _beside(line: str, note: str, indent: str, column: int = 0) -> Iterator[str]:
    lines = (f"{line.ljust(column)} # {note}", f"{line} # {note}")
    fitting = [whole for whole in lines if len(whole) <= WIDTH - INDENT]
    if note and fitting:
        yield fitting[0]
    else:
        yield from comments([note], indent) if note else ()
        yield line


def _set(plan: Settings, dialect: Dialect, settings: Sequence[Setting], indent: str) -> Iterator[str]:
    """Yield the rows of a set: gone through once to look if one is set otherwise, and once to set them."""
    name = settings[0].together
    opening, closing = dialect.passes
    yield from _beside(indent + opening, f"all or none: {plan.tuning.sets[name].reason}", indent)
    yield from (line for setting in settings for line in _rows(setting, dialect, indent + "  "))
    yield indent + closing
    need = next((setting.needs for setting in settings if setting.needs), None)
    needed = f" {need.variable} {need.contains} {dialect.quote(need.hint)}" if need else ""
    yield f"{indent}ue_together {name}{needed}"


def _rows(setting: Setting, dialect: Dialect, indent: str) -> Iterator[str]:
    words = [f"ue_{verb(setting)}", setting.name]
    source = f"[{setting.source.name}]"
    reason = quoting.comment(setting.reason)
    if setting.from_:
        words.append(dialect.variable(setting.from_))
        if setting.from_ in MESSAGES:
            yield f"{indent}ue_here {setting.name} {dialect.variable(MESSAGES[setting.from_])}"
    elif setting.policy not in (UNSET, EXPECTED):
        words.append(_word(setting.value or "", dialect))
    if setting.policy in (AT_MOST, REQUIRED, UNSET, EXPECTED):
        yield from _spoken(" ".join(words), dialect.quote(reason), source, indent)
    else:
        yield from _beside(indent + " ".join(words), f"{reason} {source}", indent, REASON_COLUMN)


def _spoken(row: str, reason: str, source: str, indent: str) -> Iterator[str]:
    """Yield a row whose reason is said when it acts: a word of the row, on a line of its own if that is too long."""
    line = f"{indent}{row} {reason} # {source}"
    if len(line) <= WIDTH - INDENT:
        yield line
    else:
        yield from (f"{indent}{row} \\", f"{indent}  {reason} # {source}")


def _word(text: str, dialect: Dialect) -> str:
    plain = bool(text) and all(character.isalnum() or character in "_./:-" for character in text)
    return text if plain and not text.startswith("-") else dialect.quote(text)


def signs(found: Iterable[Sign]) -> tuple[list[str], list[str]]:
    """Return the variables and the files of some signs."""
    return [sign.env for sign in found if sign.env], [sign.file for sign in found if sign.file]


def seen_by_views(plan: Settings) -> str:
    """Return the runtime whose libraries lie in views; empty if there is none."""
    return next((runtime.name for runtime in plan.runtimes if runtime.libraries == VIEWS), "")


def nothing_seen(plan: Settings) -> str:
    """Return what is said if none of the runtimes shows: then only what is right in all of them is set."""
    names = [runtime.name for runtime in plan.runtimes]
    missing = f"no {' and no '.join(names)} here" if len(names) < 3 else f"none of {', '.join(names)}"
    return f"{missing}: only what is right in each is set"


def number(term: Term) -> int:
    """Return the number of the version that a term compares with, which has two parts (see knowledge/tuning.py)."""
    major, minor = map(int, term.values[0].split("."))
    return major * STEP + minor


def unseen_needs_care(term: Term, counts_unseen: bool) -> bool:
    """Tell if a version that is not seen has to be asked for beside the comparison."""
    return counts_unseen != term.operator.startswith("<")
