"""A real Chromium without a window, driven by its own protocol (https://chromedevtools.github.io/devtools-protocol)."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.needs import how_to_get, skip_without

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


class Page:
    """The one page of a browser."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self.requested: list[str] = []
        """The addresses that were asked for since the page was opened."""
        self("Page.enable")
        self("Network.enable")

    def __call__(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; its answer. Raises AssertionError for an answer that is an error."""
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (message := json.loads(self._connection.recv())).get("id") != number:
            if message["method"] == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])
        assert "error" not in message, message
        return dict(message["result"])

    def show(self, url: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        """Show a page in a window of that size, to a reader who prefers light or dark."""
        self.requested.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self("Page.navigate", url=url)
        self.wait("document.readyState == 'complete'")

    def value(self, expression: str) -> Any:
        """Return what an expression of JavaScript gives."""
        return self("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression holds; the test's own limit is a minute."""
        for _ in range(600):
            if self.value(expression):
                return
            time.sleep(0.1)
        raise AssertionError(f"never true in the page: {expression}")

    def picture(self, path: Path) -> Path:
        """Write a PNG of what is seen."""
        path.write_bytes(base64.b64decode(self("Page.captureScreenshot")["data"]))
        return path


@contextlib.contextmanager
def open_browser() -> Iterator[Page]:
    """Give the page of a new browser; skips the test where there is none."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        skip_without("chromium", how_to_get("chromium-headless-shell"))
    import websocket

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
        words += ["--remote-debugging-port=0", "--remote-allow-origins=*", "about:blank"]
        process = subprocess.Popen(
            [program, *words], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        try:
            connection = websocket.create_connection(_address(Path(profile)), timeout=60)
            with contextlib.closing(connection):
                yield Page(connection)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # with those that it started
            process.wait()


def _address(profile: Path) -> str:
    """Return the address of the page of a browser that is starting."""
    import urllib.request

    file = profile / "DevToolsActivePort"
    for _ in range(600):
        if file.exists() and "\n" in file.read_text():
            break
        time.sleep(0.1)
    port = file.read_text().splitlines()[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
        pages = json.load(answer)
    return str(next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page"))
