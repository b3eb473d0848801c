"""Runs uv, and turns its failures into errors that quote uv's message."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from uenvtool.core import files, processes
from uenvtool.core.errors import AnswerIsNo, BadInput, ToolFailed, ToolMissing, UenvtoolError
from uenvtool.core.words import canonical
from uenvtool.venv.base import Base
from uenvtool.venv.projects import project_name
from uenvtool.venv.requirements import UserRequest
from uenvtool.venv.settings import ALL, UvSettings, is_on

HOW_TO_GET = "install it into uenvtool's environment with `pip install uv`, or see https://docs.astral.sh/uv/"
_OUTSIDE = r"Skipping unsafe file name: (.*)"
"""uv skips such a file and reports it only in its log (crate uv-extract)."""
BUILD_TOOLS = ("setuptools", "wheel", "packaging", "ninja")
"""The packages that builds commonly need. setuptools and wheel are the default build requirements (PEP 517).
torch.utils.cpp_extension imports packaging and setuptools, and compiles with ninja if it is installed."""
Arguments = Sequence[str | Path]
KEEP_LINES = 12
FAILURES = Path(__file__).parent / "failures.yaml"
NOTHING_CHANGED = "nothing was changed"
_OF_INDEX = re.compile(r"Wheels are required for `([^`]+)`")
_ELSEWHERE = re.compile(r"Building source distributions for `([^`]+)` is disabled")
"""uv 0.13's messages about packages that it would have to build, from an index or elsewhere (crate uv-resolver)."""
NO_BINARY = "--no-binary"
UNKNOWN = "0"
"""The version that uv gets for a package whose version only a build can determine."""


class NoSolution(AnswerIsNo):
    """The requirements contradict each other or the base. explanation: uv's whole message."""

    def __init__(self, explanation: str, note: str = "", hint: str = "request versions that exist and fit") -> None:
        super().__init__("\n".join(filter(None, [_short_text(explanation), note])), hint=f"{hint}; {NOTHING_CHANGED}")
        self.explanation = explanation


class BuildFailed(ToolFailed):
    """A package could not be built from its source."""


class IndexFailed(ToolFailed):
    """An index does not answer or denies access."""


class DiskFull(ToolFailed):
    """The disk of the temporary directory or of uv's cache is full."""


class UnsafePackage(ToolFailed):
    """A package contains a file whose path is outside its environment. uv reports it once and skips the file."""


_ERRORS: dict[str, type[UenvtoolError]] = {
    kind.__name__: kind for kind in (AnswerIsNo, BadInput, BuildFailed, DiskFull, IndexFailed, NoSolution, ToolFailed)
}


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """The normalized names of packages that would be built. A dry run assumes that they have no dependencies.

    of_index: releases from an index. elsewhere: archives, directories and repositories. uv reports only one name at a
    time.
    """

    of_index: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)

    def options(self, *, of_project: bool) -> Iterator[str]:
        """Yield the options with which uv builds nothing. of_project: whether the uv command concerns a project."""
        if of_project:
            yield "--no-build"
            return
        yield from ("--only-binary", ALL)
        for name in sorted(self.of_index):  # uv gets their metadata and builds nothing
            yield from (NO_BINARY, name)

    def metadata(self) -> list[dict[str, Any]]:
        """Return the value of uv's setting dependency-metadata."""
        of_index: list[dict[str, Any]] = [{"name": name, "requires-dist": []} for name in sorted(self.of_index)]
        # For a package from elsewhere, uv also needs the version, and it ignores the metadata with --no-binary.
        return of_index + [
            {"name": name, "version": UNKNOWN, "requires-dist": []} for name in sorted(self.elsewhere - self.of_index)
        ]

    def learn(self, stderr: str) -> bool:
        """Add the packages that uv reports as needing a build; return whether any of them is new."""
        new = {canonical(name) for name in _ELSEWHERE.findall(stderr)} - self.elsewhere - self.of_index
        self.elsewhere.update(new)
        return self.add({canonical(name) for name in _OF_INDEX.findall(stderr)}) or bool(new)

    def add(self, names: Collection[str]) -> bool:
        """Add releases of an index; return whether any of them is new."""
        new = set(names) - self.of_index
        self.of_index.update(new)
        return bool(new)


