"""Reads a stack (environment, lock, image, overlay) as one value: packages, licences, and what it was made from."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.core.value import value_class
from uenvtool.core.words import size_text
from uenvtool.env.environment import Environment, named_environment
from uenvtool.env.installable import is_environment
from uenvtool.env.manifest import MANIFEST
from uenvtool.env.next_steps import usual_folder
from uenvtool.env.program import repository_folders
from uenvtool.image.contents import PYTHON, RECORD, Package, python_packages, read
from uenvtool.image.listing import FILE, FOLDER, SYMLINK, Listed
from uenvtool.image.metadata import RECIPE as MADE_FROM
from uenvtool.image.read import read_texts, superblock
from uenvtool.image.sbom import packages_of
from uenvtool.image.tree import walk
from uenvtool.knowledge.kinds import RECIPE, SYSTEM
from uenvtool.knowledge.locate import available, data_root
from uenvtool.knowledge.lock import LOCK, Lock, parse_lock, read_lock
from uenvtool.report import licences
from uenvtool.report.request import ReportRequest
from uenvtool.venv.info import described
from uenvtool.venv.record import FROM_BASE

AGAIN = re.compile(r"(?m)^#\s+again:\s+uenvtool build (\S+) --system (\S+)(?: --uarch (\S+))?")
"""The line of a spack.yaml that names its recipe, system and node type."""
_KINDS = {"f": FILE, "d": FOLDER, "l": SYMLINK}


@value_class
class Stack:
    """What is known of a stack.

    why: the folder of a package to who asked for it. outside: the folder of one to where it is from, if not from here.
    lock, environment: what it was made from, where that is known. unseen: what is not known, and why.
    """

    title: str
    facts: Mapping[str, str]
    packages: Sequence[Package]
    why: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)
    licences: Mapping[str, str] = field(default_factory=dict)
    lock: Lock | None = None
    environment: Environment | None = None
    unseen: Sequence[str] = ()


def read_stack(request: ReportRequest) -> Stack:
    """Return what a user names. Raises BadInput if it is none, ToolMissing without unsquashfs for an image."""
    path = Path(request.source)
    if path.is_file() and superblock(path) is not None:
        return _of_image(path, request)
    if path.is_dir() and not is_environment(path):
        return _of_overlay(path)
    if path.exists():
        return _of_lock(path / LOCK if path.is_dir() else path, request)
    environment = named_environment(request.source, request.system, request.uarch)
    folder, recipe, system = usual_folder(environment), environment.recipe.name, environment.system.name
    found = next((root / folder / LOCK for root in (Path(), data_root()) if (root / folder / LOCK).is_file()), None)
    if found is None:
        hint = f"`uenvtool build {recipe} --system {system}` resolves it"
        raise BadInput(f"{recipe} is not resolved for {system}: there is no {folder / LOCK}", hint=hint)
    return _of_lock(found, request)


def _of_lock(path: Path, request: ReportRequest) -> Stack:
    """Return the stack of a lock, and of the spack.yaml beside it."""
    lock = read_lock(path)
    packages = packages_of(lock)
    manifest = path.with_name(MANIFEST)
    text = files.read_bytes(manifest, licences.LARGEST).decode(errors="replace") if manifest.is_file() else ""
    environment, unseen = _environment(text, request)
    repos = repository_folders(request.repos, environment.pins if environment else {})
    return Stack(
        title=environment.purpose if environment else str(path),
        facts={"resolved by": f"Spack {lock.spack}", **_described(environment)},
        packages=packages,
        outside=_of_the_system(lock),
        licences=dict(licences.in_repositories(packages, repos.values())),
        lock=lock,
        environment=environment,
        unseen=(*unseen, "sizes: a lock has none", *([] if repos else ["licences: --repo builtin=PATH reads them"])),
    )


def _of_image(path: Path, request: ReportRequest) -> Stack:
    """Return the stack of an image; one that says what it was made from brings its lock, and the system's packages."""
    contents = read(path)
    if contents.is_overlay:
        return _of_overlay(path, contents.packages, contents.by_name)
    described_by = licences.in_image(contents.packages, contents.by_name)
    names = [f"{MADE_FROM}/{LOCK}", f"{MADE_FROM}/{MANIFEST}"]
    texts = read_texts(path, [*names, *described_by.values()], largest=licences.LARGEST * 8, known=contents.by_name)
    lock = parse_lock(texts[names[0]], f"{path}:{names[0]}") if names[0] in texts else None
    environment, unseen = _environment(texts.get(names[1], ""), request)
    folders = {package.folder for package in contents.packages if package.kind != PYTHON}
    own = [one for one in contents.packages if one.kind != PYTHON or not _is_below(one.folder, folders)]
    uenv = contents.uenv
    return Stack(
        title=uenv.name if uenv else path.name,
        facts={
            "image": f"{path.name}, {size_text(path.stat().st_size)}, unpacked {size_text(contents.unpacked_bytes)}",
            "mount": contents.mount,
            "views": ", ".join(contents.views),
            **_described(environment),
        },
        packages=own,
        licences=_licences(own, described_by, texts),
        lock=lock,
        environment=environment,
        unseen=unseen,
    )


