"""Builds an overlay in a folder of the tool's own: created, packages installed, checked, recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from uenvtool.core.errors import AnswerIsNo, ToolFailed
from uenvtool.core.files import fill
from uenvtool.core.result import Step
from uenvtool.venv import create, lock
from uenvtool.venv.abi import numpy_problems
from uenvtool.venv.base import Base, Distribution
from uenvtool.venv.bytecode import compile_tree
from uenvtool.venv.check import conflicts, installed
from uenvtool.venv.manifest import MANIFEST, manifest_text
from uenvtool.venv.outcome import outcome, warnings
from uenvtool.venv.packages import Installation
from uenvtool.venv.plan import Plan
from uenvtool.venv.record import RECORD, record_text
from uenvtool.venv.requirements import names_of
from uenvtool.venv.resolve import with_way_back
from uenvtool.venv.results import BuiltOverlay
from uenvtool.venv.torch_abi import torch_problems
from uenvtool.venv.uv import Uv

OVERLAY = "overlay"
RESERVED = (create.RECORD_FOLDER, "meta")
"""Names at the top of an overlay and of its image that no package may bring."""


def build(uv: Uv, plan: Plan, todo: Installation, on_step: Step) -> BuiltOverlay:
    """Build it in uv's work folder.

    Raises AnswerIsNo if what was installed does not fit the base, ToolFailed if uv fails.
    """
    base, folder = plan.base, uv.work / OVERLAY
    site = folder / create.site_packages(base.version)
    create.create(folder, base, plan.precedence)
    own = _own_files(folder)
    if todo.text:
        on_step("installing")
        _install(uv, folder, todo.text)
    _refuse_overwritten(folder, own)
    new = installed(site)
    _refuse_misfits(base, new, todo)
    create.add_base_commands(folder, base)
    if plan.order.image is None:  # packing compiles on its own, for the image
        on_step("compiling bytecode")
        compile_tree(folder / "bin" / "python", site, checked=True)
    listed = manifest_text(folder)
    rows = outcome(base, new, todo.request, names_of(todo.overrides))
    fill(
        folder / create.RECORD_FOLDER,
        {
            MANIFEST: listed,
            RECORD: record_text(
                base,
                todo.request,
                rows,
                overrides=todo.overrides,
                built_on_base=todo.built_on_base,
                precedence=plan.precedence,
            ),
            lock.LOCK: lock.signed(
                todo.text or lock.EMPTY,
                base,
                requests=[requirement.recorded for requirement in todo.request.requirements],
                overrides=todo.overrides,
                built_on_base=todo.built_on_base,
            ),
        },
    )
    return BuiltOverlay(folder=folder, rows=rows, notes=todo.notes, warnings=tuple(warnings(base, rows)))


def refuse_compiled(uv: Uv, plan: Plan, todo: Installation, on_step: Step) -> None:
    """Raise AnswerIsNo if a compiled package does not fit, as `build` does; those alone are put into uv's folder."""
    compiled = lock.compiled(todo.text) if todo.text else frozenset()
    if not compiled or todo.resolution is None:
        return
    on_step("reading compiled packages")
    folder = uv.work / OVERLAY
    create.create(folder, plan.base, plan.precedence)
    others = [package.name for package in todo.resolution.to_install if package.name not in compiled]
    _install(uv, folder, lock.without(todo.text, others))
    _refuse_misfits_of_compiled(plan.base, installed(folder / create.site_packages(plan.base.version)), todo)


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
            raise _hostile(f"writes over {path.relative_to(folder)}")
    for name in ("bin/python3", "lib64"):
        if not (folder / name).is_symlink():
            raise _hostile(f"writes over {name}")
    for name in RESERVED:
        if os.path.lexists(folder / name):
            raise _hostile(f"writes {name}")


def _hostile(deed: str) -> ToolFailed:
    hint = "do not install it, and report it where you got it from; nothing was changed"
    return ToolFailed(f"a package {deed}, which is the overlay's own", hint=hint)


def _refuse_misfits(base: Base, new: Mapping[str, Distribution], todo: Installation) -> None:
    floors = todo.resolution.floors if todo.resolution else {}
    found = [conflict.problem() for conflict in conflicts(base, new, todo.request)]
    if found:
        raise AnswerIsNo(dict.fromkeys(with_way_back(found, floors)))
    _refuse_misfits_of_compiled(base, new, todo)


def _refuse_misfits_of_compiled(base: Base, new: Mapping[str, Distribution], todo: Installation) -> None:
    problems = numpy_problems(base, new) or torch_problems(base, new, names_of(todo.overrides))
    if problems:
        raise AnswerIsNo(dict.fromkeys(problems))
