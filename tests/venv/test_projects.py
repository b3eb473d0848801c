"""What a project's own files say it needs is laid over the base: pyproject.toml, uv.lock, environment.yml."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded, Write
from tests.support.overlays import BaseHere, inside, install, project, wheel
from tests.support.web import served
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


@pytest.fixture
def here(loaded: Loaded, wheels: Path, place: Path) -> BaseHere:
    """A base with torch; an index with another torch, which brings a library of its own."""
    found = loaded("pythonpath")
    install(found.site, wheel(place.parent / "old", "torch", "2.6.0a0+d883142"))
    for name in ("plotter", "helper", "nvidia-cublas-cu12"):
        wheel(wheels, name, "1.0")
    wheel(wheels, "torch", "2.9.0", requires=("nvidia-cublas-cu12",))
    wheel(wheels, "light", "1.0", requires=("torch",))
    return found


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), {"light"}),
        (("--extra", "plot", "--group", "all"), {"light", "plotter", "helper"}),
    ],
)
def test_a_pyproject_is_installed_with_its_extras_and_groups(
    here: BaseHere, cli: Cli, write: Write, words: tuple[str, ...], names: set[str]
) -> None:
    write("pyproject.toml", PROJECT)

    answer = cli("venv", "v", "-r", "pyproject.toml", *words)

    assert answer.code == 0, answer.stderr
    assert inside("v") == names
    requests = json.loads(Path("v/.uenvtool/uenvtool.json").read_text())["requests"]
    assert requests[:2] == [
        {"text": "light", "origin": "pyproject.toml:6"},
        {"text": "torch>=2", "origin": "pyproject.toml:7"},
    ]


def index(wheels: Path, folder: Path) -> None:
    """Write the pages of an index, with sums."""
    for path in wheels.glob("*.whl"):
        page = folder / path.name.split("-")[0].replace("_", "-") / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        page.write_text(f'<a href="../{path.name}#sha256={digest}">{path.name}</a>\n')
        shutil.copy(path, folder)


def test_a_uv_lock_is_installed_with_its_sums_and_without_its_torch(
    here: BaseHere, cli: Cli, write: Write, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("pyproject.toml", PROJECT)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    index(wheels, place / "index")
    with served(place / "index") as url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        subprocess.run([find_uv(), "lock", "--quiet", "--no-python-downloads"], check=True)
        answer = cli("venv", "v", "--from", "uv.lock", "--extra", "plot")
        wheel(wheels, "light", "1.0", files={"light/extra.py": "changed = True\n"})
        index(wheels, place / "index")
        changed = cli("venv", "w", "--from", "uv.lock")

    assert answer.code == 0, answer.stderr
    assert inside("v") == {"light", "plotter", "helper"}
    assert list(Path("v").glob("lib/*/site-packages/light-1.0.dist-info"))
    assert "the lock has torch 2.9.0; the base's 2.6.0a0+d883142 stays, it is protected" in answer.stderr
    assert changed.code == 4, changed.stderr
    assert "is not the one of the lock" in changed.stderr


def test_it_is_exactly_what_the_lock_says_and_an_old_one_is_refused(
    here: BaseHere, cli: Cli, write: Write, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    index(wheels, place / "index")
    lock = [find_uv(), "lock", "--quiet", "--no-python-downloads"]
    with served(place / "index") as url:
        project = f'[[tool.uv.index]]\nurl = "{url}"\ndefault = true\n[project]\nname = "mine"\nversion = "1"\n'
        project += 'requires-python = ">=3.10"\ndependencies = ["light"]\n'
        write("pyproject.toml", project + '[dependency-groups]\ndev = ["plotter"]\n')
        subprocess.run(lock, check=True)
        first = cli("venv", "v", "--from", "uv.lock")
        had = inside("v")
        write("pyproject.toml", project)
        old = cli("venv", "v", "--from", "uv.lock")
        kept = inside("v")
        subprocess.run(lock, check=True)
        again = cli("venv", "v", "--from", "uv.lock")

    assert first.code == 0, first.stderr
    assert had == kept == {"light", "plotter"}
    assert old.code == 1, old.stderr
    assert "uv.lock is older than pyproject.toml" in old.stderr
    assert again.code == 0, again.stderr
    assert inside("v") == {"light"}
    assert "plotter" in again.stdout


def test_the_pip_part_of_an_environment_is_installed_and_the_rest_named(here: BaseHere, cli: Cli, write: Write) -> None:
    write("environment.yml", "name: x\ndependencies:\n- python=3.12\n- numpy=2\n- pip:\n  - light\n  - bad = 1\n")

    refused = cli("venv", "v", "-r", "environment.yml")
    write("environment.yml", "dependencies:\n- python >= 3.12\n- numpy=2\n- pip:\n  - light\n")
    answer = cli("venv", "v", "-r", "environment.yml")

    assert refused.code == 2
    assert "environment.yml:7:1: invalid requirement 'bad = 1'" in refused.stderr
    assert answer.code == 0, answer.stderr
    assert inside("v") == {"light"}
    assert "environment.yml: conda's packages are not installed, name those that you need: numpy=2" in answer.stderr


def test_paths_of_an_environment_count_from_its_file_as_for_conda() -> None:
    text = "dependencies:\n- pip:\n  - -e .[dev]\n  - ../other\n  - .hidden\n  - light\n"

    lines, _ = project_lines("code/environment.yml", text, (), ())

    here = f"{Path.cwd()}/code"
    assert [line for _, line in lines] == [f"-e {here}/.[dev]", f"{here}/../other", ".hidden", "light"]


def test_sources_of_uv_name_the_place(place: Path) -> None:
    text = PROJECT + '[tool.uv.sources]\nlight = {git = "https://x/light", tag = "v1"}\ntorch = {index = "cu128"}\n'

    lines, _ = project_lines("pyproject.toml", text, (), ())

    assert [line for _, line in lines] == ["light @ git+https://x/light@v1", "torch>=2"]


def test_an_overlay_of_nothing_says_what_lies_here(here: BaseHere, cli: Cli, write: Write) -> None:
    write("requirements.txt", "light\n")

    answer = cli("venv", "v")

    assert "nothing of it was installed: `uenvtool venv v -r requirements.txt`" in answer.stderr
    assert "uenvtool job --system NAME --venv v -o train.sh -- python train.py" in answer.stderr


ROOT = (
    '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.10"\ndependencies = ["light", "part", "near"]\n'
    '[project.optional-dependencies]\nplot = ["plotter"]\n[dependency-groups]\ndev = ["helper"]\n'
    '[tool.uv.workspace]\nmembers = ["parts/*"]\n'
    '[tool.uv.sources]\npart = {workspace = true}\nnear = {path = "../near"}\n'
)


@pytest.fixture
def workspace(here: BaseHere, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with a member of its workspace, a package beside it, an extra and a group; and its uv.lock."""
    project(place / "mine", "mine", text=ROOT)
    project(place / "mine" / "parts" / "part", "part")
    project(place / "near", "near")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    index(wheels, place / "index")
    with served(place / "index") as url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        monkeypatch.chdir(place / "mine")
        subprocess.run([find_uv(), "lock", "--quiet", "--no-python-downloads"], check=True)
        yield place / "mine"


