"""The metadata files of an image: meta/env.json, which the uenv client reads, and uenvtool's meta/extra/packed.json.

env.json has the format of uenv 9.2 (src/uenv/meta.cpp). uenv 10 added `default-view`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.limits import limited

ENV = "meta/env.json"
EXTRA = "meta/extra"
PACKED = f"{EXTRA}/packed.json"
"""A file in every image that uenvtool packed."""
RECIPE = "meta/recipe"
"""The directory with the files of the environments in the image."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ListUpdate:
    """A change of a variable that is a list of paths. op: set, prepend, append or unset."""

    op: str
    paths: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class UenvView:
    """A view: the variables that the uenv client sets in a shell that loads the view.

    root: the directory of the view in the mounted image. activate: its activation script. lists: changes of variables
    that are lists of paths. scalars: values of other variables; None unsets a variable. The client replaces `${@NAME@}`
    by the value of the variable NAME in the shell.
    """

    description: str
    root: str
    activate: str
    lists: Mapping[str, Sequence[ListUpdate]] = field(default_factory=dict)
    scalars: Mapping[str, str | None] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Return the view in the format of env.json."""
        lists = {
            name: [{"op": update.op, "value": list(update.paths)} for update in updates]
            for name, updates in self.lists.items()
        }
        env = {"version": 1, "type": "augment", "values": {"list": lists, "scalar": dict(self.scalars)}}
        return {"activate": self.activate, "description": self.description, "root": self.root, "env": env}


@dataclass(frozen=True, kw_only=True, slots=True)
class Uenv:
    """The uenv metadata of an image.

    mount: the mount point, an absolute path. default_view: the view that the uenv client loads if the user names none.
    modules: the directory of the module files, if there are any.
    """

    name: str
    description: str
    mount: str
    views: Mapping[str, UenvView]
    default_view: str | None = None
    modules: str | None = None


def env_json(uenv: Uenv) -> str:
    """Return the text of meta/env.json."""
    data: dict[str, Any] = {
        "name": uenv.name,
        "description": uenv.description,
        "mount": uenv.mount,
        "modules": {"root": uenv.modules} if uenv.modules else None,
    }
    if uenv.default_view:
        data["default-view"] = uenv.default_view
    data["views"] = {name: view.data() for name, view in uenv.views.items()}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def parse_env_json(text: str, shown: str) -> Uenv:
    """Parse the text of a meta/env.json. shown: its name in messages.

    Raises BadInput if the text does not have the format that the uenv client reads.
    """
    try:
        with limited(shown):
            return _uenv(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise BadInput(f"invalid uenv metadata: {reason}", Position(shown), "pack the image again") from error


def _uenv(data: Mapping[str, Any]) -> Uenv:
    modules = data.get("modules") or {}
    return Uenv(
        name=str(data["name"]),
        description=str(data.get("description") or ""),
        mount=str(data["mount"]),
        views={str(name): _view(view) for name, view in (data.get("views") or {}).items()},
        default_view=None if data.get("default-view") is None else str(data["default-view"]),
        modules=None if modules.get("root") is None else str(modules["root"]),
    )


def _view(data: Mapping[str, Any]) -> UenvView:
    values = (data.get("env") or {}).get("values") or {}
    lists = values.get("list") or {}
    return UenvView(
        description=str(data.get("description") or ""),
        root=str(data["root"]),
        activate=str(data.get("activate") or ""),
        lists={
            name: [
                ListUpdate(op=str(update["op"]), paths=tuple(map(str, update.get("value") or ()))) for update in updates
            ]
            for name, updates in lists.items()
        },
        scalars={name: None if text is None else str(text) for name, text in (values.get("scalar") or {}).items()},
    )


def packed_json(mount: str, **facts: str) -> str:
    """Return the text of meta/extra/packed.json: the packer, the mount point, and other facts about the image."""
    data = {"format": 1, "generator": "uenvtool", "mount": mount, **facts}
    return json.dumps(data, indent=2) + "\n"


def uenv_name(stem: str, default: str) -> str:
    """Return a name that the uenv command line accepts (`--view=NAME:VIEW`), derived from the stem of the image's file.

    The grammar is in uenv 9.2, src/uenv/parse.cpp, is_name_tok.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).strip("-.")
    return name or default
