"""Reads the base of an overlay: its Python, its package folders in their order, and its distributions."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.words import canonical, counted
from uenvtool.venv.discovery import CONTAINER, NAMED, PLAIN, UENV, FoundBase

MARKER = "uenvtool-probe:"
OLDEST = (3, 10)
METADATA_SUFFIXES = (".dist-info", ".egg-info")


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """An installed distribution: its name as written, version, requirements and commands.

    requires: Requires-Dist texts. metadata: its dist-info folder. extras, scripts (command -> module:function): of a
    base's alone.
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
        """Return the name as resolvers compare it (PEP 503)."""
        return canonical(self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """What an overlay lies on.

    homes: folders that can be `home` in pyvenv.cfg, best first. folders: the package folders in the order of the
    base's sys.path; sites: those of them whose .pth files its Python runs. packages: by normalized name.
    """

    found: FoundBase
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
        """Return its Python as the user calls it."""
        return self.found.python

    @property
    def minor(self) -> str:
        """Return the Python version that decides about compiled packages, for example 3.12."""
        return ".".join(self.version.split(".")[:2])

    @property
    def is_plain(self) -> bool:
        """Tell if it is a bare interpreter."""
        return self.found.kind == PLAIN

    @property
    def mount(self) -> str:
        """Return where the uenv of the base is mounted; empty for other bases."""
        return next((mount for mount in self.found.mounts if self.found.root.startswith(f"{mount}/")), "")

    def fingerprint(self) -> str:
        """Sum up the packages, the Python and the folders of the base; the mount of a uenv does not change it."""
        import hashlib

        folders = [folder.removeprefix(self.mount) for folder in self.folders]
        lines = [f"python {self.version} {self.platform}", *(f"folder {folder}" for folder in folders)]
        lines += sorted(f"{package.key}=={package.version}" for package in self.packages.values())
        return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()

    def described(self) -> str:
        """Say what it is, for a sentence."""
        what = named(self.found.kind, self.found.name, self.python)
        return f"{what} (Python {self.version}, {counted(len(self.packages), 'package')})"


def named(kind: str, name: str, python: str) -> str:
    """Return the name of a base of some kind for a sentence: containers, and Pythons without a uenv, may have none."""
    kinds = {
        UENV: f"the uenv {name}",
        CONTAINER: f"the container {name}" if name else f"{python} of a container",
        NAMED: python,
        PLAIN: f"no base but {python}",
    }
    return kinds.get(kind, f"the environment of {python}")


def script_path(name: str) -> Path:
    """Return where a script lies that another Python is to run."""
    return Path(__file__).parent / "scripts" / name


def listing(folders: Sequence[str]) -> str:
    """Sum up which distributions lie in which folder, by their names alone: quick at every start.

    hook.py computes the same with the standard library alone.
    """
    names = [sorted(name for name in os.listdir(folder) if name.endswith(METADATA_SUFFIXES)) for folder in folders]
    return f"{zlib.crc32(repr(names).encode('utf-8', 'surrogateescape')):08x}"


def read_base(found: FoundBase, environ: Mapping[str, str]) -> Base:
    """Ask the base's Python once what it is and has.

    Raises BadInput if it is not a Python of 3.10 or newer, ToolFailed if it does not start.
    """
    data = _probed(found, environ)
    own = os.path.join(found.root, "lib", f"python{'.'.join(data['version'].split('.')[:2])}", "site-packages")
    if found.root and own not in data["folders"] and os.path.isdir(own):  # a view whose variables were unset
        exported = os.pathsep.join(filter(None, [own, environ.get("PYTHONPATH")]))
        data = _probed(found, {**environ, "PYTHONPATH": exported})
    version = str(data["version"])
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        raise BadInput(f"{found.python} is Python {version}", hint="an overlay needs Python 3.10 or newer")
    if data["implementation"] != "cpython":
        raise BadInput(f"{found.python} is {data['implementation']}", hint="an overlay needs CPython")
    folders = () if found.kind == PLAIN else tuple(_folders(data, found, environ))
    homes = tuple(_homes(data))
    for path in (*folders, *homes):
        if set(path) & {"\n", "\r", os.pathsep}:
            raise BadInput(f"the base's folder {path!r} cannot be written into pyvenv.cfg", hint="use another base")
    packages = (Distribution(**item) for item in data["distributions"] if item["folder"] in folders)
    return Base(
        found=found,
        version=version,
        platform=data["platform"],
        stdlib=data["stdlib"],
        base_executable=data["base_executable"],
        homes=homes,
        folders=folders,
        sites=tuple(path for path in data["sites"] if path in folders),
        packages={package.key: package for package in packages},
    )


def installed(site: Path) -> dict[str, Distribution]:
    """Read the distributions of a site-packages folder by normalized name, without running anything."""
    from importlib import metadata

    found: dict[str, Distribution] = {}
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
            found.setdefault(distribution.key, distribution)
    return found


def probe(python: str, env: Mapping[str, str], *arguments: str) -> tuple[dict[str, Any] | None, processes.Completed]:
    """Ask a Python with these variables what it is, None if it says nothing; and give what else it printed.

    arguments: those of probe.py. Raises ToolFailed if it cannot be started.
    """
    env = {**env, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
    completed = processes.run([python, script_path("probe.py"), *arguments], env=env)
    return marked(completed), completed


def marked(completed: processes.Completed) -> Any:
    """Return what a script of ours printed as JSON behind MARKER, among whatever else was printed; None if nothing."""
    lines = (line for line in completed.stdout.splitlines() if line.startswith(MARKER))
    return next((json.loads(line.removeprefix(MARKER)) for line in lines), None)


def _probed(found: FoundBase, environ: Mapping[str, str]) -> dict[str, Any]:
    """Probe it in the environment as the base's users have it; a private ~/.local is no part of a base."""
    plain = ("PYTHONPATH",) if found.kind == PLAIN else ()
    left_out = ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONSAFEPATH", *plain)
    env = {name: value for name, value in environ.items() if name not in left_out}
    if not environ.get("PYTHONUSERBASE"):
        env["PYTHONNOUSERSITE"] = "1"
    data, completed = probe(found.python, env)
    if data is not None:
        return data
    hint = "name another one with --base PYTHON"
    if completed.code == 0:
        raise BadInput(f"{found.python} is not a Python", hint=hint)
    raise ToolFailed(f"{found.python} does not work as a Python: {completed.reason}", hint=hint)


def _folders(data: Mapping[str, Any], found: FoundBase, environ: Mapping[str, str]) -> Iterator[str]:
    """List the folders of sys.path that belong to the base.

    With a uenv loaded, an entry of PYTHONPATH outside of its mounts is the user's own; elsewhere an
    entry is the base's if distributions lie in it. What is left out stays what it was: the rest,
    behind the base.
    """
    active = os.path.abspath(environ["VIRTUAL_ENV"]) if environ.get("VIRTUAL_ENV") else ""
    other = active + os.sep if active and active != data["prefix"] else None
    holding = {item["folder"] for item in data["distributions"]}
    exported = {os.path.abspath(path) for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path}
    for folder in data["folders"]:
        if other and folder.startswith(other):
            continue  # of another environment, which is activated
        in_mounts = any(folder.startswith(mount + "/") for mount in found.mounts)
        if folder not in exported or folder in data["sites"] or (in_mounts if found.mounts else folder in holding):
            yield folder


def _homes(data: Mapping[str, Any]) -> Iterator[str]:
    """List candidates for `home`: the interpreter as it was called, then the one in the real prefix.

    As called comes first: the path of a view stays the same when the image is built again, that of
    an installation prefix with a hash does not. An old Python inside an environment names its own
    folder there (3.10), so that a real prefix is tried then.
    """
    called = os.path.dirname(data["base_executable"])
    real = os.path.join(data["base_exec_prefix"], "bin")
    inside = os.path.join(data["prefix"], "bin")
    yield from dict.fromkeys([called, real] if called != inside or data["prefix"] == data["base_prefix"] else [real])
