"""Writes an image's packages as a CycloneDX bill of materials (https://cyclonedx.org), for scanners and audits."""

from __future__ import annotations

import contextlib
import hashlib
import json
import uuid
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.errors import BadInput
from uenvtool.image.contents import PYTHON, Contents, Package, read
from uenvtool.model.kinds import RECIPE
from uenvtool.model.locate import available
from uenvtool.model.recipe import Vulnerability
from uenvtool.model.recipe_reader import load_recipe
from uenvtool.model.version import Version
from uenvtool.result import Result

if TYPE_CHECKING:
    from cyclonedx.model.component import Component
    from cyclonedx.model.vulnerability import Vulnerability as BomVulnerability


def sbom(image: Path) -> Result:
    """The bill of materials of an image, as JSON of CycloneDX 1.6; the same image gives the same bytes.

    Raises BadInput if the file is not an image, ToolMissing without unsquashfs.
    """
    text = render(read(image))
    return Result(data=json.loads(text), file=text)


def render(contents: Contents) -> str:
    """The text. Its serial number is a sum of what it lists, its time is that of the image."""
    from cyclonedx.model.bom import Bom
    from cyclonedx.output.json import JsonV1Dot6

    components = [_component(package) for package in contents.packages]
    whole = _whole(contents)
    listed = [
        contents.path.name,
        *(f"{package.kind}:{package.name}@{package.version}" for package in contents.packages),
    ]
    digest = hashlib.sha256("\n".join(listed).encode("utf-8", "surrogateescape")).hexdigest()
    bom = Bom(components=components, serial_number=uuid.uuid5(uuid.NAMESPACE_OID, digest))
    bom.metadata.component = whole
    bom.metadata.timestamp = datetime.fromtimestamp(contents.head.time, tz=timezone.utc)
    bom.register_dependency(whole, components)
    for cve, affected in known_vulnerabilities(contents.packages).items():
        bom.vulnerabilities.add(_vulnerability(cve, affected))
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def known_vulnerabilities(packages: Sequence[Package]) -> dict[Vulnerability, list[Package]]:
    """The vulnerabilities on record in recipes (`cves:`) that these versions have, in the order of their names.

    A recipe names Spack's packages; `py-NAME` is also the Python package NAME. A recipe that cannot be read
    has no record.
    """
    recorded: list[Vulnerability] = []
    for location in available(RECIPE).values():
        with contextlib.suppress(BadInput):
            recorded += load_recipe(str(location.path)).cves
    found: dict[Vulnerability, list[Package]] = {}
    for cve in sorted(set(recorded), key=lambda cve: (cve.id, cve.package)):
        affected = [package for package in packages if _has(package, cve)]
        if affected:
            found[cve] = affected
    return found


def _has(package: Package, cve: Vulnerability) -> bool:
    name = f"py-{package.name}" if package.kind == PYTHON else package.name
    return name == cve.package and cve.versions.contains(Version(package.version.partition("+")[0]))


def _vulnerability(cve: Vulnerability, affected: Sequence[Package]) -> BomVulnerability:
    from cyclonedx.model.vulnerability import BomTarget
    from cyclonedx.model.vulnerability import Vulnerability as BomVulnerability

    return BomVulnerability(
        id=cve.id,
        bom_ref=f"{cve.id}:{cve.package}",
        recommendation=f"take {cve.package} {cve.fixed} or later" if cve.fixed else None,
        affects=[BomTarget(ref=_reference(package)) for package in affected],
    )


def _reference(package: Package) -> str:
    return f"{package.kind}:{package.folder}"


def _whole(contents: Contents) -> Component:
    """The image itself, of which the packages are a part."""
    from cyclonedx.model.component import Component, ComponentType

    uenv = contents.uenv
    name = uenv.name if uenv else contents.path.stem
    return Component(
        name=name,
        type=ComponentType.CONTAINER,
        bom_ref=f"image:{name}",
        description=uenv.description if uenv and uenv.description else None,
    )


def _component(package: Package) -> Component:
    """A package, by the address that scanners look it up with (https://github.com/package-url/purl-spec)."""
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
            Property(name="uenvtool:bytes", value=str(package.bytes)),
        ],
    )
