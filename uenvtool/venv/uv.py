"""Drives uv: resolving, locking and installing."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core import files, tools
from uenvtool.core.errors import ToolFailed, ToolMissing, UenvtoolError
from uenvtool.venv.settings import ALL, Settings
from uenvtool.venv.uv_failures import NOTHING_CHANGED, DiskFull, failure

HOW_TO_GET = "`pip install uv` beside uenvtool, or see https://docs.astral.sh/uv/"
OUTSIDE = r"Skipping unsafe file name: (.*)"
"""uv leaves such a file out and says so in its log alone (its crate uv-extract)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uv:
    """uv with the user's settings, working in one folder of the tool's own.

    build_path: folders of packages that sources without build isolation are built with.
    """

    program: str
    settings: Settings
    work: Path
    build_path: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        """uv's environment: nothing is kept in the user's home unless the user has named a cache."""
        temporary = self.work / "tmp"
        files.make_folder(temporary)
        env = {
            **self.settings.environment,
            "TMPDIR": str(temporary),
            "UV_NO_PROGRESS": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "NO_COLOR": "1",
            "COLUMNS": "1000",
            "RUST_LOG": "uv_extract=warn",
        }
        # The base's packages would come before what an isolated build asks for.
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "FORCE_COLOR", "PYTHONPATH", "PYTHONUSERBASE", "PYTHONHOME"):
            env.pop(name, None)
        if self.build_path:
            env["PYTHONPATH"] = os.pathsep.join(self.build_path)
            programs = [os.path.join(folder, "bin") for folder in self.build_path]
            env["PATH"] = os.pathsep.join([*filter(os.path.isdir, programs), env.get("PATH", os.defpath)])
        if not self.settings.has_cache:
            env["UV_CACHE_DIR"] = str(self.work / "cache")
        return env

    def run(self, arguments: Sequence[str | Path]) -> str:
        """Run uv; what it printed. Raises what its failure means."""
        words = [self.program, *map(str, arguments), *self.settings.arguments, *self._build_options()]
        completed = tools.run(words, env=self.environment())
        if completed.code != 0:
            raise failure(completed.stderr)
        outside = re.search(OUTSIDE, completed.stderr)
        if outside:
            raise ToolFailed(
                f"a package has a file that leads out of the overlay: {outside[1]}",
                hint=f"do not install it, and report it where you got it from; {NOTHING_CHANGED}",
            )
        return completed.stdout

    def run_again(self, arguments: Sequence[str | Path]) -> str:
        """Run uv on what it has just resolved, from its cache: an index that mirrors feed can answer two ways.

        If the cache has not all of it, as when an index forbids that, the index answers.
        """
        try:
            return self.run([*arguments, "--offline"])
        except DiskFull:
            raise
        except UenvtoolError:
            return self.run(arguments)

    @property
    def link_mode(self) -> str:
        """How uv puts files into the overlay: never as links into a cache that the user keeps."""
        return "copy" if self.settings.has_cache else "hardlink"

    def _build_options(self) -> list[str]:
        if ALL in self.settings.built_on_base:
            return ["--no-build-isolation"]
        names = self.settings.built_on_base
        return [word for name in names for word in ("--no-build-isolation-package", name, "--no-binary", name)]


def find_uv() -> str:
    """uv's program: of its wheel, else on PATH. Raises ToolMissing."""
    try:
        from uv import find_uv_bin

        return os.fspath(find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
        if found is None:
            raise ToolMissing("uv is not here", hint=HOW_TO_GET) from None
        return found
