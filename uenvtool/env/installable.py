"""Reads resolved environments from disk, and combines several environments in one image."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput, Position, Problem
from uenvtool.core.limits import limited
from uenvtool.env.compilers import COMPILER
from uenvtool.env.directory import EXTRA, MANIFEST, MODULES, PURPOSE, lock_of, parts_of
from uenvtool.env.environment import NO_DEFAULT_VIEW, REPOSITORY
from uenvtool.knowledge.lock import LOCK, Lock, parse_lock, require_installable
from uenvtool.knowledge.system import GitPin

_NAME = re.compile(r"\w[\w.-]*")
"""A recipe's name. The record in another person's environment may contain text that must not become a file name."""
_MAPPINGS = (
    ("config",),
    ("config", "install_tree"),
    ("env_vars",),
    ("env_vars", "set"),
    ("env_vars", "prepend_path"),
    ("packages",),
    ("modules",),
    ("modules", "prefix_inspections"),
    ("repos",),
)
NAME_DIRECTORY = "name a directory with a spack.yaml and its spack.lock, as `uenvtool build` writes them"
FURTHER = "environments"
"""The directory of the second and later environments, both in the metadata of an image and in a store."""
MOUNT = "/user-environment"
"""The default mount point of an image, which is also uenv's default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installable:
    """A resolved environment on disk.

    purpose: the recipe, system and node type if uenvtool wrote the environment, or else "". manifest: the `spack:`
    section of spack.yaml. compiler_locks: the locks of `compilers`, by directory. mount: the mount point of the image,
    where Spack installs the packages. views: the names of the views, with the main view first. texts: the files that
    Spack reads, by relative path. place: the directory of these files in an image of several environments, or "" for
    the first environment.
    """

    folder: Path
    purpose: str
    manifest: Mapping[str, Any]
    lock: Lock
    compiler_locks: Mapping[str, Lock]
    mount: str
    views: tuple[str, ...]
    texts: Mapping[str, str]
    place: str = ""

    @property
    def name(self) -> str:
        """The name of the environment's recipe, or of its directory if the recipe is unknown."""
        recipe = self.purpose.partition(" for ")[0]
        return recipe if _NAME.fullmatch(recipe) else self.folder.resolve().name

    @property
    def where(self) -> str:
        """The system and node type of the environment, or an empty string if they are not recorded."""
        return self.purpose.partition(" for ")[2]

    @property
    def description(self) -> str:
        """The recipe's description from the header of spack.yaml, or an empty string without one."""
        lines = takewhile(lambda line: line.startswith("#"), self.texts[MANIFEST].splitlines())
        _, _, text = "\n".join(line.removeprefix("#").strip() for line in lines).partition("\n\n")
        return " ".join(text.partition(": ")[2].split())

    @property
    def view(self) -> str:
        return self.views[0]

    @property
    def default_view(self) -> str | None:
        """The view that the uenv client loads if the user names none, or None if the recipe has no default view."""
        return None if f"\n# {NO_DEFAULT_VIEW}\n" in self.texts[MANIFEST] else self.view

    def root_of(self, view: str) -> str:
        return f"{self.mount}/env/{view}"

    @property
    def compilers(self) -> dict[str, Mapping[str, Any]]:
        """The `spack:` sections of the environments that build compilers, by directory, in the order of the builds."""
        directories = [part for part in parts_of(self.texts) if part]  # the outer directory builds the inner ones
        names = {part: f"{part}/{MANIFEST}" for part in directories}
        return {part: _manifest(self.texts[name], self.folder / name) for part, name in names.items()}

    @property
    def locks(self) -> tuple[Lock, ...]:
        return (self.lock, *self.compiler_locks.values())

    def staged_texts(self, view: object, on_disk: Mapping[str, Path]) -> dict[str, str]:
        """Return the files of the environment copy that Spack installs, with `view` as the value of its key `view`.

        Spack reads only these files and their includes. on_disk: package repositories to use from disk, by name. The
        order of the repositories stays the same, since Spack uses the first repository that has a package.
        """
        repos = {name: os.fspath(path) for name, path in on_disk.items()}
        manifests: dict[str, Mapping[str, Any]] = {MANIFEST: {**self.manifest, "view": view}}
        manifests |= {f"{directory}/{MANIFEST}": manifest for directory, manifest in self.compilers.items()}
        texts = {**self.texts}
        for name, manifest in manifests.items():
            sections = {**manifest, "repos": {**manifest.get("repos", {}), **repos}}
            includes = sections.pop("include", [])
            texts[name] = json.dumps({"spack": {"include:": includes, **sections}}, indent=1)  # JSON is valid YAML
        return texts


