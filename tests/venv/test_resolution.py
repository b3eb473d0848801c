"""Test resolution: packages of the base are used, missing ones are installed, conflicts are reported, torch stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Answer, Cli, Loaded, Write
from tests.support.overlays import BaseHere, extension_source, inside, install, wheel
from tests.support.samples import slow
from tests.support.web import PackageIndex, index_page, served
from tests.venv.conftest import TORCH

CUDA = "nvidia-cublas-cu12==12.4.5.8; platform_system == 'Linux'"


@pytest.fixture
def here(loaded: Loaded, wheels: Path, place: Path) -> BaseHere:
    """A base with a vendor's torch, numpy and a library; wheels of newer ones and of what needs them."""
    found = loaded("pythonpath")
    old = place / "old"
    install(
        found.site,
        wheel(old, "torch", TORCH, requires=("filelock", CUDA, "triton==3.2.0")),
        wheel(old, "triton", "3.2.0"),
        wheel(old, "numpy", "1.26.4"),
        wheel(old, "filelock", "3.0"),
        wheel(old, "viewer", "1.0", requires=("filelock<4",)),
    )
    for version in ("2.6.0", "2.9.0"):
        wheel(wheels, "torch", version, requires=("filelock", CUDA, "triton>=3"))
    wheel(wheels, "triton", "3.5.0")
    wheel(wheels, "nvidia-cublas-cu12", "12.4.5.8")
    wheel(wheels, "filelock", "3.5")
    wheel(wheels, "filelock", "4.0")
    wheel(wheels, "light", "2.0", requires=("torch>=2.6", "numpy", "metrics>=1", "filelock"))
    wheel(wheels, "metrics", "1.5", requires=("torch>=2.0",))
    return found


def packages(answer: Answer) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in json.loads(answer.stdout)["packages"]}


def row(answer: Answer, name: str) -> str:
    """The line of a package in the table."""
    return next(line for line in answer.stdout.splitlines() if line.startswith(f"{name} "))


def test_what_the_base_has_is_never_installed_again_nor_what_it_lacks_for_itself(here: BaseHere, done: Cli) -> None:
    found = packages(done("venv", "v", "light", "--json"))

    assert inside("v") == {"light", "metrics"}  # the base's torch asks for a library of NVIDIA that is not there
    assert found["torch"]["how"] == "from base"
    assert found["torch"]["asked_by"] == ["light", "metrics"]
    assert found["light"]["asked_by"] == ["you"]
    assert found["metrics"]["asked_by"] == ["light"]
    verbose = done("venv", "v", "light", "--verbose")
    assert f"{TORCH}" in row(verbose, "torch")
    assert "accepted as its release: light requires >=2.6" in row(verbose, "torch")


@pytest.mark.parametrize(
    "text",
    [
        "light\ntorch==2.9.0 ; platform_machine == 'ppc64'\nfilelock==4.0 ; python_version < '3'\n",  # for others
        f"torch=={TORCH}\nnumpy==1.26.4\nlight==2.0\n",  # as pip freeze says it of the base
    ],
)
def test_a_file_that_names_what_the_base_has_replaces_nothing(
    here: BaseHere, done: Cli, write: Write, text: str
) -> None:
    write("r.txt", text)

    done("venv", "v", "-r", "r.txt")

    assert inside("v") == {"light", "metrics"}


def test_an_override_replaces_torch_brings_its_libraries_and_says_what_it_costs(here: BaseHere, done: Cli) -> None:
    answer = done("venv", "v", "light", "--override", "torch==2.9.0")

    assert inside("v") == {"light", "metrics", "torch", "nvidia_cublas_cu12"}
    assert "overridden" in row(answer, "torch")
    assert f"warning: the base's torch {TORCH} is replaced by 2.9.0" in answer.stderr
    assert "warning: nvidia-cublas-cu12 12.4.5.8 is not from the base" in answer.stderr


