"""A registry that lies: what it gives is taken if it is the image that was asked for, else told; nothing changes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import CASES
from tests.support.kept_images import packed_image
from tests.support.needs import needs
from tests.support.registry import allow_without_tls
from tests.support.web import Quiet, served
from uenvtool.core.result import silent
from uenvtool.image.cache import Key, Registry, fetch
from uenvtool.image.registry import MANIFEST, artifacts_of

pytestmark = [pytest.mark.real, *needs("mksquashfs", "unsquashfs", "skopeo")]
KEY = Key(name="hello", inputs="0123456789ab")
GOOD = ["honest", "slow", "redirected", "title outside"]
"""Those who give the image after all."""
BAD = ["redirected for ever", "redirected to a file", "other bytes", "more bytes", "cut off", "digest outside"]
BAD += ["digest of nothing", "two layers", "no layers", "not JSON", "a page", "deep", "large", "500", "401 for ever"]
BAD += ["other manifest", "another image"]


class Liar(Quiet):
    """Answers as OCI's distribution specification says, but for one lie."""

    lie, image, others = "", b"", b""

    def answer(self, code: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(OSError):
                self.wfile.write(content)

    do_HEAD = property(lambda self: self.do_GET)

    def do_GET(self) -> None:
        if self.lie == "500":
            return self.answer(500)
        if self.lie == "401 for ever":
            return self.answer(401, WWW_Authenticate=f'Bearer realm="http://{self.headers["Host"]}/v2/token"')
        if self.path.rstrip("/") == "/v2":
            return self.answer(200, b"{}")
        if "/manifests/" in self.path:
            return self.manifest()
        return self.blob()

    def manifest(self) -> None:
        if self.path.endswith("-tested"):
            return self.answer(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}')
        given = self.others if self.lie == "another image" else self.image
        data = json.loads(artifacts_of(hashlib.sha256(given).hexdigest(), len(given), {})[0])
        layer = data["layers"][0]
        changed = {
            "title outside": {"annotations": {"org.opencontainers.image.title": "../../../outside"}},
            "digest outside": {"digest": "sha256:../../../outside"},
            "digest of nothing": {"digest": f"sha256:{'0' * 64}"},
        }
        layer.update(changed.get(self.lie, {}))
        data["layers"] = {"two layers": [layer, layer], "no layers": []}.get(self.lie, [layer])
        texts = {
            "not JSON": b"{",
            "a page": b"<html>log in</html>",
            "deep": b"[" * 200_000,
            "large": json.dumps({**data, "x": "y" * 20_000_000}).encode(),
            "other manifest": b'{"schemaVersion": 1, "name": "x", "fsLayers": [{"blobSum": 5}], "history": 7}',
        }
        return self.answer(200, texts.get(self.lie) or json.dumps(data).encode(), Content_Type=MANIFEST)

    def blob(self) -> None:
        given = self.others if self.lie == "another image" else self.image
        is_config = hashlib.sha256(b"{}").hexdigest() in self.path
        content = b"{}" if is_config else given
        if self.lie.startswith("redirected") and not self.path.startswith("/elsewhere"):
            where = {"redirected for ever": self.path, "redirected to a file": "file:///etc/passwd"}
            return self.answer(307, Location=where.get(self.lie, f"/elsewhere{self.path}"))
        if is_config:
            return self.answer(200, content)
        if self.lie == "cut off":
            self.close_connection = True
            return self.answer(200, content[: len(content) // 2], Content_Length=str(len(content)))
        if self.lie == "slow":
            self.answer(200, content[:1000], Content_Length=str(len(content)))
            time.sleep(1)
            self.wfile.write(content[1000:])
            return None
        return self.answer(
            200, {"other bytes": os.urandom(len(content)), "more bytes": content + b"x"}.get(self.lie, content)
        )


@pytest.fixture
def liar(place: Path) -> Iterator[str]:
    """HOST:PORT of a registry; its class says what it lies about."""
    (place.parent / "images").mkdir()
    Liar.image = packed_image(place.parent / "images/a.squashfs", KEY.inputs).read_bytes()
    Liar.others = packed_image(place.parent / "images/b.squashfs", "f" * 12).read_bytes()
    with served(place, Liar) as url:
        host = url.removeprefix("http://")
        allow_without_tls(host)
        yield host


@pytest.mark.parametrize("lie", [*GOOD, *BAD] if CASES else [*GOOD[1:3], *BAD[2::5]])
def test_a_registry_that_lies(lie: str, liar: str, place: Path) -> None:
    Liar.lie = lie
    target = place / "image.squashfs"
    old = packed_image(place.parent / "old.squashfs", "e" * 12).read_bytes()
    target.write_bytes(old)

    fetched = fetch([Registry(f"{liar}/a")], KEY, target, silent)

    assert bool(fetched.cache) == (lie in GOOD), fetched
    assert target.read_bytes() == (Liar.image if lie in GOOD else old)
    assert bool(fetched.warnings) == (lie in BAD)
    assert os.listdir(place) == ["image.squashfs"]
    assert not list(place.parent.glob("**/outside"))