def is_environment(directory: Path) -> bool:
    """Return whether a directory is an environment, that is, contains a manifest or a lock."""
    return any((directory / name).is_file() for name in (MANIFEST, LOCK))


def read_installable(directory: Path) -> Installable:
    """Return the resolved environment in a directory.

    Raises BadInput if spack.yaml or the lock is missing, AnswerIsNo if the lock cannot be installed.
    """
    message = f"{directory} is not a Spack environment"
    try:
        texts = {name: (directory / name).read_text(encoding="utf-8") for name in _names(directory)}
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{message}: {error}", Position(str(directory / MANIFEST)), NAME_DIRECTORY) from error
    if MANIFEST not in texts:
        raise BadInput(f"{message}: it has no {MANIFEST}", hint=NAME_DIRECTORY)
    manifest = _manifest(texts[MANIFEST], directory / MANIFEST)
    locks = {}
    for part in parts_of(texts):
        name = lock_of(part)
        if name not in texts:
            raise BadInput(f"{directory} has no {name}", hint="resolve it: `uenvtool build RECIPE --concretize`")
        locks[part] = parse_lock(texts[name], str(directory / name))
        require_installable(locks[part], str(directory / name))
    main, views = locks.pop(""), manifest.get("view")
    return Installable(
        folder=directory,
        purpose=str(files.read_record(directory).more.get(PURPOSE, "")),
        manifest=manifest,
        lock=main,
        compiler_locks=locks,
        mount=mount_of(manifest),
        views=tuple(views) if isinstance(views, dict) and views else ("default",),
        texts=texts,
    )


def read_manifest(directory: Path) -> Mapping[str, Any] | None:
    """Return the `spack:` section of a directory's spack.yaml, or None if absent. Raises BadInput if it is invalid."""
    path = directory / MANIFEST
    return _manifest(path.read_text(encoding="utf-8", errors="replace"), path) if path.is_file() else None


def pins_of(manifest: Mapping[str, Any]) -> dict[str, GitPin]:
    """Return the package repositories that a manifest pins, by name."""
    repos = {name: repo for name, repo in manifest.get("repos", {}).items() if isinstance(repo, dict)}
    return {
        name: GitPin(
            url=repo["git"],
            tag=repo.get("tag"),
            commit=repo.get("commit"),
            branch=repo.get("branch"),
            paths=tuple(map(str, repo.get("paths") or ())),
        )
        for name, repo in repos.items()
        if repo.get("git")
    }


def mount_of(manifest: Mapping[str, Any]) -> str:
    """Return the mount point of the image of an environment."""
    return str(manifest.get("config", {}).get("install_tree", {}).get("root", MOUNT))


def _manifest(text: str, path: Path) -> Mapping[str, Any]:
    import yaml

    position = Position(str(path))
    try:
        with limited(str(path)):
            document = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise BadInput(f"not a Spack environment: {error}", position, NAME_DIRECTORY) from error
    manifest = document.get("spack") if isinstance(document, dict) else None
    if not isinstance(manifest, dict):
        raise BadInput("not a Spack environment: it has no mapping `spack:`", position, NAME_DIRECTORY)
    views = manifest.get("view")  # Spack also accepts a path or a boolean here
    for section in (*_MAPPINGS, *(("view", name) for name in (views if isinstance(views, dict) else ()))):
        *above, name = section
        around = manifest
        for part in above:
            around = around.get(part, {})
        if around.get(name, {}) is None:
            around[name] = {}
        elif not isinstance(around.get(name, {}), dict):
            raise BadInput(
                f"'{'.'.join(map(str, section))}' is not a mapping",
                position,
                hint="write it as a mapping, see Spack's documentation of environments",
            )
    return manifest


