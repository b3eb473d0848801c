"""What a dry run does not build: it goes by the metadata of wheels alone."""

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
"""Words of uv 0.13 about what it would have to build, of an index and of another place (crate uv-resolver)."""
NO_BINARY = "--no-binary"
UNKNOWN = "0"
"""The version that uv is told of what it would have to build to know it."""
ALL_BUILT = "--no-binary :all: builds all from its source, and a dry run builds nothing"
WITHOUT = "leave it out to see the rest, or give the command without --dry-run"


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """What would be built, by normalized name: releases of an index, and archives, folders and repositories.

    uv takes it that they need nothing. It grows by what uv says.
    """

    of_index: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)

    def words(self, *, of_project: bool) -> Iterator[str]:
        """Give uv's options by which it builds nothing. of_project: its command is about a project."""
        if of_project:
            yield "--no-build"
            return
        yield from ("--only-binary", ALL)
        for name in sorted(self.of_index):  # with the metadata that it is told there is nothing to build
            yield from (NO_BINARY, name)

    def metadata(self) -> list[dict[str, Any]]:
        """Return uv's setting dependency-metadata."""
        of_index: list[dict[str, Any]] = [{"name": name, "requires-dist": []} for name in sorted(self.of_index)]
        # Of another place uv wants the version, too, and takes no metadata with --no-binary.
        return of_index + [
            {"name": name, "version": UNKNOWN, "requires-dist": []} for name in sorted(self.elsewhere - self.of_index)
        ]

    def learn(self, stderr: str) -> bool:
        """Take in what uv could not do without a build; False if there is nothing new."""
        found = {canonical(name) for name in _ELSEWHERE.findall(stderr)} - self.elsewhere - self.of_index
        self.elsewhere.update(found)
        return self.add({canonical(name) for name in _OF_INDEX.findall(stderr)}) or bool(found)

    def add(self, names: Collection[str]) -> bool:
        """Take in releases of an index; False if there is nothing new."""
        found = set(names) - self.of_index
        self.of_index.update(found)
        return bool(found)


def unbuilt(request: UserRequest, settings: UvSettings) -> Unbuilt:
    """Gather what the user wants built; uv would build it to know what it needs.

    Raises AnswerIsNo if that is all, or what has not even a name before it is built.
    """
    words, env = settings.arguments, settings.environment
    named = [value for option, value in itertools.pairwise(words) if option == NO_BINARY]
    named += [*request.options.get(NO_BINARY, ()), *env.get("UV_NO_BINARY_PACKAGE", "").split()]
    if ALL in named or is_on(env, "UV_NO_BINARY"):
        raise AnswerIsNo(ALL_BUILT, hint="give the command without --dry-run, or without that option")
    for wanted in request.requirements:
        if wanted.editable and not (wanted.name or project_name(Path(wanted.editable))):
            raise AnswerIsNo(f"{wanted.editable} has no name before it is built", wanted.position, WITHOUT)
    names = {canonical(name) for text in (*named, *settings.built_on_base) for name in text.split(",") if name != ALL}
    elsewhere = {wanted.name for wanted in request.requirements if not wanted.is_of_index} & names
    return Unbuilt(names - elsewhere, elsewhere)


def without_sources(settings: UvSettings) -> UvSettings:
    """Return the settings without what takes a package by its source: `Unbuilt` says it, and uv builds no other."""
    pairs = itertools.pairwise(("", *settings.arguments))
    kept = (word for before, word in pairs if NO_BINARY not in (before, word))
    env = {name: value for name, value in settings.environment.items() if name != "UV_NO_BINARY_PACKAGE"}
    return replace(settings, arguments=tuple(kept), environment=env)
