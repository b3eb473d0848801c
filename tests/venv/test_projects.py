"""Test the requirements of project files on a base: pyproject.toml, uv.lock and environment.yml."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.support.overlays import BaseHere, inside, project, wheel
from tests.support.samples import slow
from tests.support.web import served
from tests.venv.conftest import TORCH, record
from uenvtool.venv.projects import project_lines
from uenvtool.venv.uv import find_uv

PROJECT = """\
[project]
name = "mine"
version = "1"
requires-python = ">=3.10"
dependencies = [
  "light",
  "torch>=2",
]
[project.optional-dependencies]
plot = ["plotter"]
[dependency-groups]
dev = ["helper"]
all = [{include-group = "dev"}]
"""
WORKSPACE = (
    PROJECT.replace('"torch>=2"', '"part", "near"')
    + '[tool.uv.workspace]\nmembers = ["parts/*"]\n'
    + '[tool.uv.sources]\npart = {workspace = true}\nnear = {path = "../near"}\n'
)


@pytest.fixture
def here(here: BaseHere, wheels: Path) -> BaseHere:
    """A base with torch; an index with another torch, which brings a library of its own."""
    for name in ("plotter", "helper", "nvidia-cublas-cu12"):
        wheel(wheels, name, "1.0")
    wheel(wheels, "torch", "2.9.0", requires=("nvidia-cublas-cu12",))
    wheel(wheels, "light", "1.0", requires=("torch",))
    return here


@pytest.fixture
def index(here: BaseHere, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an index with sums."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    list_wheels(wheels, place / "index")
    with served(place / "index") as url:
        yield url


def list_wheels(wheels: Path, folder: Path) -> None:
    for path in wheels.glob("*.whl"):
        page = folder / path.name.split("-")[0].replace("_", "-") / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        page.write_text(f'<a href="../{path.name}#sha256={digest}">{path.name}</a>\n')
        shutil.copy(path, folder)


@pytest.fixture
def lock(index: str, write: Write) -> Callable[[str], Path]:
    """Writes a pyproject.toml, which names the index, and locks it."""

    def make(text: str, name: str = "pyproject.toml") -> Path:
        path = write(name, f'{text}[[tool.uv.index]]\nurl = "{index}"\ndefault = true\n')
        subprocess.run([find_uv(), "lock", "--quiet", "--no-python-downloads"], cwd=path.parent, check=True)
        return path

    return make


@pytest.mark.parametrize(
    ("file", "words", "names"),
    [
        ("pyproject.toml", (), {"light"}),
        ("pyproject.toml", ("--extra", "plot", "--group", "all"), {"light", "plotter", "helper"}),
        ("train-pyproject.toml", ("--group", "all"), {"light", "helper"}),
    ],
)
def test_a_pyproject_is_installed_with_its_extras_and_groups(
    here: BaseHere, done: Cli, write: Write, file: str, words: tuple[str, ...], names: set[str]
) -> None:
    write(file, PROJECT)

    done("venv", "v", "-r", file, *words)

    assert inside("v") == names
    assert record("v")["requests"][:2] == [
        {"text": "light", "origin": f"{file}:6"},
        {"text": "torch>=2", "origin": f"{file}:7"},
    ]


def test_a_uv_lock_is_installed_exactly_with_its_sums_and_without_its_torch(
    lock: Callable[[str], Path], done: Cli, cli: Cli, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = lock(PROJECT)
    monkeypatch.setenv("UV_NO_CACHE", "1")  # which keeps the files of the lock

    first = done("venv", "v", "--from", "uv.lock", "--extra", "plot")
    had = inside("v")
    again = done("venv", "v", "--from", "uv.lock")
    kept = inside("v")
    wheel(wheels, "light", "1.0", files={"light/extra.py": "changed = True\n"})
    list_wheels(wheels, place / "index")
    changed = cli("venv", "w", "--from", "uv.lock")
    project.write_text(project.read_text().replace('  "light",\n', ""))
    old = cli("venv", "v", "--from", "uv.lock")

    assert had == {"light", "plotter", "helper"}
    assert f"the lock has torch 2.9.0, but the base's {TORCH} is used: it is protected" in first.stderr
    assert kept == inside("v") == {"light", "helper"}
    assert "plotter" in again.stdout
    assert (changed.code, old.code) == (4, 1)
    assert "uv.lock is older than pyproject.toml" in old.stderr


def test_the_pip_part_of_an_environment_is_installed_and_the_rest_named(
    here: BaseHere, done: Cli, write: Write
) -> None:
    write("environment.yml", "dependencies:\n- python >= 3.9\n- pytorch=2.6\n- c::numpy=2=mkl\n- pip:\n  - light\n")

    write("more.yml", "dependencies:\n- zlib\n")
    answer = done("venv", "v", "-r", "environment.yml", "-r", "more.yml")

    assert inside("v") == {"light"}
    told = "uenvtool does not install conda packages; add the packages that you need to the command"
    assert f"environment.yml: {told}: c::numpy=2=mkl\n" in answer.stderr
    assert f"more.yml: {told}: zlib\n" in answer.stderr
    assert f"environment.yml: the base has torch {TORCH}" in answer.stderr


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        (
            "code/environment.yml",  # paths count from it, as for conda
            "dependencies:\n- pip:\n  - -e .[dev]\n  - ../other\n  - .hidden\n  - light\n",
            ["-e {here}/code/.[dev]", "{here}/code/../other", ".hidden", "light"],
        ),
        (
            "pyproject.toml",
            PROJECT + '[tool.uv.sources]\nlight = {git = "https://x/light", tag = "v1"}\ntorch = {index = "cu128"}\n',
            ["light @ git+https://x/light@v1", "torch>=2"],
        ),
    ],
)
def test_a_projects_places_become_those_of_requirements(name: str, text: str, wanted: list[str]) -> None:
    lines, _ = project_lines(name, text, (), ())

    assert [line for _, line in lines] == [line.format(here=Path.cwd()) for line in wanted]


def test_an_overlay_of_nothing_says_what_lies_here(here: BaseHere, done: Cli, write: Write) -> None:
    write("requirements.txt", "light\n")

    answer = done("venv", "v")

    assert "to install it, run `uenvtool venv v -r requirements.txt`" in answer.stderr
    assert "uenvtool job --system NAME --venv v -o train.sh -- python train.py" in answer.stderr


@pytest.mark.parametrize("name", ["requirements.txt", slow("pyproject.toml"), slow("uv.lock")])
def test_squash_alone_takes_what_the_folder_needs_and_follows_its_changes(
    lock: Callable[[str], Path], index: str, done: Cli, write: Write, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", index)

    def say(*packages: str) -> None:
        project = f"[project]\nname = 'm'\nversion = '1'\nrequires-python = '>=3.10'\ndependencies = {list(packages)}\n"
        if name == "uv.lock":
            lock(project)
        else:
            write(name, project if name == "pyproject.toml" else "\n".join(packages))

    say("light")
    first = done("venv", "--squash")
    same = done("venv", "--squash")
    say("light", "plotter")
    changed = done("venv", "--squash")

    assert f"made from {name} in this directory" in first.stderr
    assert f"packed without changes: {name} has not changed" in same.stderr
    assert f".venv is updated because {name} has changed" in changed.stderr
    assert inside(".venv") >= {"light", "plotter"}
    assert Path("venv.squashfs").is_file()


@pytest.fixture
def workspace(lock: Callable[[str, str], Path], index: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a member of its workspace, a package beside it, an extra and a group; and its uv.lock."""
    project(place / "mine", "mine")
    project(place / "mine" / "parts" / "part", "part")
    project(place / "near", "near")
    tables = (place / "mine/pyproject.toml").read_text().partition("[build-system]")
    lock(f"{WORKSPACE}{tables[1]}{tables[2]}", "mine/pyproject.toml")
    monkeypatch.setenv("UV_DEFAULT_INDEX", index)
    monkeypatch.chdir(place / "mine")
    return place / "mine"


