"""What the base has is used, what is missing is installed, what conflicts is told; torch stays."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from tests.conftest import Answer, Cli, Loaded, Write
from tests.support.overlays import BaseHere, extension_source, inside, install, wheel

TORCH = "2.6.0a0+d883142"
PKG_INFO = "Metadata-Version: 2.1\nName: heavy\nVersion: 0.0.0\n"
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
    assert answer.code == 0, answer.stderr
    return {each["name"]: each for each in json.loads(answer.stdout)["packages"]}


def test_what_the_base_has_is_never_installed_again_nor_what_it_lacks_for_itself(here: BaseHere, cli: Cli) -> None:
    found = packages(cli("venv", "v", "light", "--json"))

    assert inside("v") == {"light", "metrics"}  # the base's torch asks for a library of NVIDIA that is not there
    assert found["torch"]["how"] == "from base"
    assert found["torch"]["asked_by"] == ["light", "metrics"]
    assert found["light"]["asked_by"] == ["you"]
    assert found["metrics"]["asked_by"] == ["light"]


def test_what_an_extra_of_a_base_package_brings_is_said(here: BaseHere, cli: Cli, wheels: Path, place: Path) -> None:
    web = "webclient ; extra == 'http'"
    install(here.site, wheel(place / "old", "files", "1.0", requires=(web,), extras=("http",)))
    wheel(wheels, "webclient", "1.0")
    wheel(wheels, "loader", "1.0", requires=("files[http]",))

    found = packages(cli("venv", "v", "loader", "--json"))

    assert inside("v") == {"loader", "webclient"}
    assert found["webclient"]["asked_by"] == ["files[http]"]
    assert found["files"]["asked_by"] == ["loader"]


def test_a_vendors_pre_release_counts_as_its_release_and_the_table_says_so(here: BaseHere, cli: Cli) -> None:
    answer = cli("venv", "v", "light", "--verbose")

    line = next(each for each in answer.stdout.splitlines() if each.startswith("torch "))
    assert TORCH in line
    assert "counts as its release: light asks for >=2.6" in line


@pytest.mark.parametrize("wanted", ["torch==2.9.0", "torch>=2.7", "triton==3.5.0"])
def test_a_protected_package_is_not_replaced_by_naming_it(here: BaseHere, cli: Cli, wanted: str) -> None:
    answer = cli("venv", "v", wanted)

    assert answer.code == 1
    assert "protected" in answer.stderr
    assert f"--override {wanted[:5]}" in answer.stderr
    assert not Path("v").exists()


def test_what_a_file_names_for_another_machine_replaces_nothing(here: BaseHere, cli: Cli, write: Write) -> None:
    """As `triton==3.0 ; platform_machine == "x86_64"` in a file that is used on aarch64."""
    write("r.txt", "light\ntorch==2.9.0 ; platform_machine == 'ppc64'\nfilelock==4.0 ; python_version < '3'\n")

    answer = cli("venv", "v", "-r", "r.txt")

    assert answer.code == 0, answer.stderr
    assert inside("v") == {"light", "metrics"}


def test_what_pip_freeze_says_of_the_base_is_the_bases(here: BaseHere, cli: Cli, write: Write) -> None:
    write("r.txt", f"torch=={TORCH}\nnumpy==1.26.4\nlight==2.0\n")

    answer = cli("venv", "v", "-r", "r.txt")

    assert answer.code == 0, answer.stderr
    assert inside("v") == {"light", "metrics"}


def test_an_override_replaces_a_protected_package_and_says_what_it_costs(
    here: BaseHere, cli: Cli, wheels: Path
) -> None:
    wheel(wheels, "torch", "2.9.1", requires=("filelock",))

    answer = cli("venv", "v", "light", "--override", "torch==2.9.1")

    assert answer.code == 0, answer.stderr
    assert inside("v") == {"light", "metrics", "torch"}
    assert f"warning: the base's torch {TORCH} is replaced by 2.9.1" in answer.stderr
    line = next(each for each in answer.stdout.splitlines() if each.startswith("torch "))
    assert "overridden" in line


def test_a_library_that_the_base_carries_itself_is_refused_as_a_dependency(
    here: BaseHere, cli: Cli, wheels: Path
) -> None:
    wheel(wheels, "gpuframe", "1.0", requires=("nvidia-cublas-cu12",))

    answer = cli("venv", "v", "gpuframe")

    assert answer.code == 1
    assert "gpuframe asks for nvidia-cublas-cu12 12.4.5.8, which is protected" in answer.stderr
    assert "--override nvidia-cublas-cu12" in answer.stderr


def test_an_overridden_torch_brings_its_libraries_and_each_is_warned_of(here: BaseHere, cli: Cli) -> None:
    answer = cli("venv", "v", "--override", "torch==2.9.0")

    assert answer.code == 0, answer.stderr
    assert inside("v") == {"torch", "nvidia_cublas_cu12"}
    assert "warning: nvidia-cublas-cu12 12.4.5.8 is not of the base" in answer.stderr


def test_a_named_unprotected_package_goes_over_the_bases(here: BaseHere, cli: Cli) -> None:
    found = packages(cli("venv", "v", "filelock>=3.1", "--json"))

    assert found["filelock"]["how"] == "overridden"
    assert found["filelock"]["base_version"] == "3.0"
    assert found["filelock"]["asked_by"] == ["you"]
    assert found["filelock"]["version"] == "3.5"  # viewer of the base wants <4


@pytest.mark.parametrize("columns", ["40", "200"])  # uv breaks its lines there
def test_a_conflict_shows_who_asks_for_what_and_the_choices(
    here: BaseHere, cli: Cli, wheels: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    wheel(wheels, "modern", "1.0", requires=("filelock>=3.5",))
    monkeypatch.setenv("COLUMNS", columns)

    answer = cli("venv", "v", "modern")

    assert answer.code == 1
    assert "all versions of modern depend on filelock>=3.5" in answer.stderr
    assert "the base has filelock 3.0" in answer.stderr
    assert "--override filelock" in answer.stderr
    assert not Path("v").exists()


def test_an_older_version_that_fits_the_base_stands_first_and_is_said_to_be_older(
    here: BaseHere, cli: Cli, wheels: Path
) -> None:
    wheel(wheels, "light", "2.1", requires=("torch>=2.9",))

    found = cli("venv", "v", "light", "--dry-run")
    wanted = cli("venv", "v", "light==2.1", "--dry-run")

    assert found.code == 0, found.stderr
    assert found.stdout.splitlines()[1].startswith("light ")
    assert "older: the newest is 2.1, see what it asks of the base with light==2.1" in found.stdout.splitlines()[1]
    assert wanted.code == 1
    assert "light>=2.1 depends on torch>=2.9" in wanted.stderr
    assert f"the base has torch {TORCH}" in wanted.stderr


@pytest.mark.parametrize(("newest", "chosen"), [("3.0", "2.0"), ("0.12.0", "0.2.5")])
def test_a_named_package_does_not_go_back_by_a_major_version_unless_that_is_allowed(
    here: BaseHere, cli: Cli, wheels: Path, newest: str, chosen: str
) -> None:
    wheel(wheels, "heavy", newest, requires=("torch>=2.9",))
    wheel(wheels, "heavy", chosen)

    refused = cli("venv", "v", "heavy")
    allowed = cli("venv", "v", "heavy", "--allow-older")
    again = cli("venv", "v", "metrics")

    assert refused.code == 1
    assert f"heavy>={newest} depends on torch>=2.9" in refused.stderr
    assert f"the base has torch {TORCH}" in refused.stderr
    assert "--allow-older takes an older heavy" in refused.stderr
    assert allowed.code == 0, allowed.stderr
    assert f"older: the newest is {newest}" in allowed.stdout
    assert again.code == 0, again.stderr  # what was accepted stays accepted


def test_a_lower_bound_says_how_old_a_package_may_be(here: BaseHere, cli: Cli, wheels: Path) -> None:
    wheel(wheels, "heavy", "3.0", requires=("torch>=2.9",))
    wheel(wheels, "heavy", "1.0")

    assert packages(cli("venv", "v", "heavy>=1", "--json"))["heavy"]["version"] == "1.0"


def test_an_older_release_that_has_only_its_source_is_not_gone_back_to_in_silence(
    here: BaseHere, cli: Cli, wheels: Path
) -> None:
    wheel(wheels, "heavy", "3.1", requires=("torch>=2.9",))
    extension_source(wheels, "heavy", "3.0", importing="json")

    refused = cli("venv", "v", "heavy")
    allowed = cli("venv", "v", "heavy", "--allow-older")

    assert refused.code == 1, refused.stderr
    assert f"the base has torch {TORCH}" in refused.stderr
    assert "--allow-older takes an older heavy" in refused.stderr
    assert allowed.code == 0, allowed.stderr


def test_a_placeholder_without_a_wheel_is_not_gone_back_to(here: BaseHere, cli: Cli, wheels: Path) -> None:
    """As metatrain 0.0.0 on the index of Python packages: a source whose build fails."""
    wheel(wheels, "heavy", "3.0", requires=("middle>=2",))
    wheel(wheels, "middle", "2.0", requires=("torch>=2.9",))
    with tarfile.open(wheels / "heavy-0.0.0.tar.gz", "w:gz") as archive:
        for name, text in (("setup.py", "raise SystemExit('a long log of setuptools')"), ("PKG-INFO", PKG_INFO)):
            member = tarfile.TarInfo(f"heavy-0.0.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))

    answer = cli("venv", "v", "heavy")

    assert answer.code == 1, answer.stderr
    assert "all versions of middle depend on torch>=2.9" in answer.stderr
    assert f"the base has torch {TORCH}" in answer.stderr
    assert "a long log" not in answer.stderr


@pytest.mark.parametrize("wanted", ["filelock==4.0", "filelock==9"])  # which no index has
def test_breaking_a_package_of_the_base_is_told_with_who_forbids_it(here: BaseHere, cli: Cli, wanted: str) -> None:
    answer = cli("venv", "v", wanted)

    assert answer.code == 1
    assert wanted in answer.stderr
    assert "the base has viewer 1.0" in answer.stderr
    assert not Path("v").exists()


@pytest.mark.parametrize("variable", ["PIP_CONSTRAINT", "UV_CONSTRAINT"])
def test_constraints_of_the_user_hold(
    here: BaseHere,
    cli: Cli,
    wheels: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    wheel(wheels, "metrics", "1.6", requires=("torch",))
    monkeypatch.setenv(variable, str(write("limits.txt", f"metrics<1.6\ntorch=={TORCH}\n")))

    found = packages(cli("venv", "v", "light", "--json"))

    assert found["metrics"]["version"] == "1.5"


def test_a_base_without_anything_gives_a_plain_environment_and_says_so(no_base: None, wheels: Path, cli: Cli) -> None:
    wheel(wheels, "alone", "1.0")

    answer = cli("venv", "v", "alone")

    assert answer.code == 0, answer.stderr
    assert "  resolving on no base but /" in answer.stderr
    assert inside("v") == {"alone"}
