"""The checks of a shell: each a function from what is there to what is wrong with it, one module for each matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from uenvtool.doctor.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Fault:
    """What a check found: the id of what is known of it, what was seen, and what mends it here."""

    id: str
    detail: str = ""
    commands: tuple[str, ...] = ()


Check = Callable[[Snapshot], Iterator[Fault]]
