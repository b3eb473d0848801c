"""A real registry of this machine's own, without TLS: Debian's docker-registry."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.support.needs import need

CONFIGURATION = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@contextlib.contextmanager
def running_registry(folder: Path) -> Iterator[str]:
    """HOST:PORT of an empty registry, while this lasts; skopeo may reach it without TLS by the user's own settings."""
    program = need("docker-registry", "skopeo")
    folder.mkdir()
    with socket.socket() as free_port:
        free_port.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free_port.getsockname()[1]}"
    (folder / "config.yml").write_text(CONFIGURATION.format(folder=folder, port=host.partition(":")[2]))
    allow_without_tls(host)
    process = subprocess.Popen([program, "serve", folder / "config.yml"], stderr=subprocess.DEVNULL)
    try:
        _wait_for(host)
        yield host
    finally:
        process.terminate()
        process.wait()


def allow_without_tls(host: str) -> None:
    """Write what a user writes for such a registry: containers-registries.conf(5), containers-policy.json(5)."""
    settings = Path(os.environ["HOME"]) / ".config" / "containers"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "registries.conf").write_text(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n')
    (settings / "policy.json").write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))


def _wait_for(host: str) -> None:
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"http://{host}/v2/", timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the registry does not answer")
