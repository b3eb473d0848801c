"""Resolves what has to be installed: the user's requirements on top of what the base has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from uenvtool.core.errors import AnswerIsNo, Problem
from uenvtool.venv import pylock
from uenvtool.venv.base import Distribution
from uenvtool.venv.fit import floor, marker_environment, newer, protected, satisfies
from uenvtool.venv.plan import OverlayPlan, load_one
from uenvtool.venv.question import Question
from uenvtool.venv.requirements import UserRequirement
from uenvtool.venv.settings import ALL
from uenvtool.venv.uv import BuildFailed, NoSolution, Uv

OPEN_BELOW = frozenset({"<", "<=", "!="})
"""Operators that do not say how old a version may be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """What is installed.

    lock: as a pylock.toml. versions: by normalized name, empty for a project that has none. older: what the user named
    and gets now in an older version than the newest that is allowed: name to the newest.
    """

    lock: str = pylock.EMPTY
    versions: Mapping[str, str] = field(default_factory=dict)
    older: Mapping[str, str] = field(default_factory=dict)


def resolve(uv: Uv, plan: OverlayPlan) -> Resolution:
    """Resolve with uv, the base's packages pinned but for those that the user names in another version.

    What the user names without a lower bound is not taken in a version that is older by a major version (by a minor one
    below 1.0) than the newest, nor in an older one without a wheel, unless that is allowed. uv runs once, a second time
    for the newest of what the user names, and a third time if that is too far from what came of the first.
    Raises AnswerIsNo if the requirements contradict the base, or would replace or double what is protected.
    """
    replaceable = _replaceable(plan)
    if not plan.wanted.requirements and not plan.overrides:
        return Resolution()
    question = Question(uv, plan, replaceable)
    text, error = "", None
    try:
        text = question.answer()
    except (NoSolution, BuildFailed) as failed:
        error = failed  # perhaps only since old releases were tried, on the way back to one that fits
    named = _newest_named(plan, question, pylock.versions_of(text))
    newest = question.newest() if named else ""
    versions = {name: version for name, version in pylock.versions_of(newest).items() if name in named}
    held = {} if plan.request.allow_older else _held(plan, versions)
    if error is not None or _is_too_old(text, versions, held):
        if error is not None and not held:
            raise question.explained(error, held)
        try:
            text = question.answer(held, only_binary=held.keys() - pylock.without_wheel(newest) - _built(plan))
        except (NoSolution, BuildFailed) as failed:
            raise question.explained(failed, held) from None
    resolution = _resolution(plan, question, text, versions)
    _refuse_torch(plan, question, resolution)
    _refuse_protected(plan, question, resolution, replaceable)
    return resolution


def _built(plan: OverlayPlan) -> set[str]:
    built = plan.settings.built_on_base
    return set(plan.wanted.names) if ALL in built else set(built)


def _newest_named(plan: OverlayPlan, question: Question, found: Mapping[str, str]) -> frozenset[str]:
    """List what the user names whose newest version is to be known: not what is pinned, or stays as it was."""
    return frozenset(
        wanted.name
        for wanted in plan.wanted.requirements
        if wanted.is_of_index
        and wanted.name not in question.pins
        and not wanted.operators & {"==", "==="}
        and (wanted.name not in plan.preferred or plan.preferred[wanted.name] != found.get(wanted.name))
    )


def _held(plan: OverlayPlan, newest: Mapping[str, str]) -> dict[str, str]:
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
    versions, sources = pylock.versions_of(text), pylock.without_wheel(text)
    return any(
        newer(oldest, versions[name]) or (name in sources and newer(newest[name], versions[name]))
        for name, oldest in held.items()
        if name in versions
    )


def _resolution(plan: OverlayPlan, question: Question, text: str, newest: Mapping[str, str]) -> Resolution:
    versions = {name: version for name, version in pylock.versions_of(text).items() if name not in question.pins}
    older = {
        name: newest[name]
        for name, version in versions.items()
        if name in newest and version != plan.preferred.get(name) and newer(newest[name], version)
    }
    return Resolution(lock=pylock.stripped(text, question.pins), versions=versions, older=older)


def _replaceable(plan: OverlayPlan) -> frozenset[str]:
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


def _refuse_torch(plan: OverlayPlan, question: Question, resolution: Resolution) -> None:
    """Refuse a torch of the index where the base was expected to bring one."""
    base, version = plan.base, resolution.versions.get("torch")
    if version is None or "torch" in base.packages or base.is_plain:
        return
    if "torch" not in plan.override_names:
        raise AnswerIsNo(
            f"no torch lies under this: {base.described()} has none, and {question.askers('torch')} would bring torch "
            f"{version} from the package index, which knows neither this machine's GPUs nor its network",
            hint=f"{load_one(os.environ)}, name a base that has torch with --base PYTHON, make a plain environment "
            "with a torch of its own (--no-base), or take that torch with --override torch",
        )


def _refuse_protected(
    plan: OverlayPlan, question: Question, resolution: Resolution, replaceable: frozenset[str]
) -> None:
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
