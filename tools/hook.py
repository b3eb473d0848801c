"""Adds generated files to a wheel during its build: man pages and a bill of materials."""

from __future__ import annotations

import json
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

BILL = "uenvtool.cdx.json"


class Made(BuildHookInterface):  # type: ignore[misc]  # hatchling has types only if it is installed
    """Adds the man pages in share/man/man1, and the bill in .dist-info/sboms (https://peps.python.org/pep-0770)."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files before the wheel is packed."""
        sys.path.insert(0, str(Path(__file__).parent))
        import man

        self.folder = tempfile.TemporaryDirectory()
        folder, core = Path(self.folder.name), self.metadata.core
        for path in man.write(folder):
            build_data["shared_data"][str(path)] = f"share/man/man1/{path.name}"
        (folder / BILL).write_text(bill(self.metadata.version, core.license_expression, core.dependencies))
        build_data["sbom_files"].append(str(folder / BILL))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary directory of the files."""
        self.folder.cleanup()


def bill(version: str, licence: str, requirements: Sequence[str]) -> str:
    """Return the bill of materials (CycloneDX 1.6), which lists uenvtool's requirements without installed versions.

    It contains no time and no name of a program, so that the same source gives the same bytes. This function does not
    use the CycloneDX library, because each installation from a clone would have to download the library for the build.
    """
    own = f"pkg:pypi/uenvtool@{version}"
    needed = {f"pkg:pypi/{canonicalize_name(Requirement(text).name)}": text for text in sorted(requirements)}
    data = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, "\n".join([own, *needed.values()])).urn,
        "version": 1,
        "metadata": {
            "component": _component(own, "application") | {"version": version, "licenses": [{"expression": licence}]}
        },
        "components": [
            _component(address, "library") | {"properties": [{"name": "uenvtool:requirement", "value": text}]}
            for address, text in needed.items()
        ],
        "dependencies": [{"ref": own, "dependsOn": sorted(needed)}],
    }
    return json.dumps(data, indent=2) + "\n"


def _component(address: str, kind: str) -> dict[str, Any]:
    name = address.rpartition("/")[2].partition("@")[0]
    return {"type": kind, "bom-ref": address, "name": name, "purl": address}
