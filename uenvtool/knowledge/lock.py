"""Reads `spack.lock`, the packages that Spack resolved for an environment, and lists the installed packages."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool.core.errors import AnswerIsNo, BadInput, Position
from uenvtool.core.files import read_bytes
from uenvtool.core.limits import limited
from uenvtool.core.words import grouped, listed
from uenvtool.knowledge.spec import parse_spec

LOCK = "spack.lock"
WRAPPER = "compiler-wrapper"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
LONGEST_TEXT = 4096
"""The most characters of a path on Linux."""
MAX_BYTES = 100_000_000
"""The largest lock that is read. The lock of a thousand packages has 2 MB."""
DATABASE = ".spack-db/index.json"
"""The file in which Spack lists the packages that are installed in a store."""
LARGEST_DATABASE = 48 << 20
LARGEST_OF_STORE = 200 << 20
"""The largest database of a store. A store into which many locks were installed has more packages than an image."""
LANGUAGES = frozenset({"c", "cxx", "fortran"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """One resolved package.

    external: The package's directory if the system provides the package, or else an empty string.
    dependencies: The hashes of all dependencies.
    compiled: Whether a compiler builds the package.
    wrapped: Whether the compiler is called through Spack's compiler-wrapper.
    variants: The values of each variant. Boolean variants have the value "True" or "False".
    """

    name: str
    version: str
    hash: str
    target: str
    os: str
    external: str
    dependencies: tuple[str, ...] = ()
    compiled: bool = False
    wrapped: bool = False
    variants: Mapping[str, frozenset[str]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock: the requested root specs, all packages, and the version of the Spack that wrote the lock."""

    roots: tuple[str, ...]
    packages: tuple[Package, ...]
    spack: str

    def versions(self) -> dict[str, list[str]]:
        return grouped(sorted({(package.name, package.version) for package in self.packages}))


def read_lock(path: Path, shown: str = "") -> Lock:
    """Return the lock in a file. shown: Its name in errors. Raises BadInput if it cannot be read or is not a lock."""
    shown = shown or str(path)
    return parse_lock(_text(path, shown), shown)


def read_versions(path: Path, packages: Collection[str]) -> dict[str, list[str]]:
    """Return the versions of some packages in a lock file, as `Lock.versions` does. Raises BadInput as `read_lock`.

    Nothing else in the lock is read, so this takes less than half the time of `read_lock`.
    """
    text = _text(path, str(path))
    with _refusing_others(str(path)):
        specs = json.loads(text)["concrete_specs"].values()
        versions = {(spec["name"], spec["version"]) for spec in specs if spec["name"] in packages}
        return grouped(sorted((name, text_of_spack(version)) for name, version in versions))


def parse_lock(text: str, shown: str) -> Lock:
    """Return the lock in a text. shown: The name of the file in errors. Raises BadInput if the text is not a lock."""
    with _refusing_others(shown):
        data = json.loads(text)
        packages = tuple(_package(key, spec) for key, spec in data["concrete_specs"].items())
        roots = tuple(str(root["spec"]) for root in data["roots"])
        return Lock(roots, packages, text_of_spack(data.get("spack", {}).get("version", ""), empty=True))


