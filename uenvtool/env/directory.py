"""The directory of an environment: its default path, its generated files, and the command that regenerates them.

The record in the directory (see core/files/generated.py) also contains the purpose of the environment and the
digests of the inputs that each lock was made from.
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
from uenvtool.env.environment import REPOSITORY, Environment
from uenvtool.knowledge.locate import Location
from uenvtool.knowledge.lock import LOCK

PURPOSE = "for"
"""The key in the record for the recipe, system and node type of a directory."""
EXTRA = "extra"
"""The directory of metadata for the image, such as the features that a site's tests check. No version depends on it."""
MODULES = "modules.yaml"
"""Spack's configuration of module files. No version depends on it."""
MANIFEST = "spack.yaml"
TABLE = "packages.md"
LOG = ".uenvtool-concretize.log"
TOLERATED = {*files.TOLERATED, ".spack-env", LOG}
"""Names of Spack, git and uenvtool that may be in a directory that uenvtool writes."""

DECIDING = {
    "definitions": "`specs` refers to these lists of specs",
    "specs": "Spack resolves these packages",
    "packages": "they contain the requirements, preferences, variants and external packages",
    "repos": "they contain the classes of the packages",
    "include": "the included files can contain any of these keys",
    "toolchains": "a spec can select compilers by the name of a toolchain",
    "develop": "a package whose source is a local directory gets the variant dev_path",
    "config.deprecated": "without it, Spack rejects deprecated versions",
    "concretizer.unify": "true allows only one version of each package",
    "concretizer.reuse": "Spack prefers packages that are already installed",
    "concretizer.targets": "it decides which CPU targets Spack considers",
    "concretizer.duplicates": "it limits how many versions of a build tool or compiler one package can use",
    "concretizer.compiler_mixing": "false forces all packages of a root spec to use the same compiler",
    "concretizer.os_compatible": "packages for these other operating systems can be used",
    "concretizer.splice": "it replaces dependencies of packages that are already built",
    "concretizer.externals": "it decides whether external packages get default variants",
    "concretizer.error_on_timeout": "false accepts the best answer that was found before the timeout",
}
"""The keys of spack.yaml that decide which versions and variants Spack chooses, with the reason for each.

A lock stays valid if any other key changes. For example, `static_analysis` and `timeout` of `concretizer` only change
how long Spack takes, and `view` and `config.install_tree` only matter after it. Source of the keys of `concretizer`:
etc/spack/defaults/base/concretizer.yaml in Spack's repository at commit 0cdc4e5.
"""


def usual_directory(environment: Environment, kind: str = "envs") -> Path:
    """Return the default directory of an environment: one per recipe, system and node type."""
    return Path(kind) / environment.recipe.name / f"{environment.system.name}-{environment.node.uarch}"


def build_again(environment: Environment, directory: Path, *options: str, kind: str = "envs") -> str:
    """Return the command that regenerates an environment in the same directory. kind: see `usual_directory`."""
    is_implied = environment.output or directory == usual_directory(environment, kind)
    output = [] if is_implied else ["-o", shlex.quote(os.fspath(directory))]
    return again(environment, *options, *output)


def again(environment: Environment, *options: str) -> str:
    """Return the command that regenerates the environment."""
    recipe, system = environment.recipe.chain[0], environment.system.chain[0]
    arguments = ["uenvtool", "build", _argument(recipe), "--system", _argument(system)]
    if len(environment.system.nodes) > 1:
        arguments += ["--uarch", environment.node.uarch]
    if environment.output:
        arguments += ["-o", environment.output]
    return " ".join([*map(quoting.sh_word, arguments), *options])


def _argument(location: Location) -> str:
    """Return the name of a recipe or system, or its path relative to the current directory."""
    path = location.path
    return location.name if path.is_absolute() or path.as_posix() == location.logical else path.as_posix()


def parts_of(contents: Iterable[str]) -> list[str]:
    """Return the parts of an environment that are resolved separately: "", and the directories of its compilers."""
    manifests = [name for name in contents if name == MANIFEST or is_within(name, COMPILER)]
    return sorted(os.path.dirname(name) for name in manifests if os.path.basename(name) == MANIFEST)


def lock_of(part: str) -> str:
    """Return the path of a part's lock, relative to the environment."""
    return os.path.join(part, LOCK)


