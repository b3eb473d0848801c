"""Runs Spack on one environment: apart from its user's configuration, each step reported as it comes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from uenvtool import tools
from uenvtool.result import Step
from uenvtool.spack.program import Spack

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Spack at work on one environment.

    folder: the environment's folder. settings: Spack's configuration values that come before the
    environment's own, each `SECTION:KEY:VALUE`. variables: environment variables to set besides.
    """

    spack: Spack
    folder: Path
    settings: tuple[str, ...] = ()
    variables: Mapping[str, str] | None = None

    def command(self, *words: str | Path) -> list[str]:
        """The argument list that runs a command of Spack on the environment."""
        settings = [word for setting in self.settings for word in ("-c", setting)]
        return list(map(str, [self.spack.program, "--color", "never", *settings, "-e", self.folder, *words]))

    def environment(self) -> dict[str, str]:
        """Spack's environment variables: the user's, without what would change the answer."""
        kept = {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}
        return {**kept, "SPACK_DISABLE_LOCAL_CONFIG": "1", **(self.variables or {})}

    def run(self, *words: str | Path, on_step: Step | None = None) -> tools.Completed:
        """Run a command of Spack to its end; its exit code is the caller's to judge.

        on_step takes each line in which Spack says what it does. Raises ToolFailed if Spack does not start.
        """
        return tools.run(self.command(*words), env=self.environment(), on_line=_steps(on_step))


def user_cache() -> Path:
    """The folder where Spack keeps its indexes and clones of repositories (its variable SPACK_USER_CACHE_PATH)."""
    return Path(os.environ.get("SPACK_USER_CACHE_PATH") or "~/.spack").expanduser()


def _steps(on_step: Step | None) -> tools.LineHandler | None:
    """Passes on the lines in which Spack says what it does."""
    if on_step is None:
        return None

    def handle(line: str) -> None:
        if line.startswith("==>") and not line.startswith("==> Error"):
            on_step(line.removeprefix("==>").strip())

    return handle