def _text(path: Path, shown: str) -> str:
    try:
        return read_bytes(path, MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read the file: {error}", Position(shown), "give the path of a spack.lock") from error


@contextmanager
def _refusing_others(shown: str) -> Iterator[None]:
    try:
        with limited(shown):
            yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        line = getattr(error, "lineno", 1)
        raise BadInput(
            "not a valid Spack lock",
            Position(shown, line, getattr(error, "colno", 1)),
            "run `uenvtool build RECIPE` to create it again",
        ) from error


def without_wrapper(lock: Lock) -> list[str]:
    """Return the names of the packages that would be compiled without Spack's compiler-wrapper.

    Spack omits the wrapper if it cannot run the compiler while it resolves. A package that is installed from such a
    lock gets no RPATH, no -I and -L options for its dependencies and no -march option. `spack install` still exits with
    0 (seen with Spack v1.1.0).
    """
    return sorted({package.name for package in lock.packages if package.compiled and not package.wrapped})


def require_installable(lock: Lock, shown: str) -> None:
    """Raise AnswerIsNo if packages of a lock would be compiled without Spack's compiler-wrapper."""
    unwrapped = without_wrapper(lock)
    if unwrapped:
        names = listed(unwrapped, 3)
        raise AnswerIsNo(
            f"{shown} has no {WRAPPER} for {names}, which would not find their libraries after installation",
            hint="run `uenvtool build RECIPE --concretize` on a machine where the compiler runs",
        )


def without_network(lock: Lock, needs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a message for each variant in `needs` that a package lacks."""
    for package in lock.packages:
        for need in needs.get(package.name, ()):
            for name, token in parse_spec(need).words.items():
                required = token.partition("=")[2].split(",") if "=" in token else [str(token.startswith("+"))]
                values = package.variants.get(name, frozenset())
                if not values.issuperset(required):
                    yield f"{package.name} has {name}={','.join(sorted(values)) or 'none'} but needs {token}"


def require_network(lock: Lock, needs: Mapping[str, Sequence[str]], shown: str) -> None:
    """Raise AnswerIsNo if a package lacks a variant in `needs`, such as the one for the network or the scheduler."""
    for lack in without_network(lock, needs):
        raise AnswerIsNo(
            f"{shown} does not fit the system: {lack}",
            hint="run `uenvtool build RECIPE --concretize`; for an external package, add the variants that it was "
            "built with to its spec in the system's file",
        )


def is_build_only(edge: Mapping[str, Any]) -> bool:
    """Return whether a dependency is needed only at build time, from its edge in a lock or in Spack's database.

    Before Spack 0.21, edges have no `parameters`, and every dependency counts as needed at run time.
    """
    return not {"link", "run"} & set(edge.get("parameters", {}).get("deptypes") or ("run",))


def _package(key: str, spec: dict[str, Any]) -> Package:
    arch = spec.get("arch") or {}
    target = arch.get("target", "")
    external = spec.get("external") or {}
    needed = spec.get("dependencies") or []
    virtuals = {virtual for edge in needed for virtual in edge.get("parameters", {}).get("virtuals", ())}
    return Package(
        name=name_of_spack(spec["name"]),
        version=text_of_spack(spec["version"]),
        hash=name_of_spack(key),
        target=text_of_spack(target.get("name", "") if isinstance(target, dict) else target, empty=True),
        os=text_of_spack(arch.get("platform_os", ""), empty=True),
        external=text_of_spack(external.get("path") or "", empty=True),
        dependencies=tuple(name_of_spack(edge["hash"]) for edge in needed),
        compiled=not external and bool(virtuals & LANGUAGES),
        wrapped=any(edge["name"] == WRAPPER for edge in needed),
        variants={str(name): _values(value) for name, value in (spec.get("parameters") or {}).items()},
    )


def _values(value: object) -> frozenset[str]:
    values = value if isinstance(value, list) else [value]
    return frozenset(text_of_spack(str(item), empty=True) for item in values)


def name_of_spack(value: object) -> str:
    """Return a package name or hash. Raises ValueError if Spack would not write it, since the lock may be hostile."""
    if _NAME.fullmatch(text := str(value)):
        return text
    raise ValueError(f"{text[:60]!r} is not a name that Spack writes")


def text_of_spack(value: object, *, empty: bool = False) -> str:
    """Return a version, path or operating system. Raises ValueError as `name_of_spack` does.

    empty: Whether the text may be empty.
    """
    text = str(value or "")
    if text.isprintable() and len(text) <= LONGEST_TEXT and (text or empty):
        return text
    raise ValueError(f"{text[:60]!r} is not a text that Spack writes")


def installed_hashes(store: Path) -> set[str]:
    """Return the hashes of the packages in Spack's database of a store, or none if it cannot be read."""
    path = store / DATABASE
    try:
        with limited(str(path)):
            rows = json.loads(read_bytes(path, LARGEST_OF_STORE))["database"]["installs"]
            return {key for key, row in rows.items() if row.get("installed")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return set()
