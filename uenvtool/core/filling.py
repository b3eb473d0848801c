"""Replaces the `@NAME@` placeholders of a template, which is otherwise valid text in its own language."""

from __future__ import annotations

import re

_MARK = re.compile(r"@([A-Z][A-Z0-9_]*)@")


def filled(text: str, **values: str) -> str:
    """Return a template with every `@NAME@` placeholder replaced by the value with this name, in one pass.

    Placeholders inside values are not replaced. Raises ValueError if a placeholder has no value or a value has no
    placeholder, because a misspelt name must not drop a line silently.
    """
    names = set(_MARK.findall(text))
    if names != set(values):
        unfilled = ", ".join(f"the mark @{name}@ has no value" for name in sorted(names - set(values)))
        unused = ", ".join(f"the template has no mark @{name}@" for name in sorted(set(values) - names))
        raise ValueError("; ".join(part for part in (unfilled, unused) if part))
    return _MARK.sub(lambda mark: values[mark[1]], text)


def filled_where_marked(text: str, **values: str) -> str:
    """Return a text from a knowledge file with its placeholders replaced. Placeholders without a value remain."""
    return _MARK.sub(lambda mark: values.get(mark[1], mark[0]), text)
