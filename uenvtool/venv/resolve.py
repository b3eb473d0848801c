"""Resolves what has to be installed: the user's requirements on top of what the base has."""

from __future__ import annotations

import datetime
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from uenvtool.core.errors import AnswerIsNo, Problem
from uenvtool.core.words import canonical
from uenvtool.venv import pylock
from uenvtool.venv.base import Distribution
from uenvtool.venv.compat import floor, marker_environment, newer, protected, satisfies
from uenvtool.venv.plan import OverlayPlan, load_one
from uenvtool.venv.requirements import UserRequirement
from uenvtool.venv.settings import ALL
from uenvtool.venv.uv import BuildFailed, NoSolution, Uv
from uenvtool.venv.uv_query import Question

CAPS = frozenset({"<", "<="})
OPEN_BELOW = CAPS | {"!="}
"""Operators that do not say how old a version may be."""
YEARS_OLDER = datetime.timedelta(days=2 * 365)
"""How much older than the newest a release may be that is taken because it fits the base, if no version was asked for.
Of a base with torch 2.6 (2025-01) and of 2026-11, torchvision 0.21 is 21 months older than the newest, 0.29.2: PyPI."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """What is installed.

    lock: as a pylock.toml. versions: by normalized name, empty for a project that has none. older: what the user named
    and gets now in an older version than the newest that is allowed: name to the newest. askers: which packages ask for
    each, known in a dry run.
    """

    lock: str = pylock.EMPTY
    versions: Mapping[str, str] = field(default_factory=dict)
    older: Mapping[str, str] = field(default_factory=dict)
    askers: Mapping[str, Sequence[str]] = field(default_factory=dict)


def resolve(uv: Uv, plan: OverlayPlan) -> Resolution:
    """Resolve with uv, the base's packages pinned but for those that the user names in another version.

    What the user names without a lower bound stays near the newest: in its major version (below 1.0 in its minor one),
    and with a wheel. If nothing there fits, the newest release that fits is taken of what was named without any
    version, if the index says that it is less than YEARS_OLDER. uv runs once, a second time for the newest of what the
    user names, and a third time if that is too far from what came of the first.
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
    if uv.unbuilt is not None and uv.unbuilt.add(pylock.without_wheel(newest) & named):
        text = question.answer()
    held = _held(plan, versions)
    if error is not None or _too_old(text, newest, held):
        if error is not None and not held:
            raise question.explained(error, {})
        built = held if plan.request.allow_older else pylock.without_wheel(newest) | _built(plan)
        try:
            text = question.answer(held, only_binary=held.keys() - built)
        except (NoSolution, BuildFailed) as failed:
            older = {name: pylock.versions_of(text)[name] for name in _too_old(text, newest, held)}
            if not older or not _may_be_older(plan, older.keys(), text, newest):
                raise question.explained(failed, _uncapped(plan, older)) from None
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
    """Find the oldest versions to take of what the user names without a lower bound: near the newest, or the old.

    --allow-older lifts them, but for what the user caps: a version that is asked for in words is meant.
    """
    found = {}
    for name, operators in sorted(_operators(plan).items()):
        is_held = operators & CAPS if plan.request.allow_older else True
        if name in newest and operators <= OPEN_BELOW and is_held:
            before = plan.preferred.get(name, newest[name])
            found[name] = floor(before if newer(newest[name], before) else newest[name])
    return {name: version for name, version in found.items() if version}


def _operators(plan: OverlayPlan) -> dict[str, set[str]]:
    """Return what the user says of the versions of each package that is named."""
    found: dict[str, set[str]] = {}
    for wanted in plan.wanted.requirements:
        found.setdefault(wanted.name, set()).update(wanted.operators)
    return found


def _uncapped(plan: OverlayPlan, versions: Mapping[str, str]) -> dict[str, str]:
    operators = _operators(plan)
    return {name: version for name, version in versions.items() if not operators[name] & CAPS}


def _too_old(text: str, newest: str, held: Mapping[str, str]) -> frozenset[str]:
    """List what is older than is held, or has only its source where a newer release has a wheel."""
    versions, sources, newest_of = pylock.versions_of(text), pylock.without_wheel(text), pylock.versions_of(newest)
    return frozenset(
        name
        for name, oldest in held.items()
        if name in versions
        and (newer(oldest, versions[name]) or (name in sources and newer(newest_of[name], versions[name])))
    )


def _may_be_older(plan: OverlayPlan, names: Collection[str], text: str, newest: str) -> bool:
    """Tell if all of these were named without a version, have a wheel, and are less than YEARS_OLDER by the index."""
    operators, sources = _operators(plan), pylock.without_wheel(text)
    dates, newest_dates = pylock.uploaded(text), pylock.uploaded(newest)
    return all(
        not operators[name]
        and name not in sources
        and name in dates
        and name in newest_dates
        and newest_dates[name] - dates[name] < YEARS_OLDER
        for name in names
    )


def _resolution(plan: OverlayPlan, question: Question, text: str, newest: Mapping[str, str]) -> Resolution:
    versions = {name: version for name, version in pylock.versions_of(text).items() if name not in question.pins}
    older = {
        name: newest[name]
        for name, version in versions.items()
        if name in newest and version != plan.preferred.get(name) and newer(newest[name], version)
    }
    askers = {}
    if plan.request.dry_run:
        for name, every in question.annotations().items():
            packages = [who for who in every if not who.startswith("-")]  # the others are files of the user's
            is_of_base = name in plan.base.packages  # else only an extra of a package there can ask for it
            askers[name] = [who for who in packages if canonical(who) in versions or not is_of_base]
    return Resolution(lock=pylock.stripped(text, question.pins), versions=versions, older=older, askers=askers)


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
