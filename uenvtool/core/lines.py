"""Words, lines and names for batch scripts; pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from uenvtool.core import quoting

LONGEST_LINE = 118


def bash_words(words: Sequence[str]) -> str:
    """Return words of bash, each data."""
    return " ".join(map(quoting.sh_word, words))


def aligned(rows: Sequence[tuple[str, str]], more: Sequence[str] = ()) -> Iterator[str]:
    """Yield texts with their reasons as comments, in one column as far as the lines allow it."""
    width = max((len(text) for text, reason in rows if reason and len(text) <= 50), default=0)
    for text, reason in rows:
        yield from commented(text.ljust(width), reason) if reason else [text]
    for option in more:
        yield option if option.startswith("#SBATCH ") else f"#SBATCH {option}"


def commented(text: str, reason: str) -> Iterator[str]:
    """Yield a line with its whole reason beside it, without the source if that does not fit, or above it."""
    reason = quoting.comment(reason)
    for shown in (reason, re.sub(r" \[[^]]*\]$", "", reason)):
        if len(text) + len(shown) + 3 <= LONGEST_LINE:
            yield f"{text} # {shown}"
            return
    yield from (f"# {line}" for line in textwrap.wrap(reason, LONGEST_LINE - 2, break_long_words=False))
    yield text.rstrip()


def yaml_mapping(values: Mapping[str, str]) -> str:
    """Return a mapping of YAML on one line. JSON's strings are YAML's."""
    return "{" + ", ".join(f"{name}: {quoting.toml(value)}" for name, value in values.items()) + "}"


def sibling(file: str, suffix: str) -> str:
    """Return a file's name beside the job's."""
    path = PurePath(file)
    return str(path.with_name(path.name.removesuffix(".sh") + suffix))
