"""Resolves what has to be installed: the user's requirements on top of what the base has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from uenvtool.core.errors import AnswerIsNo, Problem, UenvtoolError
from uenvtool.core.files import fill
from uenvtool.core.words import canonical
from uenvtool.venv.base import Distribution
from uenvtool.venv.check import conflict
from uenvtool.venv.plan import Plan, load_one
from uenvtool.venv.protect import protected
from uenvtool.venv.requirements import UserRequirement, parse, wheel_version
from uenvtool.venv.settings import ALL
from uenvtool.venv.stubs import write_stubs
from uenvtool.venv.uv import Uv
from uenvtool.venv.uv_failures import DiskFull, IndexFailed, NoSolution
from uenvtool.venv.versions import floor, marker_environment, newer, requirements, satisfies
from uenvtool.venv.where import NAMED

PREFERRED = "preferred.txt"
MOST_CONFLICTS = 5
_BOUND = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*?)((?:[<>=!~]=?=?[^\s,<>=!~]+,?)+)")
_DEPENDS = re.compile(r"([A-Za-z0-9][\w.-]*)(?:==|>=)([\w.+!-]+)(?:,[<>=!][\w.+!=-]+)* depends on (\S+)")
_PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*(?:==\s*([^\s;]+)|@\s*(\S+))")
_VIA = re.compile(r"\s*# (?!via\s*\Z)\s*(?:via\s+)?([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedPackage:
    """One package of a resolution. line: as uv wrote it; via: the packages that want it."""

    name: str
    version: str
    line: str
    via: tuple[str, ...] = ()
    from_base: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """What is installed.

    forced: the base's versions were forced on those that want others. older: what the user named and gets now
    in an older version than the newest that is allowed: name to the newest. floors: the oldest that were tried.
    """

    packages: tuple[ResolvedPackage, ...] = ()
    forced: bool = False
    older: Mapping[str, str] = field(default_factory=dict)
    floors: Mapping[str, str] = field(default_factory=dict)


def resolve(uv: Uv, plan: Plan) -> Resolution:
    """Resolve with uv, the base's packages pinned but for those that the user names in another version.

    What the user names without a lower bound is not taken in a version that is older by a major version (by a
    minor one below 1.0) than the newest, unless that is allowed. Raises AnswerIsNo if the requirements contradict the
    base, or would replace or double what is protected. If uv's words do not tell who contradicts it, the resolution is
    made once more with the base's versions forced; the caller then says it from the packages' own metadata.
    """
    replaceable = _replaceable(plan)
    if not plan.wanted.requirements and not plan.overrides:
        return Resolution()
    resolution = _Resolver(uv, plan, replaceable).resolved()
    _refuse_torch(plan, resolution)
    _refuse_protected(plan, resolution, replaceable)
    return resolution


class _Resolver:
    """uv with the inputs of one resolution. pins: the requirements that pin what stays of the base, by name."""

    def __init__(self, uv: Uv, plan: Plan, replaceable: frozenset[str]) -> None:
        self.uv, self.plan, self.base, self.folder = uv, plan, plan.base, uv.work / "resolve"
        stubs = write_stubs(self.folder / "base", plan.base)
        self.pins = {name: pin for name, pin in stubs.items() if name not in replaceable}
        self.requirers = _requirers(plan, replaceable)
        texts = [wanted.text for wanted in plan.wanted.requirements]
        kept = [f"{name}=={version}" for name, version in plan.preferred.items() if name not in self.pins]
        fill(self.folder, {"wanted.in": _lines([*texts, *plan.overrides]), PREFERRED: _lines(kept)})

    def resolved(self) -> Resolution:
        constraints = [*self.pins.values(), *self._user_constraints(), *self.requirers]
        packages = self._of_wheels(constraints)
        newest = self._newest()
        floors = {} if self.plan.request.allow_older else self._floors(newest)
        if packages is not None:
            older = self._older(packages, newest)
            far_back = (package for package in packages if package.name in floors and package.name in older)
            if not any(newer(floors[package.name], package.version) for package in far_back):
                return Resolution(packages=_to_install(packages), older=older)
        bounds = [f"{name}>={version}" for name, version in floors.items()]
        forced = False
        try:
            packages = self._compiled(constraints=[*constraints, *bounds])
        except NoSolution as error:
            pinned = {name: self.base.packages[name] for name in self.pins}
            problems = conflicts_of_explanation(error.explanation, pinned)
            if problems:
                raise AnswerIsNo(hint_allow_older(problems, floors)) from None
            forced = True
            try:
                packages = self._compiled(overrides=list(self.pins.values()), constraints=bounds)
            except NoSolution:
                notes = [*self._whose(error.explanation), *_not_tried(floors, newest)]
                raise NoSolution(error.explanation, "\n".join(notes)) from None
        older = self._older(packages, newest)
        return Resolution(packages=_to_install(packages), forced=forced, older=older, floors=floors if forced else {})

    def _compiled(self, *, only_binary: Sequence[str] = (), **more: Sequence[str]) -> list[ResolvedPackage]:
        """Resolve once. more: constraints and overrides. only_binary: what is not built."""
        words: list[str | Path] = ["pip", "compile", "--python", self.base.python, "--no-header"]
        words += ["--annotation-style", "split", "--no-strip-extras", "--quiet"]
        for kind, lines in more.items():
            fill(self.folder, {f"{kind}.txt": _lines(lines)})
            words += [f"--{kind}", self.folder / f"{kind}.txt"]
        words += [word for name in only_binary for word in ("--only-binary", name)]
        words += [word for file in self.uv.settings.overrides for word in ("--overrides", file)]
        result = self.folder / f"{next(iter(more))}-result.txt"
        fill(self.folder, {result.name: (self.folder / PREFERRED).read_bytes()})  # uv stays with what its output says
        self.uv.run([*words, "-o", result, self.folder / "wanted.in"])
        return list(self._parsed(result.read_text(encoding="utf-8")))

    def _of_wheels(self, constraints: Sequence[str]) -> list[ResolvedPackage] | None:
        """Resolve with nothing built of what the user names; None if there is no such resolution.

        On the way back to a version that fits, a resolver would build what old releases call their source.
        """
        built = self.uv.settings.built_on_base
        names = [] if self.plan.request.allow_older or ALL in built else sorted(_open_below(self.plan) - set(built))
        try:
            return self._compiled(constraints=constraints, only_binary=names)
        except (IndexFailed, DiskFull):
            raise
        except UenvtoolError:
            return None  # said by the resolution that may build

    def _newest(self) -> dict[str, str]:
        """Find the newest versions that the user allows of what the user named and the base does not give."""
        bound = {constraint.name for constraint in self.plan.wanted.constraints}
        wanted = {
            requirement.name: str(requirement.requirement)
            for requirement in self.plan.wanted.requirements
            if requirement.is_of_index and requirement.name not in bound and requirement.name not in self.pins
        }
        if not wanted:
            return {}
        fill(self.folder, {"named.in": _lines(wanted.values())})
        words = ["pip", "compile", "--no-deps", "--quiet", "--no-header", "--no-annotate", "--python", self.base.python]
        try:
            printed = self.uv.run_again([*words, self.folder / "named.in"])
        except UenvtoolError:
            return {}  # the resolution says what is wrong
        return {package.name: package.version for package in self._parsed(printed) if package.version}

    def _floors(self, newest: Mapping[str, str]) -> dict[str, str]:
        """Find the oldest versions that are near the newest, or near the version that was taken before."""
        found = {}
        for name in sorted(_open_below(self.plan) & set(newest)):
            before = self.plan.preferred.get(name, newest[name])
            found[name] = floor(before if newer(newest[name], before) else newest[name])
        return {name: version for name, version in found.items() if version}

    def _older(self, packages: Iterable[ResolvedPackage], newest: Mapping[str, str]) -> dict[str, str]:
        """Find what is taken now in an older version than the newest; what was there before in that version stays."""
        return {
            package.name: newest[package.name]
            for package in packages
            if package.name in newest
            and not package.from_base
            and package.version != self.plan.preferred.get(package.name)
            and newer(newest[package.name], package.version)
        }

    def _user_constraints(self) -> Iterator[str]:
        """Give the user's constraints; not those that the base satisfies, which NVIDIA's images set on their builds."""
        for constraint in self.plan.wanted.constraints:
            package = self.base.packages.get(constraint.name) if constraint.name in self.pins else None
            specifier = constraint.requirement.specifier if constraint.requirement else None
            if package is None or specifier is None or not satisfies(specifier, package.version):
                yield constraint.text

    def _parsed(self, text: str) -> Iterator[ResolvedPackage]:
        """Read uv's requirements.txt with `# via` comments."""
        found: list[tuple[str, list[str]]] = []
        for line in text.splitlines():
            via = _VIA.match(line)
            if via and found:
                found[-1][1].append(canonical(via[1]))
            elif line.strip() and not line.lstrip().startswith("#"):
                found.append((line.strip(), []))
        for line, askers in found:
            yield self._resolved(line, tuple(askers))

    def _resolved(self, line: str, via: tuple[str, ...]) -> ResolvedPackage:
        match = None if line.startswith("-e ") else _PINNED.match(line)
        if match is None:  # a place, as a requirement file names it; a folder may have its name only once it is built
            place = parse(line)
            return ResolvedPackage(name=place.name, version=wheel_version(place.text), line=place.text, via=via)
        name = canonical(match[1])
        if match[3] and self.pins.get(name, "").endswith(f"@ {match[3]}"):
            version = self.base.packages[name].version
            return ResolvedPackage(name=name, version=version, line=line, via=via, from_base=True)
        return ResolvedPackage(name=name, version=match[2] or wheel_version(match[3]), line=line, via=via)

    def _whose(self, explanation: str) -> Iterator[str]:
        from packaging.requirements import Requirement
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        bounds = set()
        for name, text in _BOUND.findall(" ".join(explanation.split())):
            try:
                bounds.add((canonical(name), SpecifierSet(text.rstrip(",."))))
            except InvalidSpecifier:
                continue
        for line, names in self.requirers.items():
            requirement = Requirement(line)
            if (canonical(requirement.name), requirement.specifier) in bounds:
                yield f"  {line}: for {', '.join(names)} in the base"


