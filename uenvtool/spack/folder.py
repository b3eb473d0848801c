"""The folder of an environment: what the tool wrote into it, what changed since, what may be replaced.

`.uenvtool.json` in the folder records what the environment is for, the digest of each file that the
tool wrote, and the digest of the inputs that the lock answers. A file that is not in that record is
somebody else's and is never replaced.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.errors import BadInput, Position
from uenvtool.files import write_all

RECORD = ".uenvtool.json"
COMPILER = "compiler"
"""The folder of the environment that is installed first, if the system lacks the compiler."""
LOCK = "spack.lock"
TABLE = "packages.md"
TOLERATED = {".gitignore", ".spack-env", ".uenvtool-concretize.log", RECORD}
"""Names that may stand in a folder without making it somebody else's: Spack's, git's and the tool's own."""

_AFTER_RESOLUTION = ("view", "modules", "env_vars")
"""Sections that say how an environment is used; no version depends on them."""
_AFTER_RESOLUTION_IN_CONFIG = ("install_tree",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the tool wrote into a folder.

    purpose: the recipe, system and node type that the folder is for. files: relative path to sha256.
    lock_of: the fingerprint of the inputs that the lock answers. spack: the version that made the lock.
    """

    purpose: str = ""
    files: dict[str, str] = field(default_factory=dict)
    lock_of: str = ""
    spack: str = ""

    def text(self) -> str:
        """The record as the file holds it."""
        data: dict[str, Any] = {"generator": "uenvtool"}
        if self.purpose:
            data["for"] = self.purpose
        data["files"] = dict(sorted(self.files.items()))
        if self.lock_of:
            data["lock"] = {"of": self.lock_of, "spack": self.spack}
        return json.dumps(data, indent=1) + "\n"


def digest(content: str | bytes) -> str:
    """The sha256 of a file's content."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def fingerprint(files: Mapping[str, str]) -> str:
    """The digest of what a lock answers: the main environment's data without its comments, and its other files.

    A reworded reason, another variable of the view or another mount point does not make a lock old; a
    changed version does.
    """
    content = {name: _resolved_data(name, text) for name, text in files.items() if not name.startswith(f"{COMPILER}/")}
    return digest(json.dumps(content, sort_keys=True, default=str))


def read_record(folder: Path) -> Record:
    """The record of a folder; an empty one if there is none.

    Raises BadInput if the record cannot be read as one.
    """
    path = folder / RECORD
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        lock = data.get("lock", {})
        return Record(
            purpose=str(data.get("for", "")),
            files=dict(data["files"]),
            lock_of=str(lock.get("of", "")),
            spack=str(lock.get("spack", "")),
        )
    except FileNotFoundError:
        return Record()
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise BadInput(
            "this record of what uenvtool wrote cannot be read",
            Position(str(path)),
            "restore it from version control, or build into another folder with -o",
        ) from error


def refuse_foreign(folder: Path, files: Mapping[str, str], *, purpose: str, force: bool) -> None:
    """Refuse to replace what is not the tool's, what is for another system, or what was changed by hand.

    `force` lets the tool's own changed files be replaced; all else is never touched. Raises BadInput.
    """
    if not folder.is_dir():
        return
    record = read_record(folder)
    _refuse_another_purpose(folder, record, purpose)
    unknown = [name for name in (*files, LOCK, TABLE) if (folder / name).exists() and name not in record.files]
    identical = [name for name in unknown if name in files and _content(folder / name) == files[name].encode()]
    foreign = [name for name in unknown if name not in identical]
    if foreign:
        raise BadInput(
            f"{folder / foreign[0]} was not written by uenvtool",
            hint="it stays as it is, also with --force: move it away, or choose another folder with -o",
        )
    others = sorted(path.name for path in folder.iterdir() if path.name not in TOLERATED)
    if not record.files and not identical and others and not force:
        raise BadInput(
            f"{folder} holds other files ({', '.join(others[:3])}{', ...' if len(others) > 3 else ''})",
            hint="choose another folder with -o, or add the environment beside them with --force",
        )
    changed = [name for name in sorted(record.files) if name in files and _edited(folder / name, record, name, files)]
    if changed and not force:
        raise BadInput(
            f"{folder / changed[0]} was changed since uenvtool wrote it",
            hint="put the change into the recipe or system, then replace the file with --force",
        )


def lock_is_of(folder: Path, inputs: str) -> bool:
    """Whether the folder's lock answers the inputs with that fingerprint, and is as Spack wrote it."""
    record = read_record(folder)
    content = _content(folder / LOCK)
    return content is not None and record.lock_of == inputs and record.files.get(LOCK) == digest(content)


def write_environment(folder: Path, files: Mapping[str, str], *, purpose: str) -> None:
    """Write an environment's files and the record; files of an earlier recipe are removed.

    A lock that answers other inputs stays until a new one replaces it.
    """
    old = read_record(folder)
    kept = {name: old.files[name] for name in (LOCK, TABLE) if name in old.files}
    written = {name: digest(text) for name, text in files.items()}
    record = dataclasses.replace(old, purpose=purpose, files={**kept, **written})
    write_all(folder, {**files, RECORD: record.text()})
    for name in set(old.files) - set(record.files):
        (folder / name).unlink(missing_ok=True)
        for parent in (folder / name).parents:
            if parent == folder or any(parent.iterdir()):
                break
            parent.rmdir()


def write_lock(folder: Path, lock: str, table: str, *, inputs: str, spack: str) -> None:
    """Write a lock and its table, and record which inputs it answers and which Spack made it."""
    old = read_record(folder)
    files = {**old.files, LOCK: digest(lock), TABLE: digest(table)}
    record = dataclasses.replace(old, files=files, lock_of=inputs, spack=spack)
    write_all(folder, {LOCK: lock, TABLE: table, RECORD: record.text()})


def write_table(folder: Path, table: str) -> None:
    """Write the table of a lock that stays."""
    old = read_record(folder)
    record = dataclasses.replace(old, files={**old.files, TABLE: digest(table)})
    write_all(folder, {TABLE: table, RECORD: record.text()})


def _refuse_another_purpose(folder: Path, record: Record, purpose: str) -> None:
    if record.purpose and record.purpose != purpose:
        raise BadInput(
            f"{folder} is {record.purpose}, and this would be {purpose}",
            hint="it stays as it is, also with --force: choose another folder with -o",
        )


def _resolved_data(name: str, text: str) -> object:
    """What of a file versions can depend on: all but how the environment is used and where it is installed."""
    import yaml

    if not name.endswith(".yaml"):
        return digest(text)
    loaded = yaml.load(text, Loader=yaml.CSafeLoader)
    sections = loaded.get("spack")
    if not isinstance(sections, dict):
        return loaded
    kept = {section: value for section, value in sections.items() if section not in _AFTER_RESOLUTION}
    config = {key: value for key, value in kept.pop("config", {}).items() if key not in _AFTER_RESOLUTION_IN_CONFIG}
    return {**kept, "config": config} if config else kept


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _edited(path: Path, record: Record, name: str, files: Mapping[str, str]) -> bool:
    """Whether a file is neither what the tool wrote nor what it is about to write.

    The second is what a run that was killed before it wrote the record leaves.
    """
    content = _content(path)
    return content is not None and digest(content) != record.files[name] and content != files[name].encode()
