"""Makes an overlay: resolved, built beside its place, checked, packed, put in place at once."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.core.result import Progress, Result, Step, Table, silent
from uenvtool.core.session import STARTED_BY
from uenvtool.core.words import canonical, size_text
from uenvtool.image.programs import find_programs
from uenvtool.image.read import refuse_foreign
from uenvtool.knowledge.recognise import recognised
from uenvtool.venv import howto
from uenvtool.venv.base import Base, named
from uenvtool.venv.discovery import PLAIN, RECORD_FOLDER
from uenvtool.venv.image import packed_beside, previous_names, record_paths
from uenvtool.venv.info import editable_notes, image_of, is_older, repack_command, shown_path
from uenvtool.venv.inputs import with_files_here
from uenvtool.venv.install import foretold, from_lock, from_requirements, install, refuse_package_name
from uenvtool.venv.manifest import is_own
from uenvtool.venv.outcome import HEADINGS, SAME, changes, table_rows, warnings
from uenvtool.venv.overlay import CONFIG
from uenvtool.venv.plan import OverlayPlan, planned, refuse_wrong_words
from uenvtool.venv.projects import found_here, option_of
from uenvtool.venv.record import FROM_BASE, RECORD, PackageRow, image_note, noted_image, read_record
from uenvtool.venv.request import VenvRequest
from uenvtool.venv.unbuilt import unbuilt, without_sources
from uenvtool.venv.uv import Uv, find_uv


@dataclass(kw_only=True)
class MadeOverlay:
    """What comes of a request, as it is gathered.

    base: None if the overlay is only packed. told: warnings that were shown at once. image: as data. previous: where
    the old one is kept.
    """

    request: VenvRequest
    target: Path
    base: Base | None = None
    changes: Sequence[PackageRow] = ()
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    image: Mapping[str, Any] | None = None
    previous: Path | None = None

    def data(self) -> dict[str, Any]:
        """Return it as data for --json."""
        base = self.base
        return {
            "path": str(self.target),
            "dry_run": self.request.dry_run,
            "base": base
            and {
                **{name: getattr(base.found, name) for name in ("kind", "name")},
                **{name: getattr(base, name) for name in ("python", "version", "folders")},
                "packages": len(base.packages),
                "fingerprint": base.fingerprint(),
            },
            "packages": [change.data() for change in self.changes],
            "notes": self.notes,
            "warnings": [*self.told, *self.warnings],
            "image": self.image,
            "previous": str(self.previous) if self.previous else None,
        }


def make(
    request: VenvRequest,
    environ: Mapping[str, str],
    progress: Progress = silent,
    warn: Callable[[str], None] = lambda _text: None,
) -> Result:
    """Make the overlay, and pack it if that is asked for. warn: tells at once what is known before the work.

    Raises BadInput if the path is not the tool's to write or an input is wrong, AnswerIsNo if the
    requirements contradict the base, ToolMissing and ToolFailed for the programs and the machine.
    Whatever it raises, the old overlay and the old image are as they were.
    """
    target = Path(os.path.abspath(request.path))
    request, note = with_files_here(request, target)
    refuse_wrong_words(request)
    if not os.access(Path.cwd(), os.X_OK):  # uv looks for its settings there, and ends
        hint = "go to one that you may read, and give the command again"
        raise BadInput(f"you may not enter the current folder, {Path.cwd()}", hint=hint)
    made = MadeOverlay(request=request, target=target, notes=[note] if note else [])
    _refuse_foreign(request, target)
    if request.image is not None:
        refuse_foreign(request.image)
        find_programs()  # before any work
    if request.image is not None and not request.changes_overlay and (target / CONFIG).is_file():
        _pack(made, environ, progress)
    else:
        _make(made, environ, progress, warn)
    return _result(made, environ.get(STARTED_BY, ""))


def _refuse_foreign(request: VenvRequest, target: Path) -> None:
    """Raise BadInput if the target is something that the tool did not make and must not replace."""
    shown = request.path
    if target in (here := Path.cwd(), *here.parents):
        raise BadInput(f"{shown} is the current folder, or holds it", hint="go elsewhere, or choose another name")
    if not os.path.lexists(target):
        return
    if target.is_symlink():
        raise BadInput(f"{shown} is a symlink", hint=f"name the folder itself: {os.path.realpath(target)}")
    if not target.is_dir():
        is_image = shown.endswith(".squashfs")
        hint = "name the overlay's folder: its image is NAME.squashfs beside it" if is_image else "choose another name"
        raise BadInput(f"{shown} is not a folder", hint=hint)
    if not (target / CONFIG).is_file():
        if any(target.iterdir()):
            raise BadInput(f"{shown} is not a virtual environment, and not empty", hint="choose another name")
        return
    only_packs = request.squash is not None and not request.changes_overlay
    if not (target / RECORD_FOLDER / RECORD).is_file() and not only_packs:
        hint = f"name another folder as the first word: `uenvtool venv myenv ...`; `uenvtool venv {shown} --squash` "
        hint += "packs this one as it is"
        raise BadInput(f"{shown} is a virtual environment that another tool made", hint=hint)


def _make(made: MadeOverlay, environ: Mapping[str, str], progress: Progress, warn: Callable[[str], None]) -> None:
    request = made.request
    with contextlib.ExitStack() as stack:
        # The lock comes first: what another run has just made is then read, and a dead run's is restored.
        work = None if request.dry_run else stack.enter_context(files.workplace(made.target))
        with progress(f"reading {request.path}"):
            plan = planned(request, made.target, environ)
        for text in _not_taken_over(plan):
            warn(text)
            made.told.append(text)
        on_step = stack.enter_context(progress(f"overlay {request.path}"))
        refuse_package_name(plan)
        made.base = plan.base
        folder = work / "build" if work else stack.enter_context(files.scratch_folder())
        _build(made, plan, folder, work, on_step)


def _build(made: MadeOverlay, plan: OverlayPlan, folder: Path, work: Path | None, on_step: Step) -> None:
    new = (work or folder) / "new"
    uv = Uv(program=find_uv(), settings=plan.settings, work=folder)
    if plan.request.dry_run:
        dry = unbuilt(plan.wanted, plan.settings)
        uv = replace(uv, settings=without_sources(plan.settings), unbuilt=dry)
    on_step(f"resolving on {plan.base.described()}")
    lock = plan.request.from_
    todo = from_lock(uv, plan, lock) if lock else from_requirements(uv, plan)
    made.notes += [*plan.settings.notes, *todo.notes, *plan.wanted.notes]
    made.warnings += _base_warnings(plan)
    if not todo.plan.wanted.requirements and not plan.previous and (here := found_here()):
        command = f"uenvtool venv {shlex.quote(plan.request.path)} {option_of(here[0])}"
        made.notes.append(f"this folder says what it needs, and nothing of it was installed: `{command}`")
    if plan.request.dry_run:
        rows, notes = foretold(todo)
        made.notes += notes
    else:
        rows = install(todo, new, made.target, on_step)
    made.changes = changes(rows, plan.previous.versions if plan.previous else {}, todo.resolution.older)
    made.warnings += warnings(plan.base, rows)
    if work is not None:
        _publish(made, todo.plan, new, on_step)
        _warn_of_older_image(made)


def _not_taken_over(plan: OverlayPlan) -> Iterator[str]:
    """Say what others put into the old overlay that the new one will not have."""
    packages = {name: at for name, at in plan.there.packages.items() if canonical(name) not in plan.wanted.names}
    lost, path = replace(plan.there, packages=packages), plan.request.path
    if lost:
        yield f"not by uenvtool, and so not in the new {path}: {', '.join(lost.shown())}; the old one is kept"
    if packages:
        again = shlex.join(["uenvtool", "venv", path, *(f"{name}=={at}" for name, at in sorted(packages.items()))])
        yield f"`{again}` takes what others installed there in for good"


def _base_warnings(plan: OverlayPlan) -> Iterator[str]:
    base, before = plan.base, plan.previous.base if plan.previous else {}
    if base.is_plain and not plan.request.no_base and before.get("kind") != PLAIN:
        yield f"no base is loaded here: this is a plain environment on {base.python}, a torch in it is the index's"
    elif before and not base.is_plain and before.get("fingerprint") != base.fingerprint():
        kind, name, python = (str(before.get(key) or "") for key in ("kind", "name", "python"))
        old = f"{named(kind, name, python)} (Python {before.get('version')})"
        if (kind, name) == (base.found.kind, base.found.name):
            yield f"the base has changed since this overlay was made on {old}: it is {base.described()} now"
        else:
            yield (
                f"this overlay was made on {old} and lies on another base now, {base.described()}: its packages were "
                "resolved again for that one, which it needs wherever it is used"
            )


def _publish(made: MadeOverlay, plan: OverlayPlan, new: Path, on_step: Step) -> None:
    target = made.target
    if plan.request.update and _is_same(new, target):
        if plan.request.image is None:
            made.notes.append(f"nothing newer was found: {plan.request.path} stays as it is")
            return
        plan = replace(plan, request=replace(plan.request, update=False))  # nothing old to keep
    request = plan.request
    with contextlib.ExitStack() as stack:
        replacements = []
        if request.image is not None:
            on_step(f"packing {request.image}")
            packing = packed_beside(new, request, asdict(plan.base.found), made.notes)
            replacement, made.image = stack.enter_context(packing)
            replacements.append(replacement)
            made.notes += editable_notes(plan.wanted.requirements)
        on_step(f"putting it at {request.path}")
        packed_into = request.image or noted_image(target)
        if packed_into is not None:
            files.fill(new, image_note(target, packed_into))
        if plan.keeps_old and os.path.lexists(target):
            made.previous = _previous_name(target)
        files.publish([files.Replacement(new=new, target=target, previous=made.previous), *replacements])


def _warn_of_older_image(made: MadeOverlay) -> None:
    target = made.target
    old_image = image_of(target) if made.image is None else None
    if old_image is not None and is_older(old_image, target):
        again = f"pack it again with `{repack_command(target, old_image)}`"
        made.warnings.append(f"{shown_path(old_image)} is older than {shown_path(target)}: {again}")


def _is_same(new: Path, old: Path) -> bool:
    """Tell if two overlays were asked for and resolved alike, on one base."""
    texts = [[path.read_bytes() if path.is_file() else b"" for path in record_paths(folder)] for folder in (new, old)]
    return texts[0] == texts[1]


def _previous_name(target: Path) -> Path:
    """Return the name that the old overlay keeps: PATH.previous, or PATH.previous.2 and so on if that is in use."""
    names = (target.with_name(name) for name in previous_names(target.name))
    return next(path for path in names if not os.path.lexists(path) or is_own(path))


def _pack(made: MadeOverlay, environ: Mapping[str, str], progress: Progress) -> None:
    request, target = made.request, made.target
    if request.image is None or request.dry_run:
        made.notes.append(f"would pack {request.path} into {request.image}")
        return
    with progress(f"packing {request.path}") as on_step:
        on_step(str(request.image))
        record = read_record(target)
        base = record.base if record else howto.surroundings(environ)
        with packed_beside(target, request, base, made.notes) as (replacement, made.image):
            files.publish([replacement])
        if record is not None:
            files.write_all(target, image_note(target, request.image).items())
            made.notes += editable_notes(record.requirements())


def _result(made: MadeOverlay, started_by: str) -> Result:
    """Return the answer: the table, what to know, and the lines to go on with.

    started_by: the words that start a command on the base, if that was loaded for this command alone.
    """
    request, image = made.request, made.image
    listed = [change for change in made.changes if request.verbose or change.change != SAME]
    notes, following = list(made.notes), []
    if len(listed) < len(made.changes):
        of_base = sum(change.how == FROM_BASE for change in made.changes)
        kinds = ((len(made.changes) - len(listed) - of_base, "as before"), (of_base, "of the base"))
        counts = ", ".join(f"{number} {kind}" for number, kind in kinds if number)
        notes.append(f"not listed: {counts} (--verbose lists them)")
    if request.dry_run:
        has_torch = made.base is not None and "torch" in made.base.packages
        unseen = ", and if compiled modules fit the base's torch only a run sees" if has_torch else ""
        notes.append(f"nothing was made (--dry-run): this is by the metadata of wheels{unseen}")
    elif made.base is not None:
        notes.append(f"{shown_path(made.target)} lies on {made.base.described()}")
        notes += [f"the old one is {shown_path(made.previous)}"] if made.previous else []
        python = shlex.quote(shown_path(made.target / "bin" / "python"))
        following.append(f"{started_by} {python} script.py".lstrip())
        activate = shlex.quote(shown_path(made.target / "bin" / "activate"))
        following += [] if started_by else [f"source {activate}"]
    if image:
        size = size_text(image["bytes"])
        notes.append(f"{image['path']}: {size}, {image['compression']}, sha256 {image['sha256']}")
        notes += [f"the old one is {image['previous']}"] if image["previous"] else []
        following += howto.shown(image["use"])
    if not request.dry_run:
        overlay = shlex.quote(shown_path(Path(image["path"]) if image else made.target))
        system = "" if recognised() else "--system NAME "
        following.append(f"uenvtool job {system}--venv {overlay} -o train.sh -- python train.py")
    return Result(
        data=made.data(),
        tables=(Table(headings=HEADINGS, rows=table_rows(change.data() for change in listed)),) if listed else (),
        notes=tuple(notes),
        warnings=tuple(made.warnings),
        next=tuple(following),
    )