def test_a_dry_run_says_what_the_run_says_and_makes_nothing(
    here: BaseHere, done: Cli, wheels: Path, place: Path
) -> None:
    """A named package goes over the base's, as far as the base allows it; an extra of the base's is filled up."""
    web = [f"webclient ; extra == '{extra}'" for extra in ("full", "http")]
    install(here.site, wheel(place / "old", "files", "1.0", requires=web, extras=("full", "http")))
    wheel(wheels, "webclient", "1.0")
    wheel(wheels, "numpy", "2.0")
    wheel(wheels, "loader", "1.0", requires=("files[http]", "torch", "gone ; python_version < '3'"))
    words = ("venv", "v", "loader", "filelock>=3.1", "numpy>=2", "--json")

    dry = packages(done(*words, "--dry-run"))
    assert not Path("v").exists()
    found = packages(done(*words))

    assert dry.pop("webclient")["asked_by"] == ["files"]  # uv does not say by which extra
    assert dry == {name: package for name, package in found.items() if name != "webclient"}
    assert inside("v") == {"loader", "webclient", "filelock", "numpy"}
    assert {name: (package["change"], package["asked_by"]) for name, package in found.items()} == {
        "files": ("same", ["loader"]),
        "filelock": ("older", ["you"]),
        "loader": ("new", ["you"]),
        "numpy": ("replaced", ["you"]),
        "torch": ("same", ["loader"]),
        "webclient": ("new", ["files[http]"]),
    }
    assert (found["filelock"]["base_version"], found["filelock"]["version"]) == ("3.0", "3.5")  # viewer wants <4


def test_a_small_addition_lists_itself_alone(here: BaseHere, done: Cli, wheels: Path) -> None:
    wheel(wheels, "other", "1.0")
    done("venv", "v", "metrics")

    answer = done("venv", "v", "other")
    every = done("venv", "v", "other", "--verbose")

    assert [line.split()[0] for line in answer.stdout.splitlines()] == ["package", "other"]
    assert "not listed: 1 unchanged, 1 from the base (--verbose lists them)" in answer.stderr
    assert {line.split()[0] for line in every.stdout.splitlines()} == {"package", "metrics", "other", "torch"}


@pytest.mark.parametrize(
    ("newest", "older", "words"),
    [
        ("2.1", "2.0", ["light"]),
        slow("3.0", "2.0", ["light", "--allow-older"]),
        ("0.12.0", "0.2.5", ["light", "--allow-older"]),
        slow("3.0", "1.0", ["light>=1"]),  # says how old it may be
    ],
)
def test_an_older_version_that_fits_the_base_is_taken_and_said_to_be_older(
    here: BaseHere, done: Cli, wheels: Path, newest: str, older: str, words: list[str]
) -> None:
    """By a major version only if that is allowed: what is refused is in tests/refusals/venv.yaml."""
    (wheels / "light-2.0-py3-none-any.whl").unlink()
    wheel(wheels, "light", newest, requires=("torch>=2.9",))
    wheel(wheels, "light", older)

    answer = done("venv", "v", *words)
    again = done("venv", "v", "metrics")  # what was accepted stays accepted

    assert f"older: the newest is {newest}; to see why it does not fit, request light=={newest}" in row(answer, "light")
    assert "light" not in again.stdout


@pytest.mark.parametrize(("day", "is_taken"), [("2025-01-29", True), ("2023-12-14", False)])
def test_the_newest_that_fits_the_base_is_taken_if_no_version_was_asked_for_and_it_is_not_years_older(
    here: BaseHere, cli: Cli, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch, day: str, is_taken: bool
) -> None:
    """torchvision over torch 2.6: a minor version of it for each of torch's."""
    days = {"0.21.0": day, "0.29.0": "2026-09-02", "0.29.2": "2026-10-28"}
    torches = {"0.21.0": "torch==2.6.0", "0.29.0": "torch>=2.14", "0.29.2": "torch>=2.14"}
    made = {wheel(wheels, "vision", version, requires=(torches[version],)): days[version] for version in days}
    index_page(place / "index", "vision", made)
    with served(place / "index", PackageIndex) as url:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")

        answer = cli("venv", "v", "vision")

    if is_taken:
        assert "older: the newest is 0.29.2" in row(answer, "vision")
        assert inside("v") == {"vision"}
    else:
        assert answer.code == 1
        assert "vision 0.21.0" not in answer.stderr
        assert "hint: use a container or another base, which has vision" in answer.stderr


