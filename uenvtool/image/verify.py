"""Verifies images by what is in them, without loading them: views, packages, build folders, libraries, a sum."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from uenvtool.core import elf
from uenvtool.core.errors import ExitCode, Problem
from uenvtool.core.result import Result, Table
from uenvtool.core.words import grouped, listed
from uenvtool.image.contents import Contents
from uenvtool.image.listing import SYMLINK, by_name, listing
from uenvtool.image.metadata import ENV, RECIPE
from uenvtool.image.read import LARGEST_TEXT, read_texts, require_image
from uenvtool.image.stream import Batch, LargeFile, read_contents
from uenvtool.knowledge.lock import DATABASE, LARGEST_DATABASE, LOCK, parse_lock

HOST_LIBRARIES = (
    r"(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|crypt|nsl|anl|gcc_s|stdc\+\+|gomp|mvec))\.so(\.\d+)*",
    r"lib(cuda|nvidia-ml|nvcuvid|nvidia-.*)\.so(\.\d+)*",
    r"lib(fabric|cxi|xpmem|numa|ibverbs|rdmacm|mlx5)\.so(\.\d+)*",
)
"""Libraries that come from where an image runs: the C and C++ run time, the GPU's driver, the network's."""
BUILD_FOLDERS = (b"/spack-stage-", b"/spack-stage/", b".uenvtool-work/", b".uenvtool-install/", b"/dev/shm/uenvtool-")
"""Where Spack and this tool build; nothing that is packed may look for something in such a folder."""
HINTS = (b"spack-stage", b"uenvtool-")
"""What those folders have in common: looked for first, since a text is found far more quickly than a pattern."""
ARCHIVE = b"!<arch>\n"
RECORDS = r"(.*/)?(\.spack/.*|[^/]+\.dist-info/direct_url\.json|[^/]+\.pyc)"
"""Files that record where they come from: Spack's own, pip's (PEP 610), and bytecode for its tracebacks."""
LARGEST_LIBRARY = 4 << 30
_ENV = ENV.encode()
_OVERLAP = 256
_MOST_NAMES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What is known of an image that was read whole.

    problems: what is wrong, a sentence each. recording: files that name a build folder as a record that
    nothing reads when they are used: debug information, messages, where a package came from. elsewhere:
    libraries that neither the image nor every host has, each with one file that needs it; those of an
    overlay may be its base's. sha256: of the tree. libraries, files: how many were read.
    """

    problems: Sequence[str]
    recording: Sequence[str]
    elsewhere: Mapping[str, str]
    sha256: str
    libraries: int
    files: int
    is_overlay: bool


class BuildPathScanner:
    """The names of folders that no file may name, looked for in the contents of many files."""

    def __init__(self, build_folders: Sequence[str]) -> None:
        more = [os.fsencode(folder.rstrip("/")) for folder in build_folders]
        self.hints = (*HINTS, *more)
        ends = (re.escape(folder) + rb"(?![\w.-])" for folder in more)
        self.pattern = re.compile(b"|".join([*map(re.escape, BUILD_FOLDERS), *ends]))

    def hinted(self, content: bytes) -> bool:
        """Tell if a content may have one of the names; quick."""
        return any(hint in content for hint in self.hints)

    def search(self, content: bytes) -> str:
        """Return the first of the names that a content has, or ""."""
        found = self.pattern.search(content) if self.hinted(content) else None
        return os.fsdecode(found[0]) if found else ""


class _FileFacts(NamedTuple):
    """What is known of one file once it was read. A tuple, since an image has many.

    build_folder: the name of a build folder in it, or "". is_archive: it is a library to link in (ar(5)).
    text: its content, if it describes the image.
    """

    sha256: str
    build_folder: str
    needs: elf.Needs | None
    is_archive: bool
    text: bytes


