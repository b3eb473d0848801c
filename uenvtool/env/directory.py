"""The directory of an environment: its default path, its generated files, and the command that regenerates them.

uenvtool stores a record in the directory (see core/files/generated.py). The record also contains the purpose of the
environment and, for each lock, the digests of the inputs that Spack resolved.
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
"""The key in the record for the recipe, system and node type of the environment."""
EXTRA = "extra"
"""The directory of image metadata, such as the features for a site's tests. No version depends on these files."""
MODULES = "modules.yaml"
"""The file with Spack's configuration of module files. No package version depends on this file."""
MANIFEST = "spack.yaml"
TABLE = "packages.md"
LOG = ".uenvtool-concretize.log"
TOLERATED = {*files.TOLERATED, ".spack-env", LOG}
"""The names of files by Spack, git and uenvtool that may already be in a directory that uenvtool writes."""

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
    "concretizer.os_compatible": "Spack can use packages for these other operating systems",
    "concretizer.splice": "it replaces dependencies of packages that are already built",
    "concretizer.externals": "it decides whether external packages get default variants",
    "concretizer.error_on_timeout": "with false, Spack accepts the best answer that it has at the timeout",
}
"""The keys of spack.yaml that decide which versions and variants Spack chooses, with the reason for each key.

A lock stays valid if any other key changes. For example, `static_analysis` and `timeout` of `concretizer` only change
how long Spack takes, and Spack reads `view` and `config.install_tree` only after it has resolved the environment.
Source of the keys of `concretizer`: etc/spack/defaults/base/concretizer.yaml in Spack's repository at commit 0cdc4e5.
"""


def usual_directory(environment: Environment, kind: str = "envs") -> Path:
    """Return the default directory of an environment, which depends on its recipe, system and node type."""
    return Path(kind) / environment.recipe.name / f"{environment.system.name}-{environment.node.uarch}"


def build_again(environment: Environment, directory: Path, *options: str, kind: str = "envs") -> str:
    """Return the command that regenerates an environment in the same directory. kind: see `usual_directory`."""
    is_implied = environment.output or directory == usual_directory(environment, kind)
    output = [] if is_implied else ["-o", shlex.quote(os.fspath(directory))]
    return again(environment, *options, *output)


def again(environment: Environment, *options: str) -> str:
    """Return the command that regenerates an environment."""
    recipe, system = environment.recipe.chain[0], environment.system.chain[0]
    arguments = ["uenvtool", "build", _name_or_path(recipe), "--system", _name_or_path(system)]
    if len(environment.system.nodes) > 1:
        arguments += ["--uarch", environment.node.uarch]
    if environment.output:
        arguments += ["-o", environment.output]
    return " ".join([*map(quoting.sh_word, arguments), *options])


def _name_or_path(location: Location) -> str:
    path = location.path
    return location.name if path.is_absolute() or path.as_posix() == location.logical else path.as_posix()


def parts_of(contents: Iterable[str]) -> list[str]:
    """Return the parts of an environment that Spack resolves separately: "", and the directories of its compilers."""
    manifests = [name for name in contents if name == MANIFEST or is_within(name, COMPILER)]
    return sorted(os.path.dirname(name) for name in manifests if os.path.basename(name) == MANIFEST)


def lock_of(part: str) -> str:
    """Return the path of a part's lock, relative to the environment."""
    return os.path.join(part, LOCK)


def resolved_names(contents: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the files that Spack's result determines: the locks of all parts, and the package table."""
    return (*map(lock_of, parts_of(contents)), TABLE)


def inputs_of(contents: Mapping[str, str], part: str = "") -> dict[str, str]:
    """Return the digest of each input of a part's lock. The inputs are the keys in `DECIDING` and the additions.

    The digest of a YAML file covers its data, so changed comments do not change the digest.
    """
    sections = yaml_data(contents[os.path.join(part, MANIFEST)])["spack"]
    values = {}
    for key in DECIDING:
        section, _, name = key.partition(".")
        values[key] = sections.get(section, {}).get(name) if name else sections.get(section)
    values[REPOSITORY] = {
        name: yaml_data(text) if name.endswith(".yaml") else files.digest(text)
        for name, text in contents.items()
        if is_within(name, REPOSITORY)
    }
    return {
        key: files.digest(json.dumps(value, sort_keys=True, default=str))
        for key, value in values.items()
        if value not in (None, {})
    }


def yaml_data(text: str) -> Any:
    """Return the data in the text of a generated YAML file."""
    import yaml

    readable = text.encode("utf-8", "backslashreplace")  # the header may name a path that is not UTF-8
    return yaml.load(readable, Loader=yaml.CSafeLoader)


def write_environment(directory: Path, contents: Mapping[str, str], *, purpose: str, force: bool) -> None:
    """Write an environment's files and the record, and remove files that only an earlier version of the recipe had.

    A lock that is out of date stays until a new lock replaces it. Raises BadInput for files that uenvtool did not
    write, that belong to another environment, or that the user edited. With `force`, uenvtool replaces edited files,
    but no others.
    """
    recorded = files.read_record(directory).more
    if (recorded.get(PURPOSE) or purpose) != purpose:
        raise BadInput(
            f"{directory} contains {recorded[PURPOSE]}, not {purpose}",
            hint="choose another directory with -o; --force does not replace it either",
        )
    resolved = resolved_names(contents)
    files.refuse_foreign(directory, contents, reserved=resolved, tolerated=TOLERATED, force=force)
    files.write_generated(directory, contents, keep=resolved, more={**recorded, PURPOSE: purpose})


def why_outdated(directory: Path, contents: Mapping[str, str], part: str) -> str:
    """Return why the lock of a part cannot be kept, or "" if Spack made it from these inputs and nobody edited it."""
    record, name, inputs = files.read_record(directory), lock_of(part), inputs_of(contents, part)
    recorded = _lock_records(record.more).get(part, {}).get("of")
    digests = recorded if isinstance(recorded, dict) else {}
    changed = [key for key in (*DECIDING, REPOSITORY) if digests.get(key) != inputs.get(key)]
    if changed:
        return f"is out of date, because these inputs changed: {', '.join(changed)}"
    content = files.content_inside(directory, name)
    return "" if content is not None and record.files.get(name) == files.digest(content) else "was edited"


def _lock_records(recorded: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    compilers = recorded.get("compilers")
    records = {"": recorded.get("lock"), **(compilers if isinstance(compilers, dict) else {})}
    return {part: record for part, record in records.items() if isinstance(record, dict)}


def deviations_of_locks(directory: Path) -> tuple[str, ...]:
    """Return a sentence for each Spack or repository version that differed from its pin when the locks were made."""
    records = _lock_records(files.read_record(directory).more).values()
    lists = [sentences for record in records if isinstance(sentences := record.get("deviations"), list)]
    return tuple(dict.fromkeys(str(sentence) for sentences in lists for sentence in sentences))


def write_locks(
    directory: Path,
    locks: Mapping[str, str],
    table: str,
    *,
    contents: Mapping[str, str],
    spack: str,
    deviations: Sequence[str],
) -> None:
    """Write locks, by part, and the table. Record each lock's inputs, Spack version and deviations from pins."""
    record = files.read_record(directory)
    made = {part: {"of": inputs_of(contents, part), "spack": spack, "deviations": list(deviations)} for part in locks}
    records = dict(sorted({**_lock_records(record.more), **made}.items()))
    more = {**record.more, "lock": records.pop("", None), **({"compilers": records} if records else {})}
    texts = {lock_of(part): text for part, text in locks.items()}
    files.write_generated(directory, {**texts, TABLE: table}, keep=record.names, more=more)