def test_an_older_release_that_has_only_its_source_is_gone_back_to_if_that_is_allowed(
    here: BaseHere, done: Cli, wheels: Path
) -> None:
    wheel(wheels, "heavy", "3.1", requires=("torch>=2.9",))
    extension_source(wheels, "heavy", "3.0", importing="json")

    assert "older: the newest is 3.1" in row(done("venv", "v", "heavy", "--allow-older"), "heavy")


@pytest.mark.parametrize("variable", ["PIP_CONSTRAINT", "UV_CONSTRAINT"])
def test_constraints_of_the_user_hold(
    here: BaseHere, done: Cli, wheels: Path, write: Write, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    wheel(wheels, "metrics", "1.6", requires=("torch",))
    monkeypatch.setenv(variable, str(write("limits.txt", f"metrics<1.6\ntorch=={TORCH}\n")))

    assert packages(done("venv", "v", "light", "--json"))["metrics"]["version"] == "1.5"


FREEZE = """\
torch==2.5.1
triton==3.1.0
nvidia-cublas-cu12==12.4.5.8
filelock==4.0
numpy==1.26.4
metrics==1.5
"""


def test_pins_of_another_machine_are_installed_around_the_base(
    here: BaseHere, cli: Cli, done: Cli, write: Write
) -> None:
    write("freeze.txt", FREEZE)
    refused = cli("venv", "v", "-r", "freeze.txt")
    write("second.txt", FREEZE.partition("nvidia")[2].partition("\n")[2])
    refused_by_uv = cli("venv", "v", "-r", "second.txt")

    dry = done("venv", "v", "-r", "freeze.txt", "--keep-base", "--dry-run")
    answer = done("venv", "v", "-r", "freeze.txt", "--keep-base")
    again = done("venv", "v", "light")

    assert (refused.code, refused_by_uv.code) == (1, 1)
    for text in (refused.stderr, refused_by_uv.stderr):
        hint = " ".join(text.partition("hint: ")[2].split())
        assert hint.startswith("keep the base's ")
        assert hint.index("--keep-base") < hint.index("--override")
    for each in (dry, answer):
        assert f"the base's torch {TORCH} is kept instead of torch==2.5.1" in each.stderr
        assert "the base's triton 3.2.0 is kept instead of triton==3.1.0" in each.stderr
        assert "the base's filelock 3.0 is kept instead of filelock==4.0" in each.stderr
        assert "nvidia-cublas-cu12==12.4.5.8 is not installed" in each.stderr
        assert "numpy" not in each.stderr
    assert inside("v") == {"metrics", "light"}
    assert "light" in again.stdout


@pytest.mark.parametrize("words", ["vllm", "vllm==0.33"])
def test_a_version_that_is_years_older_is_no_hint(
    here: BaseHere, cli: Cli, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    days = {"0.2.2": "2023-11-19", "0.33": "2026-10-28"}
    made = {wheel(wheels, "vllm", "0.2.2", requires=("torch",)): days["0.2.2"]}
    made[wheel(wheels, "vllm", "0.33", requires=("torch>=2.13",))] = days["0.33"]
    index_page(place / "index", "vllm", made)
    with served(place / "index", PackageIndex) as url:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")

        answer = cli("venv", "v", words)

    text = " ".join(answer.stderr.split())
    assert answer.code == 1
    assert "0.2.2" not in text
    assert "hint: use the uenv pytorch/v2.8.0 (vllm 0.11.1" in text
