"""What has to be installed: the user's requirements resolved on top of what the base has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.core.errors import AnswerIsNo, Problem, UenvtoolError
from uenvtool.core.files import fill
from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.check import Conflict
from uenvtool.venv.protect import protected
from uenvtool.venv.requirements import UserRequest, UserRequirement, resolved_place, wheel_version
from uenvtool.venv.settings import ALL
from uenvtool.venv.stubs import write_stubs
from uenvtool.venv.uv import Uv
from uenvtool.venv.uv_failures import DiskFull, IndexFailed, NoSolution
from uenvtool.venv.versions import canonical, floor, marker_environment, newer, requirements, satisfies

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

PREFERRED = "preferred.txt"
MOST_CONFLICTS = 5
_BOUND = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*?)((?:[<>=!~]=?=?[^\s,<>=!~]+,?)+)")
_DEPENDS = re.compile(r"([A-Za-z0-9][\w.-]*)(?:==|>=)([\w.+!-]+)(?:,[<>=!][\w.+!=-]+)* depends on (\S+)")
_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*(?:==\s*([^\s;]+)|@\s*(\S+))")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPackage:
    """One package of a resolution. line: as uv wrote it; via: the packages that want it."""

    name: str
    version: str
    line: str
    via: tuple[str, ...] = ()
    from_base: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """All packages of it.

    forced: the base's versions were forced on those that want others. older: what the user named and gets now
    in an older version than the newest that is allowed: name to the newest. floors: the oldest that were tried.
    """

    packages: tuple[ResolvedPackage, ...] = ()
    forced: bool = False
    older: Mapping[str, str] = field(default_factory=dict)
    floors: Mapping[str, str] = field(default_factory=dict)

    @property
    def to_install(self) -> tuple[ResolvedPackage, ...]:
        """What the base lacks, or what goes over it."""
        return tuple(package for package in self.packages if not package.from_base)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is resolved: a request on a base.

    replaceable: the base's packages that may be replaced. overrides: requirements that --override names.
    preferred: versions to stay with if they fit. allow_older: what the user named may go back by any distance.
    """

    base: Base
    request: UserRequest
    replaceable: frozenset[str] = frozenset()
    overrides: tuple[str, ...] = ()
    preferred: Mapping[str, str] = field(default_factory=dict)
    allow_older: bool = False


def replaceable_packages(base: Base, request: UserRequest, overrides: Sequence[str]) -> frozenset[str]:
    """The base's packages that may be replaced, because the user names them in another version.

    overrides: the names of --override. Raises AnswerIsNo if a protected one would be replaced that is
    not among them.
    """
    environment = marker_environment(base)
    problems: list[Problem] = []
    found = {name for name in overrides if name in base.packages}
    for wanted in request.requirements:
        package = base.packages.get(wanted.name)
        if package is None or wanted.name in found or _fits(wanted, package, environment):
            continue
        rule = protected(wanted.name)
        if rule is None:
            found.add(wanted.name)
        else:
            problems.append(_protected_problem(wanted, package, rule.cost))
    if problems:
        raise AnswerIsNo(problems)
    return frozenset(found)


