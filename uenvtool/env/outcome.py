"""What a build gave: the root packages with their versions, what to know of them, what comes next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uenvtool.core.errors import Position
from uenvtool.core.result import Result, Table
from uenvtool.env.environment import Environment, Root
from uenvtool.env.folder import LOCK, TABLE
from uenvtool.env.lock import Lock
from uenvtool.env.manifest import MANIFEST
from uenvtool.knowledge.locate import from_root

HEADINGS = ("package", "version", "set in", "why")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a build gave. lock: None if Spack is still to make it. state: why, or where the lock is from."""

    environment: Environment
    folder: Path
    lock: Lock | None
    state: str
    next_steps: tuple[str, ...]

    def result(self, *, verbose: bool = False) -> Result:
        """The outcome as a user sees it; verbose: with a row for each root package."""
        return Result(
            data=self.data(),
            text=self._summary(),
            tables=(Table(headings=HEADINGS, rows=self.rows()),) if verbose else (),
            warnings=tuple(self.warnings()),
            notes=(self.state,),
            next=self.next_steps,
        )

    def _summary(self) -> str:
        """The files that were made, a line each."""
        lines = [f"{self.folder / MANIFEST}: {len(self.environment.roots)} root packages; --verbose lists them"]
        if self.lock:
            lines.append(f"{self.folder / LOCK}: {len(self.lock.packages)} packages; {TABLE} beside it lists them")
        return "\n".join(lines)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The root packages: package, version, the file and line that set it, reason."""
        versions = self.lock.versions() if self.lock else {}
        rows = []
        for root in self.environment.roots:
            resolved = ", ".join(versions.get(root.package, ()))
            requested, origin = self._requested_version(root)
            rows.append((root.package, resolved or requested, origin, root.reason))
        return rows

    def warnings(self) -> list[str]:
        """What to know of the pinned versions: a line for each with known vulnerabilities, or taken back."""
        taken_back = [
            f"{yanked.package}@{str(yanked.versions).lstrip('=')} was taken back by its makers: {yanked.reason}"
            for yanked in self.environment.yanked
        ]
        return [*self._vulnerabilities(), *taken_back]

    def _vulnerabilities(self) -> list[str]:
        pinned = {root.package: str(root.version).lstrip("=") for root in self.environment.roots if root.version}
        by_package: dict[str, dict[str, list[str]]] = {}
        for cve in self.environment.cves:
            by_package.setdefault(cve.package, {}).setdefault(cve.fixed, []).append(cve.id)
        lines = []
        for package, by_fix in by_package.items():
            listed = [f"{', '.join(ids)}" + (f" (fixed in {fixed})" if fixed else "") for fixed, ids in by_fix.items()]
            lines.append(f"{package}@{pinned.get(package, '')} has known vulnerabilities: {'; '.join(listed)}")
        return lines

    def data(self) -> dict[str, Any]:
        """The same as data for --json."""
        return {
            "recipe": self.environment.recipe.name,
            "system": self.environment.system.name,
            "uarch": self.environment.node.uarch,
            "folder": str(self.folder),
            "state": self.state,
            "roots": [
                {"package": package, "version": version, "from": origin, "reason": reason}
                for package, version, origin, reason in self.rows()
            ],
            "packages": self.lock.versions() if self.lock else None,
            "cves": [
                {"id": cve.id, "package": cve.package, "versions": str(cve.versions), "fixed": cve.fixed}
                for cve in self.environment.cves
            ],
            "yanked": [
                {"package": yanked.package, "versions": str(yanked.versions), "reason": yanked.reason}
                for yanked in self.environment.yanked
            ],
            "next": "\n".join(self.next_steps),
        }

    def _requested_version(self, root: Root) -> tuple[str, str]:
        """The version that a root is requested at, and the file and line that say so."""
        if root.version:
            return str(root.version).lstrip("="), _file_and_line(root.origin)
        settings = next((package for package in self.environment.packages if package.name == root.package), None)
        if settings and settings.externals and settings.buildable is False:
            external = settings.externals[0]
            return str(external.spec.versions), _file_and_line(external.position)
        if settings and settings.preferred:
            version = settings.preferred.versions[0].lstrip("=")
            return f"{version} if possible", _file_and_line(settings.preferred.origin)
        return "Spack chooses", ""


def _file_and_line(position: Position) -> str:
    """FILE:LINE, for a table; built-in files from the folder that holds recipes/ and systems/."""
    return from_root(f"{position.file}:{position.line}")
