"""A resolved environment on disk, as it is installed: its files, its lock, its mount point and its view; and several of
them in one image."""

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
from uenvtool.env.compilers import COMPILER
from uenvtool.env.environment import REPOSITORY
from uenvtool.env.folder import EXTRA, MANIFEST, MODULES, PURPOSE, lock_of, parts_of
from uenvtool.knowledge.lock import LOCK, Lock, parse_lock, require_installable
from uenvtool.knowledge.system import GitPin

_NAME = re.compile(r"\w[\w.-]*")
"""A recipe's name. What a folder that somebody sent has in its place is none of a file's."""
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
NAME_ITS_FOLDER = "name the folder of a spack.yaml with its spack.lock, as `uenvtool build` writes them"
FURTHER = "environments"
"""The folder of an image's recipe, and of a store, with the environments behind the first."""
MOUNT = "/user-environment"
"""Where an image is mounted if its system names no other place; uenv's own default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installable:
    """A resolved environment on disk.

    purpose: recipe, system and node type, if the tool made it. manifest: the `spack:` part of its spack.yaml.
    compiler_locks: those of `compilers`, by their folders. mount: where it is installed, and its image mounted. views:
    the names of its views, first that which is loaded if none is named. texts: its files that Spack reads, relative
    name to text. place: the folder of these files among those of an image of several environments; "" for the first.
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
        """Its recipe, else its folder."""
        recipe = self.purpose.partition(" for ")[0]
        return recipe if _NAME.fullmatch(recipe) else self.folder.resolve().name

    @property
    def where(self) -> str:
        """The system and node type that it is for; "" if that is not on record."""
        return self.purpose.partition(" for ")[2]

    @property
    def description(self) -> str:
        """What its recipe says of itself, in the head of its spack.yaml; "" if it does not."""
        lines = takewhile(lambda line: line.startswith("#"), self.texts[MANIFEST].splitlines())
        _, _, words = "\n".join(line.removeprefix("#").strip() for line in lines).partition("\n\n")
        return " ".join(words.partition(": ")[2].split())

    @property
    def view(self) -> str:
        """The view that is loaded if none is named."""
        return self.views[0]

    def root_of(self, view: str) -> str:
        """Return where a view lies."""
        return f"{self.mount}/env/{view}"

    @property
    def compilers(self) -> dict[str, Mapping[str, Any]]:
        """The `spack:` parts of the environments that install compilers first, by their folders, in their order."""
        folders = [part for part in parts_of(self.texts) if part]  # the one above builds those below
        names = {part: f"{part}/{MANIFEST}" for part in folders}
        return {part: _manifest(self.texts[name], self.folder / name) for part, name in names.items()}

    @property
    def locks(self) -> tuple[Lock, ...]:
        """Its own lock, and those of its compilers."""
        return (self.lock, *self.compiler_locks.values())

    def staged_texts(self, view: object, on_disk: Mapping[str, Path]) -> dict[str, str]:
        """Return its files as Spack installs them, with another view, and no configuration but their own.

        on_disk: package repositories to take from disk, by name. They stay in their order: the first has its way.
        """
        paths = {name: os.fspath(path) for name, path in on_disk.items()}
        manifests: dict[str, Mapping[str, Any]] = {MANIFEST: {**self.manifest, "view": view}}
        manifests |= {f"{folder}/{MANIFEST}": manifest for folder, manifest in self.compilers.items()}
        manifests = {name: {**one, "repos": {**one.get("repos", {}), **paths}} for name, one in manifests.items()}
        return {**self.texts, **{name: _isolated(manifest) for name, manifest in manifests.items()}}


def is_environment(folder: Path) -> bool:
    """Tell if a folder is meant as an environment: a manifest or a lock lies in it."""
    return any((folder / name).is_file() for name in (MANIFEST, LOCK))


def read_installable(folder: Path) -> Installable:
    """Return a resolved environment in a folder.

    Raises BadInput if it has no spack.yaml or no lock, AnswerIsNo if the lock would not install.
    """
    try:
        texts = {name: (folder / name).read_text(encoding="utf-8") for name in _names(folder)}
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{folder} is no environment of Spack: {error}", Position(str(folder / MANIFEST)), NAME_ITS_FOLDER
        ) from error
    if MANIFEST not in texts:
        raise BadInput(f"{folder} is no environment of Spack: it has no {MANIFEST}", hint=NAME_ITS_FOLDER)
    manifest = _manifest(texts[MANIFEST], folder / MANIFEST)
    locks = {}
    for part in parts_of(texts):
        name = lock_of(part)
        if name not in texts:
            raise BadInput(f"{folder} has no {name} yet", hint="`uenvtool build RECIPE --concretize` makes it")
        locks[part] = parse_lock(texts[name], str(folder / name))
        require_installable(locks[part], str(folder / name))
    own, views = locks.pop(""), manifest.get("view")
    return Installable(
        folder=folder,
        purpose=str(files.read_record(folder).more.get(PURPOSE, "")),
        manifest=manifest,
        lock=own,
        compiler_locks=locks,
        mount=mount_of(manifest),
        views=tuple(views) if isinstance(views, dict) and views else ("default",),
        texts=texts,
    )


