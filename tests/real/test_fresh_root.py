"""Test tools/fresh-root, which runs a command in the state of a new machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.needs import needs
from tests.support.project import ROOT

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a clone: run the tests in one"),
    *needs("unshare", "git", "setpriv"),
]


def fresh(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command with tools/fresh-root, or skip the test if it cannot mount."""
    done = subprocess.run([ROOT / "tools/fresh-root", *words], capture_output=True, text=True, check=False)
    if "mounts need root" in done.stderr:
        pytest.skip("needs root that may mount: run the tests as root, outside a restricted container")
    return done


def test_what_a_command_leaves_behind_is_listed_and_fails_and_this_machine_keeps_nothing() -> None:
    name = f"uenvtool-left-{os.getpid()}"

    left = fresh("sh", "-c", f"touch /usr/{name} ~/in-home /tmp/in-tmp; rm /etc/passwd")
    clean = fresh("--user", "sh", "-c", "id -un; pwd; touch ~/in-home /tmp/in-tmp; ls -A /dev/shm")

    assert left.returncode == 1
    assert sorted(left.stderr.splitlines()) == ["left behind: /etc/passwd is gone", f"left behind: /usr/{name}"]
    assert not Path("/usr", name).exists()
    assert (clean.returncode, clean.stdout) == (0, "newcomer\n/home/newcomer/uenvtool\n")


def test_the_exit_code_is_the_commands_and_a_program_can_be_absent() -> None:
    assert fresh("--without", "mksquashfs", "sh", "-c", "command -v mksquashfs || exit 7").returncode == 7
