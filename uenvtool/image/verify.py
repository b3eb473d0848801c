"""`uenvtool image verify`: checks views, packages, build directories and libraries of images without mounting them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from uenvtool.core import elf
from uenvtool.core.errors import ExitCode, Problem
from uenvtool.core.result import Result, Table
from uenvtool.core.words import grouped, listed
from uenvtool.image.contents import Contents, read
from uenvtool.image.metadata import RECIPE
from uenvtool.image.read import SYMLINK, read_contents
from uenvtool.knowledge.lock import LOCK, parse_lock

HOST_LIBRARIES = (
    r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|crypt|nsl|anl|gcc_s|stdc\+\+|gomp|mvec))\.so(\.\d+)*",
    r"lib(cuda|nvidia-ml|nvcuvid|nvidia-.*)\.so(\.\d+)*",
    r"lib(fabric|cxi|xpmem|numa|ibverbs|rdmacm|mlx5)\.so(\.\d+)*",
)
"""Patterns of the libraries that every host provides: C and C++ runtimes, GPU driver, and network libraries."""
BUILD_FOLDERS = (b"/spack-stage-", b"/spack-stage/", b".uenvtool-work/", b".uenvtool-install/", b"/dev/shm/uenvtool-")
"""Parts of the paths of Spack's and uenvtool's build directories. No file of an image may use such a directory."""
HINTS = (b"spack-stage", b"uenvtool-")
"""Common parts of BUILD_FOLDERS. A search for these texts is much faster than one for a regular expression."""
ARCHIVE = b"!<arch>\n"
RECORDS = r"(.*/)?(\.spack/.*|[^/]+\.dist-info/direct_url\.json|[^/]+\.pyc)"
"""Files that record their origin: Spack's files, pip's files (PEP 610), and bytecode, which names its source file."""
LARGEST_LIBRARY = 4 << 30
_OVERLAP = 256
_MOST_NAMES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The result of checking an image.

    problems: a sentence for each problem. recording: files that contain the path of a build directory but never use it,
    for example in debug information. elsewhere: libraries that are neither in the image nor on every host, each with a
    file that needs it. sha256: the checksum of the tree. libraries, files: the numbers of checked libraries and files.
    """

    problems: Sequence[str]
    recording: Sequence[str]
    elsewhere: Mapping[str, str]
    sha256: str
    libraries: int
    files: int
    is_overlay: bool


class BuildPathScanner:
    """Searches file contents for the paths of build directories."""

    def __init__(self, build_folders: Sequence[str]) -> None:
        more = [os.fsencode(directory.rstrip("/")) for directory in build_folders]
        self.hints = (*HINTS, *more)
        ends = (re.escape(directory) + rb"(?![\w.-])" for directory in more)
        self.pattern = re.compile(b"|".join([*map(re.escape, BUILD_FOLDERS), *ends]))

    def search(self, content: bytes) -> str:
        """Return the first build directory in a file's content, or ""."""
        match = self.pattern.search(content) if any(hint in content for hint in self.hints) else None
        return os.fsdecode(match[0]) if match else ""


class _FileFacts(NamedTuple):
    """The facts about one file of an image. A tuple, since an image has many files.

    build_folder: a build directory in the file's content, or "". is_archive: whether the file is a static library
    (ar(5)).
    """

    sha256: str
    build_folder: str
    needs: elf.Needs | None
    is_archive: bool


def verify(images: Sequence[Path], build_folders: Sequence[str] = ()) -> Result:
    """Check that all view paths and libraries exist, and that no file uses a build directory.

    build_folders: more directories that no file may refer to. The exit code is NO if there is a problem. Raises
    BadInput if a file is not an image or is damaged, ToolMissing if unsquashfs 4.5 or newer is not installed.
    """
    reports = [(str(image), examined(image, build_folders)) for image in images]
    problems = [Problem(f"{image}: {problem}") for image, report in reports for problem in report.problems]
    rows = [
        (image, "failed" if report.problems else "passed", str(report.files), str(report.libraries), report.sha256)
        for image, report in reports
    ]
    return Result(
        data=[
            {
                "path": image,
                "tree_sha256": report.sha256,
                "files": report.files,
                "libraries": report.libraries,
                "problems": list(report.problems),
                "libraries_elsewhere": dict(report.elsewhere),
                "build_folder_on_record": list(report.recording),
            }
            for image, report in reports
        ],
        tables=(Table(headings=("image", "result", "files", "libraries", "tree sha256"), rows=rows),),
        problems=tuple(problems),
        notes=(
            *(
                f"{image} is an overlay; its base must provide {', '.join(report.elsewhere)}"
                for image, report in reports
                if report.is_overlay and report.elsewhere
            ),
            *(
                f"{image}: {len(report.recording)} files record a build directory "
                f"({listed(report.recording, _MOST_NAMES)}) as their origin or debug information; programs do not use "
                "it at run time"
                for image, report in reports
                if report.recording
            ),
        ),
        exit_code=ExitCode.NO if problems else ExitCode.DONE,
    )


