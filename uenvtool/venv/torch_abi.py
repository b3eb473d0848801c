"""Finds compiled modules that were built for another torch, or for another CUDA than the base's torch.

An extension of torch takes C++ symbols from torch's libraries, whose names hold the types of their arguments and
so change from release to release: the loader refuses the module at import. It also names the CUDA runtime by its
major version (libcudart.so.12), which comes from torch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from uenvtool.core.errors import Problem
from uenvtool.venv.abi import Packages, compiled_modules
from uenvtool.venv.base import Distribution
from uenvtool.venv.elf import Library, read_library
from uenvtool.venv.versions import canonical, requirements

_OF_TORCH = re.compile(r"lib(torch|c10|caffe2|shm)\w*\.so")
_SYMBOL_OF_TORCH = re.compile(rb"_Z\w*?(3c10|2at|5torch|6caffe2)|THP|aoti_torch_|torch_")
_RUNTIME = re.compile(r"lib(cudart|amdhip64)\.so\.(\d+)")
_CUDA_LABEL = re.compile(r"\+cu(\d\d)\d\b")
_RUNTIMES = {"cudart": "CUDA", "amdhip64": "ROCm"}
_FOR_ONE_RELEASE = re.compile(r"(?:^|/)torch-(\d+\.\d+)/")
"""A folder with what a package loads on that torch alone, beside others: metatensor-torch 0.10, metatomic-torch 0.1."""


@dataclass(frozen=True)
class Torch:
    """The torch in effect. where: for a message, who has it."""

    distribution: Distribution
    where: str

    @cached_property
    def release(self) -> str:
        """The part of its version that other packages build for: 2.6 of 2.6.0a0+d883142."""
        found = re.match(r"\d+\.\d+", self.distribution.version)
        return found[0] if found else self.distribution.version

    @cached_property
    def libraries(self) -> dict[str, Library]:
        """Its libraries by file name."""
        folder = os.path.join(self.distribution.folder, "torch", "lib")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        found = {name: read_library(os.path.join(folder, name)) for name in names if ".so" in name}
        return {name: library for name, library in found.items() if library is not None}

    @cached_property
    def symbols(self) -> frozenset[bytes]:
        """What its libraries give."""
        return frozenset().union(*(library.defined for library in self.libraries.values()))

    @cached_property
    def runtimes(self) -> dict[str, str]:
        """The GPU runtimes that its libraries need: name to major version."""
        needed = {name for library in self.libraries.values() for name in library.needed}
        return {match[1]: match[2] for name in needed if (match := _RUNTIME.match(name))}

    def built_for(self, runtime: str) -> str:
        """The major version of a GPU runtime, for a message."""
        name, major = _RUNTIMES[runtime], self.runtimes.get(runtime)
        return f"is for {name} {major}" if major else f"has no {name}"


def torch_problems(base: Packages, new: Mapping[str, Distribution], accepted: Collection[str]) -> list[Problem]:
    """What was compiled for another torch: of the new packages, and of the base if torch is new.

    accepted: names of packages that the user wants all the same. A torch without libraries says nothing.
    """
    distribution = new.get("torch") or base.packages.get("torch")
    if distribution is None:
        return []
    torch = Torch(distribution, "the overlay gets" if "torch" in new else "the base has")
    packages = [*new.values(), *(_dependents(base, new) if "torch" in new else ())]
    libraries = {package.key: _libraries(package) for package in packages if package.key != "torch"}
    linked = {name: found for name, found in libraries.items() if any(map(_is_linked, found.values()))}
    if not linked or not torch.libraries:
        return []
    given = frozenset().union(*(library.defined for found in linked.values() for library in found.values()))
    problems = []
    for package in packages:
        if package.key in linked and package.key not in accepted:
            reason = _misfit(package, linked[package.key], torch, given)
            if reason:
                problems.append(_problem(package, torch, reason, in_base=package.key not in new))
    return problems


def readable(symbol: bytes) -> str:
    """The name in a C++ symbol without its arguments: `_ZN3c105ErrorC1E...` is c10::Error.

    The form is that of the Itanium C++ ABI, section 5.1; what has another one is left as it is.
    """
    text = symbol.decode(errors="replace")
    start = re.match(r"_Z(T[VTIS])?(N[rVK]*)?", text)
    if start is None:
        return text
    words, rest = [], text[start.end() :]
    while (length := re.match(r"[1-9]\d*", rest)) and len(rest) >= length.end() + int(length[0]):
        end = length.end() + int(length[0])
        words.append(rest[length.end() : end])
        rest = rest[end:]
        if not start[2]:
            break
    return "::".join(words) or text


def _problem(package: Distribution, torch: Torch, reason: str, *, in_base: bool) -> Problem:
    name, version = package.key, torch.distribution.version
    message = f"{name} {package.version} is compiled for another torch: {reason}; {torch.where} torch {version}"
    if in_base:
        return Problem(message, hint=f"leave torch to the base, or replace {name} too with --override {name}")
    return Problem(
        message,
        hint=f"ask for the {name} that was made for torch {version}, build it from its source with "
        f"--no-build-isolation {name}, or take it as it is with --override {name}",
    )


def _dependents(base: Packages, new: Mapping[str, Distribution]) -> Iterator[Distribution]:
    """The base's packages that ask for torch and stay."""
    for name, package in sorted(base.packages.items()):
        names = {canonical(requirement.name) for requirement in requirements(package, None)}
        if name not in new and "torch" in names:
            yield package


