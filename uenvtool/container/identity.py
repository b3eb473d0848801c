"""The names of an image, which carry the hash of everything that goes in; pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

DIGITS = 32
"""Hexadecimal digits of a hash in a tag; of the tests' hash half as many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """An image by name. content: the hash of what it is made of. tests: the hash of what it is tested with."""

    image: str
    tag: str
    content: str
    tests: str

    @property
    def stable(self) -> str:
        """Return the name that users take; it is given to one image, and never again."""
        return f"{self.image}:{self.tag}"

    @property
    def canonical(self) -> str:
        """Return the name that says what is in the image."""
        return f"{self.stable}-{self.content}"

    @property
    def tested(self) -> str:
        """Return the second name that the image gets when its tests have passed."""
        return f"{self.canonical}-tested-{self.tests}"


def content_hash(files: Mapping[str, str], digits: int = DIGITS) -> str:
    """Return the hash of files, name and content, in whatever order they come.

    It is that of the lines `sha256sum` prints for them, sorted by name, so that anybody can make it again.
    """
    lines = "".join(f"{hashlib.sha256(files[name].encode()).hexdigest()}  {name}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()[:digits]