def examined(image: Path, build_folders: Sequence[str] = ()) -> Report:
    """Return the result of checking an image. Raises the same errors as `verify`."""
    scanner = BuildPathScanner(build_folders)
    contents = read(image, _is_lock)
    files = {name: _facts(pieces, size, scanner) for name, size, pieces in read_contents(image, contents.entries)}
    needed = {os.fsdecode(name): facts.needs for name, facts in files.items() if facts.needs is not None}
    elsewhere = _libraries_elsewhere(contents, needed)
    missing = [
        f"{name} needs {library}, which is neither in the image nor on every host"
        for library, name in elsewhere.items()
        if not contents.is_overlay  # whose base may provide the library
    ]
    naming = {os.fsdecode(name): files[name] for name in sorted(files) if files[name].build_folder}
    recording = [name for name, facts in naming.items() if _is_record(name, facts, scanner)]
    using = grouped((facts.build_folder, name) for name, facts in naming.items() if name not in set(recording))
    used = [f"the build directory {folder} is used by {listed(names, _MOST_NAMES)}" for folder, names in using.items()]
    return Report(
        problems=[*_view_problems(contents), *_package_problems(contents), *used, *missing],
        recording=recording,
        elsewhere=elsewhere,
        sha256=tree_sha256(contents, {name: facts.sha256 for name, facts in files.items()}),
        libraries=len(needed),
        files=len(files),
        is_overlay=contents.is_overlay,
    )


def _facts(pieces: Iterator[bytes], size: int, scanner: BuildPathScanner) -> _FileFacts:
    """Return the facts about a file. Only libraries are held in memory as a whole."""
    first = next(pieces, b"")
    digest, build_folder, end = hashlib.sha256(first), scanner.search(first), first[-_OVERLAP:]
    is_library = first.startswith(elf.MAGIC) and size <= LARGEST_LIBRARY
    kept = [first]
    for piece in pieces:
        digest.update(piece)
        build_folder = build_folder or scanner.search(end + piece)  # a path may cross the border of two pieces
        end = piece[-_OVERLAP:]
        if is_library:
            kept.append(piece)
    return _FileFacts(
        sha256=digest.hexdigest(),
        build_folder=build_folder,
        needs=elf.needs(b"".join(kept)) if is_library else None,
        is_archive=first.startswith(ARCHIVE),
    )


def _is_record(name: str, facts: _FileFacts, scanner: BuildPathScanner) -> bool:
    if facts.needs is not None:  # a library uses the directories in its search path, not those in debug information
        return not any(scanner.search(os.fsencode(f"{directory}/")) for directory in facts.needs.folders)
    return facts.is_archive or re.fullmatch(RECORDS, name, re.DOTALL) is not None


def tree_sha256(contents: Contents, checksums: Mapping[bytes, str]) -> str:
    """Return a checksum over every entry's kind, name, and content or target. It does not depend on the compression.

    checksums: the SHA-256 of each file.
    """
    lines = (
        b"%b %b\0%b\0" % (kind.encode(), name, target if kind == SYMLINK else checksums.get(name, "").encode())
        for name, kind, _, target in sorted(contents.entries, key=itemgetter(0))
    )
    return hashlib.sha256(b"".join(lines)).hexdigest()


def _view_problems(contents: Contents) -> Iterator[str]:
    uenv = contents.uenv
    if uenv is None:
        yield "meta/env.json is missing, so the uenv client can mount the image but finds no views in it"
        return
    if uenv.default_view is not None and uenv.default_view not in uenv.views:
        yield f"the default view {uenv.default_view} does not exist"
    for name, view in uenv.views.items():
        paths = [view.root, *([view.activate] if view.activate else [])]
        paths += [path for updates in view.lists.values() for update in updates for path in update.paths]
        for path in dict.fromkeys(paths):
            inside = path == uenv.mount or path.startswith(f"{uenv.mount}/")
            if inside and not contents.holds(path):
                yield f"view {name}: {path} does not exist in the image"


def _is_lock(name: str) -> bool:
    return name.startswith(f"{RECIPE}/") and name.endswith(f"/{LOCK}")


def _package_problems(contents: Contents) -> Iterator[str]:
    locks = [parse_lock(contents.texts[name], f"{contents.path}:{name}") for name in filter(_is_lock, contents.texts)]
    if not locks:
        return
    locked = {package.hash for lock in locks for package in lock.packages}
    for key, install in contents.installs.items():
        if key not in locked:
            yield f"{install.name}@{install.version} (/{key[:7]}) is installed, but is not in the lock"
    directories = {install.folder for install in contents.installs.values()} & contents.by_name.keys()
    parents = {os.path.dirname(directory) for directory in directories} - {""}
    for name in contents.by_name:
        if os.path.dirname(name) in parents and name not in directories:
            yield f"{name} is next to the packages, but Spack's database has no such package"


def _libraries_elsewhere(contents: Contents, needed: Mapping[str, elf.Needs]) -> dict[str, str]:
    users: dict[str, str] = {}
    for name, file in sorted(needed.items()):
        for library in file.libraries:
            users.setdefault(library, name)
    inside = contents.holding(users)  # in any directory, since packages load some libraries by path in advance
    host = re.compile("|".join(f"(?:{pattern})" for pattern in HOST_LIBRARIES))
    return {library: name for library, name in users.items() if library not in inside and not host.fullmatch(library)}
