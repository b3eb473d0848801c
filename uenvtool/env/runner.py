"""Runs Spack apart from its user's configuration: on an environment, each step reported as it comes, or to ask it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.core import processes
from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import remove_tree, scratch_folder, write, write_all
from uenvtool.core.result import Step
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
"""Variables of another environment, or of a loaded uenv whose packages are for another Python than Spack's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Runner:
    """Spack at work on one environment.

    folder: the environment's folder. scope: a folder of configuration that comes before the
    environment's own, see `write_scope`. below: a folder of the user's, which comes between the two. prefix: a
    command that runs Spack, such as one that mounts. variables: further environment variables of Spack's.
    """

    spack: Spack
    folder: Path
    scope: Path
    below: Path | None = None
    prefix: tuple[str | Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def command(self, *words: str | Path) -> list[str]:
        """Return the argument list that runs a command of Spack on the environment."""
        below = ["-C", self.below] if self.below else []  # of two folders the later one counts
        options = ["--color", "never", *below, "-C", self.scope, "-e", self.folder]
        return list(map(str, [*self.prefix, self.spack.program, *options, *words]))

    def run(
        self, *words: str | Path, on_step: Step | None = None, on_line: processes.LineHandler | None = None
    ) -> processes.Completed:
        """Run a command of Spack to its end; its exit code is the caller's to judge.

        on_step takes each line in which Spack says what it does, on_line every line. Raises ToolFailed if
        Spack does not start.
        """
        remove_half_made_clones()
        return processes.run(
            self.command(*words), env=spack_variables(self.variables), on_line=on_line or _steps(on_step)
        )


def without_foreign() -> dict[str, str]:
    """Return the user's environment variables but FOREIGN_VARIABLES."""
    return {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}


def spack_variables(more: Mapping[str, str]) -> dict[str, str]:
    """Return Spack's environment variables: the user's, without what would change the answer, and these."""
    return {**without_foreign(), "SPACK_DISABLE_LOCAL_CONFIG": "1", **more}


def kept_output(completed: processes.Completed, log: Path, place: str, shown: str) -> str:
    """Return what a Spack that failed printed; a log has it too, with the command. shown: what stands for a place."""
    output, command = (text.replace(place, shown) for text in (completed.stdout + completed.stderr, completed.command))
    write(log, f"$ {command}\n{output}\nexit code {completed.code}\n")
    return output


def answer_of(completed: processes.Completed) -> Any:
    """Return what a script of ours printed last in Spack's Python, which is JSON.

    Raises ToolFailed if it printed anything else.
    """
    try:
        return json.loads(completed.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise ToolFailed("Spack gave no answer", hint=f"its command: {completed.command}") from error


def write_scope(folder: Path, sections: Mapping[str, object]) -> None:
    """Write a folder of Spack's configuration, a file a section; Spack reads JSON as the YAML that it is.

    A name that ends with `:` has its section stand for all that other configuration says.
    """
    texts = {name.rstrip(":"): json.dumps({name: section}, indent=1) for name, section in sections.items()}
    write_all(folder, ((f"{name}.yaml", text) for name, text in texts.items()))


def user_cache() -> Path:
    """Return the folder of Spack's indexes and clones of repositories (its variable SPACK_USER_CACHE_PATH)."""
    return Path(os.environ.get("SPACK_USER_CACHE_PATH") or "~/.spack").expanduser()


def index_cache(machine: str, pins: Mapping[str, GitPin]) -> str:
    """Return the folder of Spack's indexes of packages. machine: of the nodes; pins: of package repositories, by name.

    Each kind of CPU (69 packages have other sources there) and each pinned state of Spack's packages has an index
    of its own: Spack tells indexes apart by the repository's name, and judges their age by the files' times.
    """
    state = pins["builtin"].revision[:12].replace("/", "-") if "builtin" in pins else "unpinned"
    return str(user_cache() / f"cache-{machine}-{state}")


def remove_half_made_clones() -> None:
    """Remove the clones of package repositories that a run left which was killed, or lost its network.

    Spack 1.1 takes any folder with a `.git` for a whole clone (repo.py, RemoteRepoDescriptor), and fails. While
    another Spack holds its lock on the clones, all of them stay.
    """
    halves = list(filter(_is_half, (user_cache() / "package_repos").glob("*")))
    if not halves:
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(user_cache() / "package-repository.lock", os.O_RDWR)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for folder in filter(_is_half, halves):
                remove_tree(folder)
        finally:
            os.close(descriptor)


def _is_half(folder: Path) -> bool:
    with contextlib.suppress(OSError):  # no folder, or another run has removed it
        return os.listdir(folder) == [".git"]
    return False


def _steps(on_step: Step | None) -> processes.LineHandler | None:
    if on_step is None:
        return None

    def handle(line: str) -> None:
        if line.startswith("==>") and not line.startswith("==> Error"):
            on_step(line.removeprefix("==>").strip())

    return handle


def mirror_answers(
    spack: Spack, mirrors: Mapping[str, object], filled: str, scope: Path | None = None
) -> dict[str, str]:
    """Ask mirrors, by Spack itself, whether they are there; gives their names, each with why it is not, or "".

    mirrors: as Spack's configuration has them. filled: the one that is to be filled. scope: a folder of Spack's
    configuration, whose mirrors are asked too. Raises ToolFailed if Spack fails.
    """
    with scratch_folder() as own:
        write_scope(own, {"mirrors:": dict(mirrors), "repos:": {}})
        done = _run_apart(spack, [own, *([scope] if scope else [])], "python", REACH, filled)
    if done.code != 0:
        raise ToolFailed(f"Spack cannot ask the mirrors: {done.reason}", hint=f"its command: `{done.command}`")
    found: dict[str, str] = answer_of(done)
    return found


def require_key(spack: Spack) -> None:
    """Raise ToolFailed if Spack has no key to sign packages with."""
    with scratch_folder() as own:
        write_scope(own, {"mirrors:": {}, "repos:": {}})
        listed = _run_apart(spack, [own], "gpg", "list", "--signing")
    if listed.code == 0 and "sec" not in listed.stdout.split():
        raise no_key(spack)


def _run_apart(spack: Spack, scopes: Sequence[Path], *words: str | Path) -> processes.Completed:
    """Run a command of Spack that needs no packages: it fetches no repository of them. scopes: see `spack -C`."""
    options = [word for scope in scopes for word in ("-C", scope)]
    return processes.run([spack.program, "--color", "never", *options, *words], env=spack_variables({}))
