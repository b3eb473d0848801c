"""Versions and version ranges, compared as Spack compares them.

A version consists of numbers and words. `2.6` means every `2.6.x`, `=2.6` means only version 2.6, and `2.6:2.8` means
all versions from 2.6 to 2.8.x. A comma joins several constraints. Source: Spack's documentation, "Version specifier".
tests/real/test_spack_syntax.py compares the results with Spack.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

_PARTS = re.compile(r"([0-9]+)|([A-Za-z]+)")
_GIT = re.compile(r"git\.|[A-Fa-f0-9]{40}(=|\Z)")
_GROWING = ("stable", "nightly", "trunk", "head", "master", "main", "develop")
_PRERELEASES = ("alpha", "beta", "rc")
_FINAL = (len(_PRERELEASES),)

Component = tuple[int, int, str]
Key = tuple[tuple[Component, ...], tuple[int, ...]]


@dataclass(frozen=True, order=True, slots=True)
class Version:
    """One version, such as `2.26.2-1`.

    key: Words sort below numbers, branches (`develop`) above all numbers, and a pre-release (`1.2-rc1`) below its
        release.
    """

    text: str = field(compare=False)
    key: Key = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _key(self.text))

    def __str__(self) -> str:
        return self.text

    def starts_with(self, other: Version) -> bool:
        """Return whether this version is `other` or one of its sub-versions. For example, 2.6.1 starts with 2.6."""
        key, other_key = self.key, other.key
        return key == other_key or (other_key[1] == _FINAL and key[0][: len(other_key[0])] == other_key[0])


@dataclass(frozen=True, slots=True)
class Range:
    """The versions from `low` to `high` with all their sub-versions, or only `low` if `exact`. None means no bound."""

    low: Version | None
    high: Version | None
    exact: bool = False

    def contains(self, version: Version) -> bool:
        if self.exact:
            return version == self.low
        above = self.low is None or version >= self.low
        below = self.high is None or version <= self.high or version.starts_with(self.high)
        return above and below

    def intersects(self, other: Range) -> bool:
        if self.exact and self.low is not None:
            return other.contains(self.low)
        if other.exact and other.low is not None:
            return self.contains(other.low)
        return _reaches(self.low, other.high) and _reaches(other.low, self.high)


@dataclass(frozen=True, slots=True)
class Versions:
    """A version constraint, as it can follow `@` in a spec."""

    text: str
    ranges: tuple[Range, ...]

    def __str__(self) -> str:
        return self.text

    def contains(self, version: Version) -> bool:
        return any(allowed.contains(version) for allowed in self.ranges)

    def intersects(self, other: Versions) -> bool:
        return any(first.intersects(second) for first in self.ranges for second in other.ranges)

    @property
    def lowest(self) -> Version | None:
        """Return the lowest version of the constraint: `2.6.0` for `=2.6.0` or `2.6.0:`."""
        return self.ranges[0].low

    @property
    def is_git(self) -> bool:
        """Return whether the constraint names a branch, tag or commit in git, which no package file declares."""
        return bool(_GIT.match(self.text))

    @property
    def single(self) -> Version | None:
        """Return the version if the constraint is a single version (`2.6.0` or `=2.6.0`), or None if it is a range."""
        if len(self.ranges) == 1 and self.ranges[0].low == self.ranges[0].high:
            return self.ranges[0].low
        return None


def versions(text: str) -> Versions:
    """Return the constraint in a text such as `2.6.0`, `=2.6.0`, `2.6:2.8,3:` or `git.main=2.6`.

    Raises ValueError if the text is not a version constraint.
    """
    if _GIT.match(text):
        ref, _, known = text.partition("=")
        version = Version(known or ref.removeprefix("git."))
        return Versions(text, (Range(version, version, exact=True),))
    return Versions(text, tuple(_range(part.strip()) for part in text.split(",")))


def _range(text: str) -> Range:
    match = re.fullmatch(r"(=?)([\w.\-]*)(?:(:)([\w.\-]*))?", text)
    if not match or not (match[2] or match[3]) or (match[1] and match[3]):
        raise ValueError(f"{text!r} is not a valid version")
    low = Version(match[2]) if match[2] else None
    high = low if not match[3] else Version(match[4]) if match[4] else None
    return Range(low, high, exact=bool(match[1]))


@functools.lru_cache(maxsize=1 << 12)  # a version is compared with many others
def _key(text: str) -> Key:
    parts = _PARTS.findall(text)
    prerelease: tuple[int, ...] = _FINAL
    if len(parts) >= 3 and parts[-2][1] in _PRERELEASES and parts[-1][0]:
        prerelease = (_PRERELEASES.index(parts[-2][1]), int(parts[-1][0]))
        parts = parts[:-2]
    return tuple(_component(number, word) for number, word in parts), prerelease


def _component(number: str, word: str) -> Component:
    if number:
        return (1, int(number), "")
    if word in _GROWING:
        return (2, _GROWING.index(word), "")
    return (0, 0, word)


def _reaches(low: Version | None, high: Version | None) -> bool:
    return low is None or high is None or low <= high or low.starts_with(high)
