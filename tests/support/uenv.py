"""Creates a small uenv for the real client: an image with a view that contains a Python."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.overlays import install
from tests.support.pythons import newest, pythons


def uenv_image(
    image: Path, mount: Path, wheels: Sequence[Path], *, name: str = "stack", way: str = "PYTHONPATH"
) -> Path:
    """Pack an image whose view `default` has a Python with these wheels installed.

    way: the variable through which Python finds the view's packages. The published pytorch/v2.6.0 sets PYTHONPATH, and
    v2.9.1 sets PYTHONUSERBASE.
    """
    root = image.with_suffix(".tree")
    version = newest()
    prefix = root / "env" / "default"
    site = prefix / "lib" / f"python{version}" / "site-packages"
    install(site, *wheels)
    (prefix / "bin").mkdir()
    for link in ("python", "python3", f"python{version}"):
        (prefix / "bin" / link).symlink_to(pythons()[version])
    (root / "meta").mkdir()
    (root / "meta" / "env.json").write_text(json.dumps(_described(name, mount, site.relative_to(root), way)))
    command = ["mksquashfs", str(root), str(image), "-quiet", "-no-progress"]
    subprocess.run(command, check=True, capture_output=True)
    return image


def _described(name: str, mount: Path, site: Path, way: str) -> dict[str, object]:
    """Return the content of meta/env.json in the format of uenv 9.2."""
    view = mount / "env" / "default"
    lists = {"PATH": [{"op": "prepend", "value": [f"{view}/bin"]}]}
    scalars: dict[str, str | None] = {}
    if way == "PYTHONPATH":
        lists["PYTHONPATH"] = [{"op": "set", "value": [str(mount / site)]}]
    else:
        lists["PYTHONPATH"] = [{"op": "unset", "value": []}]
        scalars["PYTHONUSERBASE"] = str(view)
    env = {"version": 1, "type": "augment", "values": {"list": lists, "scalar": scalars}}
    views = {"default": {"activate": f"{view}/activate.sh", "description": "all", "root": str(view), "env": env}}
    return {"name": name, "description": "a base", "mount": str(mount), "modules": None, "views": views}
