"""Installs an overlay in a folder of the tool's own: what a lock says, or what the requirements come to; checked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import AnswerIsNo, BadInput, ToolFailed, UenvtoolError
from uenvtool.core.result import Step
from uenvtool.image.bytecode import compile_tree
from uenvtool.venv import overlay, pylock
from uenvtool.venv.base import Distribution, installed, listing
from uenvtool.venv.compat import as_release, conflicts, is_version, marker_environment, protected
from uenvtool.venv.compiled import numpy_problems, torch_problems
from uenvtool.venv.discovery import RECORD_FOLDER
from uenvtool.venv.inputs import made_from
from uenvtool.venv.manifest import MANIFEST, manifest_text
from uenvtool.venv.outcome import outcome
from uenvtool.venv.plan import OverlayPlan
from uenvtool.venv.projects import PYPROJECT, UV_LOCK, default_groups, project_name
from uenvtool.venv.record import FORMAT, RECORD, PackageRow, recorded_requirement
from uenvtool.venv.requirements import UserRequest, checked_names, read_request
from uenvtool.venv.resolve import Resolution, resolve
from uenvtool.venv.reuse import staying, take_over
from uenvtool.venv.unbuilt import UNKNOWN, Unbuilt
from uenvtool.venv.uv import Uv, find_uv

RESERVED = (RECORD_FOLDER, "meta")
"""Names at the top of an overlay and of its image that no package may bring."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """What is installed: a lock. plan: what it is for. resolution: what it was made from, empty if it is a user's."""

    uv: Uv
    plan: OverlayPlan
    lock: str
    notes: tuple[str, ...] = ()
    resolution: Resolution = field(default_factory=Resolution)


def refuse_package_name(plan: OverlayPlan) -> None:
    """Raise BadInput if the one word of the request is a package on the index and not yet a folder.

    `uenvtool venv lightning` would make an empty overlay of that name.
    """
    request, word = plan.request, plan.request.path
    if plan.wanted.requirements or request.changes_overlay or os.path.exists(word):
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


def from_lock(uv: Uv, plan: OverlayPlan, path: Path) -> Installation:
    """Take what a lock says, less what the base has; it is recorded as wanted for what the lock was made for."""
    base, notes = plan.base, []
    is_of_project = path.name == UV_LOCK
    place = pylock.exported(uv, plan, path) if is_of_project else path
    text, packages, signed = pylock.read_lock(place, marker_environment(base))
    if signed.get("base") is None:
        notes.append(f"{path} names no base; what {base.described()} has is taken from there")
    elif signed["base"] != base.fingerprint():
        made_for = f" ({signed['base-name']})" if signed.get("base-name") else ""
        notes.append(f"{path} was made for another base{made_for}: this is {base.described()}")
    requests, overrides, built = (tuple(map(str, signed.get(name, ()))) for name in pylock.LISTS)
    wanted = UserRequest(
        requirements=tuple(recorded_requirement(request, path.name, str(path)) for request in requests)
    )
    if is_of_project:
        project = path.with_name(PYPROJECT)
        groups = tuple(dict.fromkeys((*default_groups(project), *plan.request.group)))
        folder = (
            [project.absolute().parent] if project_name(project.parent) in packages else []
        )  # a package, and wanted
        plain, editable = (map(str, folder), ()) if plan.request.image else ((), folder)
        wanted = read_request([*plain], [str(project)], [*editable], extras=plan.request.extra, groups=groups)
    plan = replace(
        plan,
        wanted=wanted,
        overrides=tuple(dict.fromkeys((*checked_names(overrides, "--override", "torch"), *plan.overrides))),
        settings=replace(plan.settings, built_on_base=tuple(dict.fromkeys((*built, *plan.settings.built_on_base)))),
    )
    left_out = []
    has_torch = "torch" in base.packages and "torch" not in plan.override_names
    for name, version in packages.items():
        package, rule = base.packages.get(name), protected(name)
        if name in plan.override_names:
            continue
        if package is None:
            if rule and rule.refuse_missing and has_torch:  # of the lock's own torch
                left_out.append(name)
            continue
        release = as_release(package.version).partition("+")[0] if is_version(package.version) else None
        if version in (package.version, release):
            left_out.append(name)
        elif rule:
            left_out.append(name)
            notes.append(f"the lock has {name} {version}; the base's {package.version} stays, it is protected")
    uv = replace(uv, settings=plan.settings).building_on(base, plan.wanted)
    return Installation(uv=uv, plan=plan, lock=pylock.stripped(text, left_out), notes=tuple(notes))


def from_requirements(uv: Uv, plan: OverlayPlan) -> Installation:
    """Take what the user's requirements come to on the base.

    Raises AnswerIsNo if they contradict the base, would replace what is protected, or have other hashes than the user
    names; BadInput if hashes are checked and one is not given.
    """
    uv = uv.building_on(plan.base, plan.wanted)
    resolution = resolve(uv, plan)
    text = pylock.restrict_to_hashes(resolution.lock, plan.wanted)
    return Installation(uv=uv, plan=plan, lock=text, resolution=resolution)


