"""Test activation scripts with UENVTOOL_VENV: the environment comes before its base, and can be deactivated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import program
from tests.support.shells import ALL, PATH, run, script
from uenvtool.activation.activate import text
from uenvtool.knowledge.settings import settings_for

SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
VIEW = {"UENV_VIEW": "/nowhere:pytorch:default"}


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A virtual environment with its base's packages."""
    folder = tmp_path / "my venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", folder], check=True)
    return folder


@pytest.mark.parametrize("shell", ALL)
def test_the_environments_python_and_packages_come_first(shell: str, venv: Path) -> None:
    env = {**VIEW, "UENVTOOL_VENV": str(venv), "PYTHONPATH": "/base/site-packages", "PYTHONHOME": "/base"}

    ran = run(shell, f"SNAP\nsource {script('clariden')}\nSNAP\nuenvtool_deactivate\nSNAP\n", env)

    inside = {name.decode(): value.decode() for name, value in ran.snaps[1].items()}
    assert inside["VIRTUAL_ENV"] == str(venv)
    assert inside["PATH"] == f"{venv}/bin:{PATH}"
    assert inside["PYTHONUSERBASE"] == "/nowhere/env/default"
    assert inside["PYTHONPATH"] == f"{venv}/{SITE}:/base/site-packages"
    assert "PYTHONHOME" not in inside
    assert ran.stderr == ""
    assert ran.snaps[2] == ran.snaps[0]


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize("odd", ["plain", "a b", "$(touch x)", "[x]*", "back\\slash", "`x`", '"'])
def test_what_the_user_adds_to_path_meanwhile_stays(shell: str, odd: str, venv: Path) -> None:
    first = venv.rename(venv.parent / odd)
    second = venv.parent / "second"
    second.symlink_to(first)
    source = f"source {script('clariden')}\n"
    add, name = "export PATH=/mine:$PATH:/late\n", f"export UENVTOOL_VENV='{second}'\n"

    ran = run(
        shell, f"{source}{add}{name}{source}{source}SNAP\nuenvtool_deactivate\nSNAP\n", {"UENVTOOL_VENV": str(first)}
    )

    paths = [snap[b"PATH"].decode() for snap in ran.snaps]
    assert paths == [f"{second}/bin:/mine:{first}/bin:{PATH}:/late", f"/mine:{PATH}:/late"], ran.stderr


@pytest.mark.parametrize("shell", ALL)
def test_a_venv_without_its_base_comes_before_pythonpath(shell: str, tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    env = {**VIEW, "UENVTOOL_VENV": str(folder), "PYTHONPATH": "/base/site-packages"}

    ran = run(shell, f"source {script('clariden')}\nSNAP\n", env)

    assert ran.env["PYTHONPATH"] == f"{folder}/{SITE}:/base/site-packages"
    assert "PYTHONUSERBASE" not in ran.env


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize(
    ("config", "site"),
    [
        ("version_info = 3.12.4.final.0\nversion = 3.12.4", "{}/lib/python3.12/site-packages:"),
        ("version=3.9", "{}/lib/python3.9/site-packages:"),
        ("home = /v1.2/bin", ""),
        ("version_info = 3.12.4\nuenvtool-base = /base\nuenvtool-base-site = /base/site", ""),
    ],
    ids=["virtualenv", "short", "no version", "overlay"],
)
def test_only_an_overlay_orders_its_packages_itself(shell: str, tmp_path: Path, config: str, site: str) -> None:
    program(tmp_path / "venv/bin/python", ":")
    (tmp_path / "venv/pyvenv.cfg").write_text(f"home = /usr/bin\n{config}\n")
    env = {"UENVTOOL_VENV": str(tmp_path / "venv"), "PYTHONPATH": "/mine"}

    ran = run(shell, f"source {script('clariden')}\nsource {script('clariden')}\nSNAP\n", env)

    assert ran.env["PYTHONPATH"] == site.format(tmp_path / "venv") + "/mine"


@pytest.mark.parametrize("shell", ALL)
def test_a_path_from_here_is_made_whole(shell: str, venv: Path) -> None:
    ran = run(shell, f"cd '{venv.parent}'\nsource {script('clariden')}\nSNAP\n", {"UENVTOOL_VENV": venv.name})

    assert ran.env["VIRTUAL_ENV"] == str(venv)


@pytest.mark.parametrize("shell", ALL)
def test_of_several_views_the_one_with_a_python_is_the_base(shell: str, venv: Path, tmp_path: Path) -> None:
    (tmp_path / "b" / "env" / "default" / "bin").mkdir(parents=True)
    (tmp_path / "b" / "env" / "default" / "bin" / "python").touch(mode=0o755)
    (tmp_path / "b" / "env" / "default" / "lib").mkdir()
    for name in ("libnccl.so.2", "libnccl.so.2.26.2"):
        (tmp_path / "b" / "env" / "default" / "lib" / name).touch()
    views = f"{tmp_path}/a:tools:venv,{tmp_path}/b:pytorch:default"

    ran = run(shell, f"source {script('clariden')}\nSNAP\n", {"UENV_VIEW": views, "UENVTOOL_VENV": str(venv)})

    assert ran.env["PYTHONUSERBASE"] == f"{tmp_path}/b/env/default"
    assert "NCCL_PROTO" not in ran.env


@pytest.mark.parametrize("shell", ALL)
def test_a_script_of_a_recipe_finds_the_base_though_it_looks_for_no_library(
    shell: str, venv: Path, tmp_path: Path
) -> None:
    ours = tmp_path / "ours"
    ours.write_text(text(settings_for("clariden", recipe="pytorch-2.9"), shell.partition("-")[0], "a command"))

    ran = run(shell, f"source {ours}\nSNAP\n", {**VIEW, "UENVTOOL_VENV": str(venv)})

    assert ran.env["PYTHONUSERBASE"] == "/nowhere/env/default"
