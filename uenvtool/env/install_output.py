"""Follows what `spack install` prints: which packages are done, from where, and which one is worked on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_HASH = r"-[a-z0-9]{32}"
_EXTRACTING = re.compile(rf"==> Extracting (\S+){_HASH} from binary cache")
_INSTALLING = re.compile(rf"==> Installing (\S+){_HASH} \[\d+/\d+\]")
_INSTALLED = re.compile(rf"==> [^:]+: Successfully installed (\S+){_HASH}")
_IN_PLACE = re.compile(r"\[\+\] /")


@dataclass(slots=True)
class InstallOutput:
    """What one `spack install` has said so far (Spack v1.1.0, installer.py).

    total: how many packages the environment has. in_place: how many of them are there now, those of the
    system and of earlier runs too. cached, built: the packages that this run took from a build cache, or
    built, as NAME-VERSION. current: the one that is worked on.
    """

    total: int
    in_place: int = 0
    cached: list[str] = field(default_factory=list)
    built: list[str] = field(default_factory=list)
    current: str = ""
    _extracted: set[str] = field(default_factory=set)

    def take(self, line: str) -> bool:
        """Take a line of Spack's. Gives True if another package is worked on now."""
        if found := _EXTRACTING.match(line):
            self._extracted.add(found[1])
            return self._begin(found[1])
        if found := _INSTALLING.match(line):  # after an extraction it comes late
            return found[1] not in {*self._extracted, *self.built} and self._begin(found[1])
        if found := _INSTALLED.match(line):
            (self.cached if found[1] in self._extracted else self.built).append(found[1])
        elif _IN_PLACE.match(line):
            self.in_place += 1
        return False

    def text(self) -> str:
        """The state in a line that begins with what must not be cut off a terminal."""
        origin = "unpacking" if self.current in self._extracted else "building"
        counts = [f"{self.in_place} done, {max(0, self.total - self.in_place)} left"]
        counts += [f"{len(self.cached)} cached"] if self.cached else []
        counts += [f"{len(self.built)} built"] if self.built else []
        return f"{', '.join(counts)}; {origin} {self.current}"

    def _begin(self, package: str) -> bool:
        changed = package != self.current
        self.current = package
        return changed
