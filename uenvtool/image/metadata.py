"""meta/env.json: what makes an image a uenv, with a name, a mount point and a view."""

from __future__ import annotations

import json
import re
from typing import Any

VIEW = "venv"
MOUNT = "/user-tools"


def uenv_name(stem: str) -> str:
    """A name that the uenv command line can take (`--view=NAME:venv`), after the image's file."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).strip("-.")
    return name or "venv"


def overlay_env(name: str, mount: str, *, description: str = "", base: str = "") -> str:
    """The text of meta/env.json for an overlay at the image's root.

    The one view puts its commands first on PATH, says where it is (VIRTUAL_ENV), and takes
    PYTHONPATH away, which would come before everything. The form is what uenv 9.2 reads.
    """
    on = f" on {base}" if base else ""
    values: dict[str, Any] = {
        "list": {"PATH": [{"op": "prepend", "value": [f"{mount}/bin"]}], "PYTHONPATH": [{"op": "unset", "value": []}]},
        "scalar": {"VIRTUAL_ENV": mount, "VIRTUAL_ENV_PROMPT": name},
    }
    view = {
        "activate": f"{mount}/bin/activate",
        "description": f"the Python environment{on}",
        "root": mount,
        "env": {"version": 1, "type": "augment", "values": values},
    }
    data = {
        "name": name,
        "description": description or f"a Python overlay{on}, made by uenvtool",
        "mount": mount,
        "modules": None,
        "views": {VIEW: view},
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
