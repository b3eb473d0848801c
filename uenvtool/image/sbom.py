"""`uenvtool image sbom`: prints a CycloneDX bill of materials of an image or a lock (https://cyclonedx.org)."""

from __future__ import annotations

import hashlib
import json
import operator
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uenvtool.core.errors import BadInput, ExitCode
from uenvtool.core.result import Result, Table
from uenvtool.core.words import counted
from uenvtool.image.contents import PYTHON, SPACK, InstalledPackage, read
from uenvtool.image.read import superblock
from uenvtool.image.tree import EPOCH
from uenvtool.knowledge.lock import LOCK, read_lock
from uenvtool.knowledge.packages import Vulnerability, package_facts
from uenvtool.knowledge.spec import SpecSyntaxError, parse_spec
from uenvtool.knowledge.version import Version, Versions

if TYPE_CHECKING:
    from cyclonedx.model.component import Component
    from cyclonedx.model.dependency import Dependency
    from cyclonedx.model.vulnerability import Vulnerability as BomVulnerability

HAS_HINT = "name a package with versions, for example --has openssl@:3.5.0"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """The contents of a bill of materials. time: seconds since 1970. is_image: False for a lock."""

    name: str
    description: str
    file: str
    time: int
    packages: Sequence[InstalledPackage]
    is_image: bool


def sbom(path: Path) -> Result:
    """Return the bill of materials of an image or a spack.lock as reproducible CycloneDX 1.6 JSON.

    Raises BadInput if the file is neither an image nor a lock, ToolMissing if unsquashfs is not installed.
    """
    data = _data(_bill(path))
    return Result(data=data, file=f"{json.dumps(data, indent=2)}\n")


def holders(spec: str, paths: Sequence[Path]) -> Result:
    """Return the packages of images and locks that match a spec with versions.

    The exit code is NO if no package matches. A Python package also matches without the prefix `py-`. Raises the errors
    of `sbom`, and BadInput for a spec with anything but a name and versions.
    """
    try:
        wanted = parse_spec(spec)
    except SpecSyntaxError as error:
        raise BadInput(f"--has {spec!r}: {error}", hint=HAS_HINT) from error
    if not wanted.package or wanted.words or wanted.edges:
        raise BadInput(f"--has {spec!r}: not a package with versions", hint=HAS_HINT)
    rows = [
        (str(path), package.name, package.version)
        for path in paths
        for package in _bill(path).packages
        if wanted.package in _names(package) and (wanted.versions is None or _is_in(package, wanted.versions))
    ]
    return Result(
        data=[dict(zip(("file", "package", "version"), row, strict=True)) for row in rows],
        tables=(Table(headings=("file", "package", "version"), rows=rows),) if rows else (),
        notes=() if rows else (f"{counted(len(paths), 'file')} without {spec}",),
        exit_code=ExitCode.DONE if rows else ExitCode.NO,
    )


def _bill(path: Path) -> Bill:
    return _of_lock(path) if superblock(path) is None and _is_lock(path) else _of_image(path)


def _is_lock(path: Path) -> bool:
    with open(path, "rb") as stream:
        return path.name == LOCK or stream.read(64).lstrip().startswith(b"{")


def _of_image(path: Path) -> Bill:
    contents = read(path)
    uenv = contents.uenv
    return Bill(
        name=uenv.name if uenv else path.stem,
        description=uenv.description if uenv else "",
        file=path.name,
        time=contents.head.time,
        packages=contents.packages,
        is_image=True,
    )


def _of_lock(path: Path) -> Bill:
    lock = read_lock(path)
    directories = {package.hash: f"{package.name}-{package.version}-{package.hash}" for package in lock.packages}
    packages = [
        InstalledPackage(
            name=package.name,
            version=package.version,
            kind=SPACK,
            bytes=0,
            folder=directories[package.hash],
            needs=tuple(sorted({directories[key] for key in package.dependencies if key in directories})),
        )
        for package in lock.packages
    ]
    return Bill(
        name=path.resolve().parent.name,
        description=f"resolved by Spack {lock.spack}",
        file=path.name,
        time=EPOCH,  # as in images, since a lock has no time
        packages=sorted(packages),
        is_image=False,
    )