def verify(images: Sequence[Path], build_folders: Sequence[str] = ()) -> Result:
    """Check that every path of a view exists, no file looks into a build folder, and libraries are found.

    build_folders: further folders that no file may name. The exit code is NO if anything is wrong.
    Raises BadInput if a file is not an image or damaged, ToolMissing without unsquashfs 4.5 or later.
    """
    found = [(str(image), examined(image, build_folders)) for image in images]
    problems = [Problem(f"{image}: {problem}") for image, report in found for problem in report.problems]
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
            for image, report in found
        ],
        tables=(Table(headings=("image", "result", "files", "libraries", "tree sha256"), rows=_rows(found)),),
        problems=tuple(problems),
        notes=(
            *(_from_base(image, report) for image, report in found if report.is_overlay and report.elsewhere),
            *(_on_record(image, report) for image, report in found if report.recording),
        ),
        exit_code=ExitCode.NO if problems else ExitCode.DONE,
    )


def _rows(found: Sequence[tuple[str, Report]]) -> list[tuple[str, ...]]:
    return [
        (image, "wrong" if report.problems else "right", str(report.files), str(report.libraries), report.sha256)
        for image, report in found
    ]


def _from_base(image: str, report: Report) -> str:
    libraries = ", ".join(report.elsewhere)
    return f"{image} lies on a base, which has to have {libraries}"


def _on_record(image: str, report: Report) -> str:
    files = f"{len(report.recording)} files record where they were built ({listed(report.recording, _MOST_NAMES)})"
    return f"{image}: {files}, as origin or debug information, which no run looks into"


def examined(image: Path, build_folders: Sequence[str] = ()) -> Report:
    """Read a whole image and check it. build_folders: more that no file may name.

    Raises BadInput if it is no image, or damaged; ToolMissing without unsquashfs 4.5 or later.
    """
    scanner = BuildPathScanner(build_folders)
    contents, read = _read(image, scanner)
    needed = {os.fsdecode(name): facts.needs for name, facts in read.items() if facts.needs is not None}
    elsewhere = libraries_elsewhere(contents, needed)
    others = [] if contents.is_overlay else list(library_problems(elsewhere))
    naming = {os.fsdecode(name): read[name] for name in sorted(name for name in read if read[name].build_folder)}
    recording = [name for name, facts in naming.items() if _is_record(name, facts, scanner)]
    using = {name: facts.build_folder for name, facts in naming.items() if name not in set(recording)}
    return Report(
        problems=[*view_problems(contents), *package_problems(contents), *build_folder_problems(using), *others],
        recording=recording,
        elsewhere=elsewhere,
        sha256=tree_sha256(contents, {name: facts.sha256 for name, facts in read.items()}),
        libraries=len(needed),
        files=len(read),
        is_overlay=contents.is_overlay,
    )


def _read(image: Path, scanner: BuildPathScanner) -> tuple[Contents, dict[bytes, _FileFacts]]:
    head = require_image(image)
    read: dict[bytes, _FileFacts] = {}
    entries = listing(image)
    for found in read_contents(image, entries):
        if isinstance(found, LargeFile):
            read[found.name] = _read_large(found, scanner)
        else:
            read.update(_read_batch(found, scanner))
    env = read.get(_ENV)
    names = by_name(entries)
    texts = read_texts(image, [DATABASE, *_locks(names)], largest=LARGEST_DATABASE, known=names)
    if env is not None and env.text:
        texts[ENV] = env.text.decode("utf-8", "surrogateescape")
    return Contents(path=image, head=head, entries=entries, by_name=names, texts=texts), read


def _read_batch(batch: Batch, scanner: BuildPathScanner) -> Iterator[tuple[bytes, _FileFacts]]:
    for name, start, end in batch.files:
        content = batch.content[start:end]
        yield (
            name,
            _FileFacts(
                hashlib.sha256(content).hexdigest(),
                scanner.search(content),
                elf.needs(content) if content.startswith(elf.MAGIC) else None,
                content.startswith(ARCHIVE),
                content if name == _ENV else b"",
            ),
        )