def conflicts_of_explanation(explanation: str, packages: Mapping[str, Distribution]) -> list[Problem]:
    """Say who asks for another version than that of packages, from uv's explanation of why there is no solution."""
    from packaging.requirements import InvalidRequirement, Requirement

    found: dict[str, tuple[str, Problem]] = {}
    for who, version, text in _DEPENDS.findall(" ".join(explanation.split())):
        try:
            requirement = Requirement(text.rstrip(",."))
        except InvalidRequirement:
            continue
        name = canonical(requirement.name)
        package = packages.get(name)
        if package is None or satisfies(requirement.specifier, package.version):
            continue
        if who not in found or newer(version, found[who][0]):
            asker = Distribution(name=who, version=version, folder="")
            wants = f"{requirement.name}{requirement.specifier}"
            found[who] = version, conflict(asker, wants, name, package, in_base=True)
    return [problem for _, problem in list(found.values())[:MOST_CONFLICTS]]


def hint_allow_older(problems: Iterable[Problem], floors: Mapping[str, str]) -> list[Problem]:
    """Add the option that takes older versions of what the user named, if any were kept from that."""
    way = f"; --allow-older takes an older {', '.join(floors)}, if one fits" if floors else ""
    return [replace(found, hint=f"{found.hint or ''}{way}".removeprefix("; ") or None) for found in problems]


