"""Builds an overlay in a folder of the tool's own: created, packages installed, checked, recorded."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.commands.venv import place
from uenvtool.errors import AnswerIsNo, ToolFailed
from uenvtool.files import fill
from uenvtool.overlay import create, lock
from uenvtool.overlay.abi import numpy_problems
from uenvtool.overlay.base import Base, Distribution
from uenvtool.overlay.check import conflicts, installed
from uenvtool.overlay.outcome import Row, outcome, warnings
from uenvtool.overlay.protect import protected
from uenvtool.overlay.record import RECORD, record_text
from uenvtool.overlay.requirements import Request, asked_again, names_of
from uenvtool.overlay.uv import Uv

if TYPE_CHECKING:
    from uenvtool.commands.venv.make import Plan
    from uenvtool.overlay.resolve import Resolution

OVERLAY = "overlay"
RESERVED = (create.RECORD_FOLDER, "meta")
"""Names at the top of an overlay and of its image that no package may bring."""


@dataclass(frozen=True, slots=True)
class Built:
    """A finished overlay that is not in its place yet."""

    folder: Path
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """What is installed: a lock's text (empty: nothing), for which request, and what to say of it."""

    text: str
    request: Request
    overrides: tuple[str, ...]
    notes: tuple[str, ...] = ()


def build(uv: Uv, plan: Plan, resolution: Resolution | None, on_step: Callable[[str], None]) -> Built:
    """Build it in uv's work folder; resolution: None where a lock says what to install.

    Raises AnswerIsNo where what was installed does not fit the base, ToolFailed where uv fails.
    """
    base, folder = plan.base, uv.work / OVERLAY
    site = folder / create.site_packages(base.version)
    create.create(folder, base, plan.precedence)
    source = of_lock(plan, plan.order.lock) if plan.order.lock else _of_resolution(uv, plan, resolution)
    own = _own_files(folder)
    if source.text:
        on_step("installing")
        _install(uv, folder, source.text)
    _refuse_overwritten(folder, own)
    new = installed(site)
    _refuse_misfits(base, new, source.request)
    create.add_base_commands(folder, base)
    if plan.order.squash is None:  # packing compiles on its own, for the image
        on_step("compiling bytecode")
        _compile(folder, site)
    rows = outcome(base, new, source.request, names_of(source.overrides))
    requests = [each.text for each in source.request.asked]
    fill(
        folder / create.RECORD_FOLDER,
        {
            RECORD: record_text(base, source.request, source.overrides, plan.precedence, rows),
            lock.LOCK: lock.signed(source.text or lock.EMPTY, base, requests, source.overrides),
        },
    )
    return Built(folder, rows, source.notes, tuple(warnings(rows)))


def of_lock(plan: Plan, path: Path) -> Source:
    """What a lock says, less what the base has; it is recorded as asked for what the lock was made for."""
    locked = lock.read_lock(path)
    notes = []
    if locked.base is None:
        notes.append(f"{path} names no base; what {plan.base.described()} has is taken from there")
    elif locked.base != plan.base.fingerprint():
        made_for = f" ({locked.base_name})" if locked.base_name else ""
        notes.append(f"{path} was made for another base{made_for}: this is {plan.base.described()}")
    overrides = tuple(dict.fromkeys((*place.checked_overrides(locked.overrides), *plan.overrides)))
    left, said = _taken_from_base(plan.base, locked, names_of(overrides))
    text = lock.unsigned(lock.without(locked.text, left) if left else locked.text)
    asked = tuple(asked_again(each, path.name) for each in locked.requests)
    return Source(text, Request(asked), overrides, (*notes, *said))


def _of_resolution(uv: Uv, plan: Plan, resolution: Resolution | None) -> Source:
    to_install = resolution.to_install if resolution else ()
    text = lock.make_lock(uv, plan.base, to_install) if to_install else ""
    return Source(text, plan.request, plan.overrides)


def _taken_from_base(base: Base, locked: lock.Locked, allowed: Sequence[str]) -> tuple[list[str], list[str]]:
    """What of a lock the base has in that version, or protects."""
    from uenvtool.overlay.versions import as_release, is_version

    left, said = [], []
    for name, version in locked.packages.items():
        there = base.packages.get(name)
        if there is None or name in allowed:
            continue
        same = is_version(there.version) and version == as_release(there.version).partition("+")[0]
        if version == there.version or same:
            left.append(name)
        elif protected(name):
            left.append(name)
            said.append(f"the lock has {name} {version}; the base's {there.version} stays, it is protected")
    return left, said


def _install(uv: Uv, folder: Path, text: str) -> None:
    """Install exactly what the lock says."""
    fill(uv.work, {lock.LOCK: text})
    words: list[str | Path] = ["pip", "install", "--no-deps", "--quiet", "--python", folder / "bin" / "python"]
    uv.run([*words, "--link-mode", uv.link_mode, "-r", uv.work / lock.LOCK])


def _own_files(folder: Path) -> dict[Path, bytes]:
    """The files that make the overlay work, with their content."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {path: path.read_bytes() for path in paths}


def _refuse_overwritten(folder: Path, own: Mapping[Path, bytes]) -> None:
    """Refuse packages that bring a file of the overlay's own: a wheel can write anywhere in its environment."""
    for path, content in own.items():
        if path.is_symlink() or not path.is_file() or path.read_bytes() != content:
            raise _hostile("a package", f"writes over {path.relative_to(folder)}, which is the overlay's own")
    for name in ("bin/python3", "lib64"):
        if not (folder / name).is_symlink():
            raise _hostile("a package", f"writes over {name}, which is the overlay's own")
    for name in RESERVED:
        if os.path.lexists(folder / name):
            raise _hostile("a package", f"writes {name}, which is the overlay's own")


def _hostile(who: str, what: str) -> ToolFailed:
    return ToolFailed(f"{who} {what}", hint="do not install it, and tell where you have it from; nothing was changed")


def _refuse_misfits(base: Base, new: Mapping[str, Distribution], request: Request) -> None:
    found = [each.problem() for each in conflicts(base, new, request)]
    problems = found or numpy_problems(base, new)
    if problems:
        raise AnswerIsNo(dict.fromkeys(problems))


def _compile(folder: Path, site: Path) -> None:
    """Bytecode beside every module, so that no rank has to compile; Python checks it against the source."""
    from uenvtool.overlay.bytecode import compile_tree

    compile_tree(folder / "bin" / "python", site, checked=True)