@dataclass(frozen=True, kw_only=True, slots=True)
class Uv:
    """The program uv, with the user's settings and a temporary working directory.

    build_path: the package directories for builds without build isolation. unbuilt: in a dry run, the packages that a
    real run would build.
    """

    program: str
    settings: UvSettings
    work: Path
    build_path: tuple[str, ...] = ()
    unbuilt: Unbuilt | None = None

    def _environment(self) -> dict[str, str]:
        temporary = self.work / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        env = {
            **self.settings.environment,
            **self.settings.urls,
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
        # setuptools would keep an older file in the project's build/ if the new one has an old date (rsync -a, cp -p).
        files.fill(self.work, {"setuptools.cfg": "[build_py]\nforce = 1\n"})
        env.setdefault("DIST_EXTRA_CONFIG", os.fspath(self.work.absolute() / "setuptools.cfg"))
        if not self.settings.has_cache:
            env["UV_CACHE_DIR"] = str(self.work / "cache")
        return env

    def _project(self) -> Path:
        import tomlkit

        # Without a project, uv would read settings in parent directories, for example a shared scratch directory, which
        # may belong to another user (crate uv-settings, `FilesystemOptions::find`; crate uv-workspace,
        # `Workspace::discover`).
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

        Raises the error of `failure` if uv fails, and UnsafePackage if a package has a file outside the overlay.
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
        """Run uv from its cache on requirements that it has just resolved, because two mirrors of an index can differ.

        If the cache lacks an answer, for example because the index forbids caching, uv queries the index.
        """
        try:
            return self.run([*arguments, "--offline"])
        except (DiskFull, UnsafePackage):
            raise
        except UenvtoolError:
            return self.run(arguments)

    def building_nothing(self, request: UserRequest) -> Uv:
        """Return a Uv for a dry run. It builds no packages and records the packages that a real run would build.

        Raises AnswerIsNo if all packages are built, or if only a build can determine the name of a package.
        """
        arguments, env = self.settings.arguments, self.settings.environment
        named = [value for option, value in itertools.pairwise(arguments) if option == NO_BINARY]
        named += [*request.options.get(NO_BINARY, ()), *env.get("UV_NO_BINARY_PACKAGE", "").split()]
        if ALL in named or is_on(env, "UV_NO_BINARY"):
            message = "--no-binary :all: builds every package from source, but --dry-run builds nothing"
            raise AnswerIsNo(message, hint="run the command without --dry-run or without --no-binary")
        for requirement in request.requirements:
            if requirement.editable and not (requirement.name or project_name(Path(requirement.editable))):
                message = f"{requirement.editable}: only a build can determine the name of this project"
                hint = "leave out this project to see the other packages, or run the command without --dry-run"
                raise AnswerIsNo(message, requirement.position, hint)
        requested = ",".join([*named, *self.settings.built_on_base]).split(",")
        names = {canonical(name) for name in requested if name not in ("", ALL)}
        elsewhere = {requirement.name for requirement in request.requirements if not requirement.is_of_index} & names
        pairs = itertools.pairwise(("", *arguments))
        kept = (argument for option, argument in pairs if NO_BINARY not in (option, argument))
        env = {name: value for name, value in env.items() if name != "UV_NO_BINARY_PACKAGE"}
        settings = replace(self.settings, arguments=tuple(kept), environment=env)
        return replace(self, settings=settings, unbuilt=Unbuilt(names - elsewhere, elsewhere))

    def building_on(self, base: Base, request: UserRequest) -> Uv:
        """Return a Uv that builds packages with the base's packages, or this Uv if no package is built that way.

        The build tools that the base lacks, and the other packages that the user names, are installed into a temporary
        directory, which comes after the base's packages on the build's search path.
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
                continue  # if the index lacks a package, the build reports the missing module
        return replace(self, build_path=(*base.folders, str(tools)))


def failure(stderr: str, module_path: str = "") -> UenvtoolError:
    """Return an error with uv's message and the hint of failures.yaml. module_path: the value of MODULEPATH."""
    import yaml

    text = stderr.strip() or "uv failed and printed nothing"
    for row in yaml.load(FAILURES.read_bytes(), Loader=yaml.CSafeLoader):
        match, kind, hint = re.search(row["pattern"], text), _ERRORS[row["error"]], row.get("hint", "")
        if match and kind is NoSolution:
            return NoSolution(text)
        if match and kind is BuildFailed:
            text = text.partition("\nhint: ")[0]  # uv's own hint would install a second torch
        if match:
            modules = _modules_of_cuda(module_path) if "{modules}" in hint else ""
            advice = hint.format(**match.groupdict(), modules=modules)
            return kind(f"uv: {_short_text(text)}", hint=f"{advice}; {NOTHING_CHANGED}")
    return ToolFailed(f"uv: {_short_text(text)}", hint=NOTHING_CHANGED)


def _modules_of_cuda(module_path: str) -> str:
    directories = (Path(directory) for directory in module_path.split(os.pathsep) if directory)
    names = (path.name for directory in directories for path in sorted(directory.glob("[cC][uU][dD][aA]*")))
    return f"`module avail {next(names, 'cuda')}`"


def _short_text(text: str) -> str:
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
