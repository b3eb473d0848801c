"""Shared fixtures: an empty working directory, the command line, and files in the current directory."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import needs
from tests.support.bases import Loaded, loaded, no_base, wheels
from tests.support.mount_points import mount_points
from tests.support.project import ROOT
from tests.support.temporary import tmp_path
from uenvtool.cli import run
from uenvtool.core.errors import ExitCode

LEFT_OUT = ("slow", "nightly", "build", "solve")
"""The marks of tests that run only with the option of the same name. pyproject.toml describes the marks."""
__all__ = ["ROOT", "SMALL", "Answer", "Loaded", "loaded", "mount_points", "no_base", "tmp_path", "wheels"]


settings.register_profile(  # without a deadline, which a busy machine would miss
    "new examples", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("same examples", settings.get_profile("new examples"), derandomize=True)

for number in (signal.SIGINT, signal.SIGHUP):  # background jobs and nohup make child processes ignore these signals
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    for mark in LEFT_OUT:
        parser.addoption(f"--{mark}", action="store_true", help=f"run the tests that are marked {mark} too")


def pytest_configure(config: pytest.Config) -> None:
    """Let Hypothesis search for new examples only in the nightly run. A change fails only because of its own faults."""
    settings.load_profile("new examples" if config.getoption("nightly") else "same examples")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect marked tests unless an option or `-m` requests them. The last mark of a test counts."""
    named = config.getoption("markexpr") or ""
    unwanted = [mark for mark in LEFT_OUT if not (config.getoption(mark) or mark in named)]
    marks = {item: [mark for mark in LEFT_OUT if item.get_closest_marker(mark)] for item in items}
    left_out = [item for item, marked in marks.items() if marked and marked[-1] in unwanted]
    if left_out:
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Skip a test if one of its fixtures starts a program that is not installed."""
    with needs.skips_if_reached():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Skip a test that starts a program that is not installed."""
    with needs.skips_if_reached():
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped and how to run them. Count each missing program as one skip."""
    stats = terminalreporter.stats
    ran = sum(len(stats.get(kind, [])) for kind in ("passed", "failed", "xfailed", "skipped"))
    for line in needs.summary(map(needs.reason_of, stats.get("skipped", [])), ran):
        terminalreporter.write_line(line)
    if "skipped" in stats:
        stats["skipped"] = needs.folded(stats["skipped"])


@dataclass(frozen=True)
class Answer:
    """The exit code and output of a command."""

    code: int
    stdout: str
    stderr: str


Cli = Callable[..., Answer]
Write = Callable[[str, str | bytes], Path]
"""The types of the fixtures `cli` and `write`."""


@pytest.fixture(scope="session")
def path_without_uenv(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return PATH with each directory that contains a uenv client replaced by links to its other files.

    With the client, the machine would count as a login node, on which uenvtool rejects a plain environment. A pyenv
    shim starts forty processes to find a Python, so the directory of the tests' Python replaces the shims.
    """
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    folders = [f"{sys.base_prefix}/bin" if Path(folder).name == "shims" else folder for folder in folders]
    for at, folder in enumerate(folders):
        if shutil.which("uenv", path=folder):
            folders[at] = str(tmp_path_factory.mktemp("path"))
            for program in filter(lambda program: program.name != "uenv", Path(folder).iterdir()):
                Path(folders[at], program.name).symlink_to(program.absolute())
    return os.pathsep.join(folders)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, path_without_uenv: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns an empty current directory and home, on an unknown system without a container, Spack or uenv client."""
    home = tmp_path / "home"
    work = tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", path_without_uenv)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("UENVTOOL_ROOT", "/nothing")  # the tests may run in a container
    for name in (
        "XDG_CONFIG_HOME",
        "SPACK_ROOT",
        "CLUSTER_NAME",
        "SLURM_CLUSTER_NAME",
        "RUNAI_NUM_OF_GPUS",
        "UENVTOOL_DOCS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # tests/faults makes it fail in separate processes
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs the command line in this process, and skips the test if an optional program is not installed."""

    def call(*arguments: str | Path) -> Answer:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        if code == ExitCode.MISSING:
            needs.skip_if_missing(needs.not_on_path(captured.err))
        return Answer(code, captured.out, captured.err)

    return call


@pytest.fixture
def write(place: Path) -> Write:
    """Writes a file below the current directory."""

    def put(name: str, content: str | bytes) -> Path:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put


SMALL = """\
description: A small recipe.
home: clariden
uarchs: [any]
spack: {url: https://github.com/spack/spack.git, tag: v1.1.0}
repos: {builtin: {url: https://github.com/spack/spack-packages.git, tag: v2026.06.0}}
variants:
  gpu: {values: [+cuda, "cuda_arch=${cuda_arch}"], when: gpu == nvidia}
global_variants: [gpu]
groups:
  all:
    specs:
    - zlib-ng
    - {spec: hdf5@1.14 +mpi, reason: files}
view: {link: all}
"""
