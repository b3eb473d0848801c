"""Resolves what has to be installed: the user's requirements on top of what the base has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from uenvtool.core.errors import AnswerIsNo, Problem, UenvtoolError
from uenvtool.core.files import fill
from uenvtool.core.words import canonical
from uenvtool.venv import lock
from uenvtool.venv.base import Distribution
from uenvtool.venv.plan import Plan, load_one
from uenvtool.venv.protect import protected
from uenvtool.venv.requirements import UserRequirement
from uenvtool.venv.settings import ALL
from uenvtool.venv.stubs import write_stubs
from uenvtool.venv.uv import BuildFailed, IndexFailed, NoSolution, Uv
from uenvtool.venv.versions import as_release, floor, is_version, marker_environment, newer, requirements, satisfies
from uenvtool.venv.where import NAMED

WANTED = "wanted.in"
OPEN_BELOW = frozenset({"<", "<=", "!="})
"""Operators that do not say how old a version may be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """What is installed.

    lock: as a pylock.toml. versions: by normalized name, empty for a project that has none. older: what the user named
    and gets now in an older version than the newest that is allowed: name to the newest.
    """

    lock: str = lock.EMPTY
    versions: Mapping[str, str] = field(default_factory=dict)
    older: Mapping[str, str] = field(default_factory=dict)


def resolve(uv: Uv, plan: Plan) -> Resolution:
    """Resolve with uv, the base's packages pinned but for those that the user names in another version.

    What the user names without a lower bound is not taken in a version that is older by a major version (by a minor one
    below 1.0) than the newest, nor in an older one without a wheel, unless that is allowed. uv runs once, a second time
    for the newest of what the user names, and a third time if that is too far from what came of the first.
    Raises AnswerIsNo if the requirements contradict the base, or would replace or double what is protected.
    """
    replaceable = _replaceable(plan)
    if not plan.wanted.requirements and not plan.overrides:
        return Resolution()
    question = _Question(uv, plan, replaceable)
    text, error = "", None
    try:
        text = question.answer()
    except (
        NoSolution,
        BuildFailed,
    ) as failed:  # perhaps only since old releases were tried, on the way back to one that fits
        error = failed
    named = _newest_named(plan, question, lock.versions_of(text))
    newest = question.newest() if named else ""
    versions = {name: version for name, version in lock.versions_of(newest).items() if name in named}
    held = {} if plan.request.allow_older else _held(plan, versions)
    if error is not None or _is_too_old(text, versions, held):
        if error is not None and not held:
            raise question.explained(error, held)
        try:
            text = question.answer(held, only_binary=held.keys() - lock.without_wheel(newest) - _built(plan))
        except (NoSolution, BuildFailed) as failed:
            raise question.explained(failed, held) from None
    resolution = _resolution(plan, question, text, versions)
    _refuse_torch(plan, question, resolution)
    _refuse_protected(plan, question, resolution, replaceable)
    return resolution


class _Question:
    """What uv is asked: files with the inputs of one resolution.

    pins: the requirements that pin what stays of the base, by name. requirers: what of the base wants a package that
    may be replaced; it takes part, so that uv keeps to what it wants and names it.
    """

    def __init__(self, uv: Uv, plan: Plan, replaceable: frozenset[str]) -> None:
        self.uv, self.plan, self.base, self.folder = uv, plan, plan.base, uv.work / "resolve"
        stubs = write_stubs(self.folder / "base", plan.base)
        self.pins = {name: pin for name, pin in stubs.items() if name not in replaceable}
        wanted, requirers = plan.wanted, _requirers(plan, replaceable)
        own = [requirement.text for requirement in wanted.requirements if not requirement.read_by_uv]
        texts = [*wanted.lines, *own, *plan.overrides, *(self.pins[name] for name in requirers if name in self.pins)]
        forced = _as_vendors_name_it(plan)  # a stub has the release's version, which does not satisfy these
        fill(
            self.folder,
            {
                WANTED: _lines(texts),
                "pins.txt": _lines(pin for name, pin in self.pins.items() if name not in forced),
                "overrides.txt": _lines(pin for name, pin in self.pins.items() if name in forced),
                "constraints.txt": _lines(self._user_constraints()),
                "preferred.toml": lock.listing(plan.preferred),
            },
        )

    def answer(self, floors: Mapping[str, str] | None = None, *, only_binary: Iterable[str] = ()) -> str:
        """Resolve; return the pylock.toml. floors: the oldest versions to take. only_binary: what is not built."""
        bounds = _lines(f"{name}>={version}" for name, version in (floors or {}).items())
        preferred = (self.folder / "preferred.toml").read_text(encoding="utf-8")
        fill(self.folder, {"floors.txt": bounds, lock.LOCK: preferred})  # uv stays with what its output says
        more: list[str | Path] = ["-c", self.folder / "floors.txt"]
        more += [word for name in sorted(only_binary) for word in ("--only-binary", name)]
        self.uv.run([*self._words(), *more, "--format", lock.LOCK, "-o", self.folder / lock.LOCK])
        return lock.with_whole_paths((self.folder / lock.LOCK).read_text(encoding="utf-8"), self.folder)

    def newest(self) -> str:
        """Resolve what the user names without what it needs: the newest that is allowed, whatever the base has."""
        path = self.folder / "pylock.newest.toml"
        try:
            self.uv.run_again([*self._words(), "--no-deps", "--format", lock.LOCK, "-o", path])
        except (NoSolution, BuildFailed, IndexFailed):
            return ""  # the resolution says what is wrong
        return path.read_text(encoding="utf-8")

    def askers(self, name: str) -> str:
        """Say who asks for a package that would be installed, from uv's comments in a requirements file."""
        words = [*self._words(), "--annotation-style", "line", "--no-strip-extras"]
        lines = self.uv.run_again(words).splitlines()
        line = next((line for line in lines if re.match(rf"{name}\b(\[.*\])?\s*[=@]", line)), "")
        via = [who.strip() for who in line.partition("# via ")[2].split(",")]
        own = f"-r {self.folder / WANTED}"
        return ", ".join("you" if who in (own, "") else who.removeprefix("-r ") for who in via)

    def explained(self, error: UenvtoolError, floors: Mapping[str, str]) -> UenvtoolError:
        """Add to uv's words what the base has of the packages that they name, and what was not tried."""
        if not isinstance(error, NoSolution):
            return error
        named = {canonical(word) for word in re.findall(r"[A-Za-z0-9][\w.-]*", error.explanation)}
        mine = sorted(named & self.pins.keys())
        ways = ["ask for versions that fit" if mine else "ask for versions that exist and fit together"]
        for name in mine:
            rule = protected(name)
            ways.append(f"--override {name} replaces the base's{f' (protected: {rule.cost})' if rule else ''}")
        if floors:
            ways.append(f"--allow-older takes an older {', '.join(floors)}, if one fits")
        of_base = ", ".join(f"{self.base.packages[name].name} {self.base.packages[name].version}" for name in mine)
        return NoSolution(error.explanation, note=of_base and f"  the base has {of_base}", hint="; ".join(ways))

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