def resolve(uv: Uv, question: Question) -> Resolution:
    """Resolve with uv, the base's packages pinned but for those that may be replaced.

    What the user names without a lower bound is not taken in a version that is older by a major version (by a
    minor one below 1.0) than the newest, unless that is allowed. Raises AnswerIsNo if uv says who asks the base
    for what it has not. If uv's words do not tell that, the resolution is made once more with the base's
    versions forced; the caller then says it from the packages' own metadata.
    """
    folder = uv.work / "resolve"
    stubs = write_stubs(folder / "base", question.base)
    pins = {name: pin for name, pin in stubs.items() if name not in question.replaceable}
    _write_inputs(folder, question, pins)
    requirers = _of_requirers(question)
    constraints = [*pins.values(), *_user_constraints(question, pins), *requirers]
    packages = _of_wheels(uv, question, folder, constraints, pins)
    newest = _newest_versions(uv, question, pins)
    if packages is not None:
        resolution = Resolution(packages=packages, older=_older(question, packages, newest))
        if question.allow_older or not _goes_far_back(resolution, _floors(question, newest)):
            return resolution
    floors = {} if question.allow_older else _floors(question, newest)
    bounds = [f"{name}>={version}" for name, version in floors.items()]
    try:
        packages = _compiled(uv, question, folder, {"constraints": [*constraints, *bounds]}, pins)
        return Resolution(packages=packages, older=_older(question, packages, newest))
    except NoSolution as error:
        conflicts = conflicts_of_explanation(error.explanation, question.base, pins)
        if conflicts:
            raise AnswerIsNo(with_way_back(conflicts, floors)) from None
        try:
            packages = _compiled(uv, question, folder, {"overrides": list(pins.values()), "constraints": bounds}, pins)
        except NoSolution:
            notes = [_whose(requirers, error.explanation), _floor_note(floors, newest)]
            raise NoSolution(error.explanation, "\n".join(filter(None, notes))) from None
        older = _older(question, packages, newest)
        return Resolution(packages=packages, forced=True, older=older, floors=floors)


def with_way_back(problems: Sequence[Problem], floors: Mapping[str, str]) -> list[Problem]:
    """The problems, with the option that takes older versions of what the user named, if any were kept from that."""
    if not floors:
        return list(problems)
    way = f"; --allow-older takes an older {', '.join(floors)}, if one fits"
    return [replace(problem, hint=f"{problem.hint or ''}{way}".lstrip("; ")) for problem in problems]


def conflicts_of_explanation(explanation: str, base: Base, pins: Mapping[str, str]) -> list[Problem]:
    """Who asks the base for a version that it has not, from uv's explanation of why there is no solution."""
    from packaging.requirements import InvalidRequirement, Requirement

    found: dict[str, Conflict] = {}
    for who, version, text in _DEPENDS.findall(" ".join(explanation.split())):
        try:
            requirement = Requirement(text.rstrip(",."))
        except InvalidRequirement:
            continue
        name = canonical(requirement.name)
        package = base.packages.get(name) if name in pins else None
        if package is None or satisfies(requirement.specifier, package.version):
            continue
        before = found.get(who)
        if before is None or before.asker is None or newer(version, before.asker.version):
            found[who] = Conflict(
                asker=Distribution(name=who, version=version, folder=""),
                origin=who,
                wants=f"{requirement.name}{requirement.specifier}",
                name=name,
                present=package,
                present_in_base=True,
            )
    return [conflict.problem() for conflict in list(found.values())[:MOST_CONFLICTS]]


def _floor_note(floors: Mapping[str, str], newest: Mapping[str, str]) -> str:
    """Why old versions were not tried."""
    tried = [f"{name} before {version} (the newest is {newest[name]})" for name, version in floors.items()]
    return f"  not tried: {', '.join(tried)}; --allow-older tries them" if tried else ""


