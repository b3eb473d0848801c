"""`uenvtool doctor --stack`: the network and GPU libraries that torch and MPI use in this shell, and the reasons."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from uenvtool.core.elf import needs_of
from uenvtool.core.result import Result, Table
from uenvtool.core.session import in_container, loaded_views
from uenvtool.doctor.libraries import default_directories, driver_cuda, found_in, search_path
from uenvtool.venv.health import PythonHere, python_here

STACK = {
    "NCCL": ("libnccl.so.*", "torch"),
    "NCCL plugin": ("libnccl-net*.so*", ""),
    "libfabric": ("libfabric.so.*", "NCCL plugin"),
    "libcxi": ("libcxi.so.*", "libfabric"),
    "MPI": ("libmpi*.so.*", "torch"),
    "CUDA runtime": ("libcudart.so.*", "torch"),
    "CUDA driver": ("libcuda.so.*", ""),
}
"""The libraries, each with the pattern of its file names, and the library or package that loads it."""
WHEELS = {"NCCL": "nvidia-nccl", "CUDA runtime": "nvidia-cuda-runtime"}
"""The starts of the names of the wheels that contain a library."""
OF_TORCH = ("torch/lib/libtorch_cuda.so", "torch/lib/libtorch_hip.so", "torch/lib/libtorch_cpu.so", "mpi4py/MPI*.so")
_IN_NAME = re.compile(r"\.so\.(\d+\.\d[\d.]*)\Z")
_IN_PATH = re.compile(r"[/-]v?(\d+\.\d[\d.]*)(?=[/-])")
_BUILT_WITH = re.compile(r"^cuda\b[^=\n]*= *['\"]([\d.]+)", re.MULTILINE)
_REQUIRED = re.compile(r"^Requires-Dist: nvidia-nccl-cu\d+ *\(?== *([\d.]+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """A library that exists. built_against: the version that torch was built with, or the name that its user needs.

    why: the reason for which the loader uses it, or for which it does not.
    """

    library: str
    version: str
    origin: str
    built_against: str
    why: str
    path: str


def stack(environ: Mapping[str, str]) -> Result:
    """Return the libraries of this shell as a table. The first one of each kind is the one that is used."""
    python, _ = python_here(environ, read_libraries=False)
    found = list(_libraries(environ, python))
    names = [each.name for each in fields(Library)]
    rows = [[str(getattr(each, name)) for name in names] for each in found]
    headings = tuple(name.replace("_", " ") for name in names)
    data = [dict(zip(names, row, strict=True)) for row in rows]
    missing = [name for name in STACK if name not in {each.library for each in found}]
    notes = (f"not found: {', '.join(missing)}",) if missing else ()
    return Result(data=data, tables=(Table(headings=headings, rows=rows),) if rows else (), notes=notes)


def _libraries(environ: Mapping[str, str], python: PythonHere | None) -> Iterator[Library]:
    named, _ = search_path(environ)
    views = [os.path.join(view.root, name) for view in loaded_views(environ) for name in ("lib", "lib64")]
    directories = {
        **dict.fromkeys(default_directories(), "default directory of the loader"),
        **dict.fromkeys(views, "view of the uenv"),
        **dict.fromkeys(named, "LD_LIBRARY_PATH"),
    }
    ordered = list(dict.fromkeys([*named, *views, *directories]))
    folders = python.folders if python else ()
    used: dict[str, str] = {}
    for name, (pattern, user) in STACK.items():
        users = _files(folders, OF_TORCH) if user == "torch" else [used[user]] if user in used else []
        wheels = _files(folders, (f"nvidia/*/lib/{pattern}", f"torch/lib/{pattern}"))
        others = [*found_in(ordered, pattern), *wheels]
        winner, built_against, why = _winner(users, pattern, ordered, directories, environ)
        if not winner and others and user != "torch":
            winner, why = others[0], directories.get(os.path.dirname(others[0]), "")
        used |= {name: winner} if winner else {}
        seen = set()
        for path in filter(None, [winner, *others]):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                is_used = path == winner
                yield Library(
                    library=name,
                    version=_version(real, path) or _of_wheel(name, path, python),
                    origin=_origin(path, folders, environ),
                    built_against=_built_against(name, folders) or built_against if is_used else "",
                    why=why if is_used else "not used",
                    path=path,
                )


def _winner(
    users: Sequence[str], pattern: str, ordered: Sequence[str], kinds: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[str, str, str]:
    """Return the file that the loader uses for the first user of a library, the name that it needs, and the reason."""
    stem = pattern.partition("*")[0].removesuffix(".so.")
    for path in environ.get("LD_PRELOAD", "").replace(":", " ").split():
        if os.path.basename(path).startswith(stem):
            return path, "", "LD_PRELOAD"
    for user in users:
        needed = needs_of(user)
        own = [folder.replace("$ORIGIN", os.path.dirname(os.path.realpath(user))) for folder in needed.folders]
        own_kinds = dict.fromkeys(own, f"{'RUNPATH' if needed.is_late else 'RPATH'} of {os.path.basename(user)}")
        late = [folder for folder in ordered if kinds[folder] != "LD_LIBRARY_PATH"]
        early = [folder for folder in ordered if folder not in late]
        for name in (name for name in needed.libraries if name.startswith(stem)):
            for folder in [*early, *own, *late] if needed.is_late else [*own, *early, *late]:
                if os.path.exists(path := os.path.join(folder, name)):
                    return os.path.normpath(path), name, own_kinds.get(folder) or kinds[folder]
    return "", "", ""


def _files(folders: Sequence[str], patterns: Sequence[str]) -> list[str]:
    return [path for folder in folders for pattern in patterns for path in sorted(glob.glob(f"{folder}/{pattern}"))]


def _version(real: str, path: str) -> str:
    match = _IN_PATH.search(real) or _IN_PATH.search(path) or _IN_NAME.search(real)
    return match[1] if match else ""


def _of_wheel(name: str, path: str, python: PythonHere | None) -> str:
    start = WHEELS.get(name, "-")
    packages = python.packages if python else ()
    wheels = (each for each in packages if each.name.startswith(start) and path.startswith(f"{each.folder}/"))
    return next((each.version for each in wheels), "")


def _origin(path: str, folders: Sequence[str], environ: Mapping[str, str]) -> str:
    if any(path.startswith(f"{folder}/") for folder in folders if folder.endswith(("site-packages", "dist-packages"))):
        return "wheel"
    if any(path.startswith(f"{view.root}/") for view in loaded_views(environ)):
        return "uenv"
    return "container" if in_container(environ) else "host"


def _built_against(name: str, folders: Sequence[str]) -> str:
    if name == "CUDA driver":
        return f"supports CUDA {major}" if (major := driver_cuda()) else ""
    files = {"CUDA runtime": ("torch/version.py", _BUILT_WITH), "NCCL": ("torch-*.dist-info/METADATA", _REQUIRED)}
    pattern, expression = files.get(name, ("", _REQUIRED))
    for path in _files(folders, [pattern]) if pattern else ():
        if match := expression.search(Path(path).read_text(encoding="utf-8", errors="replace")):
            return match[1]
    return ""
