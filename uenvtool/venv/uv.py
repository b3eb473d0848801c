"""Runs uv, and turns its failures into errors that quote uv's message."""

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

HOW_TO_GET = "install it into uenvtool's environment with `pip install uv`, or see https://docs.astral.sh/uv/"
_OUTSIDE = r"Skipping unsafe file name: (.*)"
"""uv skips such a file and reports it only in its log (crate uv-extract)."""
BUILD_TOOLS = ("setuptools", "wheel", "packaging", "ninja")
"""The packages that builds commonly need. setuptools and wheel are the default build requirements (PEP 517).
torch.utils.cpp_extension imports packaging and setuptools, and compiles with ninja if it is installed."""
Arguments = Sequence[str | Path]
KEEP_LINES = 12
NOTHING_CHANGED = "nothing was changed"


class NoSolution(AnswerIsNo):
    """The requirements contradict each other or the base. explanation: uv's whole message."""

    def __init__(self, explanation: str, note: str = "", hint: str = "request versions that exist and fit") -> None:
        super().__init__("\n".join(filter(None, [short_text(explanation), note])), hint=f"{hint}; {NOTHING_CHANGED}")
        self.explanation = explanation


class BuildFailed(ToolFailed):
    """A package could not be built from its source."""


class IndexFailed(ToolFailed):
    """An index does not answer or denies access."""


class DiskFull(ToolFailed):
    """The disk of the temporary directory or of uv's cache is full."""


class UnsafePackage(ToolFailed):
    """A package contains a file whose path is outside its environment. uv reports it once and skips the file."""


_FAILURES: tuple[tuple[str, type[UenvtoolError], str], ...] = (
    (
        r"No space left on device|Disk quota exceeded",
        DiskFull,
        "free space on that disk; if it is the disk of uv's cache, set UV_CACHE_DIR to a directory with free space",
    ),
    (r"Couldn't parse|Error parsing|Unexpected '|Expected `--hash`|must be followed by", BadInput, "fix that line"),
    (
        r"needs to be updated, but `--locked`",
        AnswerIsNo,
        "update the lock with `uv lock`, because uv.lock is older than pyproject.toml",
    ),
    (
        r"incompatible with the `pylock",
        AnswerIsNo,
        "load the base that the lock names, or resolve the requirements again: the lock is for another Python",
    ),
    (
        r"build backend returned(?s:.)*(CUDA_HOME environment variable is not set|nvcc was not found|bin/nvcc')",
        BuildFailed,
        "load a CUDA module ({modules}) with the CUDA version of the base's torch, or set CUDA_HOME to the CUDA "
        "toolkit's directory: the build runs bin/nvcc there",
    ),
    (
        r"Failed to build `(?P<name>[\w.-]+)(?s:.)*No module named 'torch",
        BuildFailed,
        "add --no-build-isolation {name}: its build needs torch, which is in the base",
    ),
    (
        r"Failed to build `(?P<name>[\w.-]+)(?s:.)*No module named",
        BuildFailed,
        "install the module that its build needs into the overlay with a separate command, and then build it with "
        "--no-build-isolation {name}",
    ),
    (r"Failed to build", BuildFailed, "request another version, which may have a wheel for this Python"),
    (
        r"Building source distributions is disabled",
        AnswerIsNo,
        "remove the repositories and the directories without pyproject.toml, because only a build can determine their "
        "names; to see these packages too, run the command without --dry-run",
    ),
    (
        r"Hash mismatch",
        ToolFailed,
        "do not install it unless you know why the file or the lock was changed; if you do, make a new lock",
    ),
    (
        r"Failed to fetch|error sending request|could not be queried",
        IndexFailed,
        "check the network, the index and your credentials, or provide wheels with PIP_FIND_LINKS and PIP_NO_INDEX=1",
    ),
    (r"No solution found", NoSolution, ""),
)
"""Patterns in uv's messages, each with the exception and the hint for that failure. The first match is used.

The patterns about nvcc come from torch (torch/utils/cpp_extension.py, 2.6) and flash-attn (setup.py, 2.8.3).
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Uv:
    """uv with the user's settings and a temporary working directory.

    build_path: the package directories for builds without build isolation. unbuilt: the packages that would be built,
    only in a dry run.
    """

    program: str
    settings: UvSettings
    work: Path
    build_path: tuple[str, ...] = ()
    unbuilt: Unbuilt | None = None

    def _environment(self) -> dict[str, str]:
        """Return uv's environment variables; without a usable cache of the user, the cache is a temporary one."""
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
        # The base's packages would take precedence over the requirements of an isolated build.
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "FORCE_COLOR", "PYTHONPATH", "PYTHONUSERBASE", "PYTHONHOME"):
            env.pop(name, None)
        if self.build_path:
            env["PYTHONPATH"] = os.pathsep.join(self.build_path)
            programs = [os.path.join(directory, "bin") for directory in self.build_path]
            env["PATH"] = os.pathsep.join([*filter(os.path.isdir, programs), env.get("PATH", os.defpath)])
        if not self.settings.has_cache:
            env["UV_CACHE_DIR"] = str(self.work / "cache")
        return env

    def _project(self) -> Path:
        """Return the directory that uv uses as the project, so that uv does not search the parent directories.

        Settings in a parent directory, for example a shared scratch directory, may belong to somebody else. Source: uv,
        crate uv-settings, `FilesystemOptions::find`, and crate uv-workspace, `Workspace::discover`.
        """
        import tomlkit

        directory = self.work / "settings"
        directory.mkdir(parents=True, exist_ok=True)
        tool: dict[str, Any] = {"uv": {**self.settings.project, "workspace": {}}}
        if self.unbuilt and (metadata := self.unbuilt.metadata()):
            tool["uv"]["dependency-metadata"] = [*tool["uv"].get("dependency-metadata", ()), *metadata]
        text = tomlkit.dumps({"project": {"name": "overlay", "version": "0"}, "tool": tool})
        files.fill(directory, {"pyproject.toml": text})
        return directory

    def run(self, arguments: Arguments, *, of_project: bool = False) -> str:
        """Run uv and return its output on stdout. of_project: whether the arguments name a project.

        Raises the error of `failure` if uv fails, and UnsafePackage if a package contains a file outside the overlay.
        """
        command = [
            *map(str, arguments),
            *self.settings.arguments,
            *(self._build_options() if self.unbuilt is None else self.unbuilt.options(of_project=of_project)),
            *([] if of_project else ["--project", str(self._project())]),
        ]
        completed = processes.run([self.program, *command], env=self._environment())
        if completed.code != 0:
            if self.unbuilt and self.unbuilt.learn(completed.stderr):
                return self.run(arguments, of_project=of_project)
            raise failure(completed.stderr, os.environ.get("MODULEPATH", ""))
        outside = re.search(_OUTSIDE, completed.stderr)
        if outside:
            raise UnsafePackage(
                f"a package contains a file outside the overlay: {outside[1]}",
                hint=f"do not install that package, and report it to its author or index; {NOTHING_CHANGED}",
            )
        return completed.stdout

    def _build_options(self) -> list[str]:
        built = self.settings.built_on_base
        options = [text for name in built for text in ("--no-build-isolation-package", name, "--no-binary", name)]
        return ["--no-build-isolation"] if ALL in built else options

    def run_again(self, arguments: Arguments) -> str:
        """Run uv from its cache on requirements that it has just resolved; mirrors of an index may answer differently.

        If the cache lacks an answer, for example because the index forbids caching, uv queries the index.
        """
        try:
            return self.run([*arguments, "--offline"])
        except (DiskFull, UnsafePackage):
            raise
        except UenvtoolError:
            return self.run(arguments)

    def building_on(self, base: Base, request: UserRequest) -> Uv:
        """Return a Uv that builds packages with the base's packages, or this Uv if no package is built that way.

        The base's packages come first. A temporary directory after them contains the build tools that the base lacks,
        and the other packages that the user names. It is not part of the overlay.
        """
        built = self.settings.built_on_base
        if not built or self.unbuilt is not None:
            return self
        tools = self.work / "tools"
        isolated = replace(self, settings=replace(self.settings, built_on_base=()))
        arguments: list[str | Path] = ["pip", "install", "--quiet", "--no-deps", "--python", base.python]
        arguments += ["--target", tools]
        arguments += ["--only-binary", ":all:"]  # the user's packages include the one to build
        groups = [[name for name in BUILD_TOOLS if name not in base.packages]]
        groups += [
            [requirement.text]
            for requirement in request.requirements
            if requirement.is_of_index and requirement.name not in {*built, *BUILD_TOOLS, *base.packages}
        ]
        for texts in filter(None, groups):
            try:
                isolated.run([*arguments, *texts])
            except (DiskFull, UnsafePackage):
                raise
            except UenvtoolError:
                continue  # if the index lacks one, the build reports the missing module
        return replace(self, build_path=(*base.folders, str(tools)))


