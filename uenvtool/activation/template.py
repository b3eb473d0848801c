"""Fills the template of activation scripts, a valid shell script that consists of named sections."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from uenvtool.core import quoting, rendezvous
from uenvtool.core.filling import filled
from uenvtool.knowledge.facts import SOFTWARE
from uenvtool.knowledge.runtime import VIEWS, Runtime
from uenvtool.knowledge.settings import Settings
from uenvtool.knowledge.tuning import AT_MOST, EXPECTED, PREPEND, REQUIRED, UNSET, Setting

TEMPLATE = Path(__file__).with_suffix(".sh")
RANK = Path(__file__).parent / "rank.sh"
LONG = 118
"""The length at which `rank_program` begins a new line."""
WIDTH = 120
"""The maximum length of a line in a script."""
SLURM = "slurm"
VERBS = {AT_MOST: "at_most", PREPEND: "prepend", REQUIRED: "require", UNSET: "remove", EXPECTED: "expect"}
LIBRARY_DIRECTORIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")
"""The directories in which scripts search for libraries after the library path."""
MESSAGES = {"roce_gid_index": "roce_note"}
"""The shell variable with a message about the node, by the source of the computed value."""
NO_ENVIRONMENT = 'echo "uenvtool: the virtual environment was not found" >&2; exit 1'
"""The program that each rank runs instead if the requested virtual environment does not exist."""


@cache
def _sections() -> dict[str, str]:
    """Return the sections of the template by name, without the empty line after each section."""
    _, *parts = re.split(r"^#: (\w+)\n", TEMPLATE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], (part.rstrip("\n") for part in parts[1::2]), strict=True))


def _block(name: str, **values: str) -> str:
    return filled(_sections()[name], **values)


@cache
def rank_program() -> str:
    """Return the sh program that sets the rank of an srun task, as a few long lines."""
    lines: list[str] = []
    marks = {"RANK": rendezvous.RANK_OF_TASK, "TASKS": rendezvous.TASKS_OF_NODE, "PORT": rendezvous.PORT_OF_STEP}
    for line in filled(RANK.read_text(encoding="utf-8"), **marks).splitlines():
        if len(lines) > 1 and len(lines[-1]) + len(line) < LONG:
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    return "\n".join(lines)


def filled_template(table: Sequence[str], plan: Settings) -> list[str]:
    """Return the lines of a plan's script without its header. table: the commands that apply the settings."""
    settings = ["ue_settings() {", *(f"  {line}" for line in table or [":"]), "}"]
    functions = [_block(name) for name in _function_names(plan)]
    first = _first_blocks(plan)
    globs = "ue_library " in "\n".join(first) or "ue_gid" in "\n".join(first)
    begin = [_block("begin"), *([_block("globbing")] if globs else [])]
    last = [_block("set_names")] if _knows_runtime(plan) else []
    if plan.system.scheduler.name == SLURM:
        last.append(_block("ranks", PROGRAM=quoting.sh(rank_program()), FAILED=quoting.sh(NO_ENVIRONMENT)))
    lines = [*settings, "", *functions, *begin, *first, "ue_settings", *last]
    names = re.findall(r"^(ue_\w+)\(\)", "\n".join(lines), re.MULTILINE)
    return [*lines, _block("end", FUNCTIONS=" \\\n  ".join(textwrap.wrap(" ".join(names), WIDTH - 9)))]


def verb(setting: Setting) -> str:
    """Return the name of the function that applies a setting, without its prefix ue_."""
    return VERBS.get(setting.policy, "default")


def _function_names(plan: Settings) -> list[str]:
    verbs, computed = {verb(planned.setting) for planned in plan.scripted}, _computed_from(plan)
    sets = any(planned.setting.together for planned in plan.scripted)
    needed = {
        "tell": sets or "expect" in verbs or _knows_runtime(plan) or "cores" in computed,
        "keep": True,
        "require": bool(verbs & {"require", "remove", "at_most"}),
        "remove": "remove" in verbs,
        "default": bool(verbs & {"default", "at_most"}) and not sets,
        "default_set": sets,
        "at_most": "at_most" in verbs,
        "prepend": "prepend" in verbs,
        "here": bool(computed & set(MESSAGES)),
        "expect": "expect" in verbs,
        "libraries": bool(_library_facts(plan)),
        "roce_functions": "roce_gid_index" in computed,
    }
    return [name for name, is_needed in needed.items() if is_needed]


