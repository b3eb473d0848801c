"""Every file of a kind that can be used: a broken one of the user's, which nobody named, stands in no command's way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeVar

from uenvtool.core.errors import BadInput, Position, Problem
from uenvtool.knowledge import schema
from uenvtool.knowledge.extend import is_abstract, load_extended
from uenvtool.knowledge.kinds import Kind
from uenvtool.knowledge.locate import Location, available
from uenvtool.knowledge.source import read


class HasPosition(Protocol):
    """An entry of a file, which knows where it stands."""

    @property
    def position(self) -> Position: ...


Entry = TypeVar("Entry", bound=HasPosition)


def usable_files(kind: Kind) -> dict[str, Location]:
    """Return the files of a kind by name, without broken ones of the user's; a built-in one that they hide counts."""
    files = available(kind)
    broken = _broken(files, kind)
    if not broken:
        return files
    unbroken = {name: location for name, location in files.items() if name not in broken}
    return dict(sorted({**available(kind, own=False), **unbroken}.items()))


def skipped_file_notes(*kinds: Kind) -> tuple[str, ...]:
    """Return a remark for each file of the user's of these kinds that `usable_files` leaves out."""
    return tuple(
        f"ignored: {problems[0].position or location.shown}: {problems[0].message}; "
        f"`uenvtool validate {location.shown}` says more"
        for kind in kinds
        for location, problems in _broken(available(kind), kind).values()
    )


def entries_of_other_files(
    kind: Kind, name: str, entries: Callable[[Location], Mapping[str, Entry]]
) -> dict[str, Entry]:
    """Return what the other files of a kind have, by id; a broken one, which nobody named, has nothing."""
    found: dict[str, Entry] = {}
    for other, location in available(kind).items():
        if other != name:
            with contextlib.suppress(BadInput):
                found.update(entries(location))
    return found


def duplicate_id_problems(own: Mapping[str, Entry], others: Mapping[str, Entry], what: str = "") -> Iterator[Problem]:
    """Yield a problem for each id that another file has too. what: what the ids are of, as a message begins."""
    for name in own:
        if name in others:
            yield Problem(f"{what}{name} is also at {others[name].position}", own[name].position, "rename it")


def check(kind: Kind, location: Location) -> None:
    """Read a file as what its kind is; an abstract one, which lacks parts, as far as its schema goes.

    Raises BadInput with everything that is wrong in it.
    """
    tree = read(location.path, location.shown)
    schema.check(tree, kind.name)
    if is_abstract(tree):
        load_extended(location, kind)
    else:
        kind.load(str(location.path))


def _broken(files: dict[str, Location], kind: Kind) -> dict[str, tuple[Location, tuple[Problem, ...]]]:
    return {
        location.name: (location, problems)
        for location in files.values()
        if not location.is_built_in and (problems := _problems(kind, location))
    }


def _problems(kind: Kind, location: Location) -> tuple[Problem, ...]:
    try:
        check(kind, location)
    except BadInput as error:
        return error.problems
    return ()
