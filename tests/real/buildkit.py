"""Runs BuildKit in a Docker daemon that a test starts in its own directory, without a Docker network."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.images import TRIED, Built
from tests.support.needs import need, skip_without

DRIVERS = ("overlay2", "vfs")
"""The storage drivers for layers. The second one copies the complete image for each layer, and works everywhere."""
SECONDS = 60
HOW = "apt-get install docker.io, and run as root where a daemon may mount"
STEP = re.compile(r"^#\d+ [\d.]+ ", re.MULTILINE)
"""The prefix of `--progress=plain` before a line of a step's output."""


class BuildKit:
    """Builds with `docker build`, as `tests.support.images.Builder` does with buildah."""

    def __init__(self, folder: Path) -> None:
        """Skip the test if no daemon can run, or if it cannot build."""
        need("dockerd")
        self.folder, self.words, self.daemon = folder, ["docker"], None
        if os.geteuid() != 0:
            skip_without("dockerd that may run", HOW)
        trial = folder / "trial"
        trial.mkdir(parents=True)
        (trial / "Containerfile").write_text(TRIED)
        clients = [f"{place}/docker" for place in os.get_exec_path() if os.access(f"{place}/docker", os.X_OK)]
        for driver in DRIVERS:
            self._start(driver)
            for client in clients:  # one without buildx builds with what the daemon of old had
                self.words = [client, "--host", f"unix://{folder}/docker.sock"]
                if self.build(trial, "trial").code == 0:
                    return
            self.close()
        skip_without("dockerd that may run", HOW)

    def build(self, folder: Path, tag: str) -> Built:
        """Build the Containerfile of a directory with BuildKit and the cache of earlier builds."""
        options = ["--network=host", "--progress=plain", f"--tag={tag}", f"--file={folder}/Containerfile"]
        ran = subprocess.run(
            [*self.words, "build", *options, folder],
            env={**os.environ, "DOCKER_BUILDKIT": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Built(ran.returncode, STEP.sub("", ran.stdout), tag)

    def run(self, image: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a container of an image, through the entry point."""
        words = [*self.words, "run", "--rm", "--network=none", image, *command]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def settings(self, image: str) -> dict[str, Any]:
        """Return the configuration of an image."""
        shown = subprocess.run([*self.words, "image", "inspect", image], capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(shown.stdout)[0]["Config"]
        return found

    def close(self) -> None:
        """Stop the daemon, and remove its storage."""
        if self.daemon is not None:
            self.daemon.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.daemon.wait(SECONDS)
            self.daemon.kill()
            self.daemon.wait()
            self.daemon = None
        mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for point in sorted((path for path in mounted if path.startswith(f"{self.folder}/")), reverse=True):
            subprocess.run(["umount", "--lazy", point], check=False)
        for name in ("data", "exec"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def _start(self, driver: str) -> None:
        places = [f"--data-root={self.folder}/data", f"--exec-root={self.folder}/exec", f"--pidfile={self.folder}/pid"]
        network = ["--iptables=false", "--ip6tables=false", "--bridge=none"]
        words = ["dockerd", f"--host=unix://{self.folder}/docker.sock", *places, *network, f"--storage-driver={driver}"]
        with (self.folder / "log").open("w") as log:
            self.daemon = subprocess.Popen(words, stdout=log, stderr=log)
        until = time.monotonic() + SECONDS
        while self.daemon.poll() is None and time.monotonic() < until:
            if "API listen on" in (self.folder / "log").read_text():
                return
            time.sleep(0.1)


class _Meeting(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        name = self.rfile.readline().decode().strip()
        barrier: threading.Barrier = self.server.barrier  # type: ignore[attr-defined]
        try:
            barrier.wait(SECONDS)
            met = "met"
        except threading.BrokenBarrierError:
            met = "alone"
        self.server.seen.append((name, met))  # type: ignore[attr-defined]
        self.wfile.write(f"{met}\n".encode())


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class Meeting:
    """A server at which parallel build steps wait for each other. Sequential steps cannot meet.

    port: on this machine. Each step sends its name in a line, and receives `met` when all have arrived, or `alone`
    after a minute.
    """

    def __init__(self, port: int, server: _Server) -> None:
        self.port, self._server = port, server

    def expect(self, count: int) -> None:
        """Set the number of steps that wait for each other."""
        self._server.barrier = threading.Barrier(count)  # type: ignore[attr-defined]

    @property
    def seen(self) -> list[tuple[str, str]]:
        """Return the names of the steps, and whether they met the others."""
        found: list[tuple[str, str]] = self._server.seen  # type: ignore[attr-defined]
        return sorted(found)


@contextlib.contextmanager
def meeting() -> Iterator[Meeting]:
    """Start the server, and stop it at the end."""
    with _Server(("127.0.0.1", 0), _Meeting) as server:
        server.seen = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Meeting(server.server_address[1], server)
        server.shutdown()
