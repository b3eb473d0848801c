"""The options of sbatch and srun, and the reasons why sbatch rejects options. sbatch.yaml has the options."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from uenvtool.core.errors import did_you_mean

_BARE = ("none", "optional", "exclusivity")
"""The kinds of options that can be given without a value."""
_OF_OTHER_RULES = re.compile(
    r"[<{$`~\[]|[^\x00-\x7f]|=(\s|$)|^(het|pack)job|array[= ]\S*[A-Za-z]"
    r"|(?i:x{3,}|[= ]((d+-)?h+:m+\S*|n|num(ber)?|n?(nodes?|gpus?|cpus?|tasks?)|cores?)(_\w+)?(\s|$))"
)
"""The options that the rules on placeholders, variables, missing values and typographic characters report."""


class Rejection(NamedTuple):
    """The reason why sbatch rejects an option, and a fix. It is uncertain for an option that a plugin could add."""

    reason: str
    fix: str = ""
    is_certain: bool = True


@functools.cache
def table() -> dict[str, Any]:
    """Return the content of sbatch.yaml."""
    import yaml

    content: dict[str, Any] = yaml.load(Path(__file__).with_suffix(".yaml").read_bytes(), Loader=yaml.CSafeLoader)
    return content


@functools.cache
def kinds() -> Mapping[str, str]:
    """Return the kind of the value of each option of sbatch."""
    return {option: kind for kind, value in table()["values"].items() for option in value["options"]}


@functools.cache
def srun_flags() -> frozenset[str]:
    """Return the options of srun that can be given without a value."""
    return frozenset((*table()["srun"]["flags"], *(name for name, kind in kinds().items() if kind in _BARE)))


def is_of_srun(name: str) -> bool:
    """Return whether srun, or a plugin of a site, has a long option, also by the beginning of its name."""
    known = (*kinds(), *table()["srun"]["options"], *table()["srun"]["flags"])
    return any(option.startswith(name) for option in known) or re.fullmatch(table()["plugins"], name) is not None


def long_name(letter: str) -> str:
    """Return the long name of a short option, or the letter if sbatch has no such option."""
    return str(table()["letters"].get(letter, letter))


def rejection(text: str) -> Rejection | None:
    """Return the reason why sbatch rejects the text of an #SBATCH line, or None. Other rules report some reasons."""
    if _OF_OTHER_RULES.search(text):
        return None
    words = text.split() if text.count("'") % 2 or text.count('"') % 2 else shlex.split(text)
    words.reverse()
    found = None
    while words and not found:
        found = _rejection(words)
    return found


def _rejection(words: list[str]) -> Rejection | None:
    """Return the reason why sbatch rejects the option at the end of the words, and remove the option and its value."""
    word = words.pop()
    if word[:1] != "-":
        return Rejection(f"{word!r} is not an option", "write --name=value without spaces, and quotes around spaces")
    name, has_value, value = _long(word) if word[:2] == "--" else _short(word)
    kind = kinds().get(name)
    if kind is None and not re.fullmatch(table()["plugins"], name):
        return _unknown(name, word)
    if has_value and kind == "none":
        return Rejection(f"--{name} accepts no value", f"#SBATCH --{name}")
    if not has_value and kind not in _BARE and (kind or (words and words[-1][0] != "-")):
        if not words:
            return Rejection(f"--{name} needs a value", f"#SBATCH --{name}=VALUE")
        value = words.pop()
    if value[:1] == "=":
        fix = f"#SBATCH {word[:2]} {value[1:]}"
        return Rejection(f"the value of {word[:2]} is {value!r}", fix, name != "job-name")
    wanted = table()["values"][kind] if kind else {}
    is_wrong = "pattern" in wanted and not re.fullmatch(wanted["pattern"], value)
    return Rejection(f"--{name}={value} is not {wanted['is']}", f"write {wanted['is']}") if is_wrong else None


@functools.lru_cache(maxsize=256)
def full_name(name: str) -> str:
    """Return the name of the only option that begins with a name, because sbatch accepts it, or else the name."""
    longer = [option for option in kinds() if option.startswith(name)]
    return name if name in kinds() or len(longer) != 1 else longer[0]


def _long(word: str) -> tuple[str, bool, str]:
    """Return the name of a long option, whether it has a value, and the value."""
    name, has_value, value = word[2:].partition("=")
    return full_name(name), bool(has_value), value


def _short(word: str) -> tuple[str, bool, str]:
    """Return the last option of a word such as `-vN2`. The name is the word if it has an unknown letter."""
    name = word.partition("=")[0][1:]
    if len(name) > 1 and (name in kinds() or name in table()["renamed"]):
        return word, False, ""
    for i, letter in enumerate(word[1:], 2):
        if letter not in table()["letters"]:
            return word, False, ""
        if kinds()[long_name(letter)] not in _BARE:
            return long_name(letter), bool(word[i:]), word[i:]
    return long_name(word[-1]), False, ""


def _unknown(name: str, word: str) -> Rejection:
    plain = word.lstrip("-").partition("=")[0]
    known = plain if plain in kinds() else table()["renamed"].get(plain)
    if known:
        return Rejection(f"sbatch has no option {word.partition('=')[0]}", f"use --{known}")
    if name in (*table()["srun"]["options"], *table()["srun"]["flags"]):
        return Rejection(f"only srun has the option --{name}", f"give --{name} to srun")
    fix = did_you_mean(name, kinds()) if word[:2] == "--" else ""
    return Rejection(f"sbatch has no option {word.partition('=')[0]}", fix, word[:2] != "--" or bool(fix))


def conflicts(numbers: Mapping[str, int | None]) -> Iterator[tuple[str, Rejection]]:
    """Yield the options with which sbatch rejects a job, and the reason. numbers: the numbers in options of the job."""
    for names in table()["exclusive"]:
        given = [name for name in names if name in numbers]
        if len(given) > 1:
            yield (
                given[1],
                Rejection(f"--{given[0]} and --{given[1]} exclude each other", "remove one of the two options"),
            )
    for name, others in table()["needs"].items():
        if name in numbers and not numbers.keys() & set(others):
            yield name, Rejection(f"--{name} needs --{others[0]} or another option", f"add --{others[0]}")
    nodes, gpus, share, per_node = map(numbers.get, ("nodes", "gpus", "gpus-per-task", "gpus-per-node"))
    tasks = numbers.get("ntasks") or (numbers.get("ntasks-per-node") or 0) * (nodes or 0)
    if gpus and share and tasks and gpus != share * tasks:
        yield "gpus-per-task", Rejection(f"--gpus={gpus}, but {tasks} tasks with {share} GPUs each", "remove --gpus")
    if gpus and per_node and nodes and gpus < per_node * nodes:
        reason = f"--gpus={gpus} is the number of all GPUs, but {nodes} nodes have {per_node} each"
        yield "gpus", Rejection(reason, "remove --gpus")
