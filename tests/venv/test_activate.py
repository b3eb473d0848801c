"""Test that bin/activate uses its own directory or fails, and that deactivation removes only its own PATH entries."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.shells import ALL, PATH, run, script
from uenvtool.venv.base import script_path

NAMES = [
    "plain",
    "a b",
    "a\tb",
    "new\nline",
    "it's",
    'say "hi"',
    "$HOME",
    "per%cent",
    "[x]*?",
    "back\\slash",
    "a}b{",
    "zweiß",
]


def overlay(folder: Path) -> Path:
    """A folder with what bin/activate needs of an overlay."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (folder / "bin" / "python").symlink_to("/bin/true")
    (folder / "bin" / "activate").write_text(script_path("activate.sh").read_text())
    return folder


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shell", ALL)
def test_it_takes_its_own_folder_whatever_its_name(shell: str, name: str, tmp_path: Path) -> None:
    folder = overlay(tmp_path / name)

    ran = run(shell, 'source "$SCRIPT"\nSNAP\ndeactivate\nSNAP\n', {"SCRIPT": str(folder / "bin" / "activate")})

    assert ran.snaps[0][b"VIRTUAL_ENV"] == str(folder).encode(), ran.stderr
    assert ran.snaps[0][b"PATH"] == f"{folder}/bin:{PATH}".encode()
    assert ran.snaps[1][b"PATH"] == PATH.encode()
    assert b"VIRTUAL_ENV" not in ran.snaps[1]


@pytest.mark.parametrize("shell", ALL)
def test_a_symlink_leads_to_the_overlay(shell: str, tmp_path: Path) -> None:
    folder = overlay(tmp_path / "ov")
    link = tmp_path / "elsewhere" / "work"
    link.parent.mkdir()
    link.symlink_to(folder / "bin" / "activate")

    ran = run(shell, f"source {link}\nSNAP\n")

    assert ran.env["VIRTUAL_ENV"] == str(folder), ran.stderr


@pytest.mark.parametrize("shell", ALL)
def test_eval_is_refused_and_changes_nothing(shell: str, tmp_path: Path) -> None:
    file = overlay(tmp_path / "ov") / "bin" / "activate"

    ran = run(shell, f'SNAP\neval "$(cat {file})"\necho "rc $?"\nSNAP\n')

    assert ran.stdout == "rc 1\n"
    assert "cannot find its overlay" in ran.stderr
    assert ran.snaps[0] == ran.snaps[1]


def test_a_shell_that_does_not_say_what_it_reads_is_refused(tmp_path: Path) -> None:
    file = overlay(tmp_path / "ov") / "bin" / "activate"

    ran = subprocess.run(
        ["dash", "-c", f'. {file}; echo "rc $? ${{VIRTUAL_ENV-}} $PATH"'],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": PATH},
        timeout=60,
    )

    assert ran.stdout == f"rc 1  {PATH}\n"
    assert "cannot find its overlay" in ran.stderr


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize("options", ["set -e; set +h", "set -eu", "set -o pipefail -e"])
def test_the_users_options_do_not_end_the_shell(shell: str, options: str, tmp_path: Path) -> None:
    file = overlay(tmp_path / "ov") / "bin" / "activate"

    ran = run(shell, f"{options}\nsource {file}\nsource {file}\ndeactivate\necho end\n")

    assert ran.stdout == "end\n", ran.stderr
    assert ran.code == 0


ORDERS = [
    ["overlay", "system", "deactivate", "uenvtool_deactivate"],
    ["overlay", "system", "uenvtool_deactivate", "deactivate"],
    ["system", "overlay", "uenvtool_deactivate", "deactivate"],
    ["system", "overlay", "deactivate", "uenvtool_deactivate"],
    ["system", "overlay", "system", "overlay", "uenvtool_deactivate", "deactivate"],
]


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
@pytest.mark.parametrize("same", [True, False], ids=["one overlay", "two overlays"])
def test_left_in_any_order_no_folder_of_an_overlay_stays_in_path(
    shell: str, order: list[str], same: bool, tmp_path: Path
) -> None:
    folder = overlay(tmp_path / "a b" / "ov")
    other = folder if same else overlay(tmp_path / "other")
    sources = {"overlay": f"source '{folder}/bin/activate'", "system": f"source {script('clariden')}"}
    lines = "".join(f"{sources.get(step, step)}\n" for step in order)
    env = {"UENVTOOL_VENV": str(other), "UENVTOOL_QUIET": "1"}

    ran = run(shell, f"SNAP\n{lines}SNAP\n", env)

    assert ran.snaps[1][b"PATH"] == PATH.encode(), ran.stderr


@pytest.mark.parametrize("shell", ALL)
def test_what_was_put_into_path_meanwhile_stays(shell: str, tmp_path: Path) -> None:
    folder = overlay(tmp_path / "ov")
    lines = f"source {script('clariden')}\nexport PATH=/mine:$PATH\nuenvtool_deactivate\nSNAP\n"

    ran = run(shell, lines, {"UENVTOOL_VENV": str(folder), "UENVTOOL_QUIET": "1"})

    assert ran.env["PATH"] == f"/mine:{PATH}"
