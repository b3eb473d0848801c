"""Recipes held against package repositories at hand, for `validate` and `edit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from uenvtool.core.errors import BadInput, Problem
from uenvtool.core.result import Result
from uenvtool.core.value import value_class
from uenvtool.env.environment import named_environment
from uenvtool.env.program import find_spack, repository_folders, spack_is_missing
from uenvtool.env.repository import Missing, problems, requests
from uenvtool.env.resolve import look_up
from uenvtool.knowledge.kinds import RECIPE, kind_of, own_file
from uenvtool.knowledge.options import named_paths
from uenvtool.knowledge.source import read
from uenvtool.knowledge.validate import validate as validate_files


@value_class
class Repositories:
    """The package repositories at hand: folders by name, and the Spack that reads them."""

    folders: Mapping[str, Path] = field(default_factory=dict)
    spack: Path | None = None

    def missing_for(self, recipe_name: str) -> list[Missing]:
        """Return what a recipe asks for on its usual system and no repository has; nothing if none is at hand.

        Raises ToolMissing without Spack, BadInput if a folder is no repository, or not all repositories are at hand
        and Spack cannot fetch the others.
        """
        if not self.folders:
            return []
        environment = named_environment(recipe_name, None, None)
        spack = find_spack(self.spack)
        if spack is None:
            raise spack_is_missing(environment.recipe.spack, "the same command")
        repos = repository_folders(self.folders, environment.pins)
        found = look_up(spack, environment, tuple(requests(environment)), repos)
        if found is None:
            others = " ".join(f"--repo {name}=PATH" for name in sorted({*environment.pins} - {*repos}))
            raise BadInput(
                f"Spack {spack.version} could not read all package repositories of {environment.system.name}",
                hint=f"{others or 'check the network'}; a recipe for another system says `home: SYSTEM`",
            )
        return found


def at_hand(spack: Path | None, repo: Sequence[str]) -> Repositories:
    """Return the package repositories of --repo. Raises BadInput for a word that is not NAME=PATH."""
    return Repositories(folders=named_paths(repo), spack=spack)


def validate(files: list[Path], repositories: Repositories) -> Result:
    """Check files as `uenvtool validate` does, and recipes against the package repositories too."""

    def more(file: Path) -> list[Problem]:
        path = own_file(file) if file.is_dir() else file
        if not repositories.folders or kind_of(path, read(path, str(path))) is not RECIPE:
            return []
        return problems(repositories.missing_for(str(path.absolute())))

    return validate_files(files, more)