def parse_resolution(text: str, question: Question, pins: Mapping[str, str]) -> list[ResolvedPackage]:
    """uv's requirements.txt with `# via` comments, as packages."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            via = line.lstrip(" #").removeprefix("via").strip()
            if found and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?", via):
                found[-1][1].append(canonical(via.partition("[")[0]))
        elif line.strip():
            found.append((line.strip(), []))
    return [_resolved(line, tuple(via), question, pins) for line, via in found]


def _write_inputs(folder: Path, question: Question, pins: Mapping[str, str]) -> None:
    """What is wanted beside requirement files, and the versions to stay with."""
    texts = [wanted.text for wanted in question.request.requirements if wanted.position is None]
    kept = [f"{name}=={version}" for name, version in question.preferred.items() if name not in pins]
    fill(folder, {"wanted.in": _lines([*texts, *question.overrides]), PREFERRED: _lines(kept)})
    fill(folder, {copy: question.request.streams[place] for place, copy in _copies(question.request).items()})


def _copies(request: UserRequest) -> dict[str, str]:
    """The names under which uv gets the files that can be read only once."""
    return {place: f"stream-{number}.in" for number, place in enumerate(request.streams)}


def _of_wheels(
    uv: Uv, question: Question, folder: Path, constraints: Sequence[str], pins: Mapping[str, str]
) -> tuple[ResolvedPackage, ...] | None:
    """The resolution with nothing built of what the user names; None if there is none.

    On the way back to a version that fits, a resolver would build what old releases call their source.
    """
    built = uv.settings.built_on_base
    names = [] if question.allow_older or ALL in built else sorted(_open_below(question) - set(built))
    try:
        return _compiled(uv, question, folder, {"constraints": constraints}, pins, only_binary=names)
    except (IndexFailed, DiskFull):
        raise
    except UenvtoolError:
        return None  # said by the resolution that may build


def _newest_versions(uv: Uv, question: Question, pins: Mapping[str, str]) -> dict[str, str]:
    """The newest versions that the user allows of what the user named and the base does not give."""
    bound = {constraint.name for constraint in question.request.constraints}
    wanted = {
        requirement.name: str(requirement.requirement)
        for requirement in question.request.requirements
        if requirement.is_of_index and requirement.name not in bound and requirement.name not in pins
    }
    if not wanted:
        return {}
    folder = uv.work / "newest"
    fill(folder, {"wanted.in": _lines(wanted.values())})
    words: list[str | Path] = ["pip", "compile", "--no-deps", "--quiet", "--no-header", "--no-annotate"]
    try:
        printed = uv.run_again([*words, "--python", question.base.python, folder / "wanted.in"])
    except UenvtoolError:
        return {}  # the resolution says what is wrong
    return {package.name: package.version for package in parse_resolution(printed, question, {}) if package.version}


def _open_below(question: Question) -> frozenset[str]:
    """What the user names without saying how old it may be."""
    named: dict[str, list[str]] = {}
    for wanted in question.request.requirements:
        if wanted.requirement is not None and wanted.is_of_index:
            operators = named.setdefault(wanted.name, [])
            operators += [specifier.operator for specifier in wanted.requirement.specifier]
    return frozenset(name for name, operators in named.items() if not set(operators) - {"<", "<=", "!="})


def _floors(question: Question, newest: Mapping[str, str]) -> dict[str, str]:
    """The oldest versions that are near the newest, or near the version that was taken before."""
    found = {}
    for name in sorted(_open_below(question) & set(newest)):
        before = question.preferred.get(name, newest[name])
        found[name] = floor(before if newer(newest[name], before) else newest[name])
    return {name: version for name, version in found.items() if version}


def _older(question: Question, packages: Iterable[ResolvedPackage], newest: Mapping[str, str]) -> dict[str, str]:
    """What is taken now in an older version than the newest; what was there before in that version stays."""
    return {
        package.name: newest[package.name]
        for package in packages
        if package.name in newest
        and not package.from_base
        and package.version != question.preferred.get(package.name)
        and newer(newest[package.name], package.version)
    }


def _goes_far_back(resolution: Resolution, floors: Mapping[str, str]) -> bool:
    """Tell if something that the user named is older than it may be."""
    return any(
        newer(floors[package.name], package.version)
        for package in resolution.to_install
        if package.name in floors and package.name in resolution.older
    )


def _whose(requirers: Mapping[str, Sequence[str]], explanation: str) -> str:
    """Who of the base is behind a constraint that uv's words name as the user's own."""
    from packaging.requirements import Requirement

    bounds = {(canonical(name), _specifier(text)) for name, text in _BOUND.findall(" ".join(explanation.split()))}
    lines = []
    for line, names in requirers.items():
        requirement = Requirement(line)
        if (canonical(requirement.name), requirement.specifier) in bounds:
            lines.append(f"  {line}: for {', '.join(names)} in the base")
    return "\n".join(lines)


def _specifier(text: str) -> SpecifierSet | None:
    """Bounds as a set, in whatever order they are written."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(text.rstrip(",."))
    except InvalidSpecifier:
        return None


