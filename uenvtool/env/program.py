"""Finds the installed Spack and the package repositories on disk, and compares them with the pinned versions."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, ToolFailed, ToolMissing
from uenvtool.knowledge.system import GitPin
from uenvtool.knowledge.version import Version
from uenvtool.knowledge.yamltree import read, text

OLDEST = Version("1.1")
"""Earlier versions support neither tags of package repositories nor the package API of the pinned repositories."""
SPACK_URL = "https://github.com/spack/spack.git"
"""Spack's default git repository. A recipe may name another repository."""


@dataclass(frozen=True, slots=True)
class Spack:
    """An installed Spack. found_by: --spack, SPACK_ROOT or PATH."""

    program: Path
    version: str
    found_by: str


def find_spack(named: Path | None) -> Spack | None:
    """Return the named Spack, or else the Spack in SPACK_ROOT or on PATH. Return None if there is no Spack.

    Raises BadInput if the named Spack does not exist, ToolFailed if Spack does not run or is too old.
    """
    if named is not None:
        program = named / "bin" / "spack" if named.is_dir() else named
        if not (program.is_file() and os.access(program, os.X_OK)):
            hint = "name the directory of a Spack checkout, or its bin/spack"
            raise BadInput(f"--spack '{named}': Spack was not found there", hint=hint)
        return _checked(program, "--spack")
    root = os.environ.get("SPACK_ROOT")
    if root and (Path(root) / "bin" / "spack").is_file():
        return _checked(Path(root) / "bin" / "spack", "SPACK_ROOT")
    on_path = shutil.which("spack")
    return _checked(Path(on_path), "PATH") if on_path else None


def spack_is_missing(pin: GitPin, again: str) -> ToolMissing:
    """Return the error for a missing Spack, with the commands that clone Spack and then run the command `again`."""
    return ToolMissing("Spack is not installed", hint=f"run:\n{indent(how_to_get(pin, again), '  ')}")


def how_to_get(pin: GitPin, again: str) -> str:
    """Return the commands that clone the pinned Spack and then run the command `again` with this Spack."""
    url, revision = shlex.quote(pin.url), shlex.quote(pin.revision)
    branch = "" if revision == pin.commit else f"--depth 1 --branch {revision} "  # --branch accepts no commit
    checkout = f"git -C ~/spack checkout {revision}\n" if not branch else ""
    return f"git clone {branch}{url} ~/spack\n{checkout}{again} --spack ~/spack"


def repository_directory(name: str, path: Path, pin: GitPin | None = None) -> Path:
    """Return the directory of a package repository: `path`, or a directory inside the checkout at `path`.

    pin: the repository's pin in the recipe or system. It may list where the directory is inside a checkout. Raises
    BadInput if no directory has a repo.yaml, or if Spack would ignore the repository.
    """
    inside = (*(pin.paths if pin else ()), f"repos/spack_repo/{name}", f"spack_repo/{name}")
    candidates = (path, *(path / relative for relative in inside))
    directory = next((each.resolve() for each in candidates if (each / "repo.yaml").is_file()), None)
    if directory is None:
        raise BadInput(
            f"--repo: '{path}' is not a Spack package repository: it has no repo.yaml",
            hint=f"name a checkout, or the directory that contains repo.yaml: --repo {name}=PATH",
        )
    file = directory / "repo.yaml"
    api = text(read(file, str(file)).get("repo"), "api")
    if api.startswith("v") and not api.startswith("v1") and "spack_repo" not in directory.parts[:-1]:
        # Spack 1.1 (repo.py, Repo.__init__) only warns about such a repository, and then finds none of its packages.
        raise BadInput(
            f"{directory} is not inside a directory `spack_repo/`, which Spack requires for package API v2 or newer "
            f"(the repository has {api})",
            hint=f"name its checkout, or move it: mkdir spack_repo && mv {directory} spack_repo/{name}",
        )
    return directory