def _read_large(file: LargeFile, scanner: BuildPathScanner) -> _FileFacts:
    """Read a large file, once. Only what may be a library is held in memory as a whole."""
    first = next(file.pieces)
    digest, build_folder, end = hashlib.sha256(first), scanner.search(first), first[-_OVERLAP:]
    is_library = first.startswith(elf.MAGIC) and file.size <= LARGEST_LIBRARY
    is_text = file.name == _ENV and file.size <= LARGEST_TEXT
    kept = [first] if is_library or is_text else []
    for piece in file.pieces:
        digest.update(piece)
        build_folder = build_folder or scanner.search(end + piece)  # the end of the last: a name may lie on both
        end = piece[-_OVERLAP:]
        if kept:
            kept.append(piece)
    content = b"".join(kept)
    return _FileFacts(
        sha256=digest.hexdigest(),
        build_folder=build_folder,
        needs=elf.needs(content) if is_library else None,
        is_archive=first.startswith(ARCHIVE),
        text=content if is_text else b"",
    )


def _is_record(name: str, facts: _FileFacts, scanner: BuildPathScanner) -> bool:
    """Tell if a file names a build folder without ever looking for something there.

    A library does if it has its libraries looked for there; in its debug information and its messages
    the name is a record.
    """
    if facts.needs is not None:
        return not any(scanner.search(os.fsencode(f"{folder}/")) for folder in facts.needs.folders)
    return facts.is_archive or re.fullmatch(RECORDS, name, re.DOTALL) is not None


def tree_sha256(contents: Contents, sums: Mapping[bytes, str]) -> str:
    """Return one sum of everything in an image: kind, name, and content or target of each name, sorted by name.

    It does not depend on how the image was compressed.
    """
    lines = (
        b"%b %b\0%b\0" % (kind.encode(), name, target if kind == SYMLINK else sums.get(name, "").encode())
        for name, kind, _, target in sorted(contents.entries, key=itemgetter(0))
    )
    return hashlib.sha256(b"".join(lines)).hexdigest()


def view_problems(contents: Contents) -> Iterator[str]:
    """Yield what is wrong with the metadata: no uenv, a default view that is none, paths that do not exist inside."""
    uenv = contents.uenv
    if uenv is None:
        yield "it has no meta/env.json: the uenv client mounts it, and knows no view of it"
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


def _locks(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(f"{RECIPE}/") and name.endswith(f"/{LOCK}")]


def package_problems(contents: Contents) -> Iterator[str]:
    """Name what Spack installed into an image and its lock does not have, in a sentence each."""
    locks = [parse_lock(contents.texts[name], f"{contents.path}:{name}") for name in _locks(contents.texts)]
    if not locks:
        return
    wanted = {package.hash for lock in locks for package in lock.packages}
    for key, install in contents.installs.items():
        if key not in wanted:
            yield f"{install.name}@{install.version} (/{key[:7]}) is installed in it, and its lock does not have that"
    folders = {install.folder for install in contents.installs.values()} & contents.by_name.keys()
    parents = {os.path.dirname(folder) for folder in folders} - {""}
    for name in contents.by_name:
        if os.path.dirname(name) in parents and name not in folders:
            yield f"{name} lies between its packages, and is none of them"


def build_folder_problems(using: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each folder of a build that files use. using: file to build folder."""
    for folder, names in grouped((folder, name) for name, folder in using.items()).items():
        yield f"{folder}, where it was built, is named by {listed(names, _MOST_NAMES)}"


def library_problems(elsewhere: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each library that a uenv, which stands alone, does not have."""
    for library, name in elsewhere.items():
        yield f"{name} needs {library}, which is neither in the image nor a library of every host"


def libraries_elsewhere(contents: Contents, needed: Mapping[str, elf.Needs]) -> dict[str, str]:
    """Return the libraries that have to come from elsewhere, each with the first file that needs it.

    One counts as found that every host has, or that lies anywhere in the image by its name: packages load
    some libraries by their path before others need them, so that no folder leads to these.
    """
    users: dict[str, str] = {}
    for name, file in sorted(needed.items()):
        for library in file.libraries:
            users.setdefault(library, name)
    inside = contents.holding(users)
    host = re.compile("|".join(f"(?:{pattern})" for pattern in HOST_LIBRARIES))
    return {library: name for library, name in users.items() if library not in inside and not host.fullmatch(library)}