def install(todo: Installation, folder: Path, target: Path, on_step: Step) -> tuple[PackageRow, ...]:
    """Make the overlay in an empty folder; what came of it.

    target: the place that it comes to; what stays of the overlay there is taken over.

    Raises AnswerIsNo if what was installed does not fit the base, ToolFailed if uv fails.
    """
    plan, base = todo.plan, todo.plan.base
    site = folder / overlay.site_packages(base.version)
    overlay.create(folder, base)
    own = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}
    stays = staying(plan, todo.lock, target)
    text = pylock.stripped(todo.lock, stays) if stays else todo.lock
    if "[[packages]]" in text:
        on_step("installing")
        files.fill(todo.uv.work, {pylock.LOCK: text})
        words: list[str | Path] = ["pip", "install", "--no-deps", "--quiet", "--python", folder / "bin" / "python"]
        todo.uv.run([*words, "--link-mode", plan.settings.link_mode, "-r", todo.uv.work / pylock.LOCK])
        (folder / ".lock").unlink(missing_ok=True)  # of uv, which gives everybody the right to write it
    _refuse_overwritten(folder, own)
    kept = [name for package in stays for name in plan.there.whole[package]]
    compiled = take_over(target, folder, kept, base.version, linked=not plan.keeps_old)
    new = installed(site)
    _refuse_misfits(todo, new)
    rows = outcome(base, new, plan.wanted, plan.override_names)
    overlay.add_base_commands(folder, base)
    if plan.request.image is None:  # packing compiles on its own, for the image
        on_step("compiling bytecode")
        compile_tree(folder / "bin" / "python", site, checked=True, done=compiled)
    listed = manifest_text(folder)
    texts = {MANIFEST: listed, RECORD: _record_text(plan, target, rows), pylock.LOCK: pylock.signed(todo.lock, plan)}
    files.fill(folder / RECORD_FOLDER, texts)
    return rows


def foretold(todo: Installation) -> tuple[tuple[PackageRow, ...], list[str]]:
    """Say what an installation comes to, and what is not known of it before something is built."""
    plan, blind = todo.plan, todo.uv.unbuilt or Unbuilt()
    found = pylock.versions_of(todo.lock)
    versions = {name: version if version not in ("", UNKNOWN) else "?" for name, version in found.items()}
    rows = outcome(plan.base, {}, plan.wanted, plan.override_names, versions, todo.resolution.askers)
    notes = []
    for name in sorted(pylock.without_wheel(todo.lock)):
        needs = "; what it needs is not known before that" if name in blind.of_index | blind.elsewhere else ""
        notes.append(f"{name} {versions[name]} has no wheel: it would be built{needs}")
    return rows, notes


def _record_text(plan: OverlayPlan, target: Path, rows: Sequence[PackageRow]) -> str:
    """Write uenvtool.json: no date and nothing of the machine but the base's own places."""
    base, found = plan.base, plan.base.found
    data = {
        "format": FORMAT,
        "base": {
            **{
                name: getattr(found, name) for name in ("kind", "name", "load", "image", "view", "in_container", "root")
            },
            **{name: getattr(base, name) for name in ("python", "version", "platform", "folders")},
            "fingerprint": base.fingerprint(),
            "listing": listing(base.folders),
        },
        "requests": [{"text": wanted.recorded, "origin": wanted.origin} for wanted in plan.wanted.requirements],
        "overrides": plan.overrides,
        "built_on_base": plan.settings.built_on_base,
        "packages": [row.data() for row in rows],
        "made_from": made_from(plan.request, target, plan.previous.made_from if plan.previous else {}),
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _refuse_overwritten(folder: Path, own: Mapping[Path, bytes]) -> None:
    """Refuse packages that bring a file of the overlay's own: a wheel can write anywhere in its environment."""
    deeds = [
        f"writes over {path.relative_to(folder)}"
        for path, content in own.items()
        if path.is_symlink() or not path.is_file() or path.read_bytes() != content
    ]
    deeds += [f"writes over {name}" for name in ("bin/python3", "lib64") if not (folder / name).is_symlink()]
    deeds += [f"writes {name}" for name in RESERVED if os.path.lexists(folder / name)]
    if deeds:
        hint = "do not install it, and report it where you got it from; nothing was changed"
        raise ToolFailed(f"a package {deeds[0]}, which is the overlay's own", hint=hint)


def _refuse_misfits(todo: Installation, new: Mapping[str, Distribution]) -> None:
    plan, packages = todo.plan, todo.plan.base.packages
    problems = conflicts(plan.base, new, plan.wanted) or numpy_problems(packages, new)
    problems = problems or torch_problems(packages, new, plan.override_names)
    AnswerIsNo.raise_any(dict.fromkeys(problems))