def _not_tried(floors: Mapping[str, str], newest: Mapping[str, str]) -> Iterator[str]:
    tried = [f"{name} before {version} (the newest is {newest[name]})" for name, version in floors.items()]
    if tried:
        yield f"  not tried: {', '.join(tried)}; --allow-older tries them"


def _to_install(packages: Iterable[ResolvedPackage]) -> tuple[ResolvedPackage, ...]:
    return tuple(package for package in packages if not package.from_base)


def _lines(texts: Iterable[str]) -> str:
    return "".join(f"{text}\n" for text in texts)


def _open_below(plan: Plan) -> frozenset[str]:
    """List what the user names without saying how old it may be."""
    named: dict[str, set[str]] = {}
    for wanted in plan.wanted.requirements:
        if wanted.requirement is not None and wanted.is_of_index:
            operators = {specifier.operator for specifier in wanted.requirement.specifier}
            named.setdefault(wanted.name, set()).update(operators)
    return frozenset(name for name, operators in named.items() if not operators - {"<", "<=", "!="})


def _requirers(plan: Plan, replaceable: frozenset[str]) -> dict[str, list[str]]:
    """Find what the base's packages want of the ones that may be replaced: constraint to who wants it."""
    environment = marker_environment(plan.base)
    found: dict[str, list[str]] = {}
    for name, distribution in sorted(plan.base.packages.items()):
        for requirement in () if name in replaceable else requirements(distribution, environment):
            package = plan.base.packages.get(canonical(requirement.name))
            if package and package.key in replaceable and satisfies(requirement.specifier, package.version):
                found.setdefault(f"{requirement.name}{requirement.specifier}", []).append(distribution.name)
    return dict(sorted(found.items()))


