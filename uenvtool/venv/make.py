"""Makes an overlay: resolved, built aside in memory if that has space, checked, packed, put in place at once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.result import Progress, Result, Step, silent
from uenvtool.venv.build import build, refuse_compiled
from uenvtool.venv.build_tools import building_on
from uenvtool.venv.howto import surroundings
from uenvtool.venv.image import editable_notes, finished, image_of, is_older, refuse_foreign_image, repack_command
from uenvtool.venv.order import Order, check
from uenvtool.venv.outcome import changes, rows_of_resolution, warnings
from uenvtool.venv.packages import from_lock, from_resolution, refuse_package_name
from uenvtool.venv.plan import Plan, planned
from uenvtool.venv.record import image_note, noted_image, read_record
from uenvtool.venv.report import result_of
from uenvtool.venv.results import BuiltOverlay, MadeOverlay, shown_path
from uenvtool.venv.target import added_by_others, is_environment, move_beside, previous_name, refuse_foreign
from uenvtool.venv.uv import Uv, find_uv
from uenvtool.venv.uv_failures import DiskFull, no_space
from uenvtool.venv.where import PLAIN, STARTED_BY

LEAST_MEMORY = 4 << 30
"""Bytes free in memory-backed storage for a build there: a torch with its libraries unpacks to less."""


def make(order: Order, environ: Mapping[str, str], progress: Progress = silent, *, verbose: bool = False) -> Result:
    """Make the overlay, and pack it if that is ordered.

    Raises BadInput if the path is not the tool's to write or an input is wrong, AnswerIsNo if the
    requirements contradict the base, ToolMissing and ToolFailed for the programs and the machine.
    Whatever it raises, the old overlay and the old image are as they were.
    """
    outcome = replace(made(order, environ, progress), started_by=environ.get(STARTED_BY, ""))
    return result_of(outcome, verbose=verbose)


def made(order: Order, environ: Mapping[str, str], progress: Progress = silent) -> MadeOverlay:
    """The same, as what came of it."""
    check(order)
    _refuse_closed_folder()
    target = Path(os.path.abspath(order.path))
    refuse_foreign(target, order)
    refuse_foreign_image(order)
    if order.image is not None and not order.changes_overlay and is_environment(target):
        return _packed(target, order.image, order, environ, progress)
    with contextlib.ExitStack() as stack:
        on_step = stack.enter_context(progress(f"overlay {order.path}"))
        # The lock comes first: what another run has just made is then read, and a dead run's is restored.
        work = None if order.dry_run else stack.enter_context(files.workplace(target))
        plan = planned(order, target, environ)
        refuse_package_name(plan)
        try:
            with _workshop(work, in_memory=True) as folder:
                return _made(plan, target, folder, work, on_step)
        except DiskFull:
            on_step("memory-backed storage is full: building on disk")
        with _workshop(work, in_memory=False) as folder:
            return _made(plan, target, folder, work, on_step)


def _refuse_closed_folder() -> None:
    """Raise BadInput if this user may not enter the current folder: uv looks for its settings there, and ends."""
    here = Path.cwd()
    if not os.access(here, os.X_OK):
        hint = "go to one that you may read, and give the command again"
        raise BadInput(f"you may not enter the current folder, {here}", hint=hint)


@contextlib.contextmanager
def _workshop(work: Path | None, *, in_memory: bool) -> Iterator[Path]:
    """Where to build: memory-backed storage, else beside the target, else (dry run) a temporary folder."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(files.memory_folder(LEAST_MEMORY)) if in_memory else None
        if folder is None:
            folder = work / "build" if work else stack.enter_context(files.scratch_folder())
        yield folder


