"""Runs Spack without the user's configuration."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.core import processes
from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import remove_tree, scratch_folder, write, write_all
from uenvtool.env.output import no_key
from uenvtool.env.program import Spack
from uenvtool.knowledge.system import GitPin

REACH = Path(__file__).parent / "scripts" / "reach_mirrors.py"
FOREIGN_VARIABLES = (
    "SPACK_ENV",
    "SPACK_ENV_VIEW",
    "SPACK_USER_CONFIG_PATH",
    "SPACK_SYSTEM_CONFIG_PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONUSERBASE",
    "VIRTUAL_ENV",
)
"""Variables of another Spack environment, and of a Python environment that Spack's Python must not read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Runner:
    """Runs Spack commands on the environment in a directory.

    scope: a directory of Spack configuration that overrides the environment's configuration, see `write_scope`.
    user_scope: the user's directory of Spack configuration, which overrides the environment's but not `scope`. prefix:
    the command that runs Spack, such as the command that mounts the store. variables: additional environment variables
    for Spack.
    """

    spack: Spack
    directory: Path
    scope: Path
    user_scope: Path | None = None
    prefix: tuple[str | Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def command(self, *arguments: str | Path) -> list[str]:
        user_scope = ["-C", self.user_scope] if self.user_scope else []  # the last -C has the highest priority
        options = ["--color", "never", *user_scope, "-C", self.scope, "-e", self.directory]
        return list(map(str, [*self.prefix, self.spack.program, *options, *arguments]))

    def run(self, *arguments: str | Path, on_line: processes.LineHandler | None = None) -> processes.Completed:
        """Run a Spack command and return the completed process, even if the command failed.

        on_line: called for each line of Spack's output. Raises ToolFailed if Spack does not start.
        """
        remove_half_made_clones()
        return processes.run(self.command(*arguments), env=spack_variables(self.variables), on_line=on_line)


def without_foreign() -> dict[str, str]:
    """Return the user's environment variables without FOREIGN_VARIABLES."""
    return {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}


def spack_variables(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for Spack: the user's variables without FOREIGN_VARIABLES, and `more`."""
    return {**without_foreign(), "SPACK_DISABLE_LOCAL_CONFIG": "1", **more}


def log_output(completed: processes.Completed, log: Path, path: str, shown: str) -> str:
    """Write a failed command and its output to a log, with `path` replaced by `shown`. Return this output."""
    output, command = (text.replace(path, shown) for text in (completed.stdout + completed.stderr, completed.command))
    write(log, f"$ {command}\n{output}\nexit code {completed.code}\n")
    return output


def answer_of(completed: processes.Completed) -> Any:
    """Return the JSON value in the last line that a script printed. Raises ToolFailed if this line is not JSON."""
    try:
        return json.loads(completed.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError) as error:
        hint = f"run it yourself to see the cause: {completed.command}"
        raise ToolFailed("a script in Spack's Python printed no result", hint=hint) from error


def write_scope(directory: Path, sections: Mapping[str, object]) -> None:
    """Write a directory of Spack configuration: one file per section with JSON, which Spack reads as YAML.

    A section whose name ends with `:` replaces this section in every other scope (Spack's override syntax).
    """
    texts = {f"{name.rstrip(':')}.yaml": json.dumps({name: value}, indent=1) for name, value in sections.items()}
    write_all(directory, texts.items())


def user_cache() -> Path:
    """Return the directory of Spack's indexes and repository clones (SPACK_USER_CACHE_PATH)."""
    return Path(os.environ.get("SPACK_USER_CACHE_PATH") or "~/.spack").expanduser()


def index_cache(machine: str, pins: Mapping[str, GitPin]) -> str:
    """Return the directory of Spack's package indexes. machine: `platform.machine()` on the nodes.

    uenvtool keeps one directory per machine name and per pinned revision of Spack's packages. The machine name matters
    because 69 packages choose their sources by it. Spack itself distinguishes indexes only by repository name and file
    times.
    """
    state = pins["builtin"].revision[:12].replace("/", "-") if "builtin" in pins else "unpinned"
    return str(user_cache() / f"cache-{machine}-{state}")


def remove_half_made_clones() -> None:
    """Remove incomplete clones of package repositories, which a killed run or a lost network connection leaves.

    Spack 1.1 treats any directory with a `.git` as a complete clone (repo.py, RemoteRepoDescriptor), and then fails.
    While another Spack holds the lock on the clones, this function removes none.
    """
    incomplete = list(filter(_is_incomplete, (user_cache() / "package_repos").glob("*")))
    if not incomplete:
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(user_cache() / "package-repository.lock", os.O_RDWR)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for directory in filter(_is_incomplete, incomplete):
                remove_tree(directory)
        finally:
            os.close(descriptor)


def _is_incomplete(directory: Path) -> bool:
    with contextlib.suppress(OSError):  # not a directory, or another run has removed it
        return os.listdir(directory) == [".git"]
    return False


def mirror_answers(
    spack: Spack, mirrors: Mapping[str, object], filled: str, scope: Path | None = None
) -> dict[str, str]:
    """Let Spack check whether it can reach mirrors. Return each mirror's problem, or "", by mirror name.

    mirrors: the value of Spack's configuration key `mirrors`. filled: the name of the mirror to push packages to.
    scope: a directory of Spack configuration with more mirrors to check. Raises ToolFailed if Spack fails.
    """
    done = _run_without_packages(spack, mirrors, scope, "python", REACH, filled)
    if done.code != 0:
        hint = f"run it yourself to see the cause: {done.command}"
        raise ToolFailed(f"Spack cannot check the mirrors: {done.reason}", hint=hint)
    problems: dict[str, str] = answer_of(done)
    return problems


def require_key(spack: Spack) -> None:
    """Raise ToolFailed if Spack has no key to sign packages with."""
    listed = _run_without_packages(spack, {}, None, "gpg", "list", "--signing")
    if listed.code == 0 and "sec" not in listed.stdout.split():
        raise no_key(spack)


def _run_without_packages(
    spack: Spack, mirrors: Mapping[str, object], scope: Path | None, *arguments: str | Path
) -> processes.Completed:
    with scratch_folder() as configuration:
        write_scope(configuration, {"mirrors:": dict(mirrors), "repos:": {}})  # without repositories to fetch
        options = [option for each in (configuration, scope) if each for option in ("-C", each)]
        return processes.run([spack.program, "--color", "never", *options, *arguments], env=spack_variables({}))
