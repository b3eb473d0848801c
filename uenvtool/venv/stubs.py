"""Gives a resolver the base's distributions, which no index has: as wheels that hold nothing but metadata."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from uenvtool.core.files import fill
from uenvtool.core.words import canonical
from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.versions import as_release, is_version, marker_environment, requirements, satisfies


def write_stubs(folder: Path, base: Base) -> dict[str, str]:
    """Write one wheel for each distribution; normalized name -> the requirement that pins a package to the base's."""
    environment = marker_environment(base)
    contents: dict[str, bytes] = {}
    pins: dict[str, str] = {}
    for name, distribution in sorted(base.packages.items()):
        if is_version(distribution.version):
            version = as_release(distribution.version)
            stem = f"{name.replace('-', '_')}-{version.replace('-', '_')}"
            requires = list(stub_requirements(distribution, base, environment))
            contents[f"{stem}-py3-none-any.whl"] = _stub(stem, name, version, requires, distribution.extras)
            pins[name] = f"{name} @ {(folder / f'{stem}-py3-none-any.whl').as_uri()}"
    fill(folder, contents)
    return pins


def _stub(stem: str, name: str, version: str, requires: Sequence[str], extras: Sequence[str]) -> bytes:
    """Return a wheel of one distribution without files."""
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    wheel = "Wheel-Version: 1.0\nGenerator: uenvtool\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for file, text in (("METADATA", "\n".join(lines) + "\n"), ("WHEEL", wheel), ("RECORD", "")):
            archive.writestr(zipfile.ZipInfo(f"{stem}.dist-info/{file}", (1980, 1, 1, 0, 0, 0)), text)
    return stream.getvalue()


def stub_requirements(distribution: Distribution, base: Base, environment: dict[str, str]) -> Iterator[str]:
    """Give what of a base distribution's requirements takes part in the resolution.

    What the base has and satisfies, so that a package put over the base's still fits; and what an
    extra brings, because a user may ask for the extra. What the base itself lacks is its own affair:
    nothing is installed on its behalf.
    """
    for requirement in requirements(distribution, None):
        package, marker = base.packages.get(canonical(requirement.name)), requirement.marker
        if package is not None and satisfies(requirement.specifier, package.version) and not requirement.url:
            if is_version(package.version) and as_release(package.version) != package.version:
                requirement.specifier = type(requirement.specifier)()  # the stub gives a vendor's build as its release
            yield str(requirement)
        elif marker is not None and "extra" in str(marker) and not marker.evaluate({**environment, "extra": ""}):
            yield str(requirement)
