"""Test an overlay's interpreter as editors use it, with a real debug adapter and a real type checker."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.real.test_uenv import Stack, overlay, stack, uenvtool
from tests.support.debug_adapter import received, send
from tests.support.needs import needs, skip_without

__all__ = ["overlay", "stack", "uenvtool"]
pytestmark = [pytest.mark.real, pytest.mark.slow, *needs("mksquashfs")]
LOOK = "import inbase, tool\nprint('seen:', tool.__version__, inbase.__version__)\n"


def test_a_debug_adapter_launches_a_program_in_the_overlay_on_its_base(stack: Stack, overlay: Path) -> None:
    if find_spec("debugpy") is None:
        skip_without("debugpy", "pip install debugpy")
    Path("train.py").write_text(LOOK)
    settings = {"python": [str(overlay.with_suffix("") / "bin/python-on-base")], "program": os.path.abspath("train.py")}
    launch = {"type": "debugpy", "request": "launch", "console": "internalConsole", "cwd": os.getcwd(), **settings}
    command = [sys.executable, "-m", "debugpy.adapter"]
    printed = ""
    with subprocess.Popen(
        command, env=stack.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as adapter:
        assert adapter.stdin
        assert adapter.stdout
        send(adapter.stdin, 1, "initialize", {"adapterID": "test", "pathFormat": "path"})
        send(adapter.stdin, 2, "launch", launch)
        while message := received(adapter.stdout):
            if message.get("event") == "initialized":
                send(adapter.stdin, 3, "configurationDone", {})
            if message.get("event") == "output":
                printed += message["body"]["output"]
            assert message.get("success", True), message
            if message.get("event") == "terminated":
                break
        adapter.kill()

    assert "seen: 2.0 1.0" in printed


def test_a_language_server_sees_the_overlay_anywhere_and_the_base_where_it_is_mounted(
    stack: Stack, uenvtool: list[str], overlay: Path
) -> None:
    pyright = [sys.executable, "-m", "pyright"]
    if subprocess.run([*pyright, "--version"], capture_output=True, check=False).returncode != 0:
        skip_without("pyright", "pip install pyright, which needs node")
    Path("train.py").write_text(LOOK)
    loose = overlay.with_suffix("")
    words = [*pyright, "--pythonpath", loose / "bin/python-on-base", "train.py"]

    outside = stack.run(*words)
    inside = stack.run(*uenvtool, "shell", loose, "--", *words)

    assert 'Import "tool" could not be resolved' not in outside.stdout, outside.stderr
    assert 'Import "inbase" could not be resolved' in outside.stdout
    assert "0 errors" in inside.stdout, inside.stdout + inside.stderr