def resolved_names(contents: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the files that depend on Spack's result: the locks of the parts, and the table."""
    return (*map(lock_of, parts_of(contents)), TABLE)


def inputs_of(contents: Mapping[str, str], part: str = "") -> dict[str, str]:
    """Return the digest of each input of a part's lock, which are the keys in `DECIDING` and the package additions.

    The digests of YAML files are made from their data, so comments do not matter.
    """
    sections = _data(contents[os.path.join(part, MANIFEST)])["spack"]
    values = {key: _value(sections, *key.split(".")) for key in DECIDING}
    additions = {name: text for name, text in contents.items() if is_within(name, REPOSITORY)}
    values[REPOSITORY] = {
        name: _data(text) if name.endswith(".yaml") else files.digest(text) for name, text in additions.items()
    }
    return {
        key: files.digest(json.dumps(value, sort_keys=True, default=str))
        for key, value in values.items()
        if value not in (None, {})
    }


def _data(text: str) -> Any:
    import yaml

    readable = text.encode("utf-8", "backslashreplace")  # the header may name a path that is not UTF-8
    return yaml.load(readable, Loader=yaml.CSafeLoader)


def _value(sections: Mapping[str, Any], section: str, key: str = "") -> object:
    return sections.get(section, {}).get(key) if key else sections.get(section)


def refuse_foreign(directory: Path, contents: Mapping[str, str], *, purpose: str, force: bool) -> None:
    """Raise BadInput if files would be replaced that uenvtool did not write, are for another system, or were edited.

    With `force`, edited files that uenvtool wrote are replaced. Other files are never replaced.
    """
    recorded = files.read_record(directory).more.get(PURPOSE)
    if recorded and recorded != purpose:
        raise BadInput(
            f"{directory} contains {recorded}, not {purpose}",
            hint="choose another directory with -o; --force does not replace it either",
        )
    files.refuse_foreign(directory, contents, reserved=resolved_names(contents), tolerated=TOLERATED, force=force)


def why_outdated(directory: Path, contents: Mapping[str, str], part: str) -> str:
    """Return why the lock of a part cannot be kept, or "" if it was made from these inputs and was not edited."""
    record, name, inputs = files.read_record(directory), lock_of(part), inputs_of(contents, part)
    lock_record = _lock_records(record.more).get(part)
    recorded = lock_record.get("of") if isinstance(lock_record, dict) else None
    recorded = recorded if isinstance(recorded, dict) else {}
    changed = [key for key in (*DECIDING, REPOSITORY) if recorded.get(key) != inputs.get(key)]
    if changed:
        return f"is out of date, because these inputs changed: {', '.join(changed)}"
    content = files.content_inside(directory, name)
    return "" if content is not None and record.files.get(name) == files.digest(content) else "was edited"


def _lock_records(recorded: Mapping[str, Any]) -> dict[str, Any]:
    compilers = recorded.get("compilers")
    return {"": recorded.get("lock"), **(compilers if isinstance(compilers, dict) else {})}


def deviations_of_locks(directory: Path) -> tuple[str, ...]:
    """Return a sentence for each input that differed from its pin when the locks were made."""
    records = _lock_records(files.read_record(directory).more).values()
    recorded = [record.get("deviations") for record in records if isinstance(record, dict)]
    lists = [sentences for sentences in recorded if isinstance(sentences, list)]
    return tuple(dict.fromkeys(str(sentence) for sentences in lists for sentence in sentences))


def write_environment(directory: Path, contents: Mapping[str, str], *, purpose: str) -> None:
    """Write an environment's files and the record, and remove the files that an earlier recipe left.

    A lock that is out of date stays until a new one replaces it.
    """
    more = {**files.read_record(directory).more, PURPOSE: purpose}
    files.write_generated(directory, contents, keep=resolved_names(contents), more=more)


def write_locks(
    directory: Path,
    locks: Mapping[str, str],
    table: str,
    *,
    contents: Mapping[str, str],
    spack: str,
    deviations: Sequence[str] = (),
) -> None:
    """Write the locks of parts and the table. Record each lock's inputs, Spack version, and deviations from pins."""
    record = files.read_record(directory)
    made = {part: {"of": inputs_of(contents, part), "spack": spack, "deviations": list(deviations)} for part in locks}
    main, *compilers = sorted({**_lock_records(record.more), **made}.items())
    more = {**record.more, "lock": main[1], **({"compilers": dict(compilers)} if compilers else {})}
    texts = {lock_of(part): text for part, text in locks.items()}
    files.write_generated(directory, {**texts, TABLE: table}, keep=record.names, more=more)
