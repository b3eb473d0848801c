"""Installs an overlay from a lock or from resolved requirements into a temporary directory, and checks it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import AnswerIsNo, BadInput, ToolFailed, UenvtoolError
from uenvtool.core.limits import limited
from uenvtool.core.result import Step
from uenvtool.image.bytecode import cache_name, compile_tree
from uenvtool.knowledge.secrets import storable
from uenvtool.venv import overlay, pylock
from uenvtool.venv.base import RECORD_FOLDER, installed, listing, record_checksum, site_packages
from uenvtool.venv.compat import as_release, conflicts, is_version, marker_environment, protected
from uenvtool.venv.compiled import numpy_problems, torch_problems
from uenvtool.venv.manifest import MANIFEST, manifest_text
from uenvtool.venv.outcome import outcome
from uenvtool.venv.plan import OverlayPlan, made_from
from uenvtool.venv.projects import PYPROJECT, UV_LOCK, default_groups, project_name
from uenvtool.venv.record import FORMAT, RECORD, PackageRow, recorded_requirement
from uenvtool.venv.requirements import UserRequest, read_request
from uenvtool.venv.resolve import Installation
from uenvtool.venv.settings import ALL
from uenvtool.venv.sources import recorded
from uenvtool.venv.uv import UNKNOWN, Unbuilt, Uv, find_uv

FOUND_BASE_FIELDS = ("kind", "name", "load", "image", "view", "in_container", "root")
RESERVED = (RECORD_FOLDER, "meta")
"""Names at the top of an overlay and of its image that no package may contain."""


def refuse_package_name(plan: OverlayPlan) -> None:
    """Raise BadInput for `uenvtool venv lightning`, which would make an empty overlay in ./lightning.

    A name is refused if the path does not exist, the request names no packages, and the index has such a package.
    """
    request, name = plan.request, plan.request.path
    if plan.requested.requirements or request.changes_overlay or os.path.exists(name):
        return
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name) is None:
        return
    with files.scratch_folder() as work:
        uv = Uv(program=find_uv(), settings=plan.settings, work=work)
        files.fill(work, {"wanted.in": f"{name}\n"})
        try:
            uv.run(["pip", "compile", "--no-deps", "--quiet", "--python", plan.base.python, work / "wanted.in"])
        except UenvtoolError:
            return  # no package has that name, or the index does not answer
    raise BadInput(
        f"'{name}' is a package, but the first argument is the overlay's directory",
        hint=f"did you mean `uenvtool venv .venv {name}`? For an empty overlay in that directory, write ./{name}",
    )


def from_lock(uv: Uv, plan: OverlayPlan, path: Path) -> Installation:
    """Return the installation of a user's lock: its requirements, and its packages that the base does not provide."""
    base, notes = plan.base, []
    is_of_project = path.name == UV_LOCK
    lock_path = pylock.exported(uv, plan, path) if is_of_project else path
    with limited(str(lock_path)):
        text, packages, ours = pylock.read_lock(lock_path, marker_environment(base))
    if ours.get("base") is None:
        notes.append(f"{path} does not name its base; packages that {base.described()} has are not installed")
    elif ours["base"] != base.fingerprint():
        made_for = f" ({ours['base-name']})" if ours.get("base-name") else ""
        notes.append(f"{path} was made for another base{made_for}; this base is {base.described()}")
    requests, overrides, built = (tuple(map(str, ours.get(name, ()))) for name in pylock.LISTS)
    requested = UserRequest(requirements=[recorded_requirement(each, path.name, str(path)) for each in requests])
    if is_of_project:
        project = path.with_name(PYPROJECT)
        groups = tuple(dict.fromkeys((*default_groups(project), *plan.request.group)))
        is_installed = project_name(project.parent) in packages
        projects = [project.absolute().parent] if is_installed else []
        plain, editable = (map(str, projects), ()) if plan.request.image else ((), projects)
        requested = read_request([*plain], [str(project)], [*editable], extras=plan.request.extra, groups=groups)
    plan = plan.including(requested, overrides, built)
    left_out = []
    has_torch = "torch" in base.packages and "torch" not in plan.override_names
    for name, version in packages.items():
        package, rule = base.packages.get(name), protected(name)
        if name in plan.override_names:
            continue
        if package is None:
            if rule and rule.refuse_missing and has_torch:  # a library of the lock's own torch
                left_out.append(name)
            continue
        release = as_release(package.version).partition("+")[0] if is_version(package.version) else None
        if version in (package.version, release):
            left_out.append(name)
        elif rule or plan.request.keep_base:
            left_out.append(name)
            why = "it is protected" if rule else "--keep-base"
            notes.append(f"the lock has {name} {version}, but the base's {package.version} is used: {why}")
    uv = replace(uv, settings=plan.settings).building_on(base, plan.requested)
    return Installation(uv=uv, plan=plan, lock=pylock.stripped(text, left_out), notes=tuple(notes))


