"""What has to be installed: the user's requirements resolved on top of what the base has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.errors import AnswerIsNo, Problem, UenvtoolError
from uenvtool.files import fill
from uenvtool.overlay.base import Base, Distribution
from uenvtool.overlay.check import Conflict
from uenvtool.overlay.protect import protected
from uenvtool.overlay.requirements import Asked, Request
from uenvtool.overlay.stubs import write_stubs
from uenvtool.overlay.uv import NoSolution, Uv
from uenvtool.overlay.versions import canonical, marker_environment, newer, requirements, satisfies

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

PREFERRED = "preferred.txt"
_BOUND = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*?)((?:[<>=!~]=?=?[^\s,<>=!~]+,?)+)")
MOST_TOLD = 5
_DEPENDS = re.compile(r"([A-Za-z0-9][\w.-]*)==([\w.+!-]+) depends on (\S+)")
_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*(?:==\s*([^\s;]+)|@\s*(\S+))")


@dataclass(frozen=True, slots=True)
class Resolved:
    """One package of a resolution. line: as uv wrote it; via: the packages that want it."""

    name: str
    version: str
    line: str
    via: tuple[str, ...]
    from_base: bool


@dataclass(frozen=True, slots=True)
class Resolution:
    """All packages of it; and whether the base's versions were forced on their requirers."""

    packages: tuple[Resolved, ...]
    forced: bool = False

    @property
    def to_install(self) -> tuple[Resolved, ...]:
        """What the base lacks, or what goes over it."""
        return tuple(each for each in self.packages if not each.from_base)


def released(base: Base, request: Request, overrides: Sequence[str]) -> dict[str, str]:
    """The base's packages that may be replaced: name -> who wants it.

    Raises AnswerIsNo where a protected one would be, without having been named for it.
    """
    environment = marker_environment(base)
    problems: list[Problem] = []
    found = {name: "--override" for name in overrides if name in base.packages}
    for asked in request.asked:
        there = base.packages.get(asked.name)
        if there is None or asked.name in found or _fits(asked, there, environment):
            continue
        rule = protected(asked.name)
        if rule is None:
            found[asked.name] = asked.origin
        else:
            problems.append(_protected_problem(asked, there, rule.cost))
    if problems:
        raise AnswerIsNo(problems)
    return found


def resolve(
    uv: Uv,
    base: Base,
    request: Request,
    free: Mapping[str, str],
    overrides: Sequence[str],
    preferred: Mapping[str, str],
) -> Resolution:
    """Resolve with uv, the base's packages pinned but for those in `free`.

    overrides: requirements that --override names. preferred: versions to stay with where they fit.
    Raises AnswerIsNo where uv says who asks the base for what it has not. Where uv's words do not
    tell that, the resolution is made once more with the base's versions forced; the caller then
    says it from the packages' own metadata.
    """
    folder = uv.work / "resolve"
    pins = {name: pin for name, pin in write_stubs(folder / "base", base).items() if name not in free}
    wanted = [asked.text for asked in request.asked if asked.position is None]
    kept = [f"{name}=={version}" for name, version in preferred.items() if name not in pins]
    fill(folder, {"asked.in": "\n".join([*wanted, *overrides, ""]), PREFERRED: "\n".join([*kept, ""])})
    requirers = _of_requirers(base, free)
    constraints = [*_user_constraints(base, request, pins), *requirers]
    try:
        return _compiled(uv, base, request, folder, {"constraints": [*pins.values(), *constraints]}, pins)
    except NoSolution as error:
        told = conflicts_told(error.said, base, pins)
        if told:
            raise AnswerIsNo(told) from None
        forced = {"overrides": list(pins.values())}
        try:
            found = _compiled(uv, base, request, folder, forced, pins)
        except NoSolution:
            raise NoSolution(error.said, _whose(requirers, error.said)) from None
        return Resolution(found.packages, forced=True)


def _whose(requirers: Mapping[str, Sequence[str]], said: str) -> str:
    """Who of the base is behind a constraint that uv's words name as the user's own."""
    from packaging.requirements import Requirement

    told = {(canonical(name), _specifier(text)) for name, text in _BOUND.findall(" ".join(said.split()))}
    lines = []
    for line, names in requirers.items():
        requirement = Requirement(line)
        if (canonical(requirement.name), requirement.specifier) in told:
            lines.append(f"  {line}: for {', '.join(names)} in the base")
    return "\n".join(lines)


def _specifier(text: str) -> SpecifierSet | None:
    """Bounds as a set, in whatever order they are written."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(text.rstrip(",."))
    except InvalidSpecifier:
        return None


def conflicts_told(said: str, base: Base, pins: Mapping[str, str]) -> list[Problem]:
    """Who asks the base for a version that it has not, from uv's explanation of why there is no solution."""
    from packaging.requirements import InvalidRequirement, Requirement

    found: dict[str, Conflict] = {}
    for who, version, text in _DEPENDS.findall(" ".join(said.split())):
        try:
            requirement = Requirement(text.rstrip(",."))
        except InvalidRequirement:
            continue
        name = canonical(requirement.name)
        there = base.packages.get(name) if name in pins else None
        if there is not None and not satisfies(requirement.specifier, there.version):
            wants = f"{requirement.name}{requirement.specifier}"
            conflict = Conflict(Distribution(who, version, ""), who, wants, name, there, there_in_base=True)
            before = found.get(who)
            if before is None or before.asker is None or newer(version, before.asker.version):
                found[who] = conflict
    return [each.problem() for each in list(found.values())[:MOST_TOLD]]


