"""Checks the versions that a recipe requests against package repositories on disk, without running Spack.

A version that no repository has resolves, but Spack then has no checksum and cannot build it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.core.errors import BadInput, Problem
from uenvtool.core.result import Result
from uenvtool.core.words import grouped
from uenvtool.env.environment import Environment
from uenvtool.env.program import repository_directories
from uenvtool.env.request import ValidateRequest
from uenvtool.knowledge import catalogue
from uenvtool.knowledge.checks import VersionRequest, load_recipe, version_requests
from uenvtool.knowledge.condition import ALWAYS
from uenvtool.knowledge.mpi import facts_with_mpi
from uenvtool.knowledge.options import named_paths
from uenvtool.knowledge.recipe import Addition, Recipe
from uenvtool.knowledge.recognise import concrete_systems
from uenvtool.knowledge.system import External, load_system
from uenvtool.knowledge.version import Version, versions

MOST_VERSIONS = 5
_IMPORTED = re.compile(r"(?:spack_repo\.\w+\.packages\.|\.+)(\w+)\.package")
"""The module of another package: `spack_repo.builtin.packages.NAME.package`, or `..NAME.package`."""


def validate(request: ValidateRequest) -> Result:
    """Return the problems in knowledge files and, with --repo, the versions in recipes that no repository has."""
    paths = named_paths(request.repo)

    def more(name: str) -> Iterator[Problem]:
        yield from unknown_versions(load_recipe(name), paths)

    return catalogue.validate(request.files, more if paths else None)


def unknown_versions(recipe: Recipe, paths: Mapping[str, Path], packages: Collection[str] = ()) -> Iterator[Problem]:
    """Yield a problem for each version that a recipe requests on every system but that no repository or system has.

    The versions of an MPI are not checked, because a system can have a package repository for them.

    paths: The values of --repo, by name. packages: The packages to check; default: all packages.
    """
    requests = [
        request
        for request in version_requests(recipe)
        if request.when == ALWAYS
        and request.package not in (recipe.mpi or ())
        and (not packages or request.package in packages)
    ]
    known = [load_system(name).packages.values() for name in concrete_systems()]
    externals = grouped(
        (package.name, external) for each in known for package in each for external in package.externals
    )
    yield from _unknown(recipe, requests, repository_directories(paths, recipe.repos), externals)


def unknown_versions_of(environment: Environment, repos: Mapping[str, Path]) -> Iterator[Problem]:
    """Yield a problem for each version that an environment requires or prefers and that no repository has.

    If none of these repositories has a package, another one may have it, so its versions are not checked.
    """
    recipe, externals = environment.recipe, {package.name: package.externals for package in environment.packages}
    facts = facts_with_mpi(recipe, environment.system, environment.node.uarch)
    requests = [request for request in version_requests(recipe) if request.when.holds(facts) is not False]
    for package in environment.packages:
        if preferred := package.preferred:
            requests += [
                VersionRequest(package=package.name, versions=versions(text), position=preferred.origin, hard=False)
                for text in preferred.versions
            ]
    yield from _unknown(recipe, requests, repos, externals)


def _unknown(
    recipe: Recipe,
    requests: Iterable[VersionRequest],
    repos: Mapping[str, Path],
    externals: Mapping[str, Sequence[External]],
) -> Iterator[Problem]:
    for request in dict.fromkeys(requests):
        provided = [external.spec.versions for external in externals.get(request.package, ())]
        if request.versions.is_git or any(have is None or have.intersects(request.versions) for have in provided):
            continue
        found = {place: texts for place, texts in _versions_in(recipe.additions, repos, request.package) if texts}
        texts = {text for known in found.values() for text in known}
        if not texts or any(request.versions.contains(Version(text)) for text in texts):
            continue
        newest = sorted((Version(text) for text in texts if text[0].isdigit()), reverse=True)[:MOST_VERSIONS]
        yield Problem(
            f"{' and '.join(found)} {'has' if len(found) == 1 else 'have'} no version {request.versions} of "
            f"{request.package}",
            request.position,
            f"use an existing version, such as {', '.join(map(str, newest))}, or add the version under packages/ of "
            "your recipe. If another repository has the version, name it with --repo",
        )


def _versions_in(
    additions: Sequence[Addition], repos: Mapping[str, Path], package: str
) -> Iterator[tuple[str, set[str]]]:
    name = package.replace("-", "_")
    own = [addition.path for addition in additions if addition.target == f"{name}/package.py"]
    if own:
        yield "the recipe", _versions_of(own[0], repos.values())
    for repo, directory in repos.items():
        files = [directory / "packages" / part / "package.py" for part in (name, package, f"_{name}")]
        if file := next((file for file in files if file.is_file()), None):
            yield repo, _versions_of(file, repos.values())


def _versions_of(file: Path, repos: Iterable[Path], seen: frozenset[Path] = frozenset()) -> set[str]:
    """Return the versions that a package file declares or inherits. If it computes them, return all its strings."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:  # Spack would also fail
        raise BadInput(f"cannot read the Spack package {file}: {error}") from error
    texts: set[str] = set()
    strings = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    possible = {text for text in strings if re.match(r"\w[\w.-]*\Z", text)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "version":
            declared = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "ver")]
            if declared and isinstance(declared[0], ast.Constant):
                texts.add(str(declared[0].value))
            else:
                texts |= possible
        elif isinstance(node, ast.ImportFrom) and (
            match := _IMPORTED.fullmatch("." * node.level + (node.module or ""))
        ):
            for other in (directory / "packages" / match[1] / "package.py" for directory in repos):
                if other.is_file() and other not in {*seen, file}:
                    texts |= _versions_of(other, repos, seen | {file})
    return texts
