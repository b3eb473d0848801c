"""A local web server for downloads in tests."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the files of a directory without log messages."""

    def log_message(self, *words: object) -> None:
        pass


class PackageIndex(Quiet):
    """Serves the pages that `index_page` writes, as a package index does."""

    def guess_type(self, path: str | os.PathLike[str]) -> str:
        return "application/vnd.pypi.simple.v1+json" if str(path).endswith("index.html") else "application/zip"


def index_page(folder: Path, name: str, wheels: Mapping[Path, str]) -> None:
    """Write the index page (PEP 691) of a package in a directory, with its wheels and their upload dates."""
    place = folder / "simple" / name
    place.mkdir(parents=True)
    files = []
    for path, day in wheels.items():
        path.rename(place / path.name)
        files.append({"filename": path.name, "url": path.name, "hashes": {}, "upload-time": f"{day}T12:00:00Z"})
    page = {"meta": {"api-version": "1.1"}, "name": name, "versions": [], "files": files}
    (place / "index.html").write_text(json.dumps(page))


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that closes the connection early."""


@contextlib.contextmanager
def served(folder: Path, handler: type[http.server.SimpleHTTPRequestHandler] = Quiet) -> Iterator[str]:
    """Serve the files of a directory, and yield the URL."""
    server = Server(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
