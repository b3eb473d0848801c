"""The base's distributions as wheels that hold nothing but metadata: a resolver sees them, no index has them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.core.files import fill
from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.versions import as_release, canonical, is_version, marker_environment, satisfies

if TYPE_CHECKING:
    from packaging.requirements import Requirement


def write_stubs(folder: Path, base: Base) -> dict[str, str]:
    """One wheel for each distribution; normalized name -> the URL that pins a package to the base's."""
    from packaging.requirements import InvalidRequirement

    environment = marker_environment(base)
    contents: dict[str, bytes] = {}
    pins: dict[str, str] = {}
    for name, distribution in sorted(base.packages.items()):
        if not is_version(distribution.version):
            continue
        try:
            requires = tuple(stub_requirements(distribution, base, environment))
        except InvalidRequirement:
            requires = ()
        version = as_release(distribution.version)
        file = f"{name.replace('-', '_')}-{_wheel_version(version)}-py3-none-any.whl"
        contents[file] = stub(name, version, requires, distribution.extras)
        pins[name] = f"{name} @ {(folder / file).as_uri()}"
    fill(folder, contents)
    return pins


def stub(name: str, version: str, requires: tuple[str, ...], extras: tuple[str, ...]) -> bytes:
    """A wheel of one distribution without files."""
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    info = f"{name.replace('-', '_')}-{_wheel_version(version)}.dist-info"
    wheel = "Wheel-Version: 1.0\nGenerator: uenvtool\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for file, text in (("METADATA", "\n".join(lines) + "\n"), ("WHEEL", wheel), ("RECORD", "")):
            archive.writestr(zipfile.ZipInfo(f"{info}/{file}", (1980, 1, 1, 0, 0, 0)), text)
    return stream.getvalue()


def stub_requirements(distribution: Distribution, base: Base, environment: Mapping[str, str]) -> Iterator[str]:
    """What of a base distribution's requirements takes part in the resolution.

    What the base has and satisfies, so that a package put over the base's still fits; and what an
    extra brings, because a user may ask for the extra. What the base itself lacks is its own affair:
    nothing is installed on its behalf.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    for text in distribution.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        package = base.packages.get(canonical(requirement.name))
        of_extra = requirement.marker is not None and not requirement.marker.evaluate({**environment, "extra": ""})
        if package is not None and satisfies(requirement.specifier, package.version) and not requirement.url:
            yield _for_resolver(requirement, package)
        elif of_extra and "extra" in str(requirement.marker):
            yield text


def _for_resolver(requirement: Requirement, package: Distribution) -> str:
    """The requirement; without a version if the base's is a pre-release, which the stub gives as release."""
    if not is_version(package.version) or as_release(package.version) == package.version:
        return str(requirement)
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    marker = f" ; {requirement.marker}" if requirement.marker else ""
    return f"{requirement.name}{extras}{marker}"


def _wheel_version(version: str) -> str:
    """A version in a file name: one dash separates fields there."""
    return version.replace("-", "_")