def _licences(packages: Iterable[Package], described_by: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the licence of each package whose describing file was read, by its folder."""
    return {
        package.folder: licences.licence_of(package, texts[described_by[package.folder]])
        for package in packages
        if described_by.get(package.folder) in texts
    }


def _is_below(name: str, folders: set[str]) -> bool:
    return any(os.fspath(parent) in folders for parent in Path(name).parents)


def _of_overlay(path: Path, packed: Sequence[Package] = (), names: Mapping[str, Listed] | None = None) -> Stack:
    """Return the stack of an overlay, with what it takes of its base."""
    record = described(path)
    installed = list(packed) if names else _on_disk(path)
    files_of = {package.folder: f"{package.folder}/METADATA" for package in installed}
    texts = read_texts(path, [*files_of.values()], known=names) if names else _texts(path, files_of.values())
    rows: dict[str, Any] = {row["name"]: row for row in record["packages"]}
    folders = {name: f"base/{name}" for name in rows} | {package.name: package.folder for package in installed}
    of_base = [
        Package(name=row["name"], version=row["version"], kind=PYTHON, bytes=0, folder=folders[row["name"]])
        for row in rows.values()
        if row["how"] == FROM_BASE
    ]
    needs: dict[str, set[str]] = {}
    for row in rows.values():
        for asker in row["asked_by"]:
            needs.setdefault(asker.partition("[")[0], set()).add(folders[row["name"]])
    base = record["base"]
    return Stack(
        title=path.name,
        facts={
            "overlay": f"{path}, {size_text(record['bytes'])}",
            "base": f"{base.get('name') or base.get('python') or 'none'}, Python {base.get('version', '?')}",
        },
        packages=[
            replace(package, needs=tuple(sorted(needs.get(package.name, ()))))
            for package in sorted([*installed, *of_base])
        ],
        why={
            folders[name]: f"asked for: {', '.join(askers)}"
            for name, row in rows.items()
            if (askers := [asker for asker in row["asked_by"] if asker.partition("[")[0] not in rows])
        },
        outside={package.folder: "of the base" for package in of_base},
        licences=_licences(installed, files_of, texts),
        unseen=("sizes, licences and needs of what the base has",),
    )


def _on_disk(folder: Path) -> list[Package]:
    """Return the Python packages of a loose overlay, as of an image."""
    names = {os.fsdecode(name): Listed(name, _KINDS[one.kind], one.size) for name, one in walk(folder).items()}
    return sorted(python_packages(names, _texts(folder, [name for name in names if name.endswith(RECORD)]), ""))


def _texts(folder: Path, names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        with contextlib.suppress(OSError, BadInput):
            found[name] = files.read_bytes(folder / name, licences.LARGEST * 8).decode(errors="replace")
    return found


def _environment(manifest: str, request: ReportRequest) -> tuple[Environment | None, tuple[str, ...]]:
    """Return the plan of the environment that a spack.yaml is of, and why there is none."""
    found = AGAIN.search(manifest)
    if found is None:
        return None, ("recipe: its spack.yaml, which names it, is not here",)
    name, system, uarch = found[1], request.system or found[2], request.uarch or found[3]
    if name not in available(RECIPE) or system not in available(SYSTEM):
        return None, (f"recipe: {name} for {system} is not known here",)
    return named_environment(name, system, uarch), ()


def _described(environment: Environment | None) -> dict[str, str]:
    return {"recipe": f"{environment.recipe.name}: {environment.recipe.description}"} if environment else {}


def _of_the_system(lock: Lock) -> dict[str, str]:
    """Return the packages that the system brings, and where they are there."""
    named = {f"{package.name}-{package.version}-{package.hash}": package for package in lock.packages}
    return {folder: f"of the system, {package.external}" for folder, package in named.items() if package.external}
