"""What editors do with the interpreter that is named to them: a real debug adapter and a real type checker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.real.test_uenv import Stack, overlay, stack, uenvtool
from tests.support.needs import needs, skip_without

__all__ = ["overlay", "stack", "uenvtool"]
pytestmark = [pytest.mark.real, pytest.mark.slow, *needs("mksquashfs")]
LOOK = "import inbase, tool\nprint('seen:', tool.__version__, inbase.__version__)\n"


def test_a_debug_adapter_launches_a_program_in_the_overlay_on_its_base(stack: Stack, overlay: Path) -> None:
    pytest.importorskip("debugpy", reason="no debugpy: pip install debugpy")
    Path("train.py").write_text(LOOK)
    settings = {"python": [str(overlay.with_suffix("") / "bin/python-on-base")], "program": os.path.abspath("train.py")}
    launch = {"type": "debugpy", "request": "launch", "console": "internalConsole", "cwd": os.getcwd(), **settings}
    command = [sys.executable, "-m", "debugpy.adapter"]
    printed = ""
    with subprocess.Popen(
        command, env=stack.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as adapter:
        send(adapter, 1, "initialize", {"adapterID": "test", "pathFormat": "path"})
        send(adapter, 2, "launch", launch)
        for message in iter(lambda: received(adapter), None):
            if message.get("event") == "initialized":
                send(adapter, 3, "configurationDone", {})
            if message.get("event") == "output":
                printed += message["body"]["output"]
            assert message.get("success", True), message
            if message.get("event") == "terminated":
                break
        adapter.kill()

    assert "seen: 2.0 1.0" in printed


def send(adapter: subprocess.Popen[bytes], number: int, command: str, arguments: dict[str, Any]) -> None:
    text = json.dumps({"seq": number, "type": "request", "command": command, "arguments": arguments}).encode()
    assert adapter.stdin
    adapter.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
    adapter.stdin.flush()


def received(adapter: subprocess.Popen[bytes]) -> dict[str, Any] | None:
    """Read the adapter's next message; None at its end."""
    assert adapter.stdout
    length = 0
    while (line := adapter.stdout.readline()).strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return json.loads(adapter.stdout.read(length)) if length else None


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
