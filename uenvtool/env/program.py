"""The Spack that is installed here: where it is, and which version."""

from __future__ import annotations

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
"""Earlier versions know neither a tag for a package repository nor the package API that recipes pin."""


@dataclass(frozen=True, slots=True)
class Spack:
    """A Spack that is installed here. found_by: the option or variable that named it, or PATH."""

    program: Path
    version: str
    found_by: str


SPACK_URL = "https://github.com/spack/spack.git"
"""Where Spack is; a recipe may pin another."""


def find_spack(named: Path | None) -> Spack | None:
    """Return the Spack to use: the named one, that of SPACK_ROOT, or the one on PATH; None if there is none.

    Raises BadInput if the named one does not exist, ToolFailed if it does not run or is too old.
    """
    if named is not None:
        program = named / "bin" / "spack" if named.is_dir() else named
        if not (program.is_file() and os.access(program, os.X_OK)):
            hint = "name the folder of a Spack checkout, or its bin/spack"
            raise BadInput(f"there is no Spack at {named}", hint=hint)
        return _checked(program, "--spack")
    root = os.environ.get("SPACK_ROOT")
    if root and (Path(root) / "bin" / "spack").is_file():
        return _checked(Path(root) / "bin" / "spack", "SPACK_ROOT")
    on_path = shutil.which("spack")
    return _checked(Path(on_path), "PATH") if on_path else None


def spack_is_missing(pin: GitPin, again: str) -> ToolMissing:
    """Return the error that says that there is no Spack, and how to get it. again: see `how_to_get`."""
    return ToolMissing("Spack is not here", hint=f"get it, and go on:\n{indent(how_to_get(pin, again), '  ')}")


def how_to_get(pin: GitPin, again: str) -> str:
    """Return the commands that fetch the pinned Spack and then run `again`, the command that needs it, with it."""
    clone = f"git clone --depth 1 --branch {shlex.quote(pin.revision)} {shlex.quote(pin.url)} ~/spack"
    return f"{clone}\n{again} --spack ~/spack"


def repository_folder(name: str, path: Path, pin: GitPin | None = None) -> Path:
    """Return the folder of a package repository: `path` itself, or the folder in the checkout `path`.

    pin: the repository as recipe or system name it, which may say where in a checkout it lies. Raises
    BadInput if there is no repo.yaml.
    """
    inside = (*(pin.paths if pin else ()), f"repos/spack_repo/{name}", f"spack_repo/{name}")
    for candidate in (path, *(path / folder for folder in inside)):
        if (candidate / "repo.yaml").is_file():
            return _in_its_place(name, candidate.resolve())
    raise BadInput(
        f"{path} is no Spack package repository: it has no repo.yaml",
        hint=f"--repo {name}=PATH takes a checkout, or the folder with repo.yaml in it",
    )


def _in_its_place(name: str, folder: Path) -> Path:
    """Return the folder of a package repository. Raises BadInput for one of API 2 that is not below `spack_repo/`.

    Spack 1.1 (repo.py, Repo.__init__) only warns of it, and then knows none of its packages.
    """
    file = folder / "repo.yaml"
    api = text(read(file, str(file)).get("repo"), "api")
    if api.startswith("v") and not api.startswith("v1") and "spack_repo" not in folder.parts[:-1]:
        raise BadInput(
            f"{folder} is no place of a package repository: from API 2 on (it has {api}) Spack finds its packages by "
            "the folder `spack_repo/` that it lies in",
            hint=f"name the checkout that it is of, or move it: mkdir spack_repo && mv {folder} spack_repo/{name}",
        )
    return folder


def repository_folders(named: Mapping[str, Path], pins: Mapping[str, GitPin]) -> dict[str, Path]:
    """Return the folders of package repositories, by name. pins: as recipe and system name them. Raises as
    `repository_folder`.
    """
    return {name: repository_folder(name, path, pins.get(name)) for name, path in named.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Deviations:
    """What is used and not what is pinned, a sentence each. unseen: of what that cannot be seen."""

    seen: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


def deviations(spack: Spack | None, pin: GitPin, repos: Mapping[str, Path], pins: Mapping[str, GitPin]) -> Deviations:
    """Compare the Spack in use, and the package repositories that are taken from disk, with their pins."""
    seen, unseen = [], []
    if spack and pin.tag and pin.tag.removeprefix("v") != spack.version:
        seen.append(f"Spack {spack.version} is used, and {pin.revision} is pinned")
    checkouts = {name: (folder, "repo.yaml", pins[name]) for name, folder in repos.items() if name in pins}
    if spack and (pin.commit or pin.branch) and not pin.tag:
        checkouts["spack"] = (spack.program.resolve().parent, spack.program.name, pin)
    for name, (folder, file, wanted) in checkouts.items():
        head = _commit(folder, file, "HEAD") if _is_at(folder, wanted.paths) else ""
        pinned = wanted.commit or _commit(folder, file, wanted.revision)
        if not head:
            unseen.append(f"{name} is no git checkout: it cannot be seen whether it is {wanted.revision}, as pinned")
        elif head != pinned:
            commit = f"({pinned[:12]})" if pinned else "(which it does not have)"
            seen.append(f"{name} is at commit {head[:12]}, and {wanted.revision} {commit} is pinned")
    return Deviations(seen=tuple(seen), unseen=tuple(unseen))


def _is_at(folder: Path, paths: tuple[str, ...]) -> bool:
    """Tell if a folder lies in its checkout where its pin says, if that says it: a copy is of another repository."""
    within = (
        processes.run(["git", "-C", folder, "rev-parse", "--show-prefix"]) if paths and shutil.which("git") else None
    )
    return within is None or within.stdout.strip().rstrip("/") in paths


def _commit(folder: Path, file: str, revision: str) -> str:
    """Return the commit of a revision where git has a file of the folder; "" if it has not, or is not here."""
    if (
        shutil.which("git") is None
        or processes.run(["git", "-C", folder, "ls-files", "--error-unmatch", file]).code != 0
    ):
        return ""
    done = processes.run(["git", "-C", folder, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"])
    return done.stdout.strip() if done.code == 0 else ""


def _checked(program: Path, found_by: str) -> Spack:
    completed = processes.run([program, "--version"])
    match = re.match(r"\s*([0-9][\w.]*)", completed.stdout)
    if completed.code != 0 or not match:
        hint = "Spack needs Python and git; name another one with --spack"
        raise ToolFailed(f"{program} does not run: {completed.reason}", hint=hint)
    if Version(match[1]) < OLDEST:
        raise ToolFailed(
            f"{program} is Spack {match[1]}; {OLDEST} or newer is needed",
            hint="name a newer one with --spack, or resolve later: --no-concretize",
        )
    return Spack(program, match[1], found_by)