def _made(plan: Plan, target: Path, folder: Path, work: Path | None, on_step: Step) -> MadeOverlay:
    uv = Uv(program=find_uv(), settings=plan.settings, work=folder)
    on_step(f"resolving on {plan.base.described()}")
    if plan.order.lock:
        todo = from_lock(plan, plan.order.lock)
        uv = replace(uv, settings=replace(uv.settings, built_on_base=todo.built_on_base))
    else:
        uv = building_on(uv, plan.base, plan.request)
        todo = from_resolution(uv, plan)
    try:
        if work is None and todo.resolution is not None and not todo.resolution.forced:
            refuse_compiled(uv, plan, todo, on_step)
            rows = rows_of_resolution(plan.base, todo.resolution, plan.request, plan.override_names)
            built = BuiltOverlay(folder=folder, rows=rows, notes=todo.notes, warnings=tuple(warnings(plan.base, rows)))
        else:
            built = build(building_on(uv, plan.base, todo.request), plan, todo, on_step)
    except ToolFailed as error:
        raise (DiskFull(error.problems) if no_space(error) else error) from error
    before = plan.previous.versions if plan.previous else {}
    older = todo.resolution.older if todo.resolution else {}
    made = MadeOverlay(
        path=target,
        base=plan.base,
        changes=changes(built.rows, before, older),
        notes=built.notes,
        warnings=(*_base_warnings(plan), *built.warnings),
        dry_run=work is None,
    )
    return made if work is None else _placed(plan, made, built.folder, target, work, on_step)


def _base_warnings(plan: Plan) -> Iterator[str]:
    """What a user should know of the base who may have meant to load another one."""
    base, before = plan.base, plan.previous.base if plan.previous else {}
    if base.is_plain and not plan.order.no_base and before.get("kind") != PLAIN:
        yield f"no base is loaded here: this is a plain environment on {base.python}, a torch in it is the index's"
    elif before and not base.is_plain and before.get("fingerprint") != base.fingerprint():
        yield f"the base has changed since this overlay was made on {before.get('name')}: it is {base.described()} now"


def _placed(plan: Plan, made: MadeOverlay, folder: Path, target: Path, work: Path, on_step: Step) -> MadeOverlay:
    """Bring the new overlay and the new image beside their places, then give both their names at once."""
    order, notes, warned = plan.order, list(made.notes), list(made.warnings)
    with contextlib.ExitStack() as stack:
        image = None
        if order.image is not None:
            on_step(f"packing {order.image}")
            base = asdict(plan.base.found)
            image = stack.enter_context(finished(folder, order.image, order, base, notes))
            notes += editable_notes(plan.request.requirements)
        on_step(f"putting it at {order.path}")
        move_beside(folder, work / "new")
        foreign = added_by_others(target, work / "new")
        packed_into = order.image or noted_image(target)
        if packed_into is not None:
            files.fill(work / "new", image_note(target, Path(os.path.abspath(packed_into))))
        keeps_old = (order.update or foreign) and os.path.lexists(target)
        overlay = files.Replacement(
            new=work / "new", target=target, previous=previous_name(target) if keeps_old else None
        )
        files.publish([overlay, image.replacement] if image else [overlay])
    if foreign:
        found = ", ".join(foreign.shown())
        warned.append(f"not by uenvtool, and so not in the new {target.name}: {found}; the old one is kept")
    old_image = image_of(target) if image is None else None
    if old_image is not None and is_older(old_image, target):
        command = repack_command(target, old_image)
        warned.append(f"{shown_path(old_image)} is older than {shown_path(target)}: pack it again with `{command}`")
    return replace(
        made,
        notes=tuple(notes),
        warnings=tuple(warned),
        image=image.image if image else None,
        previous=overlay.previous,
    )


def _packed(target: Path, image: Path, order: Order, environ: Mapping[str, str], progress: Progress) -> MadeOverlay:
    """Pack what is there."""
    if order.dry_run:
        return MadeOverlay(path=target, dry_run=True, notes=(f"would pack {order.path} into {image}",))
    notes: list[str] = []
    with progress(f"packing {order.path}") as on_step:
        on_step(str(image))
        record = read_record(target)
        with finished(target, image, order, record.base if record else surroundings(environ), notes) as new:
            files.publish([new.replacement])
        if record is not None:
            files.write_all(target, image_note(target, Path(os.path.abspath(image))))
            notes += editable_notes(record.requirements())
    return MadeOverlay(path=target, image=new.image, notes=tuple(notes))
