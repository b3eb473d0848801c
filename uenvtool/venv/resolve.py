"""Resolves the packages to install: the user's requirements on top of the base's packages."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from uenvtool.core.errors import AnswerIsNo, Problem
from uenvtool.core.words import canonical
from uenvtool.venv import pylock
from uenvtool.venv.compat import floor, marker_environment, newer, protected
from uenvtool.venv.plan import OverlayPlan, fits, how_to_load_torch
from uenvtool.venv.settings import ALL
from uenvtool.venv.uv import BuildFailed, NoSolution, Uv
from uenvtool.venv.uv_query import Question

CAPS = frozenset({"<", "<="})
OPEN_BELOW = CAPS | {"!="}
"""The version operators that set no lower bound."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """The resolved packages.

    lock: the text of a pylock.toml. versions: the versions by normalized name; a project without a version has an empty
    string. older: for each package that the user named and that gets an older version, the newest allowed version.
    askers: the packages that require each package, known only in a dry run.
    """

    lock: str = pylock.EMPTY
    versions: Mapping[str, str] = field(default_factory=dict)
    older: Mapping[str, str] = field(default_factory=dict)
    askers: Mapping[str, Sequence[str]] = field(default_factory=dict)


def resolve(uv: Uv, plan: OverlayPlan) -> Resolution:
    """Resolve the requirements with uv. The base's packages are pinned unless the user requests another version.

    A package that the user names without a lower bound gets a version near the newest: the same major version (below
    1.0 the same minor version) and a wheel. If no such version fits and the user named no version, the newest release
    that fits is used if the index dates it less than YEARS_OLDER before the newest. uv runs once, a second time to find
    the newest versions of the named packages, and a third time if the first result is too old. Raises AnswerIsNo if the
    requirements contradict the base, or would replace or duplicate a protected package.
    """
    replaceable = _replaceable(plan)
    if not plan.requested.requirements and not plan.overrides:
        return Resolution()
    question = Question(uv, plan, replaceable)
    text, error = "", None
    try:
        text = question.answer()
    except (NoSolution, BuildFailed) as failed:
        error = failed  # the cause may only be old releases, which uv tried while it searched for one that fits
    names = _newest_named(plan, question, pylock.versions_of(text))
    newest = question.newest() if names else ""
    versions = {name: version for name, version in pylock.versions_of(newest).items() if name in names}
    if uv.unbuilt is not None and uv.unbuilt.add(pylock.without_wheel(newest) & names):
        text = question.answer()
    oldest_allowed = _oldest_allowed(plan, versions)
    if error is not None or _too_old(text, newest, oldest_allowed):
        if error is not None and not oldest_allowed:
            raise question.explained(error, {})
        built = plan.settings.built_on_base
        may_build = pylock.without_wheel(newest) | (plan.requested.names if ALL in built else frozenset(built))
        source_allowed = oldest_allowed.keys() if plan.request.allow_older else may_build
        try:
            text = question.answer(oldest_allowed, only_binary=oldest_allowed.keys() - source_allowed)
        except (NoSolution, BuildFailed) as failed:
            older = {name: pylock.versions_of(text)[name] for name in _too_old(text, newest, oldest_allowed)}
            if not older or not _may_be_older(plan, older.keys(), text, newest):
                operators = _operators(plan)
                uncapped = {name: version for name, version in older.items() if not operators[name] & CAPS}
                raise question.explained(failed, uncapped, pylock.much_older(text, newest)) from None
    resolution = _resolution(plan, question, text, versions)
    _refuse_torch(plan, question, resolution)
    _refuse_protected(plan, question, resolution, replaceable)
    return resolution


def _newest_named(plan: OverlayPlan, question: Question, versions: Mapping[str, str]) -> frozenset[str]:
    return frozenset(
        requirement.name
        for requirement in plan.requested.requirements
        if requirement.is_of_index
        and requirement.name not in question.pins
        and not requirement.operators & {"==", "==="}
        and (
            requirement.name not in plan.preferred or plan.preferred[requirement.name] != versions.get(requirement.name)
        )
    )


def _oldest_allowed(plan: OverlayPlan, newest: Mapping[str, str]) -> dict[str, str]:
    # With --allow-older, only packages with an upper bound have an oldest version, because the user chose that bound.
    oldest = {}
    for name, operators in sorted(_operators(plan).items()):
        applies = operators & CAPS if plan.request.allow_older else True
        if name in newest and operators <= OPEN_BELOW and applies:
            reference = plan.preferred.get(name, newest[name])
            oldest[name] = floor(reference if newer(newest[name], reference) else newest[name])
    return {name: version for name, version in oldest.items() if version}


def _operators(plan: OverlayPlan) -> dict[str, set[str]]:
    operators: dict[str, set[str]] = {}
    for requirement in plan.requested.requirements:
        operators.setdefault(requirement.name, set()).update(requirement.operators)
    return operators


def _too_old(text: str, newest: str, oldest_allowed: Mapping[str, str]) -> frozenset[str]:
    # A release without a wheel is also too old if a newer release has a wheel.
    versions, sources, newest_of = pylock.versions_of(text), pylock.without_wheel(text), pylock.versions_of(newest)
    return frozenset(
        name
        for name, oldest in oldest_allowed.items()
        if name in versions
        and (newer(oldest, versions[name]) or (name in sources and newer(newest_of[name], versions[name])))
    )


def _may_be_older(plan: OverlayPlan, names: Set[str], text: str, newest: str) -> bool:
    operators, sources = _operators(plan), pylock.without_wheel(text)
    dates, newest_dates = pylock.uploaded(text), pylock.uploaded(newest)
    return not names & pylock.much_older(text, newest) and all(
        not operators[name] and name not in sources and name in dates and name in newest_dates for name in names
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
        for name, requirers in question.annotations().items():
            packages = [requirer for requirer in requirers if not requirer.startswith("-")]  # without the user's files
            is_of_base = name in plan.base.packages  # otherwise only an extra of a base package can require it
            askers[name] = [requirer for requirer in packages if canonical(requirer) in versions or not is_of_base]
    return Resolution(lock=pylock.stripped(text, question.pins), versions=versions, older=older, askers=askers)


def _replaceable(plan: OverlayPlan) -> frozenset[str]:
    environment = marker_environment(plan.base)
    problems: list[Problem] = []
    replaceable = {name for name in plan.override_names if name in plan.base.packages}
    for requirement in plan.requested.requirements:
        package = plan.base.packages.get(requirement.name)
        if package is None or requirement.name in replaceable or fits(requirement, package, environment):
            continue
        rule = protected(requirement.name)
        if rule is None:
            replaceable.add(requirement.name)
            continue
        text = requirement.text if requirement.requirement is None else str(requirement.requirement)
        message = f"{text} is requested, but the base has {package.name} {package.version}, which is protected"
        hint = f"keep the base's version with --keep-base, or replace it with --override {requirement.name}"
        problems.append(Problem(f"{message}: {rule.cost}", requirement.position, hint))
    AnswerIsNo.raise_any(problems)
    return frozenset(replaceable)


def _refuse_torch(plan: OverlayPlan, question: Question, resolution: Resolution) -> None:
    base, version = plan.base, resolution.versions.get("torch")
    if version is None or "torch" in base.packages or base.is_plain:
        return
    if "torch" not in plan.override_names:
        raise AnswerIsNo(
            f"no base with torch: {base.described()} has no torch, and torch {version} from the package index, "
            f"required by {question.askers('torch')}, is not built for this machine's GPUs and network",
            hint=f"{how_to_load_torch(os.environ)}, name a base that has torch with --base PYTHON, create a plain "
            "environment with its own torch (--no-base), or install that torch with --override torch",
        )


def _refuse_protected(
    plan: OverlayPlan, question: Question, resolution: Resolution, replaceable: frozenset[str]
) -> None:
    allowed = {*replaceable, *plan.override_names, *plan.requested.names}
    has_torch = "torch" in plan.base.packages and "torch" not in replaceable
    problems = []
    for name, version in resolution.versions.items():
        rule = protected(name)
        if rule is None or name in allowed:
            continue
        if name in plan.base.packages or (rule.refuse_missing and has_torch):
            requirers = question.askers(name)
            message = f"{name} {version}, required by {requirers}, is protected: {rule.cost}"
            hint = f"remove {requirers}, request another version, or install {name} with --override {name}"
            problems.append(Problem(message, hint=hint))
    AnswerIsNo.raise_any(problems)
