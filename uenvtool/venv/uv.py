"""Runs uv, and quotes what it says when it fails."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from uenvtool.core import files, processes
from uenvtool.core.errors import AnswerIsNo, BadInput, ToolFailed, ToolMissing, UenvtoolError
from uenvtool.venv.base import Base
from uenvtool.venv.requirements import UserRequest
from uenvtool.venv.settings import ALL, UvSettings
from uenvtool.venv.unbuilt import Unbuilt

HOW_TO_GET = "`pip install uv` beside uenvtool, or see https://docs.astral.sh/uv/"
_OUTSIDE = r"Skipping unsafe file name: (.*)"
"""uv leaves such a file out and says so in its log alone (its crate uv-extract)."""
BUILD_TOOLS = ("setuptools", "wheel", "packaging", "ninja")
"""setuptools and wheel are what a build needs if it names nothing (PEP 517); torch.utils.cpp_extension imports
packaging and setuptools, and compiles with ninja if it is there."""
Words = Sequence[str | Path]
KEEP_LINES = 12
NOTHING_CHANGED = "nothing was changed"


class NoSolution(AnswerIsNo):
    """The requirements contradict each other or the base. explanation: all of uv's words."""

    def __init__(self, explanation: str, note: str = "", hint: str = "ask for versions that exist and fit") -> None:
        super().__init__("\n".join(filter(None, [short_text(explanation), note])), hint=f"{hint}; {NOTHING_CHANGED}")
        self.explanation = explanation


class BuildFailed(ToolFailed):
    """A package could not be built from its source."""


class IndexFailed(ToolFailed):
    """An index does not answer, or refuses to."""


class DiskFull(ToolFailed):
    """The place of the work has no space left."""


class UnsafePackage(ToolFailed):
    """A package has a file that leads out of its environment. uv says so once, and leaves the file out."""


