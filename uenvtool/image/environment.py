"""What the image of an installed environment says of itself: its views, how to use it as an upstream, its recipe."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from uenvtool.core import quoting
from uenvtool.env.install import WORK
from uenvtool.env.installable import Installable
from uenvtool.image.metadata import ENV, PACKED, ListUpdate, Uenv, View, env_json, packed_json

RECIPE = "meta/recipe"
INSPECTED: Mapping[str, tuple[str, ...]] = {
    "bin": ("PATH",),
    "man": ("MANPATH",),
    "share/man": ("MANPATH",),
    "share/aclocal": ("ACLOCAL_PATH",),
    "lib/pkgconfig": ("PKG_CONFIG_PATH",),
    "lib64/pkgconfig": ("PKG_CONFIG_PATH",),
    "share/pkgconfig": ("PKG_CONFIG_PATH",),
    ".": ("CMAKE_PREFIX_PATH",),
}
"""Folders of a view and the variables that get them: Spack v1.1.0, etc/spack/defaults/base/modules.yaml."""
SPACK_VIEW = "spack"


def described(environment: Installable, store: Path, *, name: str, description: str, inputs: str) -> dict[bytes, bytes]:
    """The files that make an image of a store, by their name in it. inputs: the hash of what it is made of."""
    folder = _view_folder(environment, store)
    view = _view(environment, store / folder)
    texts = {
        ENV: env_json(_uenv(environment, view, name, description)),
        PACKED: packed_json(environment.mount, kind="environment", inputs=inputs),
        f"{folder}/activate.sh": _activation(view),
        "config/upstreams.yaml": _yaml({"upstreams": {name: {"install_tree": environment.mount}}}),
        "config/packages.yaml": _yaml({"packages": _externals(environment.manifest)}),
        **{f"{RECIPE}/{file}": text for file, text in environment.texts.items()},
    }
    return {file.encode(): text.encode() for file, text in texts.items()}


def omitted(environment: Installable, store: Path) -> tuple[bytes, ...]:
    """The names in a store that are no part of its image: where packages were built, and views of earlier runs."""
    current = store / _view_folder(environment, store)
    old = [path for path in sorted(current.parent.glob("*")) if path != current and current.parent != store / "env"]
    return (WORK.encode(), *(os.fsencode(path.relative_to(store)) for path in old))


def _view_folder(environment: Installable, store: Path) -> str:
    """The folder of a view, relative to the store: Spack makes the view's name a link to the newest one."""
    name = f"env/{environment.view}"
    if not (store / name).is_symlink():
        return name
    return os.readlink(store / name).removeprefix(f"{environment.mount}/")


def _uenv(environment: Installable, view: View, name: str, description: str) -> Uenv:
    spack = View(
        description="configuration for a Spack of one's own that uses this image as an upstream",
        root=environment.mount,
        activate=view.activate,
        scalars={"UENV_SPACK_CONFIG_PATH": f"{environment.mount}/config", "UENV_SPACK_VERSION": environment.lock.spack},
    )
    return Uenv(
        name=name,
        description=description,
        mount=environment.mount,
        views={environment.view: view, SPACK_VIEW: spack},
        default_view=environment.view,
    )


def _view(environment: Installable, folder: Path) -> View:
    """The view with the paths that it has; only its own are named, before what the user has."""
    lists = {
        variable: [ListUpdate(op="prepend", paths=[_below(environment.view_root, part) for part in parts])]
        for variable, parts in _inspected(environment.manifest, folder).items()
    }
    return View(
        description=f"{len(environment.lock.roots)} packages with what they need",
        root=environment.view_root,
        activate=f"{environment.view_root}/activate.sh",
        lists=lists,
        scalars=_variables(environment),
    )


def _inspected(manifest: Mapping[str, Any], folder: Path) -> dict[str, list[str]]:
    """Variable to the folders of the view that it gets, those that exist."""
    own = (manifest.get("modules") or {}).get("prefix_inspections") or {}
    named = {**INSPECTED, **{part.removeprefix("./") or ".": tuple(variables) for part, variables in own.items()}}
    found: dict[str, list[str]] = {}
    for part, variables in named.items():
        if (folder / part).is_dir():
            for variable in variables:
                found.setdefault(variable, []).append(part)
    return found


def _variables(environment: Installable) -> dict[str, str | None]:
    """The variables that the environment sets, and None for those that it unsets."""
    section = environment.manifest.get("env_vars") or {}
    elsewhere = f"$env/.spack-env/{environment.view}"
    values = {
        name: str(value).replace(elsewhere, environment.view_root) for name, value in section.get("set", {}).items()
    }
    return {**values, **dict.fromkeys(section.get("unset", ()))}


def _activation(view: View) -> str:
    """The script that does in a POSIX shell what the uenv client does from env.json."""
    lines = ["# Generated by uenvtool: what `uenv start IMAGE --view=VIEW` sets, for a shell that sources it."]
    for name, updates in view.lists.items():
        for path in updates[0].paths:
            lines.append(f'export {name}={quoting.sh(path)}"${{{name}:+:${name}}}"')
    for name, value in view.scalars.items():
        lines.append(f"unset {name}" if value is None else f"export {name}={quoting.sh(value)}")
    return "\n".join(lines) + "\n"


def _externals(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What the system brought, as the environment names it."""
    settings = dict(_external_settings(manifest))
    return settings or {"all": {}}


def _external_settings(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, settings in (manifest.get("packages") or {}).items():
        if isinstance(settings, dict) and settings.get("externals"):
            kept = {key: settings[key] for key in ("externals", "buildable") if key in settings}
            yield str(name).rstrip(":"), kept


def _below(root: str, part: str) -> str:
    return root if part == "." else f"{root}/{part}"


def _yaml(data: Mapping[str, Any]) -> str:
    """Data as JSON, which is YAML."""
    return json.dumps(data, indent=1) + "\n"
