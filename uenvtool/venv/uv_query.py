"""Asks uv: the user's requirements, with the base's packages as wheels that hold nothing but metadata."""

from __future__ import annotations

import copy
import io
import re
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from uenvtool.core.errors import UenvtoolError
from uenvtool.core.files import fill
from uenvtool.core.words import canonical
from uenvtool.venv import pylock
from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.compat import as_release, is_version, marker_environment, protected, requirements, satisfies
from uenvtool.venv.plan import OverlayPlan
from uenvtool.venv.uv import BuildFailed, IndexFailed, NoSolution, Uv, Words

WANTED = "wanted.in"


class Question:
    """What uv is asked: files with the inputs of one resolution.

    pins: the requirements that pin what stays of the base, by name.
    """

    def __init__(self, uv: Uv, plan: OverlayPlan, replaceable: frozenset[str]) -> None:
        self.uv, self.plan, self.base, self.folder = uv, plan, plan.base, uv.work / "resolve"
        stubs = write_stubs(self.folder / "base", plan.base)
        self.pins = {name: pin for name, pin in stubs.items() if name not in replaceable}
        own = [wanted.text for wanted in plan.wanted.requirements if not wanted.read_by_uv]
        requirers = [self.pins[name] for name in _requirers(plan, replaceable) if name in self.pins]
        forced = _as_vendors_name_it(plan)  # a stub has the release's version, which does not satisfy these
        fill(
            self.folder,
            {
                # The requirers take part, so that uv keeps to what they want and names them.
                WANTED: _lines([*plan.wanted.lines, *own, *plan.overrides, *requirers]),
                "pins.txt": _lines(pin for name, pin in self.pins.items() if name not in forced),
                "overrides.txt": _lines(pin for name, pin in self.pins.items() if name in forced),
                "constraints.txt": _lines(self._user_constraints()),
            },
        )

    def answer(self, floors: Mapping[str, str] | None = None, *, only_binary: Iterable[str] = ()) -> str:
        """Resolve; return the pylock.toml. floors: the oldest versions to take. only_binary: what is not built."""
        bounds = _lines(f"{name}>={version}" for name, version in (floors or {}).items())
        preferred = pylock.listing(self.plan.preferred)  # uv stays with what its output says
        fill(self.folder, {"floors.txt": bounds, pylock.LOCK: preferred})
        more: list[str | Path] = ["-c", self.folder / "floors.txt"]
        more += [word for name in sorted(only_binary) for word in ("--only-binary", name)]
        self.uv.run([*self._words(), *more, "--format", pylock.LOCK, "-o", self.folder / pylock.LOCK])
        return pylock.with_whole_paths((self.folder / pylock.LOCK).read_text(encoding="utf-8"), self.folder)

    def newest(self) -> str:
        """Resolve what the user names without what it needs: the newest that is allowed, whatever the base has."""
        asks_index = all(wanted.is_of_index for wanted in self.plan.wanted.requirements)
        uv = replace(self.uv, unbuilt=None) if asks_index else self.uv  # whose answer needs no build
        return self._tried(uv.run_again, "pylock.newest.toml", "--no-deps")

    def askers(self, name: str) -> str:
        """Say who asks for a package that would be installed."""
        own = f"-r {self.folder / WANTED}"
        every = self.annotations().get(name, [own])
        return ", ".join("you" if who == own else who.removeprefix("-r ") for who in every)

    def annotations(self) -> dict[str, list[str]]:
        """Return who asks for each package, from uv's comments in a requirements file; `-r FILE` is the user."""
        words = [*self._words(), "--annotation-style", "line", "--no-strip-extras"]
        pairs = (line.partition("# via ") for line in self.uv.run_again(words).splitlines())
        found = {re.split(r"[\s\[=@]", what, maxsplit=1)[0]: via for what, _, via in pairs if via}
        return {canonical(name): [who.strip() for who in via.split(",")] for name, via in found.items()}

    def explained(self, error: UenvtoolError, older: Mapping[str, str]) -> UenvtoolError:
        """Add to uv's words what the base has of the packages that they name, and which versions fit.

        older: versions that fit and that --allow-older would take.
        """
        if not isinstance(error, NoSolution):
            return error
        named = {canonical(word) for word in re.findall(r"[A-Za-z0-9][\w.-]*", error.explanation)}
        mine = sorted(named & self.pins.keys())
        fitting = ", ".join(f"{name} {version}" for name, version in older.items())
        ways = [f"--allow-older takes {fitting}, the newest that fits"] if older else []
        others = self._fitting(named - older.keys()) if mine else {}
        fitting = ", ".join(f"{name}=={version}" for name, version in others.items())
        ways += [f"ask for {fitting}, the newest that fits the base"] if others else []
        if not ways:
            ways = ["ask for versions that fit" if mine else "ask for versions that exist and fit together"]
        for name in mine:
            rule = protected(name)
            ways.append(f"--override {name} replaces the base's{f' (protected: {rule.cost})' if rule else ''}")
        of_base = ", ".join(f"{self.base.packages[name].name} {self.base.packages[name].version}" for name in mine)
        return NoSolution(error.explanation, note=of_base and f"  the base has {of_base}", hint="; ".join(ways))

    def _fitting(self, names: Collection[str]) -> dict[str, str]:
        """Find the newest versions that fit of what the user asks for in another version; nothing if none does."""
        from packaging.specifiers import SpecifierSet

        asked = [wanted for wanted in self.plan.wanted.requirements if wanted.name in names and wanted.operators]
        asked = [wanted for wanted in asked if wanted.is_of_index and wanted.name not in self.base.packages]
        if not asked:
            return {}
        unbound = [copy.copy(wanted.requirement) for wanted in asked]
        for requirement in filter(None, unbound):
            requirement.specifier = SpecifierSet()
        fill(self.folder, {"unbound.txt": _lines(map(str, unbound))})
        more: list[str | Path] = ["--overrides", self.folder / "unbound.txt", "--only-binary", ":all:"]
        versions = pylock.versions_of(self._tried(self.uv.run, "pylock.fitting.toml", *more))
        return {wanted.name: versions[wanted.name] for wanted in asked if wanted.name in versions}

    def _tried(self, run: Callable[[Words], str], name: str, *more: str | Path) -> str:
        """Resolve beside the resolution, into a file of its own; empty if that fails: the resolution says why."""
        path = self.folder / name
        try:
            run([*self._words(), *more, "--format", pylock.LOCK, "-o", path])
        except (NoSolution, BuildFailed, IndexFailed):
            return ""
        return path.read_text(encoding="utf-8")

    def _words(self) -> list[str | Path]:
        words: list[str | Path] = ["pip", "compile", "--python", self.base.python, "--no-header", "--quiet"]
        words += ["-c", self.folder / "pins.txt", "-c", self.folder / "constraints.txt"]
        words += ["--overrides", self.folder / "overrides.txt"]
        return [*words, self.folder / WANTED, *self.plan.wanted.sources]

    def _user_constraints(self) -> Iterator[str]:
        """Give the user's constraints; not those that the base satisfies, which NVIDIA's images set on their builds."""
        for constraint in self.plan.wanted.constraints:
            package = self.base.packages.get(constraint.name) if constraint.name in self.pins else None
            specifier = constraint.requirement.specifier if constraint.requirement else None
            is_met = package is not None and specifier is not None and satisfies(specifier, package.version)
            if not is_met and not constraint.read_by_uv:
                yield constraint.text


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def _requirers(plan: OverlayPlan, replaceable: frozenset[str]) -> list[str]:
    """Find the base's packages that want one that may be replaced, and that the base satisfies."""
    environment = marker_environment(plan.base)
    return [
        name
        for name, distribution in sorted(plan.base.packages.items())
        if name not in replaceable
        and any(
            canonical(found.name) in replaceable
            and satisfies(found.specifier, plan.base.packages[canonical(found.name)].version)
            for found in requirements(distribution, environment)
        )
    ]


def _as_vendors_name_it(plan: OverlayPlan) -> frozenset[str]:
    """Find what the user names in the very version of the vendor's build, as `pip freeze` in an image prints it."""
    found = set()
    for wanted in (*plan.wanted.requirements, *plan.wanted.constraints):
        package = plan.base.packages.get(wanted.name)
        specifier = wanted.requirement.specifier if wanted.requirement else None
        if package is None or specifier is None or not is_version(package.version):
            continue
        if specifier.contains(package.version, prereleases=True) and not specifier.contains(
            as_release(package.version), prereleases=True
        ):
            found.add(wanted.name)
    return frozenset(found)


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
