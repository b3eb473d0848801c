"""Writes an image's packages as a CycloneDX bill of materials (https://cyclonedx.org), for scanners and audits."""

from __future__ import annotations

import hashlib
import json
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.image.contents import PYTHON, Contents, Package, read
from uenvtool.result import Result

if TYPE_CHECKING:
    from cyclonedx.model.component import Component


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
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


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
        bom_ref=f"{package.kind}:{package.folder}",
        purl=PackageURL(type=kind, namespace=namespace, name=package.name, version=package.version),
        properties=[
            Property(name="uenvtool:folder", value=package.folder),
            Property(name="uenvtool:bytes", value=str(package.bytes)),
        ],
    )
