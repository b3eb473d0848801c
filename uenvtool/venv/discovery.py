"""Finds what an overlay may lie on here: a loaded uenv view, a container's Python, or none of both."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, ToolMissing
from uenvtool.core.files import read_bytes
from uenvtool.core.session import STARTED_BY, LoadedView, container_name, in_container, loaded_views
from uenvtool.core.words import is_within
from uenvtool.venv.request import VenvRequest

UENV, CONTAINER, NAMED, ENVIRONMENT, PLAIN = "uenv", "container", "named", "environment", "plain"
MAX_CONFIG = 1_000_000
RECORD_FOLDER = ".uenvtool"
"""The folder in an overlay that shows that it is one of this tool's, with its records."""
PYTHONS = ("python3", "python")
LABEL = "UENVTOOL_UENV"
"""Set by `--uenv IMAGE` for the command that it starts inside the uenv."""
_STORED = re.compile(r"/images/([0-9a-f]{64})/store\.squashfs\Z")
VARIABLE = re.compile(r"\$\{(\w+)\}")
OPTIONS = ("--uenv", "--view")
"""The options that say where the command is run again; it does not have them there."""
_LABEL_FORM = "{name}/{version}:{tag}@{system}%{uarch}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundBase:
    """A Python to lie on: its path as a user calls it, what kind of base it is, and how to load it.

    root: a view's folder. mounts: of all loaded uenvs. image, view: what the uenv client is given to load it; in a
    container, image is the container's name. in_container: it is there in a container alone.
    """

    python: str
    kind: str
    name: str
    root: str = ""
    load: str = ""
    mounts: tuple[str, ...] = ()
    image: str = ""
    view: str = ""
    in_container: bool = False


def find(python: str | None, environ: Mapping[str, str]) -> FoundBase:
    """Find the base: `python` if it is named, else the loaded uenv view, else this container or Python.

    Raises BadInput if `python` is not a program, or if no Python is found at all.
    """
    views = loaded_views(environ)
    if python is not None:
        path = _named_python(python, environ)
        of_path = next((view for view in views if path.startswith(view.mount + "/")), None)
        return _of_view(of_path, path, views, environ) if of_path else _of_python(path, NAMED, environ)
    for view in views:
        programs = [os.path.join(view.root, "bin", name) for name in PYTHONS]
        program = next((path for path in programs if os.access(path, os.X_OK)), None)
        if program and not is_overlay(view.root):
            return _of_view(view, program, views, environ)
    plain = plain_python(environ)
    if plain.in_container:
        load = f"start the container {plain.image}" if plain.image else "start its container"
        return replace(plain, kind=CONTAINER, name=plain.image, load=load)
    load = _load_on_host(plain.python, environ)
    return replace(plain, kind=ENVIRONMENT, load=load) if load else plain


def plain_python(environ: Mapping[str, str]) -> FoundBase:
    """Find the Python on PATH as a bare interpreter, whatever is loaded; not this tool's, nor an activated one.

    Raises BadInput if there is none.
    """
    active = environ.get("VIRTUAL_ENV", "")
    if in_container(environ) and any(Path(active).glob("lib/python3*/site-packages/torch-*.dist-info")):
        active = ""  # the image's own packages lie in an environment, which it activates
    own = sys.prefix if sys.prefix != sys.base_prefix else ""
    skipped = {os.path.realpath(os.path.join(prefix, "bin")) for prefix in (active, own) if prefix}
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    search_path = os.pathsep.join(folder for folder in folders if folder and os.path.realpath(folder) not in skipped)
    found = next(filter(None, (shutil.which(name, path=search_path) for name in PYTHONS)), None)
    python = found or getattr(sys, "_base_executable", None) or sys.executable
    if not python:
        raise BadInput("no Python is here to make an overlay on", hint="load a uenv, or name one with --base PYTHON")
    return _of_python(os.path.abspath(python), PLAIN, environ)


def loading_words(base: Mapping[str, Any], overlay: str) -> list[str]:
    """Return the words that load a base for a command, by what a record says of it; none if nobody knows.

    A uenv is loaded by its client, a container by Apptainer, which has to be told what it sees. overlay: its folder.
    """
    image = str(base.get("image") or "")
    if base.get("kind") == UENV and image:
        return ["uenv", "run", image, f"--view={base.get('view')}", "--"]
    if base.get("in_container") and image:
        return ["apptainer", "exec", "--nv", "-B", overlay, image if image.startswith("/") else f"docker://{image}"]
    return []


def is_loaded(base: Mapping[str, Any]) -> str:
    """Return the test of bash for a place where a base is loaded, or nothing can load it: no uenv starts in another."""
    uenv = base.get("kind") == UENV
    return "[[ ${UENV_MOUNT_LIST-}${UENV_VIEW-} ]]" if uenv else "! command -v apptainer >/dev/null"


