"""Arguments, commented lines and file names for batch scripts; pure functions."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from uenvtool.core import quoting

LONGEST_LINE = 118


def bash_words(words: Sequence[str]) -> str:
    """Return arguments as bash source, quoted so that bash expands nothing in them."""
    return " ".join(map(quoting.sh_word, words))


def aligned(rows: Sequence[tuple[str, str]], more: Sequence[str] = ()) -> Iterator[str]:
    """Yield lines with their reasons as comments, aligned in one column where the lines are short enough.

    more: options of sbatch without a reason, which follow.
    """
    width = max((len(text) for text, reason in rows if reason and len(text) <= 50), default=0)
    for text, reason in rows:
        yield from commented(text.ljust(width), reason) if reason else [text]
    for option in more:
        yield option if option.startswith("#SBATCH ") else f"#SBATCH {option}"


def commented(text: str, reason: str) -> Iterator[str]:
    """Yield a line with its reason at its end, or above it if that would be too long; the source is always included."""
    reason = quoting.comment(reason)
    if len(text) + len(reason) + 3 <= LONGEST_LINE:
        yield f"{text} # {reason}"
        return
    yield from (f"# {line}" for line in textwrap.wrap(reason, LONGEST_LINE - 2, break_long_words=False))
    yield text.rstrip()


def yaml_mapping(values: Mapping[str, str]) -> str:
    """Return a YAML mapping on one line. A JSON string is also a YAML string."""
    return "{" + ", ".join(f"{name}: {quoting.toml(value)}" for name, value in values.items()) + "}"


def sibling(file: str, suffix: str) -> str:
    """Return the path of a file next to the job script, with the same name and another suffix."""
    path = PurePath(file)
    return str(path.with_name(path.name.removesuffix(".sh") + suffix))
