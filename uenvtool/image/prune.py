"""Removes stores and images that nobody used for long: those that image build made, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput, ExitCode, ToolFailed, UenvtoolError
from uenvtool.core.result import Progress, Result, Table, silent
from uenvtool.core.value import value_class
from uenvtool.core.words import size_text
from uenvtool.env.after import LOCAL, MODULE_FILES
from uenvtool.env.install import ENVIRONMENT, WORK, usual_stores
from uenvtool.image.cache import marker_of
from uenvtool.image.metadata import PACKED
from uenvtool.image.read import read_texts
from uenvtool.image.status import in_use
from uenvtool.knowledge.lock import DATABASE, LARGEST_DATABASE, LOCK
from uenvtool.knowledge.site import site_here

DAY = 24 * 60 * 60
REMOVED = ".uenvtool-removed"
"""The end of a store's name while it is removed; a run that is killed leaves it to the next one."""
OF_SPACK = frozenset({".spack-db", ".spack", "bin", "env", MODULE_FILES, LOCAL, WORK})
"""What lies in a store beside the folders of packages."""
KNOWN_BY = (".spack-db", WORK)
"""What tells that a store is one, and is removed last."""
NOT_REMOVED = "not removed: "
BLOCK_DEVICES, MOUNTS = Path("/sys/block"), Path("/proc/self/mounts")
_ESCAPED = re.compile(r"\\([0-7]{3})")
"""A space and the like in MOUNTS (proc_pid_mounts(5), fstab(5))."""
_HASHED = re.compile(r"-[0-9a-f]{12}$")


