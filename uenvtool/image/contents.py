"""Reads the views, variables and packages of an image, with sizes, and prints them (`uenvtool image show`)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from uenvtool.core.errors import BadInput
from uenvtool.core.limits import limited
from uenvtool.core.result import Result, Table
from uenvtool.core.words import canonical, grouped, size_text
from uenvtool.image.metadata import ENV, Uenv, UenvView, parse_env_json
from uenvtool.image.read import FILE, LARGEST_TEXT, Listed, Superblock, by_name, listing, read_texts, require_image
from uenvtool.knowledge.lock import DATABASE, LARGEST_DATABASE, is_build_only, name_of_spack, text_of_spack

PYTHON, SPACK = "python", "spack"
RECORD = ".dist-info/RECORD"
"""The list of installed files that Python package installers write."""
_INFO = re.compile(r"(?P<site>(?:.*/)?)(?P<name>[A-Za-z0-9][\w.-]*)-(?P<version>[\w.!+]+)\.dist-info", re.ASCII)
_BYTECODE = re.compile(r"__pycache__/([^/]+)\.[^./]+\.pyc\Z")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class InstalledPackage:
    """An installed package.

    kind: PYTHON or SPACK. bytes: the unpacked size of its files. folder: its directory. needs: the directories of its
    dependencies in Spack's database. build_only: the directories in `needs` that are only needed to build the package.
    """

    name: str
    version: str
    kind: str
    bytes: int
    folder: str
    needs: tuple[str, ...] = ()
    build_only: tuple[str, ...] = ()


class Install(NamedTuple):
    """A row of Spack's database. folder: a directory inside or outside the image. needs, build_only: package hashes."""

    name: str
    version: str
    folder: str
    needs: tuple[str, ...]
    build_only: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of an image, from its listing and its metadata files.

    by_name: every entry, by its name as text. texts: the texts of the metadata files, by name.
    """

    path: Path
    head: Superblock
    entries: Sequence[Listed]
    by_name: Mapping[str, Listed]
    texts: Mapping[str, str]

    @cached_property
    def uenv(self) -> Uenv | None:
        """The uenv metadata of the image, or None if it has none. Raises BadInput if the metadata is invalid."""
        return parse_env_json(self.texts[ENV], f"{self.path}:{ENV}") if ENV in self.texts else None

    @cached_property
    def packages(self) -> Sequence[InstalledPackage]:
        """The installed packages, according to Spack's database and Python's metadata in the image."""
        return sorted([*_python_packages(self.by_name, self.texts, self.mount), *_spack_packages(self)])

    @cached_property
    def installs(self) -> Mapping[str, Install]:
        """The installed packages in Spack's database, by hash. Empty if the database cannot be read."""
        database = self.texts.get(DATABASE, "")
        try:
            with limited(f"{self.path}:{DATABASE}"):
                rows = json.loads(database)["database"]["installs"] if database else {}
                return {
                    key: self._install(row) for key, row in rows.items() if row.get("installed") and row.get("path")
                }
        except (BadInput, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _install(self, row: Mapping[str, Any]) -> Install:
        spec, edges = row["spec"], row["spec"].get("dependencies", ())
        return Install(
            name=name_of_spack(spec["name"]),
            version=text_of_spack(spec["version"]),
            folder=os.path.relpath(str(row["path"]), self.mount or "/"),
            needs=tuple(str(edge["hash"]) for edge in edges),
            build_only=tuple(str(edge["hash"]) for edge in edges if is_build_only(edge)),
        )

    @property
    def is_overlay(self) -> bool:
        """Whether the image is an overlay, which needs a base."""
        return "pyvenv.cfg" in self.by_name

    @property
    def views(self) -> Mapping[str, UenvView]:
        """The views of the image, by name."""
        return self.uenv.views if self.uenv else {}

    @property
    def mount(self) -> str:
        """The mount point of the image, or an empty string if its metadata does not name one."""
        return self.uenv.mount if self.uenv else ""

    def holds(self, path: str) -> bool:
        """Return whether an absolute path below the mount point exists in the image. Follows symlinks."""
        return self._followed(path, 40) is not None

    def holding(self, names: Collection[str]) -> set[str]:
        """Return the given file names that exist in any directory of the image. Broken symlinks do not count.

        A name with a slash is an absolute path.
        """
        present = {name for name in names if "/" in name and self.holds(name)}
        for path, entry in self.by_name.items():
            name = path[path.rfind("/") + 1 :]
            if name in names and name not in present and (not entry.target or self.holds(f"{self.mount}/{path}")):
                present.add(name)
        return present

    def _followed(self, path: str, links: int) -> str | None:
        """Return the name that a path resolves to through at most `links` symlinks, or None."""
        name = ""
        parts = os.path.relpath(os.path.normpath(path), self.mount or "/").split("/")
        if parts == ["."]:
            return ""
        for number, part in enumerate(parts):
            name = os.path.join(name, part)
            entry = self.by_name.get(name)
            if entry is None:
                return None
            if entry.target:
                target = os.path.join(self.mount or "/", os.path.dirname(name), os.fsdecode(entry.target))
                return self._followed(os.path.join(target, *parts[number + 1 :]), links - 1) if links else None
        return name


def show(images: Sequence[Path]) -> Result:
    """Return the contents of each image.

    Raises BadInput if a file is not an image, ToolMissing if unsquashfs is not installed.
    """
    all_contents = [read(image) for image in images]
    all_data = [_data(contents) for contents in all_contents]
    pairs = zip(all_contents, all_data, strict=True)
    return Result(data=all_data, tables=tuple(table for contents, data in pairs for table in _tables(contents, data)))


def _data(contents: Contents) -> dict[str, Any]:
    uenv = contents.uenv
    return {
        "path": str(contents.path),
        "bytes": contents.path.stat().st_size,
        "unpacked_bytes": sum(entry.size for entry in contents.entries if entry.kind == FILE),
        "names": len(contents.entries),
        "compression": contents.head.compression,
        "block_bytes": contents.head.block,
        "name": uenv.name if uenv else None,
        "description": uenv.description if uenv else None,
        "mount": uenv.mount if uenv else None,
        "default_view": uenv.default_view if uenv else None,
        "views": {name: view.data() for name, view in contents.views.items()},
        "packages": [asdict(package) for package in contents.packages],
    }


def _tables(contents: Contents, data: Mapping[str, Any]) -> list[Table]:
    sizes = f"{size_text(data['bytes'])}, unpacked {size_text(data['unpacked_bytes'])} in {data['names']} entries"
    facts = [
        ("name", data["name"] or "none (no meta/env.json)"),
        ("mount", data["mount"] or ""),
        ("default view", data["default_view"] or ""),
        ("size", sizes),
        ("compression", f"{data['compression']}, {data['block_bytes'] >> 10} KiB blocks"),
    ]
    views = [(name, view.root, view.description) for name, view in contents.views.items()]
    by_size = sorted(contents.packages, key=lambda package: (-package.bytes, package))
    packages = [(package.name, package.version, package.kind, size_text(package.bytes)) for package in by_size]
    tables = [
        Table(headings=("image", str(contents.path)), rows=[fact for fact in facts if fact[1]]),
        Table(headings=("view", "directory", "description"), rows=views),
        Table(headings=("package", "version", "kind", "size"), rows=packages),
        Table(headings=("view", "variable", "change"), rows=list(_changes(contents.views))),
    ]
    return [table for table in tables if table.rows]


def _changes(views: Mapping[str, UenvView]) -> Iterator[tuple[str, str, str]]:
    for name, view in views.items():
        for variable, updates in view.lists.items():
            yield name, variable, "; ".join(f"{update.op} {':'.join(update.paths)}".strip() for update in updates)
        for variable, text in view.scalars.items():
            yield name, variable, "unset" if text is None else f"set {text}"


def read(image: Path, is_needed: Callable[[str], bool] = lambda name: name.endswith(RECORD)) -> Contents:
    """Return the contents of an image, with the texts of the metadata files that are needed.

    Raises BadInput if it is not an image, or its metadata files are too large.
    """
    head = require_image(image)
    entries = listing(image)
    names = by_name(entries)
    metadata = [DATABASE, *filter(is_needed, names)]
    if ENV in names and names[ENV].size <= LARGEST_TEXT:
        metadata.append(ENV)
    texts = read_texts(image, metadata, largest=LARGEST_DATABASE, known=names)
    return Contents(path=image, head=head, entries=entries, by_name=names, texts=texts)


def _python_packages(names: Mapping[str, Listed], texts: Mapping[str, str], mount: str) -> Iterator[InstalledPackage]:
    """Yield the Python packages with a dist-info directory. Their sizes include bytecode, which RECORD may not list."""
    bytecode: dict[str, int] = {}
    for name in [name for name in names if name.endswith(".pyc")]:
        if compiled := _BYTECODE.search(name):
            source = f"{name[: compiled.start()]}{compiled[1]}.py"
            bytecode[source] = bytecode.get(source, 0) + names[name].size
    for directory in [name for name in names if name.endswith(".dist-info")]:
        parsed = _INFO.fullmatch(directory)
        metadata = names.get(f"{directory}/METADATA")  # in a view: a symlink to the package's own file
        is_in_view = mount and metadata and metadata.target.startswith(os.fsencode(f"{mount}/"))
        if parsed is None or is_in_view:
            continue
        files = set(_recorded(texts.get(f"{directory}/RECORD", ""), parsed["site"]))
        size = sum(bytecode.get(file, 0) + (names[file].size if file in names else 0) for file in files)
        yield InstalledPackage(
            name=canonical(parsed["name"]), version=parsed["version"], kind=PYTHON, bytes=size, folder=directory
        )


def _recorded(text: str, site: str) -> Iterator[str]:
    for line in text.splitlines():
        file = site + line.split(",", 1)[0].strip('"')
        if not file.endswith(".pyc") or not _BYTECODE.search(file):
            yield os.path.normpath(file) if ".." in file else file


def _spack_packages(contents: Contents) -> Iterator[InstalledPackage]:
    names, installs = contents.by_name, contents.installs
    sizes = _sizes(names, {install.folder for install in installs.values()})

    def directories(keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({installs[key].folder for key in keys if key in installs} & names.keys()))

    # A compiler in the image has two rows: the built package, and the external that builds other packages.
    for directory, rows in grouped((row.folder, row) for row in installs.values() if row.folder in names).items():
        yield InstalledPackage(
            name=rows[0].name,
            version=rows[0].version,
            kind=SPACK,
            bytes=sizes[directory],
            folder=directory,
            needs=directories(key for row in rows for key in row.needs),
            build_only=directories(key for row in rows for key in row.build_only),
        )


def _sizes(names: Mapping[str, Listed], prefixes: Collection[str]) -> dict[str, int]:
    sizes = dict.fromkeys(prefixes, 0)
    depths = sorted({prefix.count("/") + 1 for prefix in prefixes})
    for name, entry in names.items():
        parts = name.split("/")
        prefix = next((path for depth in depths if (path := "/".join(parts[:depth])) in sizes), None)
        if prefix is not None and entry.kind == FILE:
            sizes[prefix] += entry.size
    return sizes
