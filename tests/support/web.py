"""A web server of this machine's own, for what is fetched by its URL."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves the files of a folder and says nothing of it."""

    def log_message(self, *words: object) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away before the end is no error here."""


@contextlib.contextmanager
def served(folder: Path, handler: type[http.server.SimpleHTTPRequestHandler] = Quiet) -> Iterator[str]:
    """The URL under which a folder's files are served, while this lasts."""
    server = Server(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
