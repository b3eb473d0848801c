"""Several environments in one image: what they share, and what keeps them apart."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from uenvtool.core.errors import BadInput, Position, Problem
from uenvtool.env.environment import REPOSITORY
from uenvtool.env.installable import Installable
from uenvtool.env.manifest import MANIFEST

FURTHER = "environments"
"""The folder of an image's recipe, and of a store, with the environments behind the first."""


def together(environments: Sequence[Installable]) -> tuple[Installable, ...]:
    """Return environments as they lie in one image: the first is the image's own, the others have a place beside it.

    Raises BadInput with all that keeps them apart.
    """
    first, *others = environments
    placed = (first, *(replace(other, place=f"{FURTHER}/{other.name}") for other in others))
    BadInput.raise_any(
        problem for index, one in enumerate(placed) for earlier in placed[:index] for problem in _apart(earlier, one)
    )
    return placed


def texts_of(environments: Sequence[Installable]) -> dict[str, str]:
    """Return the files of the environments of an image, each at its place, and the additions of all beside the first.

    A Spack that uses the image knows one repository of a namespace.
    """
    texts = {os.path.join(one.place, name): text for one in environments for name, text in one.texts.items()}
    return {**{name: text for one in environments for name, text in _additions(one).items()}, **texts}


def repos_of(environments: Sequence[Installable]) -> dict[str, Any]:
    """Return the package repositories that environments name, by name."""
    return {name: place for one in environments for name, place in _repos(one.manifest).items()}


def _apart(first: Installable, other: Installable) -> Iterator[Problem]:
    place = Position(str(other.folder / MANIFEST))

    def problem(what: str, hint: str) -> Problem:
        return Problem(f"{other.folder} cannot be in one image with {first.folder}: {what}", place, hint)

    if first.name == other.name:
        yield problem(f"both are {other.name}", "name each environment once; two of one recipe are two images")
    for what, ours, theirs in (
        ("mounted at", first.mount, other.mount),
        ("for", first.where, other.where),
        ("built for", _architectures(first), _architectures(other)),
        ("resolved by Spack", first.lock.spack, other.lock.spack),
    ):
        if ours and theirs and ours != theirs:
            yield problem(
                f"one is {what} {ours}, one {theirs}", "build both for one system and node type, with one Spack"
            )
            return
    repos = _repos(first.manifest)
    for name, pin in _repos(other.manifest).items():
        if repos.get(name, pin) != pin:
            yield problem(f"their package repositories {name} differ", "pin the same one in both recipes (`repos`)")
    additions = _additions(first)
    for name, text in _additions(other).items():
        if additions.get(name, text) != text:
            yield problem(
                f"their additions {name} differ", "have one recipe extend the other, or the same file in both"
            )
    for view in sorted({*first.views} & {*other.views}):
        yield problem(f"both have a view {view}", f"name it after its environment: `view: {{name: {other.name}}}`")
    prefixes = _compilers(first)
    for prefix, manifest in _compilers(other).items():
        if prefixes.get(prefix, manifest) != manifest:
            yield problem(f"they build {prefix} in two ways", "take the same compilers in both recipes")


def _architectures(environment: Installable) -> str:
    return ", ".join(sorted({f"os={one.os} target={one.target}" for one in environment.lock.packages}))


def _repos(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return dict(manifest.get("repos", {}))


def _additions(environment: Installable) -> dict[str, str]:
    return {name: text for name, text in environment.texts.items() if name.startswith(f"{REPOSITORY}/")}


def _compilers(environment: Installable) -> dict[str, object]:
    return {
        next(iter(manifest["config"]["install_tree"]["projections"])): {**manifest, "repos": None}
        for manifest in environment.compilers.values()
    }
