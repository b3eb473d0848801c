"""The options of sbatch and srun, and the reasons why sbatch rejects options. sbatch.yaml has the options."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from uenvtool.check.parts import OUTER
from uenvtool.core.errors import did_you_mean

_SRUN, _SRUN_FLAG = "srun", "srun-flag"
"""The kinds of options that only srun has."""
_BARE = frozenset(("none", "optional", "exclusivity", _SRUN_FLAG))
"""The kinds of options that can be given without a value."""
_OF_OTHER_RULES = re.compile(
    r"[<{$`~\[]|[^\x00-\x7f]|\S=(\s|$)|^(het|pack)job|array[= ]\S*[A-Za-z]"
    r"|(?i:x{3,}|[= ]((d+-)?h+:m+\S*|n|num(ber)?|n?(nodes?|tasks?)|n[cg]pus?|cores?)(_\w+)?(\s|$))"
)
"""The options that the rules on placeholders, variables, missing values and typographic characters report."""


class Rejection(NamedTuple):
    """The reason why sbatch rejects an option, and a fix. It is uncertain for an option that a plugin could add."""

    reason: str
    fix: str
    is_certain: bool = True


class _Option(NamedTuple):
    """An option as it is written. name: the long name, or the word if it is unknown. value: None without a value."""

    word: str
    name: str
    value: str | None


@functools.cache
def _table() -> dict[str, Any]:
    import yaml

    content: dict[str, Any] = yaml.load(Path(__file__).with_suffix(".yaml").read_bytes(), Loader=yaml.CSafeLoader)
    return content


@functools.cache
def _kinds() -> Mapping[str, str]:
    """Return the kind of the value of each option."""
    kinds = {option: kind for kind, value in _table()["values"].items() for option in value["options"]}
    srun = _table()["srun"]
    return kinds | dict.fromkeys(srun["options"], _SRUN) | dict.fromkeys(srun["flags"], _SRUN_FLAG)


def _is_of_plugin(name: str) -> bool:
    return re.fullmatch(_table()["plugins"]["options"], name) is not None


@functools.lru_cache(maxsize=256)
def long_name(name: str) -> str:
    """Return the long name of a letter or alias, or of the only option that begins with a name, or else the name."""
    if len(name) == 1:
        return str(_table()["letters"].get(name, _table()["srun"]["letters"].get(name, name)))
    longer = [option for option, kind in _kinds().items() if option.startswith(name) and not kind.startswith(_SRUN)]
    name = name if name in _kinds() or len(longer) != 1 else longer[0]
    return str(_table()["aliases"].get(name, name))


def options(argv: Sequence[str]) -> tuple[dict[str, str], int]:
    """Return the leading srun options by long name, and the index of the program that srun runs."""
    words = [*reversed(argv)]
    given: dict[str, str] = {}
    while words and words[-1][:1] in ("-", "$", OUTER):
        if words[-1][0] != "-":  # a variable with options
            words.pop()
            continue
        option = _read(words)
        given[option.name] = option.value or ""
    return given, len(argv) - len(words)


def unknown_to_srun(argv: Sequence[str]) -> list[str]:
    """Return the long options of an srun command that neither srun nor a known plugin has."""
    return [name for name in options(argv)[0] if name not in _kinds() and not _is_of_plugin(name) and len(name) > 1]


def _read(words: list[str]) -> _Option:
    """Return the option at the end of the words, which are reversed, and remove the option and its value."""
    word = words.pop()
    name, equals, text = word[2:].partition("=") if word[:2] == "--" else (word[1:2], word[2:], word[2:])
    name, value = long_name(name), text if equals else None
    while word[:2] != "--" and value and _kinds().get(name) in _BARE:  # -vN2 is -v -N 2
        name, value = long_name(value[0]), value[1:] or None
    kind = _kinds().get(name)
    if value is None and kind not in _BARE and words and (kind or _takes_value(name, words[-1])):
        value = words.pop()
    return _Option(word, name, value)


def _takes_value(name: str, following: str) -> bool:
    """Return whether an option of a plugin takes the following word as its value."""
    return following[:1] != "-" and not re.fullmatch(_table()["plugins"]["flags"], name)


def rejection(text: str) -> Rejection | None:
    """Return the reason why sbatch rejects the text of an #SBATCH line, or None. Other rules report some reasons."""
    if _OF_OTHER_RULES.search(text):
        return None
    words = text.split() if text.count("'") % 2 or text.count('"') % 2 else shlex.split(text)
    words.reverse()
    while words:
        if words[-1][:1] != "-":
            fix = "write --name=value without spaces, and quotes around spaces"
            return Rejection(f"{words[-1]!r} is not an option", fix)
        found = _rejection(_read(words))
        if found:
            return found
    return None


def _rejection(option: _Option) -> Rejection | None:
    word, name, value = option
    plain, kind = word.lstrip("-").partition("=")[0], _kinds().get(name)
    meant = plain if plain in _kinds() else _table()["renamed"].get(plain)
    if meant and (kind is None or (word[:2] != "--" and len(plain) > 1)):
        return Rejection(f"sbatch has no option {word.partition('=')[0]}", f"use --{meant}")
    if kind is None:
        fix = did_you_mean(name, _kinds()) if word[:2] == "--" else ""
        found = Rejection(f"sbatch has no option {word.partition('=')[0]}", fix, word[:2] != "--" or bool(fix))
        return None if _is_of_plugin(name) else found
    if kind.startswith(_SRUN):
        return Rejection(f"only srun has the option --{name}", f"give --{name} to srun")
    wanted = _table()["values"][kind]
    if value is not None and kind == "none":
        return Rejection(f"--{name} accepts no value", f"#SBATCH --{name}")
    if value is None:
        return None if kind in _BARE else Rejection(f"--{name} needs a value", f"#SBATCH --{name}=VALUE")
    if value[:1] == "=":
        reason = f"the value of {word[:2]} is {value!r}"
        return Rejection(reason, f"#SBATCH {word[:2]} {value[1:]}", name != "job-name")
    is_wrong = "pattern" in wanted and not re.fullmatch(wanted["pattern"], value)
    return Rejection(f"--{name}={value} is not {wanted['is']}", f"write {wanted['is']}") if is_wrong else None
