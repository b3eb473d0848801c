"""Tracks the packages that a dry run would have to build; it uses only the metadata of wheels."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from uenvtool.core.errors import AnswerIsNo
from uenvtool.core.words import canonical
from uenvtool.venv.projects import project_name
from uenvtool.venv.requirements import UserRequest
from uenvtool.venv.settings import ALL, UvSettings, is_on

_OF_INDEX = re.compile(r"Wheels are required for `([^`]+)`")
_ELSEWHERE = re.compile(r"Building source distributions for `([^`]+)` is disabled")
"""uv 0.13's messages about packages that it would have to build, from an index or elsewhere (crate uv-resolver)."""
NO_BINARY = "--no-binary"
UNKNOWN = "0"
"""The version that uv gets for a package whose version only a build can determine."""
ALL_BUILT = "--no-binary :all: builds every package from source, but --dry-run builds nothing"
WITHOUT = "leave out this project to see the other packages, or run the command without --dry-run"


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """The packages that would be built, by normalized name, for which uv assumes that they have no dependencies.

    of_index: releases of an index. elsewhere: archives, directories and repositories. Names are added as uv reports
    them.
    """

    of_index: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)

    def options(self, *, of_project: bool) -> Iterator[str]:
        """Yield the options with which uv builds nothing. of_project: whether the uv command concerns a project."""
        if of_project:
            yield "--no-build"
            return
        yield from ("--only-binary", ALL)
        for name in sorted(self.of_index):  # uv gets their metadata and builds nothing
            yield from (NO_BINARY, name)

    def metadata(self) -> list[dict[str, Any]]:
        """Return the value of uv's setting dependency-metadata."""
        of_index: list[dict[str, Any]] = [{"name": name, "requires-dist": []} for name in sorted(self.of_index)]
        # For a package from elsewhere, uv also needs the version, and it ignores the metadata with --no-binary.
        return of_index + [
            {"name": name, "version": UNKNOWN, "requires-dist": []} for name in sorted(self.elsewhere - self.of_index)
        ]

    def learn(self, stderr: str) -> bool:
        """Add the packages that uv reports as needing a build; return whether any of them is new."""
        new = {canonical(name) for name in _ELSEWHERE.findall(stderr)} - self.elsewhere - self.of_index
        self.elsewhere.update(new)
        return self.add({canonical(name) for name in _OF_INDEX.findall(stderr)}) or bool(new)

    def add(self, names: Collection[str]) -> bool:
        """Add releases of an index; return whether any of them is new."""
        new = set(names) - self.of_index
        self.of_index.update(new)
        return bool(new)


def unbuilt(request: UserRequest, settings: UvSettings) -> Unbuilt:
    """Return the packages that the user wants to build; uv would build them to find their dependencies.

    Raises AnswerIsNo if all packages are built, or if only a build can determine the name of a package.
    """
    arguments, env = settings.arguments, settings.environment
    named = [value for option, value in itertools.pairwise(arguments) if option == NO_BINARY]
    named += [*request.options.get(NO_BINARY, ()), *env.get("UV_NO_BINARY_PACKAGE", "").split()]
    if ALL in named or is_on(env, "UV_NO_BINARY"):
        raise AnswerIsNo(ALL_BUILT, hint="run the command without --dry-run or without --no-binary")
    for requirement in request.requirements:
        if requirement.editable and not (requirement.name or project_name(Path(requirement.editable))):
            message = f"{requirement.editable}: only a build can determine the name of this project"
            raise AnswerIsNo(message, requirement.position, WITHOUT)
    names = {canonical(name) for text in (*named, *settings.built_on_base) for name in text.split(",") if name != ALL}
    elsewhere = {requirement.name for requirement in request.requirements if not requirement.is_of_index} & names
    return Unbuilt(names - elsewhere, elsewhere)


def without_sources(settings: UvSettings) -> UvSettings:
    """Return the settings without the options that request builds from source; `Unbuilt` passes its own options."""
    pairs = itertools.pairwise(("", *settings.arguments))
    kept = (argument for option, argument in pairs if NO_BINARY not in (option, argument))
    env = {name: value for name, value in settings.environment.items() if name != "UV_NO_BINARY_PACKAGE"}
    return replace(settings, arguments=tuple(kept), environment=env)