def repository_directories(named: Mapping[str, Path], pins: Mapping[str, GitPin]) -> dict[str, Path]:
    """Return the directories of package repositories, by name. Parameters and errors as in `repository_directory`."""
    return {name: repository_directory(name, path, pins.get(name)) for name, path in named.items()}


def deviations(
    spack: Spack | None, pin: GitPin, repos: Mapping[str, Path], pins: Mapping[str, GitPin]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return how Spack and the package repositories on disk deviate from their pins, and which could not be compared.

    Both values have one sentence per deviation or repository.
    """
    seen, unseen = [], []
    if spack and pin.tag and pin.tag.removeprefix("v") != spack.version:
        seen.append(f"Spack {spack.version} is used instead of the pinned {pin.revision}")
    checkouts = {name: (directory, "repo.yaml", pins[name]) for name, directory in repos.items() if name in pins}
    if spack and (pin.commit or pin.branch) and not pin.tag:
        checkouts["spack"] = (spack.program.resolve().parent, spack.program.name, pin)
    for name, (directory, file, repo_pin) in checkouts.items():
        paths = repo_pin.paths  # a copied directory has another path in another git repository
        is_at_path = not paths or _git(directory, "rev-parse", "--show-prefix").rstrip("/") in paths
        head = _commit(directory, file, "HEAD") if is_at_path else ""
        pinned = repo_pin.commit or _commit(directory, file, repo_pin.revision)
        if not head:
            unseen.append(
                f"{name} is not a git checkout, so it could not be compared with the pinned {repo_pin.revision}"
            )
        elif head != pinned:
            commit = f"({pinned[:12]})" if pinned else "(which it does not have)"
            seen.append(f"{name} is at commit {head[:12]} instead of the pinned {repo_pin.revision} {commit}")
    return tuple(seen), tuple(unseen)


def commit_of(spack: Spack) -> str:
    """Return the git commit of a Spack installation, or an empty string if it is not a git checkout."""
    program = spack.program.resolve()
    return _commit(program.parent, program.name, "HEAD")


def state_of(repository: Path) -> dict[str, str]:
    """Return the directory, the git commit (or an empty string) and the checksum of a package repository on disk."""
    total = hashlib.sha256()
    for current, names, files in os.walk(repository):
        names[:] = sorted(name for name in names if name not in ("__pycache__", ".git"))
        for path in filter(Path.is_file, (Path(current, name) for name in sorted(files))):
            content = path.read_bytes()
            total.update(os.fsencode(f"{path.relative_to(repository)}\0{len(content)}\0"))
            total.update(content)
    commit = _commit(repository, "repo.yaml", "HEAD")
    return {"directory": os.fspath(repository), "commit": commit, "sha256": total.hexdigest()}


def _commit(directory: Path, file: str, revision: str) -> str:
    is_tracked = bool(_git(directory, "ls-files", "--error-unmatch", file))
    return _git(directory, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}") if is_tracked else ""


def _git(directory: Path, *arguments: str) -> str:
    """Return the output of a git command, or an empty string if git is missing or the command fails."""
    done = processes.ask(["git", "-C", directory, *arguments]) if shutil.which("git") else None
    return done.stdout.strip() if done and done.code == 0 else ""


def _checked(program: Path, found_by: str) -> Spack:
    completed = processes.run([program, "--version"])
    match = re.match(r"\s*([0-9][\w.]*)", completed.stdout)
    if completed.code != 0 or not match:
        hint = "install Python and git, which Spack needs, or name another Spack with --spack"
        raise ToolFailed(f"cannot run {program}: {completed.reason}", hint=hint)
    if Version(match[1]) < OLDEST:
        raise ToolFailed(
            f"{program} is Spack {match[1]}, but {OLDEST} or newer is required",
            hint="name a newer Spack with --spack, or resolve later: --no-concretize",
        )
    return Spack(program, match[1], found_by)