def origins(folder: Path) -> dict[str, dict[str, object]]:
    """What is in an environment, each with the folder that it came from, if it came from one."""
    found = {}
    for info in next(folder.glob("lib/python3*/site-packages")).glob("*.dist-info"):
        text = (info / "direct_url.json").read_text() if (info / "direct_url.json").is_file() else "{}"
        found[info.name] = json.loads(text)
    return found


@pytest.mark.parametrize("more", [(), ("--extra", "plot"), ("--no-install-project",), ("--group", "dev")])
def test_a_uv_lock_gives_what_uv_sync_does_but_the_torch(
    workspace: Path, here: BaseHere, cli: Cli, more: tuple[str, ...]
) -> None:
    answer = cli("venv", "v", "--from", "uv.lock", *more)

    words = [find_uv(), "sync", "--locked", "--quiet", "--no-python-downloads", "--python", str(here.python), *more]
    subprocess.run(words, check=True)
    theirs = origins(workspace / ".venv")
    assert answer.code == 0, answer.stderr
    assert {name.partition("-")[0] for name in theirs} >= {"torch", "nvidia_cublas_cu12", "light", "near", "part"}
    of_torch = ("torch-", "nvidia_cublas_cu12-")
    assert origins(Path("v")) == {name: origin for name, origin in theirs.items() if not name.startswith(of_torch)}
    assert ("mine-1.dist-info" in theirs) == ("--no-install-project" not in more)


def test_the_projects_of_a_lock_are_editable_until_it_is_packed(workspace: Path, cli: Cli) -> None:
    see = ["v/bin/python", "-c", "import mine, part, near; print(mine.__file__, part.__file__)"]

    loose = cli("venv", "v", "--from", "uv.lock")
    seen_loose = subprocess.run(see, capture_output=True, text=True, check=True).stdout
    added = cli("venv", "v", "plotter")
    packed = cli("venv", "v", "--from", "uv.lock", "--squash")
    seen_packed = subprocess.run(see, capture_output=True, text=True, check=True).stdout

    assert loose.code == 0, loose.stderr
    assert seen_loose == f"{workspace}/src/mine/__init__.py {workspace}/parts/part/src/part/__init__.py\n"
    assert added.code == 0, added.stderr
    assert packed.code == 0, packed.stderr
    assert "editable" not in packed.stderr
    assert seen_packed.count("/site-packages/") == 2
