"""A notebook runs in a packed and a loose overlay, through a kernel that loads the base with the real uenv client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.real.test_uenv import Stack, stack, uenvtool
from tests.support.needs import needs

__all__ = ["stack", "uenvtool"]
nbclient = pytest.importorskip("nbclient", reason="no nbclient: pip install nbclient ipykernel")
nbformat = pytest.importorskip("nbformat")
pytestmark = [pytest.mark.real, pytest.mark.xdist_group("slurm"), *needs("mksquashfs")]
CELL = (
    "import inbase, tool, subprocess, sys, os\n"
    "out = subprocess.run(['python', '-c', 'import tool; print(tool.__version__)'], capture_output=True, text=True)\n"
    "print(tool.__version__, inbase.__version__, out.stdout.strip(), sys.prefix == os.environ['VIRTUAL_ENV'])"
)
NOTEBOOK = """\
import sys, nbclient, nbformat
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(sys.argv[1])])
nbclient.NotebookClient(notebook, kernel_name="mine", timeout=120).execute()
print(notebook.cells[0].outputs[0]["text"])
"""


@pytest.fixture
def with_ipykernel(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """The wheels of ipykernel are to be had, as from an index."""
    pytest.importorskip("ipykernel")
    words = [sys.executable, "-m", "pip", "download", "-q", "-d", stack.wheels, "--python-version", python_of(stack)]
    ran = subprocess.run(
        [*map(str, words), "--only-binary=:all:", "ipykernel"], capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        pytest.skip("no index has ipykernel here")
    return stack


def python_of(stack: Stack) -> str:
    from tests.support.pythons import newest

    return newest()


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_a_notebook_imports_from_the_overlay_and_the_base(
    with_ipykernel: Stack, uenvtool: list[str], place: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    squash = ("--squash", "--mount", with_ipykernel.tools) if packed else ()
    made = with_ipykernel.run(
        *(*uenvtool, "venv", "mine", "tool==2.0", "ipykernel", "--uenv", with_ipykernel.image, *squash)
    )
    assert made.returncode == 0, made.stderr
    added = with_ipykernel.run(*uenvtool, "kernel", "add", "mine.squashfs" if packed else "mine", "--name", "Mine")
    assert added.returncode == 0, added.stderr
    data = Path(os.environ["HOME"], ".local/share/jupyter/kernels/mine/kernel.json")
    assert json.loads(data.read_text())["display_name"] == "Mine"
    for name, value in with_ipykernel.environment().items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])

    nbclient.NotebookClient(notebook, kernel_name="mine", timeout=120).execute()

    assert notebook.cells[0].outputs[0]["text"].strip() == "2.0 1.0 2.0 True"
    loaded, views = str(with_ipykernel.image), "--view=default"
    if packed:
        loaded, views = f"{loaded},{place}/mine.squashfs", f"{views},mine:venv"
    inside = with_ipykernel.run("uenv", "run", loaded, views, "--", sys.executable, "-I", "-c", NOTEBOOK, CELL)
    assert inside.stdout.strip() == "2.0 1.0 2.0 True", inside.stderr  # as a hub does that loads it: uenv nests none


@pytest.mark.slow
def test_a_jupyter_server_starts_the_kernel_and_runs_a_cell(
    with_ipykernel: Stack, uenvtool: list[str], place: Path
) -> None:
    pytest.importorskip("jupyter_server", reason="needs a Jupyter server: pip install jupyter-server")
    made = with_ipykernel.run(*uenvtool, "venv", "mine", "tool==2.0", "ipykernel", "--uenv", with_ipykernel.image)
    assert made.returncode == 0, made.stderr
    added = with_ipykernel.run(*uenvtool, "kernel", "add", "mine", "--name", "Mine")
    assert added.returncode == 0, added.stderr
    runtime = place / "runtime"
    environ = {**with_ipykernel.environment(), "JUPYTER_RUNTIME_DIR": str(runtime), "JUPYTER_TOKEN": "t"}
    words = ["--no-browser", "--allow-root", "--port=0", f"--ServerApp.root_dir={place}"]
    with subprocess.Popen(
        [sys.executable, "-m", "jupyter_server", *words], env=environ, stderr=subprocess.DEVNULL
    ) as server:
        try:
            url = url_of(server, runtime)
            specs = json.loads(asked(url, "api/kernelspecs"))["kernelspecs"]
            kernel = json.loads(asked(url, "api/kernels", {"name": "mine"}))["id"]
            printed = asyncio.run(ran_in(f"{url.replace('http', 'ws', 1)}api/kernels/{kernel}/channels?token=t"))
        finally:
            server.terminate()

    assert specs["mine"]["spec"]["display_name"] == "Mine"
    assert printed.strip() == "2.0 1.0 2.0 True"


def url_of(server: subprocess.Popen[bytes], runtime: Path) -> str:
    """Wait for a server; its address, as it notes it."""
    while server.poll() is None:
        for note in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(ValueError, urllib.error.URLError):
                url = str(json.loads(note.read_text())["url"])
                asked(url, "api/status")
                return url
        time.sleep(0.2)
    raise AssertionError("the server ended")


def asked(url: str, path: str, data: dict[str, str] | None = None) -> bytes:
    body = json.dumps(data).encode() if data else None
    request = urllib.request.Request(f"{url}{path}?token=t", data=body)  # with data it is a POST
    with urllib.request.urlopen(request) as answer:
        return bytes(answer.read())


async def ran_in(channels: str) -> str:
    """Run the cell in a kernel by the channels that a browser uses; what it prints."""
    from tornado.websocket import websocket_connect

    connection = await websocket_connect(channels)
    header = {"msg_id": "1", "username": "", "session": "s", "msg_type": "execute_request", "version": "5.3"}
    content = {"code": CELL, "silent": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "channel": "shell", "content": content}
    await connection.write_message(json.dumps(message))
    while True:
        answer = json.loads(await connection.read_message() or "{}")
        if answer["msg_type"] in ("stream", "error"):
            return str(answer["content"].get("text", answer["content"]))
