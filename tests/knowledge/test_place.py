"""Test this machine as a node of the system `local`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.programs import program as made
from uenvtool.knowledge.place import on_this_machine
from uenvtool.knowledge.system import SystemPackage, load_system

Program = Callable[[str, str], Path]


@pytest.fixture
def program(place: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Writes a stand-in for a program of the machine, which has no others on PATH."""
    monkeypatch.setenv("PATH", str(place / "usr" / "bin"))

    def write(name: str, prints: str) -> Path:
        return made(place / "usr" / "bin" / name, f"/usr/bin/printf '{prints}'").parent.parent

    return write


def packages() -> dict[str, SystemPackage]:
    return dict(on_this_machine(load_system("local")).packages)


def test_build_tools_of_the_machine_are_externals(program: Program) -> None:
    prefix = program("make", r"GNU Make 4.3\nBuilt for x86_64-pc-linux-gnu\n")
    program("perl", "5.36.0")
    program("python3", r"3.11.7 /opt/python\n")

    found = packages()

    externals = {name: (str(found[name].externals[0].spec), found[name].externals[0].prefix) for name in found}
    assert externals["gmake"] == ("gmake@4.3", str(prefix))
    assert externals["perl"] == ("perl@5.36.0", str(prefix))
    assert externals["python"] == ("python@3.11.7", "/opt/python")


def test_a_python_without_headers_or_a_strange_make_is_left_out(program: Program) -> None:
    program("python3", "")
    program("make", "bmake")

    assert packages().keys() <= {"glibc"}


def test_a_program_in_somebodys_home_makes_way_for_the_systems(
    program: Program, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(place / "bin" / "python3", "echo 3.11.2 /usr")
    monkeypatch.setattr(os, "defpath", str(place / "bin"))  # else the answer is this machine's
    program("python3", r"3.12.1 /root/python\n")
    program("perl", "5.36.0")
    monkeypatch.setenv("HOME", str(place / "usr"))

    found = packages()

    assert str(found["python"].externals[0].spec) == "python@3.11.2"
    assert "perl" not in found  # in HOME, and the system has none


@pytest.mark.skipif("glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""), reason="needs a machine with glibc")
def test_the_c_library_is_the_machines(program: Program) -> None:
    glibc = packages()["glibc"]

    assert f"glibc {glibc.externals[0].spec.versions}" == os.confstr("CS_GNU_LIBC_VERSION")
    assert glibc.buildable is False


def test_nothing_of_the_current_folder_runs(place: Path) -> None:
    (place / "sysconfig.py").write_text("open('ran', 'w')\n")

    on_this_machine(load_system("local"))

    assert not (place / "ran").exists()