def _libraries(package: Distribution) -> dict[str, Library]:
    """The compiled modules and libraries of a package by path."""
    found = {path: read_library(path) for path in compiled_modules(package)}
    return {path: library for path, library in found.items() if library is not None}


def _releases(package: Distribution, paths: Iterable[str]) -> dict[str, str]:
    """The release of torch that a library is for, of those that lie in a folder of one release."""
    root = os.path.realpath(package.folder)
    found = {path: _FOR_ONE_RELEASE.search(os.path.relpath(path, root)) for path in paths}
    return {path: match[1] for path, match in found.items() if match}


def _is_linked(library: Library) -> bool:
    return any(map(_OF_TORCH.match, library.needed))


def _misfit(package: Distribution, libraries: Mapping[str, Library], torch: Torch, given: frozenset[bytes]) -> str:
    """Why a package does not fit; empty if it does. given: what the packages themselves give to each other."""
    own = {library.soname for library in libraries.values()} | {os.path.basename(path) for path in libraries}
    releases = _releases(package, libraries)
    if releases and torch.release not in releases.values():
        others = ", ".join(sorted(set(releases.values()), key=lambda release: [*map(int, release.split("."))]))
        return f"it has libraries for torch {others} and none for {torch.release}"
    for path, library in sorted(libraries.items()):
        if not _is_linked(library) or releases.get(path, torch.release) != torch.release:
            continue
        shown = os.path.basename(path)
        for name in library.needed:
            if _OF_TORCH.match(name) and name not in torch.libraries and name not in own:
                return f"{shown} needs {name}, which that torch does not have"
            runtime = _RUNTIME.match(name)
            if runtime and name not in own and torch.runtimes.get(runtime[1]) != runtime[2]:
                return (
                    f"{shown} is for {_RUNTIMES[runtime[1]]} {runtime[2]}, and that torch {torch.built_for(runtime[1])}"
                )
        for symbol in sorted(library.undefined - torch.symbols - given):
            if _SYMBOL_OF_TORCH.match(symbol):
                return f"{shown} takes {readable(symbol)} from it, which that torch does not have"
    label = _CUDA_LABEL.search(package.version)
    if label and torch.runtimes.get("cudart", label[1]) != label[1]:
        return f"its version names CUDA {label[1]}, and that torch {torch.built_for('cudart')}"
    return ""