def _load_on_host(python: str, environ: Mapping[str, str]) -> str:
    """Return how a Python on PATH is loaded that the host's modules or conda put there; empty for a bare one."""
    from uenvtool.knowledge.runtime import all_runtimes

    exported = bool(environ.get("PYTHONPATH") or environ.get("PYTHONUSERBASE"))
    for runtime in all_runtimes():
        use = runtime.base
        if use is None or not any(environ.get(sign.env) for sign in runtime.signs):
            continue
        bare = ("/usr", "/bin", environ.get("HOME") or "/usr")
        is_there = _is_below(python, environ.get(use.below, "")) if use.below else not _is_below(python, *bare)
        has_it = not use.has or any(Path(python).parents[1].glob(f"lib/python3*/site-packages/{use.has}-*-info"))
        if (is_there and has_it) or (exported and not use.below):
            words = VARIABLE.sub(lambda name: environ.get(name[1], "").replace(":", " "), use.load).split()
            return shlex.join(words)
    return "load the modules that this was made with" if exported else ""


def _is_below(path: str, *folders: str) -> bool:
    return any(is_within(path, folder) for folder in folders)


def _named_python(python: str, environ: Mapping[str, str]) -> str:
    expanded = os.path.expanduser(python)
    path = expanded if os.sep in expanded else shutil.which(expanded, path=environ.get("PATH")) or expanded
    if path and os.path.isdir(path):
        inside = [os.path.join(path, "bin", name) for name in PYTHONS]
        path = next((program for program in inside if os.access(program, os.X_OK)), path)
    if not path or not os.path.isfile(path) or not os.access(path, os.X_OK):
        hint = "name a Python that has torch: its program, or the folder of its environment"
        raise BadInput(f"--base {python}: no such program", hint=hint)
    return os.path.abspath(path)


def _of_python(python: str, kind: str, environ: Mapping[str, str]) -> FoundBase:
    inside = in_container(environ)
    image = container_name(environ) if inside else ""
    return FoundBase(python=python, kind=kind, name=python, image=image, in_container=inside)


def _of_view(view: LoadedView, python: str, views: tuple[LoadedView, ...], environ: Mapping[str, str]) -> FoundBase:
    """Take a view as a base. Its image is named as `--uenv` was, else by its label, else by the file that is mounted.

    The name in UENV_VIEW is the image's own and not its label, so that `uenv start` may not know it.
    """
    image = environ.get(LABEL) or label(view.image, environ) or view.image or view.uenv
    return FoundBase(
        python=python,
        kind=UENV,
        name=view.uenv,
        root=view.root,
        load=f"uenv start {shlex.quote(image)} --view={shlex.quote(view.name)}",
        mounts=tuple(dict.fromkeys(each_view.mount for each_view in views)),
        image=image,
        view=view.name,
    )


def label(image: str, environ: Mapping[str, str]) -> str:
    """Return the label of an image in the uenv client's repository; empty if the client does not know it.

    A repository holds an image as images/SHA256/store.squashfs (uenv 9.2, seen there).
    """
    digest = _STORED.search(image)
    client = shutil.which("uenv", path=environ.get("PATH"))
    if digest is None or client is None:
        return ""
    completed = processes.run([client, "image", "ls", "--json"], env=environ)
    try:
        records = json.loads(completed.stdout)["records"] if completed.code == 0 else []
        names = [_LABEL_FORM.format(**record) for record in records if record["digest"] == digest[1]]
    except (ValueError, KeyError, TypeError):
        return ""  # another form of another version: the path still works
    return names[0] if names else ""


def is_overlay(root: str | Path) -> bool:
    """Tell if an environment, or a view, is an overlay of this tool's: it lies on a base, and is none itself."""
    try:
        return b"uenvtool-base" in read_bytes(Path(root, "pyvenv.cfg"), MAX_CONFIG)
    except (FileNotFoundError, BadInput):
        return False


def on_named_base(request: VenvRequest, environ: Mapping[str, str]) -> None:
    """Become this command in the uenv that is named; nothing if none is.

    Raises ToolMissing if no program is here that starts it.
    """
    if request.uenv is not None:
        _in_uenv(request.uenv, request.view, environ)


def _in_uenv(image: str, view: str, environ: Mapping[str, str]) -> NoReturn:
    client = shutil.which("uenv", path=environ.get("PATH"))
    if client is None:
        hint = "run it where uenv is, or start in a container, or name a Python with --base PYTHON"
        raise ToolMissing(f"--uenv {image}: the uenv client is not here", hint=hint)
    image = os.path.abspath(image) if os.path.isfile(image) else image
    words = ["run", image, f"--view={view}", "--"]
    more = {LABEL: image, STARTED_BY: shlex.join(["uenv", *words])}
    processes.become([client, *words, *this_command(sys.argv)], {**environ, **more})


def this_command(words: Sequence[str]) -> list[str]:
    """Return the command line of this process without what is about the uenv.

    -E: inside of it, PYTHONPATH may name packages that are for another Python than this tool's.
    """
    program = ["-m", "uenvtool"] if os.path.basename(words[0]) == "__main__.py" else [words[0]]
    left: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if word == "--":
            left += [word, *rest]
        elif word in OPTIONS:
            next(rest, None)
        elif not word.startswith(tuple(f"{name}=" for name in OPTIONS)):
            left.append(word)
    return [sys.executable, "-E", *program, *left]
