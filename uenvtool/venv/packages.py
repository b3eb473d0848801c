"""Which packages are installed: those of a lock, or those that a resolution on the base gives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import AnswerIsNo, BadInput, Position, Problem, UenvtoolError
from uenvtool.venv import lock
from uenvtool.venv.base import Base
from uenvtool.venv.hashes import confined
from uenvtool.venv.plan import Plan
from uenvtool.venv.protect import protected
from uenvtool.venv.requirements import UserRequest, checked_names, names_of, recorded_requirement
from uenvtool.venv.resolve import Question, Resolution, replaceable_packages, resolve
from uenvtool.venv.uv import Uv, find_uv
from uenvtool.venv.where import NAMED


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What is installed.

    text: a lock (empty: nothing). request, overrides: what it is for. built_on_base: what is built with the
    base's torch. resolution: what it was made from, None if it is a user's lock.
    """

    text: str
    request: UserRequest
    overrides: tuple[str, ...]
    built_on_base: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    resolution: Resolution | None = None


def refuse_package_name(plan: Plan) -> None:
    """Raise BadInput if the one word of the order is a package on the index and not yet a folder.

    `uenvtool venv lightning` would make an empty overlay of that name.
    """
    order, word = plan.order, plan.order.first_word
    if plan.request.requirements or order.changes_overlay or order.path.exists():
        return
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", word) is None:
        return
    with files.scratch_folder() as folder:
        uv = Uv(program=find_uv(), settings=plan.settings, work=folder)
        files.fill(folder, {"wanted.in": f"{word}\n"})
        try:
            uv.run(["pip", "compile", "--no-deps", "--quiet", "--python", plan.base.python, folder / "wanted.in"])
        except UenvtoolError:
            return  # no package of that name, or nobody to ask
    raise BadInput(
        f"{word} is a package, and the first word is the folder of the overlay",
        hint=f"did you mean `uenvtool venv .venv {word}`? an empty overlay in a folder of that name is ./{word}",
    )


def from_lock(plan: Plan, path: Path) -> Installation:
    """What a lock says, less what the base has; it is recorded as wanted for what the lock was made for."""
    locked = lock.read_lock(path)
    notes = []
    if locked.base is None:
        notes.append(f"{path} names no base; what {plan.base.described()} has is taken from there")
    elif locked.base != plan.base.fingerprint():
        made_for = f" ({locked.base_name})" if locked.base_name else ""
        notes.append(f"{path} was made for another base{made_for}: this is {plan.base.described()}")
    recorded = checked_names(locked.overrides, "--override", "torch")
    overrides = tuple(dict.fromkeys((*recorded, *plan.overrides)))
    left_out, taken = _taken_from_base(plan.base, locked, names_of(overrides))
    text = lock.unsigned(lock.without(locked.text, left_out) if left_out else locked.text)
    requirements = tuple(recorded_requirement(text, path.name, Position(str(path))) for text in locked.requests)
    return Installation(
        text=text,
        request=UserRequest(requirements=requirements),
        overrides=overrides,
        built_on_base=tuple(dict.fromkeys((*locked.built_on_base, *plan.settings.built_on_base))),
        notes=(*notes, *taken),
    )


def from_resolution(uv: Uv, plan: Plan) -> Installation:
    """What the user's requirements come to on the base.

    Raises AnswerIsNo if they contradict the base, would replace what is protected, would go back further than
    the user allows, or have other hashes than the user names; BadInput if hashes are checked and one is not given.
    """
    resolution = _resolution(uv, plan)
    text = lock.make_lock(uv, plan.base, resolution.to_install) if resolution.to_install else ""
    text = confined(text, plan.request, resolution.to_install)
    _refuse_old_sources(plan, resolution, text)
    return Installation(
        text=text,
        request=plan.request,
        overrides=plan.overrides,
        built_on_base=plan.settings.built_on_base,
        resolution=resolution,
    )


def _resolution(uv: Uv, plan: Plan) -> Resolution:
    replaceable = replaceable_packages(plan.base, plan.request, plan.override_names)
    if not plan.request.requirements and not plan.overrides:
        return Resolution()
    question = Question(
        base=plan.base,
        request=plan.request,
        replaceable=replaceable,
        overrides=plan.overrides,
        preferred=plan.preferred,
        allow_older=plan.order.allow_older,
    )
    resolution = resolve(uv, question)
    _refuse_torch(plan, resolution)
    _refuse_protected(plan, resolution, replaceable)
    return resolution


def _refuse_torch(plan: Plan, resolution: Resolution) -> None:
    """Refuse a torch of the index where the base was expected to bring one."""
    base = plan.base
    if "torch" in base.packages or base.is_plain or base.found.kind == NAMED or "torch" in plan.override_names:
        return
    for package in resolution.to_install:
        if package.name == "torch":
            who = ", ".join(package.via) or "you"
            raise AnswerIsNo(
                f"no torch lies under this: {base.described()} has none, and {who} would bring torch {package.version} "
                "of the index, which knows neither this machine's GPUs nor its network",
                hint="load a uenv (uenv start IMAGE --view=VIEW) or a container with torch, name a base with --base "
                "PYTHON, take that torch with --override torch, or make a plain environment with --no-base",
            )


def _refuse_protected(plan: Plan, resolution: Resolution, replaceable: frozenset[str]) -> None:
    """Refuse what would come beside or over a library that the base carries, without having been named."""
    named = {*replaceable, *plan.override_names, *plan.request.names}
    has_torch = "torch" in plan.base.packages and "torch" not in replaceable
    problems = []
    for package in resolution.to_install:
        rule = protected(package.name)
        if rule is None or package.name in named:
            continue
        if package.name in plan.base.packages or (rule.refuse_missing and has_torch):
            who = ", ".join(package.via) or "a requirement"
            problems.append(
                Problem(
                    f"{who} asks for {package.name} {package.version}, which is protected: {rule.cost}",
                    hint=f"leave {who} out, ask for another version of it, or install it with "
                    f"--override {package.name}",
                )
            )
    if problems:
        raise AnswerIsNo(problems)


def _refuse_old_sources(plan: Plan, resolution: Resolution, text: str) -> None:
    """Refuse to go back to a version that has no wheel for this Python: building it rarely works."""
    sources = lock.without_wheel(text) if text and resolution.older and not plan.order.allow_older else frozenset()
    problems = [
        Problem(
            f"{package.name} goes back from {resolution.older[package.name]} to {package.version} on this base, "
            "which has no wheel for this Python",
            hint=f"see what the newest asks of the base with {package.name}=={resolution.older[package.name]}, "
            "or build the old one with --allow-older",
        )
        for package in resolution.to_install
        if package.name in resolution.older and package.name in sources
    ]
    if problems:
        raise AnswerIsNo(problems)


def _taken_from_base(base: Base, locked: lock.Locked, allowed: Sequence[str]) -> tuple[list[str], list[str]]:
    """What of a lock the base has in that version, or protects; and notes of the latter."""
    from uenvtool.venv.versions import as_release, is_version

    left_out, notes = [], []
    for name, version in locked.packages.items():
        package = base.packages.get(name)
        if package is None or name in allowed:
            continue
        same = is_version(package.version) and version == as_release(package.version).partition("+")[0]
        if version == package.version or same:
            left_out.append(name)
        elif protected(name):
            left_out.append(name)
            notes.append(f"the lock has {name} {version}; the base's {package.version} stays, it is protected")
    return left_out, notes
