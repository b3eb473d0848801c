"""`uenvtool doctor --stack`: the network and GPU libraries that torch and MPI use in this shell, and the reasons."""

from __future__ import annotations

import fnmatch
import functools
import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.core.elf import needs_of
from uenvtool.core.result import Result, Table
from uenvtool.core.session import in_container, loaded_views
from uenvtool.doctor.libraries import LIBRARY_PATH, default_directories, driver_cuda, found_in, resolved, search_path
from uenvtool.venv.health import PythonHere, python_here

TORCH = ("torch/lib/libtorch_cuda.so", "torch/lib/libtorch_hip.so", "torch/lib/libtorch_cpu.so", "mpi4py/MPI*.so")
STACK = {
    "NCCL": ("libnccl.so.*", "torch", "nvidia-nccl"),
    "NCCL plugin": ("libnccl-net*.so*", "", ""),
    "libfabric": ("libfabric.so.*", "NCCL plugin", ""),
    "libcxi": ("libcxi.so.*", "libfabric", ""),
    "MPI": ("libmpi*.so.*", "torch", ""),
    "CUDA runtime": ("libcudart.so.*", "torch", "nvidia-cuda-runtime"),
    "CUDA driver": ("libcuda.so.*", "", ""),
}
"""The libraries, each with the pattern of its files, the library or package that loads it, and the start of its wheel's
name."""
HEADINGS = ("library", "version", "origin", "built against", "why", "path")
BUILT = {
    "CUDA runtime": ("torch/version.py", re.compile(r"^cuda\b[^=\n]*= *['\"]([\d.]+)", re.MULTILINE)),
    "NCCL": (
        "torch-*.dist-info/METADATA",
        re.compile(r"^Requires-Dist: nvidia-nccl-\w+ *\(?== *([\d.]+)", re.MULTILINE),
    ),
}
"""The files that contain the version of a library with which torch was built."""
_ACCESSORY = re.compile(r"libmpi(?:_gtl_|fort|_?cxx|_mpifh|_usempi)")
"""Matches the libraries next to MPI's own: the GPU transport layer of Cray MPICH, and the interfaces of Fortran and
C++."""
_CHECKSUM = re.compile(r"-[0-9a-f]{8}(?=\.so)")
_VERSIONS = (re.compile(r"[/-]v?(\d+\.\d[\d.]*)(?=[/-])"), re.compile(r"\.so\.(\d+\.\d[\d.]*)\Z"))


def stack(environ: Mapping[str, str]) -> Result:
    """Return the libraries of this shell as a table. The first one of each kind is the one that is used."""
    python, _ = python_here(environ, read_libraries=False)
    rows = list(_rows(environ, python))
    data = [dict(zip((name.replace(" ", "_") for name in HEADINGS), row, strict=True)) for row in rows]
    missing = [name for name in STACK if name not in {row[0] for row in rows}]
    notes = (f"not found: {', '.join(missing)}",) if missing else ()
    return Result(data=data, tables=(Table(headings=HEADINGS, rows=rows),) if rows else (), notes=notes)


def _rows(environ: Mapping[str, str], python: PythonHere | None) -> Iterator[Sequence[str]]:
    views = [os.path.join(view.root, name) for view in loaded_views(environ) for name in ("lib", "lib64")]
    places = dict.fromkeys(search_path(environ)[0], LIBRARY_PATH)
    for view in views:
        places.setdefault(view, "view of the uenv")
    for folder in default_directories():
        places.setdefault(folder, "default directory of the loader")
    folders = python.folders if python else ()
    used: dict[str, str] = {}
    for name, (pattern, user, wheel) in STACK.items():
        users = _files(folders, TORCH) if user == "torch" else [used[user]] if user in used else []
        files = [*found_in(places, pattern), *_files(folders, (f"nvidia/*/lib/{pattern}", f"torch/lib/{pattern}"))]
        others = [path for path in files if _is_named(pattern, path)]
        winner, needed, why = _winner(users, pattern, places, environ)
        if not winner and others and user != "torch":
            winner, why = others[0], places.get(os.path.dirname(others[0]), "")
        used |= {name: winner} if winner else {}
        by_file: dict[str, str] = {}
        for path in filter(None, [winner, *others]):
            by_file.setdefault(os.path.realpath(path), path)
        for real, path in by_file.items():
            version = next((match[1] for form in _VERSIONS if (match := form.search(real))), "")
            for package in python.packages if python and wheel else ():
                if package.name.startswith(wheel) and path.startswith(f"{package.folder}/"):
                    version = package.version
            reason = (_built(name, folders) or needed, why) if path == winner else ("", "not used")
            yield name, version, _origin(path, folders, environ), *reason, path


def _winner(
    users: Sequence[str], pattern: str, places: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[str, str, str]:
    """Return the file that the loader uses for the first user of a library, the name that it needs, and the reason."""
    for word in filter(functools.partial(_is_named, pattern), environ.get("LD_PRELOAD", "").replace(":", " ").split()):
        paths = [word] if "/" in word else [os.path.join(folder, word) for folder in places]
        if path := next(filter(os.path.isfile, paths), ""):  # the loader ignores a file that does not exist
            return path, "", "LD_PRELOAD"
    for user in users:
        for name in (name for name in needs_of(user).libraries if _is_named(pattern, name)):
            path, why = resolved(user, name, places)
            if path:
                return os.path.normpath(path), name, why
    return "", "", ""


def _is_named(pattern: str, path: str) -> bool:
    """Return whether a path, or a name that a user needs, is of a library. Old wheels have a checksum in the name."""
    name = _CHECKSUM.sub("", os.path.basename(path))
    return fnmatch.fnmatchcase(name, pattern.replace(".so.*", ".so*")) and not _ACCESSORY.match(name)


def _files(folders: Sequence[str], patterns: Sequence[str]) -> list[str]:
    return [path for folder in folders for pattern in patterns for path in sorted(glob.glob(f"{folder}/{pattern}"))]


def _origin(path: str, folders: Sequence[str], environ: Mapping[str, str]) -> str:
    if any(path.startswith(f"{folder}/") for folder in folders if folder.endswith(("site-packages", "dist-packages"))):
        return "wheel"
    if any(path.startswith(f"{view.root}/") for view in loaded_views(environ)):
        return "uenv"
    return "container" if in_container(environ) else "host"


def _built(name: str, folders: Sequence[str]) -> str:
    if name == "CUDA driver":
        return f"supports CUDA {major}" if (major := driver_cuda()) else ""
    pattern, expression = BUILT.get(name, ("", None))
    texts = (
        Path(path).read_text(encoding="utf-8", errors="replace") for path in _files(folders, [pattern] * bool(pattern))
    )
    return next((match[1] for text in texts if expression and (match := expression.search(text))), "")
