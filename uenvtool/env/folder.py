"""The folder of an environment: where it lies usually, how it is made again, what the tool wrote into it, what changed
since, what may be replaced.

The record in the folder (see core/files/generated.py) also says what the environment is for, and which inputs
the lock answers.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core import files, quoting
from uenvtool.core.errors import BadInput
from uenvtool.core.words import is_within
from uenvtool.env.compilers import COMPILER
from uenvtool.env.environment import Environment
from uenvtool.knowledge.locate import Location
from uenvtool.knowledge.lock import LOCK

PURPOSE = "for"
"""The name in the record for the recipe, system and node type that a folder is for."""
EXTRA = "extra"
"""The folder of metadata that an image gets, such as what a site's tests find in it; no version depends on it."""
MODULES = "modules.yaml"
"""Spack's configuration of module files; no version depends on it."""
MANIFEST = "spack.yaml"
TABLE = "packages.md"
LOG = ".uenvtool-concretize.log"
TOLERATED = {*files.TOLERATED, ".spack-env", LOG}
"""Names that may stand in a folder without making it somebody else's: Spack's, git's and the tool's own."""

_AFTER_RESOLUTION = ("view", "modules", "env_vars")
"""Sections that say how an environment is used; no version depends on them."""
_AFTER_RESOLUTION_IN_CONFIG = ("install_tree",)


def usual_folder(environment: Environment, kind: str = "envs") -> Path:
    """Return the folder of an environment if none is named: one for each system and node type."""
    return Path(kind) / environment.recipe.name / f"{environment.system.name}-{environment.node.uarch}"


def build_again(environment: Environment, folder: Path, *options: str, kind: str = "envs") -> str:
    """Return the command that builds into the same folder again. kind: see `usual_folder`."""
    is_said = environment.output or folder == usual_folder(environment, kind)
    named = [] if is_said else ["-o", shlex.quote(os.fspath(folder))]
    return again(environment, *options, *named)


def again(environment: Environment, *options: str) -> str:
    """Return the command that makes the environment again."""
    words = ["uenvtool", "build", _word(environment.recipe.chain[0]), "--system", _word(environment.system.chain[0])]
    if len(environment.system.nodes) > 1:
        words += ["--uarch", environment.node.uarch]
    if environment.output:
        words += ["-o", environment.output]
    return " ".join([*map(quoting.sh_word, words), *options])


def _word(location: Location) -> str:
    """Return how a file is named on a command line: by its name, or by the path below the current folder."""
    path = location.path
    return location.name if path.is_absolute() or path.as_posix() == location.logical else path.as_posix()


def parts_of(contents: Iterable[str]) -> list[str]:
    """Return the parts of an environment that are resolved by themselves: "", and the folders of its compilers."""
    manifests = [name for name in contents if name == MANIFEST or is_within(name, COMPILER)]
    return sorted(os.path.dirname(name) for name in manifests if os.path.basename(name) == MANIFEST)


def lock_of(part: str) -> str:
    """Return the name of the lock of a part."""
    return os.path.join(part, LOCK)


def resolved_names(contents: Iterable[str]) -> tuple[str, ...]:
    """Return the names of what comes of Spack's answers: the locks of the parts, and the table."""
    return (*map(lock_of, parts_of(contents)), TABLE)


def fingerprint(contents: Mapping[str, str], part: str = "") -> str:
    """Return the digest of what the lock of a part answers: its data without its comments, and the additions.

    A reworded reason, another variable of the view or another mount point does not make a lock old; a
    changed version does.
    """
    beside = (f"{COMPILER}/", f"{EXTRA}/")
    resolved = {
        name: _resolved_data(name, text)
        for name, text in contents.items()
        if name == os.path.join(part, MANIFEST) or (name not in (MANIFEST, MODULES) and not name.startswith(beside))
    }
    return files.digest(json.dumps(resolved, sort_keys=True, default=str))


def refuse_foreign(folder: Path, contents: Mapping[str, str], *, purpose: str, force: bool) -> None:
    """Refuse to replace what is not the tool's, what is for another system, or what was changed by hand.

    `force` lets the tool's own changed files be replaced; all else is never touched. Raises BadInput.
    """
    recorded = files.read_record(folder).more.get(PURPOSE)
    if recorded and recorded != purpose:
        raise BadInput(
            f"{folder} is {recorded}, and this would be {purpose}",
            hint="it stays as it is, also with --force: choose another folder with -o",
        )
    files.refuse_foreign(folder, contents, reserved=resolved_names(contents), tolerated=TOLERATED, force=force)


def lock_is_of(folder: Path, contents: Mapping[str, str], part: str) -> bool:
    """Tell if the lock of a part answers an environment of these files, and is as Spack wrote it."""
    record, name = files.read_record(folder), lock_of(part)
    answered = _answers(record.more).get(part)
    is_answer = isinstance(answered, dict) and answered.get("of") == fingerprint(contents, part)
    content = files.content_inside(folder, name)
    return is_answer and content is not None and record.files.get(name) == files.digest(content)


def _answers(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the record says of each part's lock."""
    compilers = recorded.get("compilers")
    return {"": recorded.get("lock"), **(compilers if isinstance(compilers, dict) else {})}


def deviations_of_locks(folder: Path) -> tuple[str, ...]:
    """Return what was not as pinned when the locks were made, a sentence each."""
    made = _answers(files.read_record(folder).more).values()
    found = [answer.get("deviations") for answer in made if isinstance(answer, dict)]
    return tuple(dict.fromkeys(str(sentence) for told in found if isinstance(told, list) for sentence in told))


def write_environment(folder: Path, contents: Mapping[str, str], *, purpose: str) -> None:
    """Write an environment's files and the record; files of an earlier recipe are removed.

    A lock that answers other inputs stays until a new one replaces it.
    """
    more = {**files.read_record(folder).more, PURPOSE: purpose}
    files.write_generated(folder, contents, keep=resolved_names(contents), more=more)


def write_locks(
    folder: Path,
    locks: Mapping[str, str],
    table: str,
    *,
    contents: Mapping[str, str],
    spack: str,
    deviations: Sequence[str] = (),
) -> None:
    """Write the locks of parts and the table; record which inputs each answers, who made it, what was not as pinned."""
    record = files.read_record(folder)
    made = {part: {"of": fingerprint(contents, part), "spack": spack, "deviations": list(deviations)} for part in locks}
    main, *compilers = sorted({**_answers(record.more), **made}.items())
    more = {**record.more, "lock": main[1], **({"compilers": dict(compilers)} if compilers else {})}
    texts = {lock_of(part): text for part, text in locks.items()}
    files.write_generated(folder, {**texts, TABLE: table}, keep=record.names, more=more)


def _resolved_data(name: str, text: str) -> object:
    """Return what of a file versions can depend on: all but how the environment is used and where it is installed."""
    import yaml

    if not name.endswith(".yaml"):
        return files.digest(text)
    loaded = yaml.load(text, Loader=yaml.CSafeLoader)
    sections = loaded.get("spack")
    if not isinstance(sections, dict):
        return loaded
    kept = {section: value for section, value in sections.items() if section not in _AFTER_RESOLUTION}
    config = {key: value for key, value in kept.pop("config", {}).items() if key not in _AFTER_RESOLUTION_IN_CONFIG}
    return {**kept, "config": config} if config else kept