def failure(stderr: str, module_path: str = "") -> UenvtoolError:
    """Return an error that quotes uv's message, with the exit code and the hint for it.

    module_path: the value of MODULEPATH, the directories in which Lmod or Tcl modules are found.
    """
    text = stderr.strip() or "uv failed and printed nothing"
    for pattern, kind, hint in _FAILURES:
        match = re.search(pattern, text)
        if match and kind is NoSolution:
            return NoSolution(text)
        if match and kind is BuildFailed:
            text = text.partition("\nhint: ")[0]  # uv's own hint would install a second torch
        if match:
            modules = _modules_of_cuda(module_path) if "{modules}" in hint else ""
            advice = hint.format(**match.groupdict(), modules=modules)
            return kind(f"uv: {short_text(text)}", hint=f"{advice}; {NOTHING_CHANGED}")
    return ToolFailed(f"uv: {short_text(text)}", hint=NOTHING_CHANGED)


def _modules_of_cuda(module_path: str) -> str:
    """Return the command that lists the CUDA toolkit's modules, with the name that they have on this machine."""
    directories = (Path(directory) for directory in module_path.split(os.pathsep) if directory)
    names = (path.name for directory in directories for path in sorted(directory.glob("[cC][uU][dD][aA]*")))
    return f"`module avail {next(names, 'cuda')}`"


def short_text(text: str) -> str:
    """Return the first and last lines of uv's message, which can have hundreds of lines."""
    lines = [line for line in text.removeprefix("error: ").splitlines() if line.strip()]
    half = KEEP_LINES // 2
    if len(lines) > KEEP_LINES:
        lines = [*lines[:half], f"  ... {len(lines) - KEEP_LINES} lines ...", *lines[-half:]]
    return "\n".join(lines)


def find_uv() -> str:
    """Return the path of uv from its wheel, or else from PATH. Raises ToolMissing if uv is not installed."""
    with contextlib.suppress(ImportError, FileNotFoundError):
        from uv import find_uv_bin

        return os.fspath(find_uv_bin())
    program = shutil.which("uv")
    if program is None:
        raise ToolMissing.not_on_path("uv", HOW_TO_GET)
    return program