def _fits(wanted: UserRequirement, package: Distribution, environment: dict[str, str]) -> bool:
    """Tell if the base's package is what the user wants."""
    requirement = wanted.requirement
    if requirement is not None and requirement.marker and not requirement.marker.evaluate(environment):
        return True
    return requirement is not None and wanted.is_of_index and satisfies(requirement.specifier, package.version)


def _protected_problem(wanted: UserRequirement, package: Distribution, cost: str) -> Problem:
    text = wanted.text if wanted.requirement is None else str(wanted.requirement)
    return Problem(
        f"{text} is asked for, and the base has {package.name} {package.version}, which is protected: {cost}",
        wanted.position,
        f"leave it to the base, or replace it with --override {wanted.name}",
    )


def _compiled(
    uv: Uv,
    question: Question,
    folder: Path,
    more: Mapping[str, Sequence[str]],
    pins: Mapping[str, str],
    *,
    only_binary: Sequence[str] = (),
) -> tuple[ResolvedPackage, ...]:
    """One resolution.

    more: constraints and overrides, each written to a file of that name. only_binary: what is not built.
    """
    words: list[str | Path] = ["pip", "compile", "--python", question.base.python, "--no-header"]
    words += ["--annotation-style", "split", "--no-strip-extras", "--quiet"]
    for kind, lines in more.items():
        fill(folder, {f"{kind}.txt": _lines(lines)})
        words += [f"--{kind}", folder / f"{kind}.txt"]
    words += [word for name in only_binary for word in ("--only-binary", name)]
    for file in uv.settings.overrides:
        words += ["--overrides", file]
    result = folder / f"{next(iter(more))}-result.txt"
    fill(folder, {result.name: (folder / PREFERRED).read_bytes()})  # uv stays with what its output file says
    copies = _copies(question.request)
    named = [folder / copies[place] if place in copies else place for place in question.request.files]
    uv.run([*words, "-o", result, folder / "wanted.in", *named])
    return tuple(parse_resolution(result.read_text(encoding="utf-8"), question, pins))


def _resolved(line: str, via: tuple[str, ...], question: Question, pins: Mapping[str, str]) -> ResolvedPackage:
    match = None if line.startswith("-e ") else _PINNED.match(line)
    if match is None:  # a place, as a requirement file names it; a folder may have its name only once it is built
        place = resolved_place(line)
        return ResolvedPackage(name=place.name, version=wheel_version(place.text), line=place.text, via=via)
    name = canonical(match[1])
    if match[3] and pins.get(name, "").endswith(f"@ {match[3]}"):
        version = question.base.packages[name].version
        return ResolvedPackage(name=name, version=version, line=line, via=via, from_base=True)
    return ResolvedPackage(name=name, version=match[2] or wheel_version(match[3]), line=line, via=via)


def _user_constraints(question: Question, pins: Mapping[str, str]) -> list[str]:
    """The user's constraints; not those that the base satisfies, which NVIDIA's images set on their own builds."""
    lines = []
    for constraint in question.request.constraints:
        package = question.base.packages.get(constraint.name) if constraint.name in pins else None
        specifier = constraint.requirement.specifier if constraint.requirement else None
        if package is None or specifier is None or not satisfies(specifier, package.version):
            lines.append(constraint.text)
    return lines


def _of_requirers(question: Question) -> dict[str, list[str]]:
    """What the base's packages want of the ones that may be replaced: constraint to who wants it."""
    base, replaceable = question.base, question.replaceable
    environment = marker_environment(base)
    found: dict[str, list[str]] = {}
    for name, distribution in sorted(base.packages.items()):
        if name in replaceable:
            continue
        for requirement in requirements(distribution, environment):
            package = base.packages.get(canonical(requirement.name))
            if package and package.key in replaceable and satisfies(requirement.specifier, package.version):
                found.setdefault(f"{requirement.name}{requirement.specifier}", []).append(distribution.name)
    return dict(sorted(found.items()))


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)