def origins(folder: Path) -> dict[str, dict[str, object]]:
    """What is in an environment, each with the folder that it came from, if it came from one."""
    found = {}
    for info in next(folder.glob("lib/python3*/site-packages")).glob("*.dist-info"):
        text = (info / "direct_url.json").read_text() if (info / "direct_url.json").is_file() else "{}"
        found[info.name] = json.loads(text)
    return found


@pytest.mark.parametrize(
    "more", [("--extra", "plot"), slow(()), slow(("--no-install-project",)), slow(("--group", "dev"))]
)
def test_a_uv_lock_gives_what_uv_sync_does_but_the_torch(
    workspace: Path, here: BaseHere, done: Cli, more: tuple[str, ...]
) -> None:
    done("venv", "v", "--from", "uv.lock", *more)

    words = [find_uv(), "sync", "--locked", "--quiet", "--no-python-downloads", "--python", str(here.python), *more]
    subprocess.run(words, check=True)
    theirs = origins(workspace / ".venv")
    assert {name.partition("-")[0] for name in theirs} >= {"torch", "nvidia_cublas_cu12", "light", "near", "part"}
    of_torch = ("torch-", "nvidia_cublas_cu12-")
    assert origins(Path("v")) == {name: origin for name, origin in theirs.items() if not name.startswith(of_torch)}
    assert ("mine-1.dist-info" in theirs) == ("--no-install-project" not in more)


@pytest.mark.slow
def test_the_projects_of_a_lock_are_editable_until_it_is_packed(workspace: Path, done: Cli) -> None:
    see = ["v/bin/python", "-c", "import mine, part, near; print(mine.__file__, part.__file__)"]

    done("venv", "v", "--from", "uv.lock")
    loose = subprocess.run(see, capture_output=True, text=True, check=True).stdout
    done("venv", "v", "plotter")
    answer = done("venv", "v", "--from", "uv.lock", "--squash")
    packed = subprocess.run(see, capture_output=True, text=True, check=True).stdout

    assert loose == f"{workspace}/src/mine/__init__.py {workspace}/parts/part/src/part/__init__.py\n"
    assert "editable" not in answer.stderr
    assert packed.count("/site-packages/") == 2
