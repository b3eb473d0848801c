"""Reads the base of an overlay: its Python, its package directories in search order, and its distributions."""

from __future__ import annotations

import csv
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.files import read_bytes
from uenvtool.core.words import canonical, counted
from uenvtool.venv.discovery import CONTAINER, NAMED, PLAIN, UENV, FoundBase

MARKER = "uenvtool-probe:"
OLDEST = (3, 10)
MAX_RECORD = 50_000_000
METADATA_SUFFIXES = (".dist-info", ".egg-info")


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
        import hashlib

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