def _built(plan: Plan) -> set[str]:
    """List what is built from its source because the user says so."""
    built = plan.settings.built_on_base
    return set(plan.wanted.names) if ALL in built else set(built)


def _newest_named(plan: Plan, question: _Question, found: Mapping[str, str]) -> frozenset[str]:
    """List what the user names whose newest version is to be known: not what is pinned, or stays as it was."""
    return frozenset(
        wanted.name
        for wanted in plan.wanted.requirements
        if wanted.is_of_index
        and wanted.name not in question.pins
        and not wanted.operators & {"==", "==="}
        and (wanted.name not in plan.preferred or plan.preferred[wanted.name] != found.get(wanted.name))
    )


def _held(plan: Plan, newest: Mapping[str, str]) -> dict[str, str]:
    """Find the oldest versions to take of what the user names without a lower bound: near the newest, or the old."""
    bounds: dict[str, set[str]] = {}
    for wanted in plan.wanted.requirements:
        bounds.setdefault(wanted.name, set()).update(wanted.operators)
    found = {}
    for name in sorted(name for name, operators in bounds.items() if operators <= OPEN_BELOW):
        if name in newest:
            before = plan.preferred.get(name, newest[name])
            found[name] = floor(before if newer(newest[name], before) else newest[name])
    return {name: version for name, version in found.items() if version}


def _is_too_old(text: str, newest: Mapping[str, str], held: Mapping[str, str]) -> bool:
    versions, sources = lock.versions_of(text), lock.without_wheel(text)
    return any(
        newer(oldest, versions[name]) or (name in sources and newer(newest[name], versions[name]))
        for name, oldest in held.items()
        if name in versions
    )


def _resolution(plan: Plan, question: _Question, text: str, newest: Mapping[str, str]) -> Resolution:
    versions = {name: version for name, version in lock.versions_of(text).items() if name not in question.pins}
    older = {
        name: newest[name]
        for name, version in versions.items()
        if name in newest and version != plan.preferred.get(name) and newer(newest[name], version)
    }
    return Resolution(lock=lock.stripped(text, question.pins), versions=versions, older=older)


def _requirers(plan: Plan, replaceable: frozenset[str]) -> list[str]:
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


def _as_vendors_name_it(plan: Plan) -> frozenset[str]:
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


def _refuse_torch(plan: Plan, question: _Question, resolution: Resolution) -> None:
    """Refuse a torch of the index where the base was expected to bring one."""
    base, version = plan.base, resolution.versions.get("torch")
    if version is None or "torch" in base.packages or base.is_plain or base.found.kind == NAMED:
        return
    if "torch" not in plan.override_names:
        raise AnswerIsNo(
            f"no torch lies under this: {base.described()} has none, and {question.askers('torch')} would bring torch "
            f"{version} from the package index, which knows neither this machine's GPUs nor its network",
            hint=f"{load_one(os.environ)}, name a base with --base PYTHON, take that torch with --override torch, "
            "or make a plain environment with --no-base",
        )


def _refuse_protected(plan: Plan, question: _Question, resolution: Resolution, replaceable: frozenset[str]) -> None:
    """Refuse what would come beside or over a library that the base carries, without having been named."""
    named = {*replaceable, *plan.override_names, *plan.wanted.names}
    has_torch = "torch" in plan.base.packages and "torch" not in replaceable
    problems = []
    for name, version in resolution.versions.items():
        rule = protected(name)
        if rule is None or name in named:
            continue
        if name in plan.base.packages or (rule.refuse_missing and has_torch):
            who = question.askers(name)
            message = f"{who} asks for {name} {version}, which is protected: {rule.cost}"
            hint = f"leave {who} out, ask for another version of it, or install it with --override {name}"
            problems.append(Problem(message, hint=hint))
    AnswerIsNo.raise_any(problems)