_FAILURES: tuple[tuple[str, type[UenvtoolError], str], ...] = (
    (
        r"No space left on device|Disk quota exceeded",
        DiskFull,
        "free space there, or if it is uv's cache, set UV_CACHE_DIR to a folder that has some",
    ),
    (r"Couldn't parse|Error parsing|Unexpected '|Expected `--hash`|must be followed by", BadInput, "mend that line"),
    (
        r"needs to be updated, but `--locked`",
        AnswerIsNo,
        "uv.lock is older than pyproject.toml: `uv lock` makes it anew",
    ),
    (
        r"incompatible with the `pylock",
        AnswerIsNo,
        "the lock is for another Python: load the base that it was made for, which it names, or resolve anew",
    ),
    (
        r"build backend returned(?s:.)*(CUDA_HOME environment variable is not set|nvcc was not found|bin/nvcc')",
        BuildFailed,
        "its build starts bin/nvcc of the CUDA toolkit, whose folder CUDA_HOME names: load the module that has it "
        "({modules}), in the version of the base's torch, or set CUDA_HOME",
    ),
    (
        r"Failed to build `(?P<name>[\w.-]+)(?s:.)*No module named 'torch",
        BuildFailed,
        "its build needs torch, which lies in the base: --no-build-isolation {name}",
    ),
    (
        r"Failed to build `(?P<name>[\w.-]+)(?s:.)*No module named",
        BuildFailed,
        "put the module that its build needs into the overlay first, in a run of its own, then build it with "
        "--no-build-isolation {name}",
    ),
    (r"Failed to build", BuildFailed, "another version may have a wheel for this Python"),
    (
        r"Building source distributions is disabled",
        AnswerIsNo,
        "a dry run builds nothing, and what you name has no name before that (a folder without pyproject.toml, a "
        "repository): leave it out to see the rest, or give the command without --dry-run",
    ),
    (
        r"Hash mismatch",
        ToolFailed,
        "the file that came is not the one of the lock: somebody has changed it, or the lock; install it only if you "
        "know why, with a new lock",
    ),
    (
        r"Failed to fetch|error sending request|could not be queried",
        IndexFailed,
        "check the network, the index and your credentials, or give wheels with PIP_FIND_LINKS and PIP_NO_INDEX=1",
    ),
    (r"No solution found", NoSolution, ""),
)
"""Words of uv by which its failures differ for this tool: another exit code, another way out. The first that fits.

Those of nvcc are torch's (torch/utils/cpp_extension.py, 2.6) and flash-attn's (setup.py, 2.8.3).
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Uv:
    """uv with the user's settings, working in one folder of the tool's own.

    build_path: folders of packages that sources without build isolation are built with. unbuilt: what would be built,
    where nothing is.
    """

    program: str
    settings: UvSettings
    work: Path
    build_path: tuple[str, ...] = ()
    unbuilt: Unbuilt | None = None

    def _environment(self) -> dict[str, str]:
        """Return uv's environment: its work is done here, and its cache is the user's if that can be kept."""
        temporary = self.work / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
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

    def _project(self) -> Path:
        """Return the folder that uv takes for the project: it ends uv's search, which goes on in the folders above.

        What lies there, as in a shared scratch, is somebody else's. Source: uv, crate uv-settings,
        `FilesystemOptions::find`, and crate uv-workspace, `Workspace::discover`.
        """
        import tomlkit

        folder = self.work / "settings"
        folder.mkdir(parents=True, exist_ok=True)
        tool: dict[str, Any] = {"uv": {**self.settings.project, "workspace": {}}}
        if self.unbuilt and (metadata := self.unbuilt.metadata()):
            tool["uv"]["dependency-metadata"] = [*tool["uv"].get("dependency-metadata", ()), *metadata]
        text = tomlkit.dumps({"project": {"name": "overlay", "version": "0"}, "tool": tool})
        files.fill(folder, {"pyproject.toml": text})
        return folder

    def run(self, arguments: Words, *, of_project: bool = False) -> str:
        """Run uv and return what it printed. of_project: its arguments name one. Raises what its failure means."""
        words = [
            *map(str, arguments),
            *self.settings.arguments,
            *(self._building() if self.unbuilt is None else self.unbuilt.words(of_project=of_project)),
            *([] if of_project else ["--project", str(self._project())]),
        ]
        completed = processes.run([self.program, *words], env=self._environment())
        if completed.code != 0:
            if self.unbuilt and self.unbuilt.learn(completed.stderr):
                return self.run(arguments, of_project=of_project)
            raise failure(completed.stderr, os.environ.get("MODULEPATH", ""))
        outside = re.search(_OUTSIDE, completed.stderr)
        if outside:
            raise UnsafePackage(
                f"a package has a file that leads out of the overlay: {outside[1]}",
                hint=f"do not install it, and report it where you got it from; {NOTHING_CHANGED}",
            )
        return completed.stdout

    def _building(self) -> list[str]:
        built = self.settings.built_on_base
        options = [word for name in built for word in ("--no-build-isolation-package", name, "--no-binary", name)]
        return ["--no-build-isolation"] if ALL in built else options

    def run_again(self, arguments: Words) -> str:
        """Run uv on what it has just resolved, from its cache: an index that mirrors feed can answer two ways.

        If the cache has not all of it, as when an index forbids that, the index answers.
        """
        try:
            return self.run([*arguments, "--offline"])
        except (DiskFull, UnsafePackage):
            raise
        except UenvtoolError:
            return self.run(arguments)

    def building_on(self, base: Base, request: UserRequest) -> Uv:
        """Return uv as it has to be to build on the base; as it is if nothing is built so.

        The base's packages come first. What it lacks of the tools, and what the user names beside what is built, lies
        in a folder behind them and is no part of the overlay.
        """
        built = self.settings.built_on_base
        if not built or self.unbuilt is not None:
            return self
        folder = self.work / "tools"
        isolated = replace(self, settings=replace(self.settings, built_on_base=()))
        words: list[str | Path] = ["pip", "install", "--quiet", "--no-deps", "--python", base.python]
        words += ["--target", folder]
        words += ["--only-binary", ":all:"]  # what is built itself is among what the user names
        wanted = [[name for name in BUILD_TOOLS if name not in base.packages]]
        wanted += [
            [requirement.text]
            for requirement in request.requirements
            if requirement.is_of_index and requirement.name not in {*built, *BUILD_TOOLS, *base.packages}
        ]
        for texts in filter(None, wanted):
            try:
                isolated.run([*words, *texts])
            except (DiskFull, UnsafePackage):
                raise
            except UenvtoolError:
                continue  # if the index lacks one, the build says what it misses
        return replace(self, build_path=(*base.folders, str(folder)))


def failure(stderr: str, module_path: str = "") -> UenvtoolError:
    """Return an error that quotes uv's words, with the exit code and the way out that fit them.

    module_path: the folders where Lmod or Tcl's modules are looked for, as MODULEPATH has them.
    """
    text = stderr.strip() or "uv failed and printed nothing"
    for words, kind, hint in _FAILURES:
        found = re.search(words, text)
        if found and kind is NoSolution:
            return NoSolution(text)
        if found and kind is BuildFailed:
            text = text.partition("\nhint: ")[0]  # of uv's own: it would install a second torch
        if found:
            modules = _modules_of_cuda(module_path) if "{modules}" in hint else ""
            way = hint.format(**found.groupdict(), modules=modules)
            return kind(f"uv: {short_text(text)}", hint=f"{way}; {NOTHING_CHANGED}")
    return ToolFailed(f"uv: {short_text(text)}", hint=NOTHING_CHANGED)


def _modules_of_cuda(module_path: str) -> str:
    """Return the command that shows the modules of the CUDA toolkit, under the name that they have here."""
    folders = (Path(folder) for folder in module_path.split(os.pathsep) if folder)
    names = (path.name for folder in folders for path in sorted(folder.glob("[cC][uU][dD][aA]*")))
    return f"`module avail {next(names, 'cuda')}`"


def short_text(text: str) -> str:
    """Return the first and last lines of what uv printed, which can be hundreds."""
    lines = [line for line in text.removeprefix("error: ").splitlines() if line.strip()]
    half = KEEP_LINES // 2
    if len(lines) > KEEP_LINES:
        lines = [*lines[:half], f"  ... {len(lines) - KEEP_LINES} lines ...", *lines[-half:]]
    return "\n".join(lines)


def find_uv() -> str:
    """Find uv's program: of its wheel, else on PATH. Raises ToolMissing."""
    with contextlib.suppress(ImportError, FileNotFoundError):
        from uv import find_uv_bin

        return os.fspath(find_uv_bin())
    found = shutil.which("uv")
    if found is None:
        raise ToolMissing.not_on_path("uv", HOW_TO_GET)
    return found
