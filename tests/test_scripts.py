"""Test tools/environment.py and tools/programs, with stand-ins for uv, pip and apt-get."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.needs import skip_without
from tests.support.programs import program


def environment(place: Path, uv: str, *words: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run tools/environment.py with stand-ins, and return its result and the calls of uv and pip."""
    calls = place / "calls"
    program(
        place / "venv/bin/uv",
        f'echo "uv in $PWD: $* (from $UV_DEFAULT_INDEX $UV_FIND_LINKS)" >>{calls}\necho " + package==1" >&2\n{uv}',
    )
    program(place / "venv/bin/python", f'echo "python $*" >>{calls}')
    home = {"HOME": str(place / "home"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, ROOT / "tools/environment.py", *words]
    ran = subprocess.run(command, cwd=place, env=home, capture_output=True, text=True, check=False)
    return ran, calls.read_text().splitlines()


def test_uv_gets_what_pip_is_configured_with_and_no_configuration_of_a_folder_above(place: Path) -> None:
    (place / "home/.config/pip").mkdir(parents=True)
    (place / "home/.config/pip/pip.conf").write_text(
        f"[global]\nindex-url = https://here.example/simple\nfind-links = {place}\nconstraint = /limits.txt\n"
    )

    ran, calls = environment(place, "exit 0", "venv", "--editable", "/clone[dev]")

    (call,) = calls
    assert call.startswith(f"uv in /: pip install --python {place}/venv/bin/python ")
    assert "--constraint /limits.txt --editable" in call
    assert call.endswith(f"--editable /clone[dev] (from https://here.example/simple {place})")
    assert ran.returncode == 0, ran.stderr
    assert [line.partition(" s  ")[2] for line in ran.stdout.splitlines()] == [
        "install the packages with uv",
        f"{place}/venv is ready",
    ]


def test_a_folder_of_wheels_is_the_only_source(place: Path) -> None:
    _, (call,) = environment(place, "exit 0", "--wheels", "wheels", "venv", "uenvtool")

    assert call.endswith(f"--no-index --find-links {place}/wheels uenvtool (from  )")


def test_pip_tries_where_uv_fails(place: Path) -> None:
    ran, calls = environment(place, "exit 1", "venv", "/clone")

    assert calls[1] == "python -m pip install --disable-pip-version-check /clone"
    assert "uv failed; install the packages with pip, which takes longer" in ran.stdout
    assert ran.returncode == 0


APT = """\
echo "$*" >>{calls}
case " $* " in
*" --simulate "*libfmt9*) echo "E: Unable to locate package libfmt9" >&2
    echo "E: Package 'libspdlog1.10' has no installation candidate" >&2; exit 100 ;;
*" --assume-no "*) echo "The following NEW packages will be installed:"; exit 1 ;;
*" --yes "*) /usr/sbin/policy-rc.d ssh start; echo "services: $?" >>{calls} ;;
esac"""


@pytest.mark.parametrize("before", ["", "#!/bin/sh\nexit 0\n"])
def test_programs_are_shown_first_and_start_no_service_and_what_a_release_lacks_is_left_out(
    place: Path, before: str
) -> None:
    calls, system = place / "calls", place / "sbin"
    program(place / "bin/apt-get", APT.format(calls=calls))
    program(place / "bin/dpkg-query", "exit 1")
    system.mkdir()
    if before:
        (system / "policy-rc.d").write_text(before)
    script = f"mount --bind {system} /usr/sbin 2>/dev/null || exit 77\n{ROOT}/tools/programs"
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script]
    env = {**os.environ, "PATH": f"{place}/bin:/usr/bin:/bin"}

    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    if not calls.exists():
        skip_without("a mount namespace of a user's own", "as root, or with kernel.unprivileged_userns_clone=1")
    assert ran.returncode == 0, ran.stderr
    update, looked, shown, installed, services = calls.read_text().splitlines()
    assert update == "update -qq"
    assert "libfmt9 libspdlog1.10 " in looked
    assert "NEW packages" in ran.stdout
    assert "the package libfmt9 does not exist here; the tests that need it are skipped" in ran.stderr
    assert "libfmt9" not in shown + installed
    assert installed.startswith("install --no-install-recommends --quiet --yes ")
    assert installed.endswith(" libsqlite3-0 libcurl4 libmount1")
    assert services == "services: 101"
    assert {path.name: path.read_text() for path in system.iterdir()} == ({"policy-rc.d": before} if before else {})
