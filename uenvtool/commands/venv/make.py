"""Makes an overlay: resolved, built aside in memory where there is room, checked, put in place at once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from uenvtool import files
from uenvtool.commands.venv import place
from uenvtool.commands.venv.build import Built, build
from uenvtool.errors import AnswerIsNo, BadInput, Problem, ToolFailed
from uenvtool.overlay.base import Base, read_base
from uenvtool.overlay.outcome import Row, rows_of_resolution, warnings
from uenvtool.overlay.precedence import SITE
from uenvtool.overlay.protect import protected
from uenvtool.overlay.record import Record, read_record
from uenvtool.overlay.requirements import Request, names_of, read_request
from uenvtool.overlay.resolve import Resolution, older_than_newest, released, resolve
from uenvtool.overlay.settings import Settings, read_settings
from uenvtool.overlay.uv import DiskFull, Uv, find_uv, no_room
from uenvtool.overlay.where import find
from uenvtool.result import Progress, silent

LEAST_MEMORY = 4 << 30
"""Bytes free in memory-backed storage for a build there: a torch with its libraries unpacks to less."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a user orders. squash: the image to write, None for none.

    mount, precedence: None leaves them as the image and the overlay have them.
    """

    path: Path
    packages: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    editables: tuple[Path, ...] = ()
    base: str | None = None
    overrides: tuple[str, ...] = ()
    lock: Path | None = None
    squash: Path | None = None
    mount: str | None = None
    update: bool = False
    precedence: str | None = None
    dry_run: bool = False

    @property
    def asks(self) -> bool:
        """Whether it asks for anything that has to be resolved or made."""
        return bool(self.packages or self.files or self.editables or self.overrides or self.lock or self.update)


@dataclass(frozen=True, slots=True)
class Made:
    """What came of an order. image: what was packed, as data; previous: where the old one is kept."""

    path: Path
    base: Base | None
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    image: Mapping[str, Any] | None = None
    previous: Path | None = None
    dry_run: bool = False

    def data(self) -> dict[str, Any]:
        """As data for --json."""
        base = self.base
        return {
            "path": str(self.path),
            "dry_run": self.dry_run,
            "base": None
            if base is None
            else {
                "kind": base.found.kind,
                "name": base.found.name,
                "python": base.python,
                "version": base.version,
                "folders": list(base.folders),
                "packages": len(base.packages),
                "fingerprint": base.fingerprint(),
            },
            "packages": [row.data() for row in self.rows],
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "image": dict(self.image) if self.image else None,
            "previous": str(self.previous) if self.previous else None,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is known before anything is resolved."""

    order: Order
    base: Base
    request: Request
    overrides: tuple[str, ...]
    settings: Settings
    precedence: str
    preferred: Mapping[str, str] = field(default_factory=dict)

    @property
    def override_names(self) -> tuple[str, ...]:
        """The packages that may replace protected ones."""
        return names_of(self.overrides)


def make(order: Order, environ: Mapping[str, str], progress: Progress = silent) -> Made:
    """Make the overlay, and pack it where that is ordered.

    Raises BadInput where the path is not the tool's to write or an input is wrong, AnswerIsNo where
    the requirements contradict the base, ToolMissing and ToolFailed for the programs and the machine.
    Whatever it raises, the old overlay and the old image are as they were.
    """
    target = Path(os.path.abspath(order.path))
    place.refuse_foreign(target, order)
    place.refuse_image(order)
    if order.lock and (order.packages or order.files or order.editables):
        raise BadInput("--from says all that is installed", hint="add packages afterwards: uenvtool venv PATH PACKAGE")
    if order.squash and not order.asks and place.is_environment(target):
        return _packed_only(target, order, progress)
    with contextlib.ExitStack() as stack:
        on_step = stack.enter_context(progress(f"overlay {order.path}"))
        # The lock comes first: what another run has just made is then read, and a dead run's is restored.
        work = None if order.dry_run else stack.enter_context(files.workplace(target))
        plan = _planned(order, target, environ)
        try:
            with _workshop(work, in_memory=True) as folder:
                return _made(plan, target, folder, work, on_step)
        except DiskFull:
            if work is None:
                raise
        on_step("memory-backed storage is full: building beside the target")
        with _workshop(work, in_memory=False) as folder:
            return _made(plan, target, folder, work, on_step)


def _planned(order: Order, target: Path, environ: Mapping[str, str]) -> Plan:
    previous = read_record(target) or _packed_record(order)
    base = read_base(find(order.base or _recorded_python(previous, target, environ), environ), environ)
    if order.update and previous is None and not (order.packages or order.files or order.editables or order.lock):
        raise BadInput(f"{order.path} is not there to be updated", hint="name its folder, or its image with --squash")
    if previous is not None and order.base is None:
        place.refuse_other_base(target, previous, base)
    settings = read_settings(environ, os.path.dirname(os.path.dirname(base.base_executable)))
    named = (*order.files, *map(Path, settings.files))
    request = read_request(order.packages, named, order.editables, settings.constraints)
    overrides = order.overrides
    preferred: Mapping[str, str] = {}
    if previous is not None and order.lock is None:
        request, overrides = _with_previous(previous, request, overrides)
        preferred = {} if order.update else previous.versions
    precedence = order.precedence or (previous.precedence if previous else SITE)
    return Plan(order, base, request, overrides, settings, precedence, preferred)