def read_manifest(folder: Path) -> Mapping[str, Any] | None:
    """Return the `spack:` part of the spack.yaml in a folder; None if none is there. Raises BadInput if it is none."""
    path = folder / MANIFEST
    return _manifest(path.read_text(encoding="utf-8", errors="replace"), path) if path.is_file() else None


def pins_of(manifest: Mapping[str, Any]) -> dict[str, GitPin]:
    """Return the package repositories that a manifest pins, by name."""
    named = {name: place for name, place in manifest.get("repos", {}).items() if isinstance(place, dict)}
    return {
        name: GitPin(
            url=place["git"],
            tag=place.get("tag"),
            commit=place.get("commit"),
            branch=place.get("branch"),
            paths=tuple(map(str, place.get("paths") or ())),
        )
        for name, place in named.items()
        if place.get("git")
    }


def mount_of(manifest: Mapping[str, Any]) -> str:
    """Return where the image of an environment is mounted."""
    return str(manifest.get("config", {}).get("install_tree", {}).get("root", MOUNT))


def _manifest(text: str, path: Path) -> Mapping[str, Any]:
    """Return the `spack:` part of a spack.yaml. Raises BadInput if it has none, or a section of another form."""
    import yaml

    place = Position(str(path))
    try:
        found = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise BadInput(f"{path.parent} is no environment of Spack: {error}", place, NAME_ITS_FOLDER) from error
    manifest = found.get("spack") if isinstance(found, dict) else None
    if not isinstance(manifest, dict):
        raise BadInput("this is no environment of Spack: it has no mapping `spack:`", place, NAME_ITS_FOLDER)
    views = manifest.get("view")  # a folder, or no view, as well
    for section in (*_MAPPINGS, *(("view", name) for name in (views if isinstance(views, dict) else ()))):
        *above, name = section
        around = manifest
        for part in above:
            around = around.get(part, {})
        if around.get(name, {}) is None:
            around[name] = {}
        elif not isinstance(around.get(name, {}), dict):
            raise BadInput(
                f"{'.'.join(map(str, section))} is no mapping", place, hint="see Spack's documentation of environments"
            )
    return manifest


def _isolated(manifest: Mapping[str, Any]) -> str:
    """Return a manifest that sees no other configuration than its own and what it includes, as JSON, which is YAML."""
    own = {name: section for name, section in manifest.items() if name != "include"}
    return json.dumps({"spack": {"include:": manifest.get("include", []), **own}}, indent=1)


def _names(folder: Path) -> list[str]:
    found = [name for name in (MANIFEST, LOCK, MODULES) if (folder / name).is_file()]
    compilers = [path.relative_to(folder).as_posix() for path in sorted((folder / COMPILER).rglob("spack.*"))]
    found += [name for name in compilers if os.path.basename(name) in (MANIFEST, LOCK)]
    folders = (folder / REPOSITORY, folder / EXTRA)
    copied = [path for part in folders for path in sorted(part.rglob("*")) if path.suffix in {".py", ".yaml", ".patch"}]
    return [*found, *(path.relative_to(folder).as_posix() for path in copied)]


def together(environments: Sequence[Installable]) -> tuple[Installable, ...]:
    """Return environments as they lie in one image: the first is the image's own, the others have a place beside it.

    Raises BadInput with all that keeps them apart.
    """
    first, *others = environments
    placed = (first, *(replace(other, place=f"{FURTHER}/{other.name}") for other in others))
    BadInput.raise_any(
        problem
        for index, one in enumerate(placed)
        for earlier in placed[:index]
        for problem in _what_keeps_apart(earlier, one)
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


def _what_keeps_apart(first: Installable, other: Installable) -> Iterator[Problem]:
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
    prefixes = _compiler_builds(first)
    for prefix, manifest in _compiler_builds(other).items():
        if prefixes.get(prefix, manifest) != manifest:
            yield problem(f"they build {prefix} in two ways", "take the same compilers in both recipes")


def _architectures(environment: Installable) -> str:
    return ", ".join(sorted({f"os={one.os} target={one.target}" for one in environment.lock.packages}))


def _repos(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return dict(manifest.get("repos", {}))


def _additions(environment: Installable) -> dict[str, str]:
    return {name: text for name, text in environment.texts.items() if name.startswith(f"{REPOSITORY}/")}


def _compiler_builds(environment: Installable) -> dict[str, object]:
    return {
        next(iter(manifest["config"]["install_tree"]["projections"])): {**manifest, "repos": None}
        for manifest in environment.compilers.values()
    }
