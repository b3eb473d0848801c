"""Finds and reads the base of an overlay.

The base is a loaded uenv view, a container's Python, a named Python or the Python on PATH.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, NoAnswer, ToolFailed, ToolMissing
from uenvtool.core.files import read_bytes
from uenvtool.core.session import STARTED_BY, LoadedView, container_name, in_container, loaded_views
from uenvtool.core.words import canonical, counted, is_within
from uenvtool.venv.request import VenvRequest

UENV, CONTAINER, NAMED, ENVIRONMENT, PLAIN = "uenv", "container", "named", "environment", "plain"
MAX_CONFIG = 1_000_000
RECORD_FOLDER = ".uenvtool"
"""The directory with uenvtool's records in an overlay; a virtual environment without it is not an overlay."""
PYTHONS = ("python3", "python")
LABEL = "UENVTOOL_UENV"
"""The variable that `--uenv IMAGE` sets for the command that it starts inside the uenv."""
_STORED = re.compile(r"/images/([0-9a-f]{64})/store\.squashfs\Z")
"""The path of an image in a repository of the uenv client (observed with uenv 9.2)."""
VARIABLE = re.compile(r"\$\{(\w+)\}")
OPTIONS = ("--uenv", "--view")
"""The options that start the command again inside a uenv; the command inside does not get them."""
MARKER = "uenvtool-probe:"
OLDEST = (3, 10)
MAX_RECORD = 50_000_000
METADATA_SUFFIXES = (".dist-info", ".egg-info")


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundBase:
    """A Python that can be the base of an overlay.

    python: its path as the user calls it. kind: one of UENV, CONTAINER, NAMED, ENVIRONMENT and PLAIN. load: the command
    that loads the base. root: the directory of a view. mounts: the mount points of all loaded uenvs. image, view: the
    arguments with which the uenv client loads the base. In a container, image is the container's name. in_container:
    whether the Python exists only in a container.
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
    """Return the base: `python` if it is given, or else the loaded uenv view, this container or the Python on PATH.

    Raises BadInput if `python` is not a program or if no Python is found.
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
    """Return, as a plain base, the first Python on PATH outside uenvtool's own and any active environment.

    Raises BadInput if no Python is found.
    """
    active = environ.get("VIRTUAL_ENV", "")
    if in_container(environ) and any(Path(active).glob("lib/python3*/site-packages/torch-*.dist-info")):
        active = ""  # the image activates the environment that contains its own packages
    own_environment = sys.prefix if sys.prefix != sys.base_prefix else ""
    skipped = {os.path.realpath(os.path.join(prefix, "bin")) for prefix in (active, own_environment) if prefix}
    directories = environ.get("PATH", os.defpath).split(os.pathsep)
    search_path = os.pathsep.join(
        directory for directory in directories if directory and os.path.realpath(directory) not in skipped
    )
    program = next(filter(None, (shutil.which(name, path=search_path) for name in PYTHONS)), None)
    python = program or getattr(sys, "_base_executable", None) or sys.executable
    if not python:
        raise BadInput("no Python was found for an overlay", hint="load a uenv, or specify a Python with --base PYTHON")
    return _of_python(os.path.abspath(python), PLAIN, environ)


def loading_command(base: Mapping[str, Any], mounted: str) -> list[str]:
    """Return the arguments that start a command on a base, or an empty list if the record does not name the image.

    The uenv client loads a uenv, and Apptainer starts a container. base: the base in an overlay's record. mounted: the
    overlay's directory, which Apptainer must mount.
    """
    image = str(base.get("image") or "")
    if base.get("kind") == UENV and image:
        return ["uenv", "run", image, f"--view={base.get('view')}", "--"]
    if base.get("in_container") and image:
        return ["apptainer", "exec", "--nv", "-B", mounted, image if image.startswith("/") else f"docker://{image}"]
    return []


def is_loaded(base: Mapping[str, Any]) -> str:
    """Return a bash test that succeeds if the base is loaded or cannot be loaded, such as inside another uenv."""
    uenv = base.get("kind") == UENV
    return "[[ ${UENV_MOUNT_LIST-}${UENV_VIEW-} ]]" if uenv else "! command -v apptainer >/dev/null"


