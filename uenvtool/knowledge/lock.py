"""Reads `spack.lock`: which packages, at which versions, an environment resolved to; and which are installed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.core.errors import AnswerIsNo, BadInput, Position
from uenvtool.core.files import read_bytes
from uenvtool.core.words import grouped, listed
from uenvtool.knowledge.spec import parse_spec

LOCK = "spack.lock"
WRAPPER = "compiler-wrapper"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
LONGEST_TEXT = 4096
"""A path of Linux has no more letters."""
DATABASE = ".spack-db/index.json"
"""Where Spack lists what is installed in a store."""
LARGEST_DATABASE = 48 << 20
LARGEST_OF_STORE = 200 << 20
"""A store that many locks were installed into has more than an image."""
LANGUAGES = frozenset({"c", "cxx", "fortran"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """One resolved package.

    external: its folder if the system brings it, else "". dependencies: the hashes of what it needs; build_only: those
    of them that it needs only while it is built.
    compiled: a compiler builds it; wrapped: through Spack's compiler-wrapper. variants: each with its values; those of
    a switch are "True" or "False".
    """

    name: str
    version: str
    hash: str
    target: str
    os: str
    external: str
    dependencies: tuple[str, ...] = ()
    build_only: tuple[str, ...] = ()
    compiled: bool = False
    wrapped: bool = False
    variants: Mapping[str, frozenset[str]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock: the roots as they were requested, every package, and the version of the Spack that made it."""

    roots: tuple[str, ...]
    packages: tuple[Package, ...]
    spack: str

    def versions(self) -> dict[str, list[str]]:
        """Return package to its versions, each once, sorted by name."""
        return grouped(sorted({(package.name, package.version) for package in self.packages}))


def parse_lock(text: str, shown: str) -> Lock:
    """Return the lock in a text. shown: the file's name in errors. Raises BadInput if it is none."""
    try:
        data = json.loads(text)
        packages = tuple(_package(key, spec) for key, spec in data["concrete_specs"].items())
        roots = tuple(str(root["spec"]) for root in data["roots"])
        made_by = text_of_spack(data.get("spack", {}).get("version", ""), empty=True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise BadInput(
            "not a lock of Spack",
            Position(shown, line, getattr(error, "colno", 1)),
            "`uenvtool build RECIPE` makes it again",
        ) from error
    return Lock(roots, packages, made_by)


MAX_BYTES = 100_000_000
"""The lock of a thousand packages has 2 MB."""


def read_lock(path: Path, shown: str = "") -> Lock:
    """Return the lock in a file. shown: how errors name it. Raises BadInput if it cannot be read or is none."""
    shown = shown or str(path)
    try:
        text = read_bytes(path, MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read it: {error}", Position(shown), "name a spack.lock") from error
    return parse_lock(text, shown)


def without_wrapper(lock: Lock) -> list[str]:
    """Return the packages that would be compiled without Spack's compiler-wrapper, by name.

    Spack leaves the wrapper out if it cannot run the compiler while it resolves. Installed so, a
    package gets no RPATH, no -I and -L of its dependencies and no -march, and `spack install` still
    exits with 0 (seen with Spack v1.1.0).
    """
    return sorted({package.name for package in lock.packages if package.compiled and not package.wrapped})


def require_installable(lock: Lock, shown: str) -> None:
    """Raise AnswerIsNo if packages of a lock would be compiled without Spack's compiler-wrapper."""
    unwrapped = without_wrapper(lock)
    if unwrapped:
        names = listed(unwrapped, 3)
        raise AnswerIsNo(
            f"{shown} has no {WRAPPER} for {names}: installed, they would find none of their libraries",
            hint="it was resolved where the compiler does not run; make it again: `uenvtool build RECIPE --concretize`",
        )


def without_network(lock: Lock, needs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield what packages of a lock lack to reach the network. needs: package to variants without which it does not."""
    for package in lock.packages:
        for need in needs.get(package.name, ()):
            for name, word in parse_spec(need).words.items():
                values = word.partition("=")[2].split(",") if "=" in word else [str(word.startswith("+"))]
                has = package.variants.get(name, frozenset())
                if not has.issuperset(values):
                    yield f"{package.name} has {name}={','.join(sorted(has)) or 'none'}, and needs {word}"


def require_network(lock: Lock, needs: Mapping[str, Sequence[str]], shown: str) -> None:
    """Raise AnswerIsNo if packages of a lock would not reach the network. needs: as for `without_network`."""
    for lack in without_network(lock, needs):
        raise AnswerIsNo(
            f"{shown} does not reach the network: {lack}",
            hint="make it again (`uenvtool build RECIPE --concretize`); the spec of an external says how it was built",
        )


def is_build_only(edge: Mapping[str, Any]) -> bool:
    """Tell if a package is needed only while another is built, by its edge in a lock or in Spack's database.

    Before Spack 0.21 an edge has no `parameters`: what it leads to counts as needed.
    """
    return not {"link", "run"} & set(edge.get("parameters", {}).get("deptypes") or ("run",))


def _package(key: str, spec: dict[str, Any]) -> Package:
    arch = spec.get("arch") or {}
    target = arch.get("target", "")
    external = spec.get("external") or {}
    needed = spec.get("dependencies") or []
    edges = [(name_of_spack(edge["hash"]), is_build_only(edge)) for edge in needed]
    virtuals = {virtual for edge in needed for virtual in edge.get("parameters", {}).get("virtuals", ())}
    return Package(
        name=name_of_spack(spec["name"]),
        version=text_of_spack(spec["version"]),
        hash=name_of_spack(key),
        target=text_of_spack(target.get("name", "") if isinstance(target, dict) else target, empty=True),
        os=text_of_spack(arch.get("platform_os", ""), empty=True),
        external=text_of_spack(external.get("path") or "", empty=True),
        dependencies=tuple(hash for hash, _ in edges),
        build_only=tuple(hash for hash, only in edges if only),
        compiled=not external and bool(virtuals & LANGUAGES),
        wrapped=any(edge["name"] == WRAPPER for edge in needed),
        variants={str(name): _values(value) for name, value in (spec.get("parameters") or {}).items()},
    )


def _values(value: object) -> frozenset[str]:
    values = value if isinstance(value, list) else [value]
    return frozenset(text_of_spack(str(one), empty=True) for one in values)


def name_of_spack(value: object) -> str:
    """Return the name of a package, or a hash. Raises ValueError for what Spack does not write: it may be hostile."""
    if _NAME.fullmatch(text := str(value)):
        return text
    raise ValueError(f"{text[:60]!r} is not what Spack writes")


def text_of_spack(value: object, *, empty: bool = False) -> str:
    """Return a version, a path, an operating system. Raises ValueError as `name_of_spack`; empty: it may be."""
    text = str(value or "")
    if text.isprintable() and len(text) <= LONGEST_TEXT and (text or empty):
        return text
    raise ValueError(f"{text[:60]!r} is not what Spack writes")


def installed_hashes(store: Path) -> set[str]:
    """Return the hashes of the packages that Spack has registered in a store; none, if that cannot be read."""
    try:
        database = json.loads(read_bytes(store / DATABASE, LARGEST_OF_STORE))
        return {key for key, row in database["database"]["installs"].items() if row.get("installed")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()