def _replaceable(plan: Plan) -> frozenset[str]:
    """Find the base's packages that may be replaced, because the user names them in another version.

    Raises AnswerIsNo if a protected one would be replaced that is not among those of --override.
    """
    environment = marker_environment(plan.base)
    problems: list[Problem] = []
    found = {name for name in plan.override_names if name in plan.base.packages}
    for wanted in plan.wanted.requirements:
        package = plan.base.packages.get(wanted.name)
        if package is None or wanted.name in found or _fits(wanted, package, environment):
            continue
        rule = protected(wanted.name)
        if rule is None:
            found.add(wanted.name)
            continue
        text = wanted.text if wanted.requirement is None else str(wanted.requirement)
        message = f"{text} is asked for, and the base has {package.name} {package.version}, which is protected"
        hint = f"leave it to the base, or replace it with --override {wanted.name}"
        problems.append(Problem(f"{message}: {rule.cost}", wanted.position, hint))
    AnswerIsNo.raise_any(problems)
    return frozenset(found)


def _fits(wanted: UserRequirement, package: Distribution, environment: dict[str, str]) -> bool:
    requirement = wanted.requirement
    if requirement is not None and requirement.marker and not requirement.marker.evaluate(environment):
        return True
    return requirement is not None and wanted.is_of_index and satisfies(requirement.specifier, package.version)


def _refuse_torch(plan: Plan, resolution: Resolution) -> None:
    """Refuse a torch of the index where the base was expected to bring one."""
    base = plan.base
    if "torch" in base.packages or base.is_plain or base.found.kind == NAMED or "torch" in plan.override_names:
        return
    for package in resolution.packages:
        if package.name == "torch":
            who = ", ".join(package.via) or "you"
            raise AnswerIsNo(
                f"no torch lies under this: {base.described()} has none, and {who} would bring torch {package.version} "
                "from the package index, which knows neither this machine's GPUs nor its network",
                hint=f"{load_one(os.environ)}, name a base with --base PYTHON, take that torch with --override torch, "
                "or make a plain environment with --no-base",
            )


def _refuse_protected(plan: Plan, resolution: Resolution, replaceable: frozenset[str]) -> None:
    """Refuse what would come beside or over a library that the base carries, without having been named."""
    named = {*replaceable, *plan.override_names, *plan.wanted.names}
    has_torch = "torch" in plan.base.packages and "torch" not in replaceable
    problems = []
    for package in resolution.packages:
        rule = protected(package.name)
        if rule is None or package.name in named:
            continue
        if package.name in plan.base.packages or (rule.refuse_missing and has_torch):
            who = ", ".join(package.via) or "a requirement"
            message = f"{who} asks for {package.name} {package.version}, which is protected: {rule.cost}"
            hint = f"leave {who} out, ask for another version of it, or install it with --override {package.name}"
            problems.append(Problem(message, hint=hint))
    AnswerIsNo.raise_any(problems)