def older_than_newest(uv: Uv, base: Base, request: Request, resolution: Resolution) -> list[str]:
    """What a user should know of packages that are not the newest because the base's versions are kept.

    A resolver goes back as far as it must, and years back is rarely what is meant.
    """
    bound = {each.name for each in request.constrained}
    free = [each for each in request.asked if each.requirement and not each.requirement.url and each.name not in bound]
    chosen = {each.name: each.version for each in resolution.to_install if each.version}
    wanted = {each.name: str(each.requirement) for each in free if each.name in chosen}
    if not wanted:
        return []
    folder = uv.work / "newest"
    fill(folder, {"asked.in": "\n".join([*wanted.values(), ""])})
    words: list[str | Path] = ["pip", "compile", "--no-deps", "--quiet", "--no-header", "--no-annotate"]
    try:
        said = uv.run([*words, "--python", base.python, folder / "asked.in"])
    except UenvtoolError:
        return []  # only a remark is lost
    newest = {each.name: each.version for each in parse_resolution(said, base, {}, request)}
    return [
        f"{name} {chosen[name]} fits this base; the newest that you allow is {newest[name]}: "
        f"ask for {name}=={newest[name]} to see what it asks of the base"
        for name in wanted
        if name in newest and newer(newest[name], chosen[name])
    ]


def _fits(asked: Asked, there: Distribution, environment: dict[str, str]) -> bool:
    """Whether the base's package is what was asked for."""
    requirement = asked.requirement
    if requirement is not None and requirement.marker and not requirement.marker.evaluate(environment):
        return True
    return not asked.is_direct and requirement is not None and satisfies(requirement.specifier, there.version)


def _protected_problem(asked: Asked, there: Distribution, cost: str) -> Problem:
    wants = asked.text if asked.requirement is None else str(asked.requirement)
    return Problem(
        f"{wants} is asked for, and the base has {there.name} {there.version}, which is protected: {cost}",
        asked.position,
        f"leave it to the base, or replace it with --override {asked.name}",
    )


def _compiled(
    uv: Uv, base: Base, request: Request, folder: Path, more: Mapping[str, Sequence[str]], pins: Mapping[str, str]
) -> Resolution:
    """One resolution; `more` are constraints or overrides, each written to a file of that name."""
    words: list[str | Path] = ["pip", "compile", "--python", base.python, "--no-header", "--annotation-style", "split"]
    words += ["--no-strip-extras", "--quiet"]
    for kind, lines in more.items():
        fill(folder, {f"{kind}.txt": "\n".join([*lines, ""])})
        words += [f"--{kind}", folder / f"{kind}.txt"]
    for url in (each for each in request.constraints if "://" in str(each)):
        words += ["--constraints", str(url)]
    for file in uv.settings.overrides:
        words += ["--overrides", file]
    result = folder / f"{next(iter(more))}-result.txt"
    fill(folder, {result.name: (folder / PREFERRED).read_bytes()})  # uv stays with what its output file says
    uv.run([*words, "-o", result, folder / "asked.in", *request.files])
    return Resolution(tuple(parse_resolution(result.read_text(encoding="utf-8"), base, pins, request)))


def parse_resolution(text: str, base: Base, pins: Mapping[str, str], request: Request) -> list[Resolved]:
    """uv's requirements.txt with `# via` comments, as packages."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            via = line.lstrip(" #").removeprefix("via").strip()
            if found and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?", via):
                found[-1][1].append(canonical(via.partition("[")[0]))
        elif line.strip():
            found.append((line.strip(), []))
    return [_resolved(line, tuple(via), base, pins, request) for line, via in found]


def _resolved(line: str, via: tuple[str, ...], base: Base, pins: Mapping[str, str], request: Request) -> Resolved:
    match = None if line.startswith("-e ") else _PINNED.match(line)
    if match is None:  # an editable folder: its name is known from the request, or after the installation
        name = next((each.name for each in request.asked if each.editable and each.text == line), "")
        return Resolved(name, "", line, via, False)
    name = canonical(match[1])
    if pins.get(name, "").endswith(f"@ {match[3]}") and match[3]:
        return Resolved(name, base.packages[name].version, line, via, True)
    return Resolved(name, match[2] or "", line, via, False)


def _user_constraints(base: Base, request: Request, pins: Mapping[str, str]) -> list[str]:
    """The user's constraints; not those that the base satisfies, which NVIDIA's images set on their own builds."""
    lines = []
    for each in request.constrained:
        there = base.packages.get(each.name) if each.name in pins else None
        specifier = each.requirement.specifier if each.requirement else None
        if there is None or specifier is None or not satisfies(specifier, there.version):
            lines.append(each.text)
    return lines


def _of_requirers(base: Base, free: Mapping[str, str]) -> dict[str, list[str]]:
    """What the base's packages want of the ones that may be replaced: constraint -> who wants it."""
    environment = marker_environment(base)
    found: dict[str, list[str]] = {}
    for name, distribution in sorted(base.packages.items()):
        if name in free:
            continue
        for requirement in requirements(distribution, environment):
            there = base.packages.get(canonical(requirement.name))
            if canonical(requirement.name) in free and there and satisfies(requirement.specifier, there.version):
                found.setdefault(f"{requirement.name}{requirement.specifier}", []).append(distribution.name)
    return dict(sorted(found.items()))