@value_class
class Candidate:
    """A store or an image. used: when it last was, in seconds since 1970. kept: why it is not removed; "" if it is."""

    path: Path
    kind: str
    used: float
    bytes: int
    kept: str = ""

    @property
    def days(self) -> int:
        """Whole days since it was last used."""
        return max(0, int((time.time() - self.used) // DAY))

    def data(self) -> dict[str, Any]:
        """As data for --json."""
        about = {"path": str(self.path), "kind": self.kind, "days": self.days, "bytes": self.bytes}
        return {**about, "kept": self.kept or None}


def prune(
    folders: Sequence[Path], older: int, newest: int, *, delete: bool = False, progress: Progress = silent
) -> Result:
    """Show which stores and images of some folders were not used for so many days, and remove them with `delete`.

    folders: they or the folders around them; none: the stores of the site, else the user's own. newest: how many of
    the same name stay, whatever their age. What somebody works on, and what image build did not make, stays.
    Raises BadInput for a folder that is none.
    """
    with progress("looking for stores and images"):
        usual = Path(site_here().stores or usual_stores())
        found = list(_found(folders or ([usual] if usual.is_dir() else [])))
    judged = list(_judged(found, older, newest))
    if delete:
        judged = [_removed(candidate, progress) if not candidate.kept else candidate for candidate in judged]
    gone = [candidate for candidate in judged if not candidate.kept]
    verb = "removed" if delete else "would be removed"
    text = f"{len(gone)} of {len(judged)} {verb}, {size_text(sum(candidate.bytes for candidate in gone))}"
    text = text if judged or folders else f"no store is in {usual}"
    again = ["uenvtool", "image", "prune", *map(str, folders), "--older", str(older), "--keep", str(newest)]
    rows = [
        (
            candidate.kept or verb,
            candidate.kind,
            f"{candidate.days} days",
            size_text(candidate.bytes),
            str(candidate.path),
        )
        for candidate in judged
    ]
    return Result(
        data={"removed": delete, "found": [candidate.data() for candidate in judged]},
        text=text,
        tables=(Table(headings=("", "what", "not used for", "size", "where"), rows=rows),) if rows else (),
        next=() if delete or not gone else (shlex.join([*again, "--delete"]),),
        exit_code=ExitCode.FAILED if any(one.kept.startswith(NOT_REMOVED) for one in judged) else ExitCode.DONE,
    )


def _found(folders: Sequence[Path]) -> Iterator[Candidate]:
    """Yield the stores and images among some folders and what lies in them, each once."""
    for folder in folders:
        if not folder.is_dir():
            raise BadInput(f"{folder} is not a folder", hint="name stores, images' folders, or the folders around them")
    named = [folder.absolute() for folder in folders]
    inside = [child for folder in named if not _is_store(folder) for child in sorted(folder.iterdir())]
    for path in dict.fromkeys([*named, *inside]):
        if path.is_symlink():
            continue
        if _is_store(path):
            used = max(files.modified(path / name) for name in (WORK, DATABASE, f"{ENVIRONMENT}/{LOCK}"))
            yield Candidate(path=path, kind="store", used=used, bytes=_size(path), kept=_why_stays(path))
        elif path.suffix == ".squashfs" and _is_ours(path):
            kept = "mounted here" if _is_mounted(path) else ""
            yield Candidate(path=path, kind="image", used=files.modified(path), bytes=path.stat().st_size, kept=kept)


def _is_store(path: Path) -> bool:
    """Tell if `image build` installs into a folder, or a run that removed it was killed."""
    return (path / ENVIRONMENT / LOCK).is_file()


def _is_ours(image: Path) -> bool:
    """Tell if `image build` packed an image."""
    try:
        packed = json.loads(read_texts(image, [PACKED]).get(PACKED, "{}"))
        return bool(packed.get("generator") == "uenvtool" and packed.get("kind") == "environment")
    except (UenvtoolError, ValueError, AttributeError):
        return False


def _why_stays(store: Path) -> str:
    """Return why a store is not to be removed: who works on it, or what in it is not its own; "" if nothing."""
    if used_by := in_use(store):
        return used_by
    try:
        rows = json.loads(files.read_bytes(store / DATABASE, LARGEST_DATABASE))["database"]["installs"].values()
        prefixes = [Path(row["path"]).parts for row in rows if row["path"]]
    except FileNotFoundError:
        prefixes = []
    except (BadInput, ValueError, KeyError, TypeError, AttributeError):
        return "its database cannot be read"
    own = {*OF_SPACK, "compilers", *(part for parts in prefixes for part in parts)}
    strangers = sorted(name for name in os.listdir(store) if name not in own)
    return f"holds what is not ours: {strangers[0]}" if strangers else ""


def _is_mounted(image: Path) -> bool:
    """Tell if an image is mounted on this machine, by the kernel or by squashfuse."""
    mounted: set[str] = set()
    for path in BLOCK_DEVICES.glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):  # a device may end meanwhile
            mounted.add(os.fsdecode(path.read_bytes()).rstrip("\n"))
    with contextlib.suppress(OSError):
        lines = os.fsdecode(MOUNTS.read_bytes()).splitlines()
        mounted |= {_ESCAPED.sub(lambda code: chr(int(code[1], 8)), line.split(" ")[0]) for line in lines}
    return bool(mounted & {str(image), os.path.realpath(image)})  # the kernel names the latter, squashfuse what it got


def _judged(found: Sequence[Candidate], older: int, newest: int) -> Iterator[Candidate]:
    """Yield the candidates, those that are too young or the newest of their name with the reason why they stay."""
    seen: Counter[tuple[str, str]] = Counter()
    for candidate in sorted(found, key=lambda candidate: (-candidate.used, candidate.path)):
        name = (candidate.kind, _HASHED.sub("", candidate.path.name.removesuffix(".squashfs")))
        seen[name] += 1
        is_newest = seen[name] <= newest and not candidate.path.name.endswith(REMOVED)
        why = "used lately" if candidate.days < older else f"newest of {name[1]}" if is_newest else ""
        yield replace(candidate, kept=candidate.kept or why)


def _removed(candidate: Candidate, progress: Progress) -> Candidate:
    """Remove a store or an image with its mark; one that somebody works on by now stays."""
    path = candidate.path
    with progress(f"removing {path}"):
        try:
            if candidate.kind == "image":
                files.remove_file(path)
                files.remove_file(marker_of(path))
                return candidate
            with files.locked(path, below=False):
                aside = path if path.name.endswith(REMOVED) else path.with_name(f"{path.name}{REMOVED}")
                files.move(path, aside)
                for name in sorted(os.listdir(aside), key=KNOWN_BY.count):
                    files.remove_tree(aside / name)
                files.remove_empty_folder(aside)
        except (ToolFailed, OSError) as error:
            why = error.problems[0].message if isinstance(error, ToolFailed) else str(error)
            return replace(candidate, kept=f"{NOT_REMOVED}{why}")
    return candidate


def _size(folder: Path) -> int:
    """Return how much of the disk a folder takes; a file with several names counts once."""
    sizes: dict[tuple[int, int], int] = {}
    for here, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(here, name))
            except OSError:
                continue
            sizes[(status.st_dev, status.st_ino)] = status.st_blocks * 512
    return sum(sizes.values())