def _data(bill: Bill) -> dict[str, Any]:
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6

    whole = Component(
        name=bill.name,
        type=ComponentType.CONTAINER if bill.is_image else ComponentType.PLATFORM,
        bom_ref=f"{'image' if bill.is_image else 'lock'}:{bill.name}",
        description=bill.description or None,
    )
    names = [f"{package.kind}:{package.name}@{package.version}" for package in bill.packages]
    digest = hashlib.sha256("\n".join([bill.file, *names]).encode("utf-8", "surrogateescape")).hexdigest()
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_OID, digest))
    bom.metadata.component = whole
    bom.metadata.timestamp = datetime.fromtimestamp(bill.time, tz=timezone.utc)
    for package in bill.packages:
        bom.components.add(_component(package))  # sorted, so that the library compares each one only with the last one
    for dependency in _dependencies(whole, bill.packages):
        bom.dependencies.add(dependency)
    for cve in sorted(package_facts().cves, key=lambda cve: (cve.id, cve.package)):
        affected = [each for each in bill.packages if cve.package == _names(each)[0] and _is_in(each, cve.versions)]
        if affected:
            bom.vulnerabilities.add(_vulnerability(cve, affected))
    data: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    listed = [vulnerability["bom-ref"] for vulnerability in data.get("vulnerabilities", ())]
    data["compositions"] = [{"aggregate": "incomplete", "vulnerabilities": listed}]  # only those that recipes list
    return data


def _dependencies(whole: Component, packages: Sequence[InstalledPackage]) -> list[Dependency]:
    """Return the dependencies, sorted. `Bom.register_dependency` would search all of them for each new one."""
    from cyclonedx.model.bom_ref import BomRef
    from cyclonedx.model.dependency import Dependency

    parts = [Dependency(BomRef(reference)) for reference in sorted(map(_reference, packages))]
    needing = [
        Dependency(BomRef(_reference(package)), [Dependency(BomRef(f"{SPACK}:{need}")) for need in package.needs])
        for package in packages
    ]
    return sorted([Dependency(whole.bom_ref, parts), *needing], key=operator.attrgetter("ref.value"))


def _names(package: InstalledPackage) -> tuple[str, ...]:
    return (f"py-{package.name}", package.name) if package.kind == PYTHON else (package.name,)


def _is_in(package: InstalledPackage, versions: Versions) -> bool:
    return versions.contains(Version(package.version.partition("+")[0]))


def _vulnerability(cve: Vulnerability, affected: Sequence[InstalledPackage]) -> BomVulnerability:
    from cyclonedx.model.vulnerability import BomTarget
    from cyclonedx.model.vulnerability import Vulnerability as BomVulnerability

    return BomVulnerability(
        id=cve.id,
        bom_ref=f"{cve.id}:{cve.package}",
        recommendation=f"upgrade to {cve.package} {cve.fixed} or newer" if cve.fixed else None,
        affects=[BomTarget(ref=_reference(package)) for package in affected],
    )


def _reference(package: InstalledPackage) -> str:
    return f"{package.kind}:{package.folder}"


def _component(package: InstalledPackage) -> Component:
    from cyclonedx.model import Property
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    kind, namespace = ("pypi", None) if package.kind == PYTHON else ("generic", "spack")
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        bom_ref=_reference(package),
        purl=PackageURL(type=kind, namespace=namespace, name=package.name, version=package.version),
        properties=[
            Property(name="uenvtool:folder", value=package.folder),
            *([Property(name="uenvtool:bytes", value=str(package.bytes))] if package.bytes else []),
        ],
    )