def _names(directory: Path) -> list[str]:
    names = [name for name in (MANIFEST, LOCK, MODULES) if (directory / name).is_file()]
    compilers = [path.relative_to(directory).as_posix() for path in sorted((directory / COMPILER).rglob("spack.*"))]
    names += [name for name in compilers if os.path.basename(name) in (MANIFEST, LOCK)]
    directories = (directory / REPOSITORY, directory / EXTRA)
    copied = [
        path for part in directories for path in sorted(part.rglob("*")) if path.suffix in {".py", ".yaml", ".patch"}
    ]
    return [*names, *(path.relative_to(directory).as_posix() for path in copied)]


def together(environments: Sequence[Installable]) -> tuple[Installable, ...]:
    """Return the environments of a shared image, which the first one names. Each further one gets its own directory.

    Raises BadInput with each reason why the environments cannot share an image.
    """
    first, *others = environments
    placed = (first, *(replace(other, place=f"{FURTHER}/{other.name}") for other in others))
    BadInput.raise_any(
        problem
        for index, later in enumerate(placed)
        for earlier in placed[:index]
        for problem in _conflicts(earlier, later)
    )
    return placed


def texts_of(environments: Sequence[Installable]) -> dict[str, str]:
    """Return the files of all environments of an image, by path in the image's metadata.

    The repository of the first environment contains the additions of all environments, because Spack reads only one
    repository per namespace when it uses the image.
    """
    texts = {os.path.join(each.place, name): text for each in environments for name, text in each.texts.items()}
    return {**{name: text for each in environments for name, text in _additions(each).items()}, **texts}


def repos_of(environments: Sequence[Installable]) -> dict[str, Any]:
    """Return the package repositories that environments name, by name."""
    return {name: repo for each in environments for name, repo in each.manifest.get("repos", {}).items()}


def _conflicts(first: Installable, other: Installable) -> Iterator[Problem]:
    position = Position(str(other.folder / MANIFEST))

    def problem(reason: str, hint: str) -> Problem:
        return Problem(f"{other.folder} cannot be in the same image as {first.folder}: {reason}", position, hint)

    if first.name == other.name:
        hint = "name each environment once; build two environments of one recipe as two images"
        yield problem(f"both are named {other.name}", hint)
    for property_name, first_value, other_value in (
        ("mounted at", first.mount, other.mount),
        ("for", first.where, other.where),
        ("built for", _architectures(first), _architectures(other)),
        ("resolved by Spack", first.lock.spack, other.lock.spack),
    ):
        if first_value and other_value and first_value != other_value:
            yield problem(
                f"one is {property_name} {first_value}, the other is {property_name} {other_value}",
                "build both for the same system and node type, with the same Spack",
            )
            return
    repos = repos_of([first])
    for name, pin in repos_of([other]).items():
        if repos.get(name, pin) != pin:
            hint = "pin the same revision in both recipes (`repos`)"
            yield problem(f"they pin different revisions of the package repository {name}", hint)
    additions = _additions(first)
    for name, text in _additions(other).items():
        if additions.get(name, text) != text:
            hint = "use the same file in both recipes, or let one recipe extend the other"
            yield problem(f"their additions {name} differ", hint)
    for view in sorted({*first.views} & {*other.views}):
        yield problem(f"both have a view {view}", f"name one after its environment: `view: {{name: {other.name}}}`")
    prefixes = _compiler_builds(first)
    for prefix, manifest in _compiler_builds(other).items():
        if prefixes.get(prefix, manifest) != manifest:
            yield problem(f"they build {prefix} differently", "use the same compilers in both recipes")


def _architectures(environment: Installable) -> str:
    return ", ".join(sorted({f"os={package.os} target={package.target}" for package in environment.lock.packages}))


def _additions(environment: Installable) -> dict[str, str]:
    return {name: text for name, text in environment.texts.items() if name.startswith(f"{REPOSITORY}/")}


def _compiler_builds(environment: Installable) -> dict[str, object]:
    return {
        next(iter(manifest["config"]["install_tree"]["projections"])): {**manifest, "repos": None}
        for manifest in environment.compilers.values()
    }