def _packed_record(order: Order) -> Record | None:
    """What the image was made of that is to be updated, where the loose overlay is gone."""
    return place.read_image_record(order.squash) if order.update and order.squash and order.squash.is_file() else None


def _recorded_python(previous: Record | None, target: Path, environ: Mapping[str, str]) -> str | None:
    """The base of the overlay that is made again, where the user has loaded no other one."""
    if previous is None or environ.get("UENV_VIEW"):
        return None
    python = str(previous.base.get("python", ""))
    named = previous.base.get("kind") in ("named", "uenv") and not python.startswith(f"{target}{os.sep}")
    return python if named and os.access(python, os.X_OK) else None


def _with_previous(previous: Record, request: Request, overrides: tuple[str, ...]) -> tuple[Request, tuple[str, ...]]:
    """What was asked for before, and what is asked for now.

    Of one package, what is asked for now; of one file, what it says now.
    """
    now = {each.name for each in request.asked if each.name}
    texts = {each.text for each in request.asked}
    files_now = {*map(str, request.files), *(each.position.file for each in request.asked if each.position)}
    kept = tuple(
        each
        for each in previous.asked()
        if each.name not in now and each.text not in texts and each.origin.rpartition(":")[0] not in files_now
    )
    before = place.checked_overrides(previous.overrides)
    return replace(request, asked=(*kept, *request.asked)), tuple(dict.fromkeys((*before, *overrides)))


@contextlib.contextmanager
def _workshop(work: Path | None, *, in_memory: bool) -> Iterator[Path]:
    """Where to build: memory-backed storage, else beside the target, else (dry run) a temporary folder."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(files.memory_folder(LEAST_MEMORY)) if in_memory else None
        if folder is None:
            folder = work / "build" if work else stack.enter_context(files.scratch_folder())
        yield folder


def _made(plan: Plan, target: Path, folder: Path, work: Path | None, on_step: Callable[[str], None]) -> Made:
    uv = Uv(find_uv(), plan.settings, folder)
    on_step(f"resolving on {plan.base.described()}")
    resolution = None if plan.order.lock else _resolution(uv, plan)
    if work is None and resolution is not None and not resolution.forced:
        rows = rows_of_resolution(plan.base, resolution, plan.request, plan.override_names)
        notes = older_than_newest(uv, plan.base, plan.request, resolution)
        return Made(target, plan.base, rows, tuple(notes), tuple(warnings(rows)), dry_run=True)
    try:
        built = build(uv, plan, resolution, on_step)
    except ToolFailed as error:
        raise (DiskFull(error.problems) if no_room(error) else error) from error
    if resolution is not None:  # asked now, since it renews what uv has cached of the index
        built = replace(built, notes=(*older_than_newest(uv, plan.base, plan.request, resolution), *built.notes))
    if work is None:
        return Made(target, plan.base, built.rows, built.notes, built.warnings, dry_run=True)
    return _placed(plan, built, target, work, on_step)


def _resolution(uv: Uv, plan: Plan) -> Resolution:
    free = released(plan.base, plan.request, plan.override_names)
    if not plan.request.asked and not plan.overrides:
        return Resolution(())
    resolution = resolve(uv, plan.base, plan.request, free, plan.overrides, plan.preferred)
    _refuse_protected(plan, resolution, free)
    return resolution


def _refuse_protected(plan: Plan, resolution: Resolution, free: Mapping[str, str]) -> None:
    """Refuse what would come beside or over a library that the base carries, without having been named."""
    named = {*free, *plan.override_names, *(each.name for each in plan.request.asked)}
    has_torch = "torch" in plan.base.packages and "torch" not in free
    problems = []
    for each in resolution.to_install:
        rule = protected(each.name)
        if rule is None or each.name in named:
            continue
        if each.name in plan.base.packages or (rule.refuse_missing and has_torch):
            who = ", ".join(each.via) or "a requirement"
            problems.append(
                Problem(
                    f"{who} asks for {each.name} {each.version}, which is protected: {rule.cost}",
                    hint=f"leave {who} out, ask for another version of it, or install it with --override {each.name}",
                )
            )
    if problems:
        raise AnswerIsNo(problems)


def _placed(plan: Plan, built: Built, target: Path, work: Path, on_step: Callable[[str], None]) -> Made:
    """Pack, then give the new overlay its name."""
    order = plan.order
    image = None
    if order.squash:
        on_step(f"packing {order.squash}")
        image = place.packed(built.folder, order, asdict(plan.base.found), on_step, keep=order.update)
    on_step(f"putting it at {order.path}")
    added = place.added_by_others(target)
    new = work / "new"
    place.moved(built.folder, new)
    files.put_in_place(new, target, work / "old")
    previous, said = None, list(built.warnings)
    if (order.update or added) and os.path.lexists(work / "old"):
        previous = target.with_name(f"{target.name}.previous")
        files.keep_aside(work / "old", previous)
    if added:
        said.append(f"not by uenvtool, and so not in the new {target.name}: {', '.join(added)}; the old one is kept")
    return Made(target, plan.base, built.rows, built.notes, tuple(said), image, previous)


def _packed_only(target: Path, order: Order, progress: Progress) -> Made:
    if order.dry_run:
        return Made(target, None, dry_run=True, notes=(f"would pack {order.path} into {order.squash}",))
    with progress(f"packing {order.path}") as on_step:
        on_step(str(order.squash))
        previous = read_record(target)
        image = place.packed(target, order, previous.base if previous else {}, on_step, keep=order.update)
    return Made(target, None, image=image)