def install(todo: Installation, directory: Path, target: Path, on_step: Step) -> tuple[PackageRow, ...]:
    """Make the overlay in an empty directory and return its packages.

    target: the overlay's final path; packages of an old overlay there are reused if neither the lock nor their files
    changed. Raises AnswerIsNo if the installed packages do not fit the base, and ToolFailed if uv fails.
    """
    plan, base = todo.plan, todo.plan.base
    site = directory / site_packages(base.version)
    overlay.create(directory, base)
    original = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file() and not path.is_symlink()}
    reused = _reusable(plan, todo.lock, target)
    text = pylock.stripped(todo.lock, reused) if reused else todo.lock
    if "[[packages]]" in text:
        on_step("installing")
        files.fill(todo.uv.work, {pylock.LOCK: text})
        arguments: list[str | Path] = ["pip", "install", "--no-deps", "--quiet"]
        arguments += ["--python", directory / "bin" / "python", "--link-mode", plan.settings.link_mode]
        refreshed = pylock.directories(text, editable=True)  # uv's cache may have an older state
        arguments += [option for name in refreshed for option in ("--refresh-package", name)]
        todo.uv.run([*arguments, "-r", todo.uv.work / pylock.LOCK])
        (directory / ".lock").unlink(missing_ok=True)  # uv makes it writable for all users
        _remove_secrets_of_uv(site)
    _refuse_overwritten(directory, original)
    reused_files = [name for package in reused for name in plan.foreign.whole[package]]
    # If the old overlay will be removed, hard links replace copies.
    compiled = _reuse_files(target, directory, reused_files, base.version, linked=not plan.keeps_old)
    new = installed(site)
    problems = conflicts(base, new, plan.requested) or numpy_problems(base.packages, new)
    AnswerIsNo.raise_any(dict.fromkeys(problems or torch_problems(base.packages, new, plan.override_names)))
    rows = outcome(base, new, plan.requested, plan.override_names)
    overlay.add_base_commands(directory, base)
    if plan.request.image is None:  # packing compiles the image's bytecode itself
        on_step("compiling bytecode")
        compile_tree(directory / "bin" / "python", site, done=compiled)
    listed = manifest_text(directory, {name: plan.foreign.checksums[name] for name in reused_files})
    lock = storable(pylock.signed(todo.lock, plan))
    texts = {MANIFEST: listed, RECORD: _record_text(plan, target, rows, todo.lock), pylock.LOCK: lock}
    files.fill(directory / RECORD_FOLDER, texts)
    return rows


def _reusable(plan: OverlayPlan, lock: str, old: Path) -> frozenset[str]:
    previous = plan.previous
    if previous is None or previous.base.get("fingerprint") != plan.base.fingerprint():
        return frozenset()
    built_otherwise = set(previous.built_on_base) ^ set(plan.settings.built_on_base)
    if ALL in built_otherwise:
        return frozenset()
    try:
        text = files.read_bytes(old / RECORD_FOLDER / pylock.LOCK, pylock.MAX_BYTES).decode("utf-8")
        return (pylock.unchanged(storable(lock), text) & plan.foreign.whole.keys()) - built_otherwise
    except (FileNotFoundError, BadInput, ValueError):  # the old overlay's lock is missing or damaged
        return frozenset()


