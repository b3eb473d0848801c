"""The real Spack: where it is, whether it is new enough, and what it says when it concretizes."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from uenvtool import tools
from uenvtool.errors import BadInput, ToolFailed
from uenvtool.files import scratch_folder, write, write_all
from uenvtool.model.parts import GitPin
from uenvtool.model.version import Version
from uenvtool.spack.folder import LOCK

OLDEST = Version("1.1")
"""Earlier ones cannot take a tag for a package repository or the package API that is pinned."""
MAX_LINES = 9
"""Of the requests that clash; with the line above them ten."""
MAX_BLOCK = 3
MAX_WIDTH = 160

_CAUSE_INDENT = 8


@dataclass(frozen=True, slots=True)
class Spack:
    """A Spack that is installed here. found_by: how it was found."""

    program: Path
    version: str
    found_by: str


def find_spack(named: Path | None, environ: Mapping[str, str] = os.environ) -> Spack | None:
    """The Spack to use: the named one, that of SPACK_ROOT, or the one on PATH; None where none is.

    Raises BadInput where the named one is not there, ToolFailed where it does not run or is too old.
    """
    if named is not None:
        program = named / "bin" / "spack" if named.is_dir() else named
        if not program.is_file():
            raise BadInput(
                f"there is no Spack at {named}", hint="name the folder of a Spack checkout, or its bin/spack"
            )
        return _checked(program, "--spack")
    root = environ.get("SPACK_ROOT")
    if root and (Path(root) / "bin" / "spack").is_file():
        return _checked(Path(root) / "bin" / "spack", "SPACK_ROOT")
    on_path = shutil.which("spack", path=environ.get("PATH"))
    return _checked(Path(on_path), "PATH") if on_path else None


def how_to_get(pin: GitPin, again: str) -> str:
    """The commands that bring the pinned Spack and go on with it; `again` is the one that builds."""
    clone = f"git clone --depth 1 --branch {shlex.quote(pin.revision)} {shlex.quote(pin.url)} ~/spack"
    return f"{clone}\n{again} --spack ~/spack"


def repository_path(name: str, path: Path) -> Path:
    """The folder of a package repository, given that folder or the checkout that holds it.

    Raises BadInput where neither has a repo.yaml.
    """
    for candidate in (path, path / "repos" / "spack_repo" / name, path / "spack_repo" / name):
        if (candidate / "repo.yaml").is_file():
            return candidate.resolve()
    raise BadInput(
        f"{path} is no Spack package repository: it has no repo.yaml",
        hint=f"--repo {name}=PATH takes a checkout, or the folder with repo.yaml in it",
    )


def concretize(spack: Spack, files: Mapping[str, str], log: Path, on_step: Callable[[str], None] | None = None) -> str:
    """The text of the lock that Spack resolves an environment to.

    Spack runs on a copy of `files` in a folder of its own, without the user's own configuration, so
    that neither a failure nor a kill touches anything and the answer depends on the files alone.
    Raises ToolFailed where Spack fails or finds no solution; the whole output is then at `log`.
    """
    with scratch_folder() as folder:
        write_all(folder, files)
        argv: list[str | Path] = [spack.program, "--color", "never", "-e", folder, "concretize", "--force", "--fresh"]
        environ = {**os.environ, "SPACK_DISABLE_LOCAL_CONFIG": "1"}
        environ.pop("SPACK_ENV", None)
        completed = tools.run(argv, env=environ, on_line=_steps(on_step))
        lock = folder / LOCK
        if completed.code == 0 and lock.is_file():
            return lock.read_text(encoding="utf-8")
        output = (completed.stdout + completed.stderr).replace(str(folder), "ENVIRONMENT")
    write(log, f"$ {completed.command}\n{output}\nexit code {completed.code}\n")
    raise _failure(spack, completed.code, output, log)


def clashes(output: str) -> list[str]:
    """What stands against what, in at most ten lines, of all that Spack prints for no solution.

    Spack numbers its reasons and indents below each what it follows from, over and over for every
    package that leads there. What helps is a reason that names two sides, with the nearest cause of
    each; the shortest of these say the same as the longer ones.
    """
    found = sorted(_reasons(output), key=len)
    two_sided = [reason for reason in found if " and " in reason[0]]
    reasons = [reason for reason in two_sided if len(_nearest(reason)) > 1] or two_sided or found
    lines: list[str] = []
    for reason in reasons:
        block = [reason[0], *(f"  {line}" for line in _nearest(reason))][:MAX_BLOCK]
        if lines and len(lines) + len(block) > MAX_LINES:
            break
        lines += [line for line in map(_without_noise, block) if line not in lines]
    return lines


def _reasons(output: str) -> list[list[str]]:
    """Spack's numbered reasons, each with the lines below it."""
    found: list[list[str]] = []
    for line in output.splitlines():
        if match := re.match(r" {1,6}[0-9]+\. (.*)", line):
            found.append([match[1].strip()])
        elif found and line.startswith(" " * _CAUSE_INDENT):
            found[-1].append(line)
        elif line.startswith("==>") and found:
            break
    return found


def _nearest(reason: list[str]) -> list[str]:
    """The causes directly below a reason, each once."""
    causes = [line.strip() for line in reason[1:] if len(line) - len(line.lstrip()) == _CAUSE_INDENT]
    return list(dict.fromkeys(causes))


def _without_noise(line: str) -> str:
    """A line without Spack's general advice and the architecture that every spec carries."""
    line = re.sub(r"\. You could consider setting .*", "", line)
    line = re.sub(r" (os|target)=[\w.-]+", "", line).rstrip()
    return line if len(line) <= MAX_WIDTH else line[: MAX_WIDTH - 3] + "..."


def _checked(program: Path, found_by: str) -> Spack:
    completed = tools.run([program, "--version"])
    match = re.match(r"\s*([0-9][\w.]*)", completed.stdout)
    if completed.code != 0 or not match:
        said = (completed.stderr or completed.stdout).strip().splitlines()
        raise ToolFailed(
            f"{program} does not run: {said[-1] if said else f'exit code {completed.code}'}",
            hint="Spack needs Python and git; name another one with --spack",
        )
    if Version(match[1]) < OLDEST:
        raise ToolFailed(
            f"{program} is Spack {match[1]}; {OLDEST} or newer is needed",
            hint="name a newer one with --spack, or leave it to later with --no-concretize",
        )
    return Spack(program, match[1], found_by)


def _steps(on_step: Callable[[str], None] | None) -> Callable[[str], None] | None:
    """Passes on the lines in which Spack says what it does."""
    if on_step is None:
        return None

    def handle(line: str) -> None:
        if line.startswith("==>") and not line.startswith("==> Error"):
            on_step(line.removeprefix("==>").strip())

    return handle


def _failure(spack: Spack, code: int, output: str, log: Path) -> ToolFailed:
    reasons = clashes(output)
    hint = f"Spack's whole output: {log}"
    if reasons:
        listed = "\n".join(f"  {reason}" for reason in reasons)
        return ToolFailed(f"Spack {spack.version} finds no solution; these requests clash:\n{listed}", hint=hint)
    if code < 0:
        return ToolFailed(f"Spack {spack.version} was killed by signal {-code}", hint=f"{hint}; the old lock stays")
    errors = [line for line in output.splitlines() if line.startswith("==> Error")] or output.strip().splitlines()
    said = errors[0].removeprefix("==> Error:").strip() if errors else "it said nothing"
    return ToolFailed(f"Spack {spack.version} failed (exit code {code}): {said}", hint=hint)