def _load_on_host(python: str, environ: Mapping[str, str]) -> str:
    from uenvtool.knowledge.runtime import all_runtimes

    exported = bool(environ.get("PYTHONPATH") or environ.get("PYTHONUSERBASE"))
    bare = ("/usr", "/bin", environ.get("HOME") or "/usr")
    for runtime in all_runtimes():
        loading = runtime.base
        if loading is None or not any(environ.get(sign.env) for sign in runtime.signs):
            continue
        if loading.below:
            is_placed = is_within(python, environ.get(loading.below, ""))
        else:
            is_placed = not any(is_within(python, directory) for directory in bare)
        has_package = not loading.has or any(
            Path(python).parents[1].glob(f"lib/python3*/site-packages/{loading.has}-*-info")
        )
        if (is_placed and has_package) or (exported and not loading.below):
            load = VARIABLE.sub(lambda name: environ.get(name[1], "").replace(":", " "), loading.load)
            return shlex.join(load.split())
    return "load the modules that were loaded when the overlay was made" if exported else ""


def _named_python(python: str, environ: Mapping[str, str]) -> str:
    expanded = os.path.expanduser(python)
    path = expanded if os.sep in expanded else shutil.which(expanded, path=environ.get("PATH")) or expanded
    if path and os.path.isdir(path):
        candidates = [os.path.join(path, "bin", name) for name in PYTHONS]
        path = next((program for program in candidates if os.access(program, os.X_OK)), path)
    if not path or not os.path.isfile(path) or not os.access(path, os.X_OK):
        hint = "name a Python program that has torch, or the directory of its environment"
        raise BadInput(f"--base: program not found: '{python}'", hint=hint)
    return os.path.abspath(path)


def _of_python(python: str, kind: str, environ: Mapping[str, str]) -> FoundBase:
    inside = in_container(environ)
    image = container_name(environ) if inside else ""
    return FoundBase(python=python, kind=kind, name=python, image=image, in_container=inside)


def _of_view(view: LoadedView, python: str, views: tuple[LoadedView, ...], environ: Mapping[str, str]) -> FoundBase:
    # UENV_VIEW contains the name in the image's metadata, which `uenv start` may not know.
    option = environ.get(LABEL, "")
    resolved = label(view.image, environ, option)
    is_complete = resolved.startswith(f"{option}@") or "," in option  # otherwise a later image can make it ambiguous
    image = (option if is_complete else resolved) or option or view.image or view.uenv
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


def label(image: str, environ: Mapping[str, str], option: str = "") -> str:
    """Return an image's name and tag in the uenv client's repository, or "" if the image is not in the repository.

    option: the value of --uenv. If the image has several names, a name that begins with this value is preferred.
    """
    digest = _STORED.search(image)
    client = shutil.which("uenv", path=environ.get("PATH"))
    if digest is None or client is None:
        return ""
    try:
        completed = processes.ask([client, "image", "ls", "--json"], env=environ)
        records = json.loads(completed.stdout)["records"] if completed.code == 0 else []
        names = [
            "{name}/{version}:{tag}@{system}%{uarch}".format(**record)
            for record in records
            if record["digest"] == digest[1]
        ]
    except (NoAnswer, ValueError, KeyError, TypeError):
        return ""  # another version of the client prints another format; the path still works
    return next((name for name in names if re.match(rf"{re.escape(option)}(?![^/:@%])", name)), "".join(names[:1]))


def is_overlay(root: str | Path) -> bool:
    """Return whether an environment or view is an overlay of uenvtool, which cannot be a base itself."""
    try:
        return b"uenvtool-base" in read_bytes(Path(root, "pyvenv.cfg"), MAX_CONFIG)
    except (FileNotFoundError, BadInput):
        return False


def names_base(request: VenvRequest, environ: Mapping[str, str]) -> bool:
    """Return whether a request names a base. Inside the uenv of --uenv, only LABEL tells that the option was given."""
    return bool(request.base or request.no_base or request.uenv or environ.get(LABEL))


def on_named_base(request: VenvRequest, environ: Mapping[str, str]) -> None:
    """Replace this process with the same command inside the uenv of --uenv. Without --uenv, do nothing.

    Raises ToolMissing if the uenv client is not on PATH.
    """
    image = request.uenv
    if image is None:
        return
    client = shutil.which("uenv", path=environ.get("PATH"))
    if client is None:
        hint = "run the command on a machine with uenv, start it in a container, or specify a Python with --base PYTHON"
        raise ToolMissing(f"--uenv {image}: the program uenv is not on PATH", hint=hint)
    image = os.path.abspath(image) if os.path.isfile(image) else image
    arguments = ["run", image, f"--view={request.view}", "--"]
    variables = {LABEL: image, STARTED_BY: shlex.join(["uenv", *arguments])}
    processes.become([client, *arguments, *this_command(sys.argv)], {**environ, **variables})