def _reuse_files(old: Path, new: Path, names: Collection[str], version: str, *, linked: bool) -> set[bytes]:
    tag = os.fsencode("cpython-" + "".join(version.split(".")[:2]))
    copied = files.take_files(old, new, names, linked=linked)
    missing = next((name for name in names if name not in copied and not os.path.lexists(new / name)), None)
    if missing:
        hint = "run the command again; nothing was changed"
        raise ToolFailed(f"{old / missing} was removed during this run", hint=hint)
    modules = [os.fsencode(name) for name in copied if name.endswith(".py")]
    bytecode = {os.fsdecode(cache_name(module, tag)): module for module in modules}
    return {bytecode[name] for name in files.take_files(old, new, bytecode, linked=linked)}


def foretold(todo: Installation) -> tuple[tuple[PackageRow, ...], list[str]]:
    """Return the packages that a dry run would install, and notes about the packages that it would have to build."""
    plan, unbuilt_packages = todo.plan, todo.uv.unbuilt or Unbuilt()
    locked = pylock.versions_of(todo.lock)
    versions = {name: version if version not in ("", UNKNOWN) else "?" for name, version in locked.items()}
    rows = outcome(plan.base, {}, plan.requested, plan.override_names, versions, todo.askers)
    notes = []
    for name in sorted(pylock.without_wheel(todo.lock)):
        is_unknown = name in unbuilt_packages.of_index | unbuilt_packages.elsewhere
        unknown = "; its requirements are known only after the build" if is_unknown else ""
        notes.append(f"{name} {versions[name]} has no wheel and would be built{unknown}")
    return rows, notes


def _record_text(plan: OverlayPlan, target: Path, rows: Sequence[PackageRow], lock: str) -> str:
    # For reproducibility, the record contains no date, and no path of this machine except the base's.
    base, found_base = plan.base, plan.base.found_base
    data = {
        "format": FORMAT,
        "base": {
            **{name: getattr(found_base, name) for name in FOUND_BASE_FIELDS},
            **{name: getattr(base, name) for name in ("python", "version", "platform", "folders")},
            "fingerprint": base.fingerprint(),
            "listing": listing(base.folders),
        },
        "requests": [
            {"text": requirement.recorded, "origin": requirement.origin} for requirement in plan.requested.requirements
        ],
        "overrides": plan.overrides,
        "built_on_base": plan.settings.built_on_base,
        "packages": [row.data() for row in rows],
        "sources": recorded(pylock.directories(lock, editable=False)),
        "made_from": made_from(plan.request, target, plan.previous.made_from if plan.previous else {}),
    }
    return json.dumps(storable(data), indent=2, ensure_ascii=False) + "\n"


def _remove_secrets_of_uv(site: Path) -> None:
    # uv removes the login of a URL, but not a token in its query.
    for path in site.glob("*.dist-info/direct_url.json"):
        text = path.read_text(encoding="utf-8")
        if (stored := storable(text)) != text:
            record = (path.parent / "RECORD").read_text(encoding="utf-8")
            row = rf"\g<1>{record_checksum(stored.encode())},{len(stored.encode())}"
            record = re.sub(r"(?m)^([^,\n]*\.dist-info/direct_url\.json,).*", row, record)
            files.fill(path.parent, {path.name: stored, "RECORD": record})


def _refuse_overwritten(directory: Path, original: Mapping[Path, bytes]) -> None:
    violations = [
        f"writes over {path.relative_to(directory)}"
        for path, content in original.items()
        if path.is_symlink() or not path.is_file() or path.read_bytes() != content
    ]
    violations += [f"writes over {name}" for name in ("bin/python3", "lib64") if not (directory / name).is_symlink()]
    violations += [f"writes {name}" for name in RESERVED if os.path.lexists(directory / name)]
    if violations:
        hint = "do not install that package, and report it to its author or index; nothing was changed"
        raise ToolFailed(f"a package {violations[0]}, which belongs to the overlay itself", hint=hint)
