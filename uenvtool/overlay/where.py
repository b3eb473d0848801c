"""Finds what an overlay may lie on here: a loaded uenv view, a container's Python, or none of both."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from uenvtool.errors import BadInput
from uenvtool.loaded import View, container_name, in_container, loaded_views

UENV, CONTAINER, NAMED, ENVIRONMENT, PLAIN = "uenv", "container", "named", "environment", "plain"
LABEL = "UENVTOOL_UENV"
"""Set by `--uenv IMAGE` for the command that it starts inside the uenv."""


@dataclass(frozen=True, slots=True)
class Found:
    """A Python to lie on: its path as a user calls it, what kind of base it is, and how to load it.

    root: a view's folder. image, view: what the uenv client is given to load it, where it is a uenv.
    """

    python: str
    kind: str
    name: str
    root: str = ""
    load: str = ""
    mounts: tuple[str, ...] = ()
    image: str = ""
    view: str = ""


def find(python: str | None, environ: Mapping[str, str]) -> Found:
    """The base: `python` where it is named, else the loaded uenv view, else this container or Python.

    Raises BadInput where `python` is no program, or no Python is found at all.
    """
    views = loaded_views(environ)
    mounts = tuple(dict.fromkeys(view.mount for view in views))
    if python is not None:
        path = named_python(python, environ)
        view = next((each for each in views if path.startswith(each.mount + "/")), None)
        return _of_view(view, path, mounts, environ) if view else Found(path, NAMED, path)
    for view in views:
        if _is_overlay(view.root):
            continue
        for name in ("python3", "python"):
            path = os.path.join(view.root, "bin", name)
            if os.access(path, os.X_OK):
                return _of_view(view, path, mounts, environ)
    return _of_environment(environ)


def named_python(python: str, environ: Mapping[str, str]) -> str:
    """The absolute path of a Python that a user names; symlinks are left as they are."""
    expanded = os.path.expanduser(python)
    path = expanded if os.sep in expanded else shutil.which(expanded, path=environ.get("PATH")) or expanded
    if path and os.path.isdir(path):
        inside = [os.path.join(path, "bin", name) for name in ("python3", "python")]
        path = next((each for each in inside if os.access(each, os.X_OK)), path)
    if not path or not os.path.isfile(path) or not os.access(path, os.X_OK):
        raise BadInput(f"--base {python}: no such program", hint="name a Python, for example --base /usr/bin/python3")
    return os.path.abspath(path)


def _is_overlay(root: str) -> bool:
    """Whether a view is a packed overlay, which is loaded beside its base and is no base itself."""
    try:
        return "uenvtool-base" in Path(root, "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _of_view(view: View, python: str, mounts: tuple[str, ...], environ: Mapping[str, str]) -> Found:
    """A view as a base. Its image is named as `--uenv` was given it, else by the file that is mounted.

    The name in UENV_VIEW is the image's own and not its label, so that `uenv start` may not know it.
    """
    image = environ.get(LABEL) or view.image or view.uenv
    load = f"uenv start {shlex.quote(image)} --view={view.name}"
    return Found(python, UENV, view.uenv, view.root, load, mounts, image, view.name)


def _of_environment(environ: Mapping[str, str]) -> Found:
    """The Python on PATH that is neither this tool's nor that of an activated environment."""
    python = _python_on_path(environ)
    if python is None:
        raise BadInput("no Python is here to make an overlay on", hint="load a uenv, or name one with --base PYTHON")
    if in_container(environ):
        name = container_name(environ)
        return Found(python, CONTAINER, name, "", f"start the container {name}" if name else "start its container")
    if environ.get("PYTHONPATH") or environ.get("PYTHONUSERBASE"):
        return Found(python, ENVIRONMENT, python, "", "load the modules that this was made with")
    return Found(python, PLAIN, python)


def _carries_torch(environment: str) -> bool:
    return any(Path(environment).glob("lib/python3*/site-packages/torch-*.dist-info"))


def _python_on_path(environ: Mapping[str, str]) -> str | None:
    active = environ.get("VIRTUAL_ENV", "")
    if active and in_container(environ) and _carries_torch(active):
        active = ""  # the image's own packages lie in an environment, which it activates
    skipped = {os.path.realpath(os.path.join(active, "bin"))} if active else set()
    if sys.prefix != sys.base_prefix:
        skipped.add(os.path.realpath(os.path.join(sys.prefix, "bin")))
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    usable = os.pathsep.join(folder for folder in folders if folder and os.path.realpath(folder) not in skipped)
    found = shutil.which("python3", path=usable) or shutil.which("python", path=usable)
    fallback: str | None = getattr(sys, "_base_executable", None) or sys.executable or None
    path = found or fallback
    return os.path.abspath(path) if path else None
