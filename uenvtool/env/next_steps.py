"""Where an environment usually lies, and the commands that come after `uenvtool build`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from uenvtool.env.environment import Environment
from uenvtool.env.manifest import again
from uenvtool.env.program import Spack, how_to_get


def usual_folder(environment: Environment, kind: str = "envs") -> Path:
    """Return the folder of an environment if none is named: one for each system and node type."""
    return Path(kind) / environment.recipe.name / f"{environment.system.name}-{environment.node.uarch}"


def build_again(environment: Environment, folder: Path, *options: str, kind: str = "envs") -> str:
    """Return the command that builds into the same folder again. kind: see `usual_folder`."""
    is_said = environment.output or folder == usual_folder(environment, kind)
    named = [] if is_said else ["-o", shlex.quote(os.fspath(folder))]
    return again(environment, *options, *named)


def next_steps(
    environment: Environment, folder: Path, *, spack: Spack | None, resolved: bool, repos: Mapping[str, Path]
) -> tuple[str, ...]:
    """Return the command to go on with: it makes the lock if there is none, else the image, on a node."""
    command = build_again(environment, folder)
    from_disk = "".join(f" --repo {shlex.quote(f'{name}={path}')}" for name, path in repos.items())
    if not resolved and spack is None:
        return (how_to_get(environment.recipe.spack, command + from_disk),)
    if not resolved:
        return (f"{command}{from_disk} --concretize  # on a node of {environment.system.name}",)
    return (f"{build_image(folder, spack=spack, repos=repos)}  # on a node of {environment.system.name}",)


def build_image(folder: Path, *, spack: Spack | None, repos: Mapping[str, Path]) -> str:
    """Return the command that builds the image with the Spack and the package repositories that were named here."""
    named = spack is not None and spack.found_by == "--spack"
    words = ["uenvtool", "image", "build", os.fspath(folder)]
    words += ["--spack", str(spack.program.parent.parent)] if spack and named else []
    words += [word for name, path in repos.items() for word in ("--repo", f"{name}={path}")]
    return shlex.join(words)
