"""Runs lines in a real shell, and returns the environment of its child processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.needs import needs
from tests.support.project import ROOT

OLD_BASH = os.environ.get("UENVTOOL_TEST_BASH_4_2", "bash-4.2")
"""The oldest supported bash, built from its source: https://ftp.gnu.org/gnu/bash/bash-4.2.tar.gz."""
HOW_OLD_BASH = "build it, and set UENVTOOL_TEST_BASH_4_2 to its path"
COMMANDS = {
    "bash": ["bash", "--norc", "--noprofile"],
    "bash-4.2": [OLD_BASH, "--norc", "--noprofile"],
    "zsh": ["zsh", "-f"],
}
ALL = [
    pytest.param("bash"),
    pytest.param(
        "bash-4.2", marks=pytest.mark.skipif(shutil.which(OLD_BASH) is None, reason=f"needs bash-4.2: {HOW_OLD_BASH}")
    ),
    pytest.param("zsh", marks=needs("zsh")),
]
"""The shells that the scripts in `activate/` support."""
PATH = "/usr/bin:/bin"
OF_THE_SHELL = {b"_", b"SHLVL", b"PWD", b"OLDPWD", b"HOME"}


@dataclass(frozen=True)
class Ran:
    """The environment of a shell at each `SNAP`, its output and its exit code."""

    snaps: list[dict[bytes, bytes]]
    stdout: str
    stderr: str
    code: int

    @property
    def env(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.snaps[-1].items()}


def script(system: str) -> Path:
    """Return the path of a committed script."""
    return ROOT / "activate" / f"{system}.sh"


def run(shell: str, lines: str, env: Mapping[str, str | bytes] | None = None) -> Ran:
    """Run lines in a shell. A line `SNAP` records the environment."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        text, count = "", 0
        for line in lines.removesuffix("\n").split("\n"):
            if line.strip() == "SNAP":
                text += f"/usr/bin/env -0 > {out}/snap{count}\n"
                count += 1
            else:
                text += line + "\n"
        (out / "lines").write_bytes(text.encode())
        whole: dict[bytes, bytes] = {b"PATH": PATH.encode(), b"HOME": str(out).encode(), b"LC_ALL": b"C.UTF-8"}
        whole[b"UENVTOOL_ROOT"] = b"/nowhere"  # this machine may be a container
        for key, value in (env or {}).items():
            whole[key.encode()] = value if isinstance(value, bytes) else value.encode()
        completed = subprocess.run(
            [*COMMANDS[shell], str(out / "lines")],
            check=False,
            env=whole,
            cwd=out,
            capture_output=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        snaps = [_environment((out / f"snap{i}").read_bytes()) for i in range(count) if (out / f"snap{i}").exists()]
        return Ran(
            snaps,
            completed.stdout.decode(errors="replace"),
            completed.stderr.decode(errors="replace"),
            completed.returncode,
        )


def activated(shell: str, system: str, env: Mapping[str, str | bytes] | None = None) -> Ran:
    """Source a committed script and record the environment."""
    return run(shell, f"source {script(system)}\nSNAP\n", env)


def _environment(data: bytes) -> dict[bytes, bytes]:
    pairs = (entry.partition(b"=") for entry in data.split(b"\0") if entry)
    return {name: value for name, _, value in pairs if name not in OF_THE_SHELL}
