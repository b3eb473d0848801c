"""Finds compiled modules that were built for another numpy, torch or CUDA than the environment uses.

numpy's headers compile the name of the C API module into every extension. With numpy 1 it is
`numpy.core._multiarray_umath`. With numpy 2 it is `numpy._core._multiarray_umath`, and the old name is compiled in too
so that the extension also runs on numpy 1 (numpy/core/code_generators/generate_numpy_api.py). An extension that has
only the old name fails on numpy 2.

An extension for torch uses C++ symbols of torch's libraries. Their names contain the argument types and change between
releases, so the loader rejects the module at import. The extension also links the CUDA runtime by its major version
(libcudart.so.12), which comes from torch.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from uenvtool.core.elf import Needs, needs_of
from uenvtool.core.errors import Problem
from uenvtool.core.words import canonical
from uenvtool.venv.base import Distribution, record_rows
from uenvtool.venv.compat import requirements

_SHARED = re.compile(r"\.so(\.\d+)*$")
_NUMPY_1, _NUMPY_2 = b"numpy.core._multiarray_umath", b"numpy._core._multiarray_umath"
_OF_TORCH = re.compile(r"lib(torch|c10|caffe2|shm)\w*\.so")
_SYMBOL_OF_TORCH = re.compile(rb"_Z\w*?(3c10|2at|5torch|6caffe2)|THP|aoti_torch_|torch_")
_RUNTIME = re.compile(r"lib(cudart|amdhip64)\.so\.(\d+)")
_CUDA_LABEL = re.compile(r"\+cu(\d\d)\d\b")
_RUNTIMES = {"cudart": "CUDA", "amdhip64": "ROCm"}
_FOR_ONE_RELEASE = re.compile(r"(?:^|/)torch-(\d+\.\d+)/")
"""A directory with the libraries for one torch release. metatensor-torch 0.10 and metatomic-torch 0.1 have several."""


def _compiled_modules(distribution: Distribution) -> Iterator[str]:
    root = os.path.realpath(distribution.folder)
    for row in record_rows(distribution.metadata):
        path = os.path.realpath(os.path.join(root, row[0]))
        if _SHARED.search(row[0]) and path.startswith(root + os.sep):
            yield path


def numpy_problems(base: Mapping[str, Distribution], new: Mapping[str, Distribution]) -> list[Problem]:
    """Return a problem for each package that is built for numpy 1 if the environment has numpy 2.

    The base's packages are checked only if numpy is new.
    """
    base_numpy = base.get("numpy")
    numpy = new.get("numpy") or base_numpy
    if numpy is None or _major(numpy.version) < 2:
        return []
    checked = [package for name, package in new.items() if name != "numpy"]
    if "numpy" in new and base_numpy is not None and _major(base_numpy.version) < 2:
        checked += [package for name, package in base.items() if name not in new]
    owner = "the overlay would have" if "numpy" in new else "the base has"
    alternative = "numpy<2" if "numpy" in new else "install numpy 1 over the base's: 'numpy<2'"
    return [
        Problem(
            f"{package.name} {package.version} is built for numpy 1 ({os.path.basename(file)}), but "
            f"{owner} numpy {numpy.version}",
            hint=f"request a newer {package.name}, or {alternative}",
        )
        for package in checked
        if (file := next(filter(_is_for_numpy_1, _compiled_modules(package)), None))
    ]


def _major(version: str) -> int:
    first = version.partition(".")[0]
    return int(first) if first.isdigit() else 0


def _is_for_numpy_1(path: str) -> bool:
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(_NUMPY_1) >= 0 and data.find(_NUMPY_2) < 0
    except (OSError, ValueError):
        return False  # missing, empty or unreadable, so Python could not load it either


@dataclass(frozen=True)
class _Torch:
    distribution: Distribution
    owner: str  # the part of a message that names the owner: the base or the overlay

    @cached_property
    def release(self) -> str:  # 2.6 of 2.6.0a0+d883142, for which other packages are built
        release = re.match(r"\d+\.\d+", self.distribution.version)
        return release[0] if release else self.distribution.version

    @cached_property
    def libraries(self) -> dict[str, Needs]:
        directory = os.path.join(self.distribution.folder, "torch", "lib")
        names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
        return {name: needs_of(os.path.join(directory, name), symbols=True) for name in names if ".so" in name}

    @cached_property
    def symbols(self) -> frozenset[bytes]:
        return frozenset().union(*(library.defined for library in self.libraries.values()))

    @cached_property
    def runtimes(self) -> dict[str, str]:  # the name of a GPU runtime -> its major version
        needed = {name for library in self.libraries.values() for name in library.libraries}
        return {match[1]: match[2] for name in needed if (match := _RUNTIME.match(name))}

    def built_for(self, runtime: str) -> str:
        name, major = _RUNTIMES[runtime], self.runtimes.get(runtime)
        return f"is built for {name} {major}" if major else f"has no {name}"


def torch_problems(
    base: Mapping[str, Distribution], new: Mapping[str, Distribution], accepted: Collection[str]
) -> list[Problem]:
    """Return a problem for each package that is compiled for another torch, except those in `accepted`.

    The base's packages are checked only if torch is new. A torch without libraries is not checked.
    """
    distribution = new.get("torch") or base.get("torch")
    if distribution is None:
        return []
    torch = _Torch(distribution, "the overlay would have" if "torch" in new else "the base has")
    packages = [package for name, package in new.items() if name != "torch"]
    packages += _dependents(base, new) if "torch" in new else ()
    linked: list[tuple[Distribution, dict[str, Needs]]] = []
    for package in packages:
        libraries = {path: needs_of(path, symbols=True) for path in _compiled_modules(package)}
        if any(map(_is_linked, libraries.values())):
            linked.append((package, libraries))
    if not linked or not torch.libraries:
        return []
    defined = frozenset().union(*(library.defined for _, libraries in linked for library in libraries.values()))
    return [
        _problem(package, torch, reason, in_base=package.key not in new)
        for package, libraries in linked
        if package.key not in accepted and (reason := _misfit(package, libraries, torch, defined))
    ]


def _dependents(base: Mapping[str, Distribution], new: Mapping[str, Distribution]) -> Iterator[Distribution]:
    for name, package in sorted(base.items()):
        if name not in new and any(
            canonical(requirement.name) == "torch" for requirement in requirements(package, None)
        ):
            yield package


def _is_linked(library: Needs) -> bool:
    return any(map(_OF_TORCH.match, library.libraries))


def _misfit(package: Distribution, libraries: Mapping[str, Needs], torch: _Torch, defined: frozenset[bytes]) -> str:
    root = os.path.realpath(package.folder)
    release_directories = {path: _FOR_ONE_RELEASE.search(os.path.relpath(path, root)) for path in libraries}
    releases = {path: match[1] for path, match in release_directories.items() if match}
    if releases and torch.release not in releases.values():
        others = ", ".join(sorted(set(releases.values()), key=lambda release: [*map(int, release.split("."))]))
        return f"it has libraries for torch {others}, but not for {torch.release}"
    bundled = {library.soname for library in libraries.values()} | {os.path.basename(path) for path in libraries}
    for path, library in sorted(libraries.items()):
        if _is_linked(library) and releases.get(path, torch.release) == torch.release:
            reason = _misfit_of_library(library, torch, bundled, defined)
            if reason:
                return f"{os.path.basename(path)} {reason}"
    label = _CUDA_LABEL.search(package.version)
    if label and torch.runtimes.get("cudart", label[1]) != label[1]:
        return f"its version names CUDA {label[1]}, but that torch {torch.built_for('cudart')}"
    return ""


def _misfit_of_library(library: Needs, torch: _Torch, bundled: Collection[str], defined: frozenset[bytes]) -> str:
    for name in library.libraries:
        if _OF_TORCH.match(name) and name not in torch.libraries and name not in bundled:
            return f"needs {name}, which that torch does not contain"
        runtime = _RUNTIME.match(name)
        if runtime and name not in bundled and torch.runtimes.get(runtime[1]) != runtime[2]:
            return f"is built for {_RUNTIMES[runtime[1]]} {runtime[2]}, but that torch {torch.built_for(runtime[1])}"
    for symbol in sorted(library.undefined - torch.symbols - defined):
        if _SYMBOL_OF_TORCH.match(symbol):
            return f"uses {readable(symbol)}, which that torch does not define"
    return ""


def readable(symbol: bytes) -> str:
    """Return the name in a C++ symbol without its arguments: `_ZN3c105ErrorC1E...` is c10::Error.

    Symbols are decoded as the Itanium C++ ABI, section 5.1, defines. Other symbols are returned unchanged.
    """
    text = symbol.decode(errors="replace")
    start = re.match(r"_Z(T[VTIS])?(N[rVK]*)?", text)
    if start is None:
        return text
    parts, rest = [], text[start.end() :]
    while (length := re.match(r"[1-9]\d*", rest)) and len(rest) >= length.end() + int(length[0]):
        end = length.end() + int(length[0])
        parts.append(rest[length.end() : end])
        rest = rest[end:]
        if not start[2]:
            break
    return "::".join(parts) or text


def _problem(package: Distribution, torch: _Torch, reason: str, *, in_base: bool) -> Problem:
    name, version = package.key, torch.distribution.version
    message = f"{name} {package.version} is compiled for another torch: {reason}; {torch.owner} torch {version}"
    if in_base:
        return Problem(message, hint=f"keep the base's torch, or also replace {name} with --override {name}")
    hint = f"request a {name} that was built for torch {version}, build it from source with "
    return Problem(message, hint=f"{hint}--no-build-isolation {name}, or accept it with --override {name}")