def _first_blocks(plan: Settings) -> list[str]:
    """Return the sections that detect the runtime, the libraries and other facts. They precede the settings."""
    needed = plan.facts_to_find | _computed_from(plan)
    blocks = [*_runtime(plan)] if needed & {"runtime", "container", "image"} else []
    blocks += [_block("along")] if _knows_runtime(plan) else []
    blocks += [_block("views")] if _seen_by_views(plan) and (_library_facts(plan) or "view_root" in needed) else []
    blocks += [_block("venv", VENV=quoting.sh(plan.venv or ""))]
    blocks += _libraries(plan) if _library_facts(plan) else ()
    sections = {"nodes": "nodes", "cores": "cores", "runai_gpus": "gpus", "temporary": "temporary"}
    blocks += [_block(section) for name, section in sections.items() if name in needed]
    if "roce_gid_index" in needed:
        settings = (planned.setting for planned in plan.scripted)
        prefix = next((setting.otherwise for setting in settings if setting.from_ == "roce_hca"), None)
        blocks.append(_block("roce", HCA=quoting.sh(prefix or "")))
    return blocks


def _runtime(plan: Settings) -> Iterator[str]:
    names = [runtime.name for runtime in plan.runtimes]
    is_only = len(names) == 1
    if not is_only:
        yield _block("which_runtime")
    images = {name: sign.env for runtime in plan.runtimes for name, sign in runtime.images.items()}
    image = "".join(f"${{{variable}:+{name}}}" for name, variable in images.items())
    yield _block("runtime", RUNTIME=names[0] if is_only else "''", IMAGE=image or "''")
    for runtime in sorted(plan.runtimes, key=lambda runtime: not runtime.container):
        if runtime.container or not is_only:
            section = "in_container" if runtime.container else "in_shell"
            yield _block(section, SHOWN=_shown(runtime), NAME=runtime.name)
    if _knows_runtime(plan):
        nothing = quoting.sh(_no_runtime_message(plan))
        yield _block("named_runtime", CHOICES=" | ".join(names), NAMES=" ".join(names), NOTHING=nothing)


def _shown(runtime: Runtime) -> str:
    variables = "".join(f"${{{sign.env}-}}" for sign in runtime.signs if sign.env)
    files = " || ".join(f"-e ${{UENVTOOL_ROOT-}}{sign.file}" for sign in runtime.signs if sign.file)
    tests = [*([f"-n {variables}"] if variables else []), *([files] if files else [])]
    return f"[[ {f' ||{chr(10)}  '.join(tests)} ]]"


def _no_runtime_message(plan: Settings) -> str:
    names = [runtime.name for runtime in plan.runtimes]
    not_found = f"neither {' nor '.join(names)}" if len(names) == 2 else f"none of {', '.join(names)}"
    return f"{not_found} detected: only common variables are set"


def _libraries(plan: Settings) -> Iterator[str]:
    library_path = ":".join(("${LD_LIBRARY_PATH-}", *plan.system.libraries))
    whole = f'ue_folders="{library_path}:{":".join(LIBRARY_DIRECTORIES)}"'
    if len(whole) <= WIDTH:
        yield whole
    else:
        yield f'ue_folders="{library_path}"'
        yield f"ue_folders=$ue_folders:{':'.join(LIBRARY_DIRECTORIES)}"
    views = _seen_by_views(plan)
    if views:
        yield _block("of_views", NAME=views)
    for fact in _library_facts(plan):
        software = SOFTWARE[fact]
        version = f'"${{{software.variable}-}}"' if software.variable else "''"
        yield _block("of_library", FACT=fact, LIBRARY=software.library, VERSION=version)


def _knows_runtime(plan: Settings) -> bool:
    """Return whether the script has to detect which of several runtimes it runs in."""
    return len(plan.runtimes) > 1 and bool(plan.facts_to_find & {"runtime", "container", "image"})


def _computed_from(plan: Settings) -> frozenset[str]:
    return frozenset(planned.setting.from_ for planned in plan.scripted if planned.setting.from_)


def _library_facts(plan: Settings) -> list[str]:
    return sorted(set(SOFTWARE) & plan.facts_to_find)


def _seen_by_views(plan: Settings) -> str:
    return next((runtime.name for runtime in plan.runtimes if runtime.libraries == VIEWS), "")