def this_command(arguments: Sequence[str]) -> list[str]:
    """Return the command line of this process without --uenv and --view."""
    program = ["-m", "uenvtool"] if os.path.basename(arguments[0]) == "__main__.py" else [arguments[0]]
    kept: list[str] = []
    rest = iter(arguments[1:])
    for argument in rest:
        if argument == "--":
            kept += [argument, *rest]
        elif argument in OPTIONS:
            next(rest, None)
        elif not argument.startswith(tuple(f"{name}=" for name in OPTIONS)):
            kept.append(argument)
    return [sys.executable, "-E", *program, *kept]  # -E: PYTHONPATH in the uenv is for the uenv's Python


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """An installed distribution, with its name spelled as in its metadata.

    folder: the package directory that contains it. requires: the Requires-Dist lines. metadata: the path of its
    dist-info directory. extras, scripts (command -> module:function): filled only for the distributions of a base.
    """

    name: str
    version: str
    folder: str
    requires: Sequence[str] = ()
    extras: Sequence[str] = ()
    scripts: Mapping[str, str] | None = None
    metadata: str = ""

    @property
    def key(self) -> str:
        return canonical(self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """The Python that an overlay is made on, with its packages.

    homes: candidates for `home` in pyvenv.cfg, best first. folders: the package directories in the order of the base's
    sys.path. sites: the package directories in which the base's Python processes .pth files. packages: the
    distributions by normalized name.
    """

    found_base: FoundBase
    version: str
    platform: str
    stdlib: str
    base_executable: str
    homes: tuple[str, ...]
    folders: tuple[str, ...]
    sites: tuple[str, ...]
    packages: Mapping[str, Distribution]

    @property
    def python(self) -> str:
        return self.found_base.python

    @property
    def minor(self) -> str:
        """Return the Python version that compiled packages must match, for example 3.12."""
        return ".".join(self.version.split(".")[:2])

    @property
    def is_plain(self) -> bool:
        """Return whether the base is only an interpreter, so that the overlay does not use its packages."""
        return self.found_base.kind == PLAIN

    @property
    def mount(self) -> str:
        """Return the mount point of the base's uenv, or an empty string for other bases."""
        return next((mount for mount in self.found_base.mounts if self.found_base.root.startswith(f"{mount}/")), "")

    def fingerprint(self) -> str:
        """Return a hash of the base's packages, Python and directories, independent of the uenv's mount point."""
        directories = [directory.removeprefix(self.mount) for directory in self.folders]
        lines = [f"python {self.version} {self.platform}", *(f"folder {directory}" for directory in directories)]
        lines += sorted(f"{package.key}=={package.version}" for package in self.packages.values())
        return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()

    def described(self) -> str:
        name = named(self.found_base.kind, self.found_base.name, self.python)
        return f"{name} (Python {self.version}, {counted(len(self.packages), 'package')})"


def named(kind: str, name: str, python: str) -> str:
    """Return a phrase that names a base in a message. A container may have no name."""
    kinds = {
        UENV: f"the uenv {name}",
        CONTAINER: f"the container {name}" if name else f"{python} of a container",
        NAMED: python,
        PLAIN: f"{python} without a base",
    }
    return kinds.get(kind, f"the environment of {python}")


def site_packages(version: str) -> str:
    """Return the site-packages directory of a Python version, relative to the prefix or environment."""
    return f"lib/python{'.'.join(version.split('.')[:2])}/site-packages"


def script_path(name: str) -> Path:
    """Return the path of a script in scripts/, which another Python or a shell runs."""
    return Path(__file__).parent / "scripts" / name


def listing(directories: Sequence[str]) -> str:
    """Return a checksum of the distributions' names; hook.py computes the same checksum at each start of Python."""
    names = [
        sorted(name for name in os.listdir(directory) if name.endswith(METADATA_SUFFIXES)) for directory in directories
    ]
    return f"{zlib.crc32(repr(names).encode('utf-8', 'surrogateescape')):08x}"


def read_base(found_base: FoundBase, environ: Mapping[str, str]) -> Base:
    """Run the base's Python, which must be CPython 3.10 or newer, and return its version, directories and packages."""
    data = _probed(found_base, environ)
    view_site = os.path.join(found_base.root, site_packages(data["version"]))
    if found_base.root and view_site not in data["folders"] and os.path.isdir(view_site):  # its variables were unset
        exported = os.pathsep.join(filter(None, [view_site, environ.get("PYTHONPATH")]))
        data = _probed(found_base, {**environ, "PYTHONPATH": exported})
    version = str(data["version"])
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        raise BadInput(f"{found_base.python} is Python {version}", hint="use a base with Python 3.10 or newer")
    if data["implementation"] != "cpython":
        raise BadInput(f"{found_base.python} is {data['implementation']}", hint="use a base whose Python is CPython")
    directories = () if found_base.kind == PLAIN else tuple(_base_directories(data, found_base, environ))
    homes = tuple(_homes(data))
    for path in (*directories, *homes):
        if set(path) & {"\n", "\r", os.pathsep}:
            raise BadInput(f"pyvenv.cfg cannot contain the base's directory {path!r}", hint="use another base")
    packages = (Distribution(**item) for item in data["distributions"] if item["folder"] in directories)
    return Base(
        found_base=found_base,
        version=version,
        platform=data["platform"],
        stdlib=data["stdlib"],
        base_executable=data["base_executable"],
        homes=homes,
        folders=directories,
        sites=tuple(path for path in data["sites"] if path in directories),
        packages={package.key: package for package in packages},
    )


def installed(site: Path) -> dict[str, Distribution]:
    """Return the distributions of a site-packages directory by normalized name, without running any code."""
    from importlib import metadata

    distributions: dict[str, Distribution] = {}
    for item in metadata.distributions(path=[str(site)]):
        name = item.metadata["Name"]
        if name:
            distribution = Distribution(
                name=name,
                version=item.version,
                folder=str(site),
                requires=tuple(item.requires or ()),
                metadata=str(getattr(item, "_path", "")),
            )
            distributions.setdefault(distribution.key, distribution)
    return distributions


def record_checksum(content: bytes) -> str:
    """Return the checksum of a file as RECORD contains it."""
    return f"sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()}"


def record_rows(metadata: str) -> list[list[str]]:
    """Return the rows of the RECORD in a dist-info directory: the path of a file, its checksum and its size.

    Without a readable RECORD, the list is empty.
    """
    try:
        text = read_bytes(Path(metadata, "RECORD"), MAX_RECORD).decode("utf-8", "surrogateescape")
    except (FileNotFoundError, BadInput):
        return []
    return [row for row in csv.reader(text.splitlines()) if row and row[0]]


def probe(python: str, env: Mapping[str, str], *arguments: str) -> tuple[dict[str, Any] | None, processes.Completed]:
    """Return probe.py's data, or None if it printed none, and its process. Raises ToolFailed if Python cannot start."""
    env = {**env, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
    completed = processes.run([python, script_path("probe.py"), *arguments], env=env)
    return marked(completed), completed


def marked(completed: processes.Completed) -> Any:
    """Return the JSON value that a script in scripts/ printed after MARKER, or None if it printed no marker."""
    lines = (line for line in completed.stdout.splitlines() if line.startswith(MARKER))
    return next((json.loads(line.removeprefix(MARKER)) for line in lines), None)


def _probed(found_base: FoundBase, environ: Mapping[str, str]) -> dict[str, Any]:
    plain = ("PYTHONPATH",) if found_base.kind == PLAIN else ()
    left_out = ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONSAFEPATH", *plain)
    env = {name: value for name, value in environ.items() if name not in left_out}
    if not environ.get("PYTHONUSERBASE"):
        env["PYTHONNOUSERSITE"] = "1"  # the user's ~/.local is not part of a base
    data, completed = probe(found_base.python, env)
    if data is not None:
        return data
    hint = "name another Python with --base PYTHON"
    if completed.code == 0:
        raise BadInput(f"{found_base.python} is not a Python interpreter", hint=hint)
    raise ToolFailed(f"{found_base.python} does not work as a Python interpreter: {completed.reason}", hint=hint)


def _base_directories(data: Mapping[str, Any], found_base: FoundBase, environ: Mapping[str, str]) -> Iterator[str]:
    active = os.path.abspath(environ["VIRTUAL_ENV"]) if environ.get("VIRTUAL_ENV") else ""
    other = active + os.sep if active and active != data["prefix"] else None
    holding = {item["folder"] for item in data["distributions"]}
    exported = {os.path.abspath(path) for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path}
    for directory in data["folders"]:
        if other and directory.startswith(other):
            continue  # belongs to another environment, which is active
        # A directory of PYTHONPATH belongs to a loaded uenv if it is below a mount point. Without a uenv, it belongs to
        # the base if it contains distributions. The user's directories come after the base on sys.path.
        in_mounts = any(directory.startswith(mount + "/") for mount in found_base.mounts)
        in_base = in_mounts if found_base.mounts else directory in holding
        if directory not in exported or directory in data["sites"] or in_base:
            yield directory


def _homes(data: Mapping[str, Any]) -> Iterator[str]:
    # A view keeps its path when the image is rebuilt, but an installation prefix contains a hash. In an environment,
    # Python 3.10 reports the directory of the environment, so only the real prefix can be `home`.
    called = os.path.dirname(data["base_executable"])
    real = os.path.join(data["base_exec_prefix"], "bin")
    inside = os.path.join(data["prefix"], "bin")
    yield from dict.fromkeys([called, real] if called != inside or data["prefix"] == data["base_prefix"] else [real])
