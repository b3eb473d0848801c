"""Whether two paths with `*` and `?` can be of one file; pure."""

from __future__ import annotations

from functools import cache


def can_meet(one: str, other: str) -> bool:
    """Tell if a file can be at both paths, or below them: a path stands for all that is in it, too."""
    return all(_alike(left, right) for left, right in zip(one.split("/"), other.split("/"), strict=False))


@cache
def _alike(one: str, other: str) -> bool:
    """Tell if a name fits both patterns."""
    if not one or not other:
        return not (one + other).strip("*")
    if one[0] == "*" or other[0] == "*":
        star, fixed = (one, other) if one[0] == "*" else (other, one)
        return _alike(star[1:], fixed) or _alike(star, fixed[1:])
    return (one[0] == other[0] or "?" in (one[0], other[0])) and _alike(one[1:], other[1:])
