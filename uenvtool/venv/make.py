"""Makes an overlay: resolves, installs, checks and packs it next to its final path, and then renames it there."""

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
from uenvtool.core.result import Progress, Result, Step, Table
from uenvtool.core.session import STARTED_BY
from uenvtool.core.words import canonical, counted, size_text
from uenvtool.image.programs import find_programs
from uenvtool.image.read import refuse_foreign
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.secrets import NOT_WRITTEN, storable
from uenvtool.venv import howto, pylock
from uenvtool.venv.base import PLAIN, RECORD_FOLDER, Base, named, names_base
from uenvtool.venv.image import pack_overlay, previous_names, record_paths
from uenvtool.venv.info import editable_notes, image_of, is_older, repack_command, shown_path
from uenvtool.venv.install import foretold, from_lock, install, refuse_package_name
from uenvtool.venv.manifest import MANIFEST, is_own
from uenvtool.venv.outcome import HEADINGS, SAME, changes, table_rows, warnings
from uenvtool.venv.overlay import CONFIG
from uenvtool.venv.plan import OverlayPlan, base_of, planned, refuse_invalid, with_files_here
from uenvtool.venv.projects import found_here, option_of
from uenvtool.venv.record import FROM_BASE, RECORD, PackageRow, image_note, noted_image, read_record
from uenvtool.venv.request import VenvRequest
from uenvtool.venv.resolve import resolve
from uenvtool.venv.sources import changed_files
from uenvtool.venv.uv import Uv, find_uv


@dataclass(kw_only=True)
class _Made:
    request: VenvRequest
    target: Path
    base: Base | None = None  # None if an existing overlay is only packed
    changes: Sequence[PackageRow] = ()
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    early_warnings: list[str] = field(default_factory=list)  # the warnings that were printed before the work
    image: Mapping[str, Any] | None = None  # the image's data for --json
    previous: Path | None = None  # the path of the old overlay, if it is kept

    def data(self) -> dict[str, Any]:
        base = self.base
        return {
            "path": str(self.target),
            "dry_run": self.request.dry_run,
            "base": base
            and {
                **{name: getattr(base.found_base, name) for name in ("kind", "name")},
                **{name: getattr(base, name) for name in ("python", "version", "folders")},
                "packages": len(base.packages),
                "fingerprint": base.fingerprint(),
            },
            "packages": [change.data() for change in self.changes],
            "notes": self.notes,
            "warnings": [*self.early_warnings, *self.warnings],
            "image": self.image,
            "previous": str(self.previous) if self.previous else None,
        }


def make(request: VenvRequest, environ: Mapping[str, str], progress: Progress, warn: Callable[[str], None]) -> Result:
    """Make the overlay, and pack it if the request has --squash.

    If an error occurs, the existing overlay and image are unchanged. warn: prints the warnings that are known before
    the work starts. Raises BadInput if uenvtool must not write the path or if an input is invalid, AnswerIsNo if the
    requirements contradict the base, ToolMissing if a program is not installed, and ToolFailed if a program or the
    machine fails.
    """
    target = Path(os.path.abspath(request.path))
    request, note = with_files_here(request, target)
    refuse_invalid(request)
    if not os.access(Path.cwd(), os.X_OK):  # uv looks for its settings there, and fails
        hint = "change to a directory that you may read, and run the command again"
        raise BadInput(f"no permission to enter the current directory, {Path.cwd()}", hint=hint)
    result = _Made(request=request, target=target)
    _refuse_foreign(request, target)
    if request.image is not None:
        refuse_foreign(request.image)
        find_programs()  # before any work
    only_packs = _only_packs(request, target, environ)
    result.notes += [note] if note and (only_packs or request.changes_overlay) else []
    if only_packs:
        _pack(result, environ, progress)
    else:
        _make(result, environ, progress, warn)
    return _result(result, environ.get(STARTED_BY, ""))


def _only_packs(request: VenvRequest, target: Path, environ: Mapping[str, str]) -> bool:
    if request.image is None or request.changes_overlay or not (target / CONFIG).is_file():
        return False
    record = read_record(target)
    if record is None:
        return True  # another tool's environment
    if request.allow_older or request.keep_base or changed_files(record.sources):
        return False
    if not names_base(request, environ):
        return True
    base, recorded = base_of(request, record, target, environ), record.base
    found_base = {name: getattr(base.found_base, name) for name in ("kind", "image", "view", "python")}
    return recorded.get("fingerprint") == base.fingerprint() and found_base.items() <= recorded.items()


def _refuse_foreign(request: VenvRequest, target: Path) -> None:
    shown = request.path
    if target in (current := Path.cwd(), *current.parents):
        hint = "run the command in another directory, or choose another name for the overlay"
        raise BadInput(f"'{shown}' is or contains the current directory", hint=hint)
    if not os.path.lexists(target):
        return
    if target.is_symlink():
        raise BadInput(f"'{shown}' is a symlink", hint=f"name the directory itself: {os.path.realpath(target)}")
    if not target.is_dir():
        is_image = shown.endswith(".squashfs")
        of_image = "name the overlay's directory, which is next to its image NAME.squashfs"
        hint = of_image if is_image else "choose another name for the overlay"
        raise BadInput(f"'{shown}' is not a directory", hint=hint)
    if not (target / CONFIG).is_file():
        if any(target.iterdir()):
            hint = "choose another name for the overlay"
            raise BadInput(f"'{shown}' is a non-empty directory that is not a virtual environment", hint=hint)
        return
    changes = request.changes_overlay or request.allow_older or request.keep_base or request.base or request.no_base
    only_packs = request.squash is not None and not changes
    if not (target / RECORD_FOLDER / RECORD).is_file() and not only_packs:
        pack = f"`uenvtool venv {shown} --squash`"
        hint = f"name another directory: `uenvtool venv myenv ...`, or pack this one with {pack}"
        raise BadInput(f"'{shown}' is a virtual environment that another tool made", hint=hint)


def _make(made: _Made, environ: Mapping[str, str], progress: Progress, warn: Callable[[str], None]) -> None:
    request = made.request
    with contextlib.ExitStack() as stack:
        # The lock comes first: this run reads the result of a run that just ended, and restores after a dead run.
        work = None if request.dry_run else stack.enter_context(files.workplace(made.target))
        with progress(f"reading {request.path}"):
            plan = planned(request, made.target, environ)
        for text in _foreign_warnings(plan):
            warn(text)
            made.early_warnings.append(text)
        on_step = stack.enter_context(progress(f"overlay {request.path}"))
        refuse_package_name(plan)
        made.base = plan.base
        scratch = work / "build" if work else stack.enter_context(files.scratch_folder())
        _build(made, plan, scratch, work, on_step)


def _build(made: _Made, plan: OverlayPlan, scratch: Path, work: Path | None, on_step: Step) -> None:
    new = (work or scratch) / "new"
    uv = Uv(program=find_uv(), settings=plan.settings, work=scratch)
    if plan.request.dry_run:
        uv = uv.building_nothing(plan.requested)
    on_step(f"resolving on {plan.base.described()}")
    lock = plan.request.from_
    todo = from_lock(uv, plan, lock) if lock else resolve(uv, plan)
    made.notes += [*plan.settings.notes, *todo.notes, *plan.requested.notes]
    made.warnings += _base_warnings(plan)
    texts = [requirement.recorded for requirement in todo.plan.requested.requirements]
    texts += [*plan.requested.files, todo.lock if lock else ""]
    made.warnings += [NOT_WRITTEN] if storable(texts) != texts else []
    if not todo.plan.requested.requirements and not plan.previous and (input_files := found_here()):
        command = f"uenvtool venv {shlex.quote(plan.request.path)} {option_of(input_files[0])}"
        made.notes.append(f"{input_files[0]} in this directory was not installed; to install it, run `{command}`")
    changed = changed_files(plan.previous.sources) if plan.previous else {}
    built = "would be rebuilt" if plan.request.dry_run else "rebuilt"
    built_names = pylock.directories(todo.lock, editable=False).keys() & changed.keys()
    made.notes += [f"{name}: {counted(len(changed[name]), 'file')} changed, {built}" for name in sorted(built_names)]
    if plan.request.dry_run:
        rows, notes = foretold(todo)
        made.notes += notes
    else:
        rows = install(todo, new, made.target, on_step)
    made.changes = changes(rows, plan.previous.versions if plan.previous else {}, todo.older, changed)
    made.warnings += warnings(plan.base, rows)
    if work is not None:
        _publish(made, todo.plan, new, on_step)
        _warn_of_older_image(made)


def _foreign_warnings(plan: OverlayPlan) -> Iterator[str]:
    packages, requested = plan.foreign.packages, plan.requested.names
    lost_packages = {name: version for name, version in packages.items() if canonical(name) not in requested}
    lost, path = replace(plan.foreign, packages=lost_packages), plan.request.path
    if lost:
        contents = f"files that uenvtool did not install: {lost.shown()}"
        yield f"the new {path} will not contain {contents}; the old overlay is kept"
    if lost_packages:
        pins = (f"{name}=={version}" for name, version in sorted(lost_packages.items()))
        command = shlex.join(["uenvtool", "venv", path, *pins])
        yield f"to keep the packages that another tool installed in {path}, run `{command}`"


def _base_warnings(plan: OverlayPlan) -> Iterator[str]:
    base, previous = plan.base, plan.previous.base if plan.previous else {}
    if base.is_plain and not plan.request.no_base and previous.get("kind") != PLAIN:
        yield f"no base is loaded: the environment uses {base.python}, and torch would come from the package index"
    elif previous and not base.is_plain and previous.get("fingerprint") != base.fingerprint():
        kind, name, python = (str(previous.get(key) or "") for key in ("kind", "name", "python"))
        old_base = f"{named(kind, name, python)} (Python {previous.get('version')})"
        if (kind, name) == (base.found_base.kind, base.found_base.name):
            yield f"the base has changed since this overlay was made on {old_base}; it is now {base.described()}"
        else:
            yield (
                f"this overlay was made on {old_base} and now has another base, {base.described()}: its packages were "
                "resolved again for the new base, which must be loaded wherever the overlay is used"
            )


def _publish(made: _Made, plan: OverlayPlan, new: Path, on_step: Step) -> None:
    target = made.target
    if plan.request.update and _records(new) == _records(target):
        if plan.request.image is None:
            made.notes.append(f"no newer versions were found; {plan.request.path} is unchanged")
            return
        plan = replace(plan, request=replace(plan.request, update=False))  # no old overlay to keep
    request = plan.request
    with contextlib.ExitStack() as stack:
        replacements = []
        if request.image is not None:
            on_step(f"packing {request.image}")
            packing = pack_overlay(new, request, asdict(plan.base.found_base), made.notes)
            replacement, made.image = stack.enter_context(packing)
            replacements.append(replacement)
            made.notes += editable_notes(plan.requested.requirements)
        on_step(f"replacing {request.path}")
        packed_into = request.image or noted_image(target)
        if packed_into is not None:
            files.fill(new, image_note(target, packed_into))
        if plan.keeps_old and os.path.lexists(target):
            paths = map(target.with_name, previous_names(target.name))
            made.previous = next(path for path in paths if not os.path.lexists(path) or is_own(path))
        files.publish([files.Replacement(new=new, target=target, previous=made.previous), *replacements])


def _warn_of_older_image(made: _Made) -> None:
    target = made.target
    old_image = image_of(target) if made.image is None else None
    if old_image is not None and is_older(old_image, target):
        again = f"pack it again with `{repack_command(target, old_image)}`"
        made.warnings.append(f"{shown_path(old_image)} is older than {shown_path(target)}: {again}")


def _records(directory: Path) -> list[bytes]:
    # The manifest has the checksums of a package that was built again.
    paths = [*record_paths(directory), directory / RECORD_FOLDER / MANIFEST]
    return [path.read_bytes() if path.is_file() else b"" for path in paths]


def _pack(made: _Made, environ: Mapping[str, str], progress: Progress) -> None:
    request, target = made.request, made.target
    record = read_record(target)
    if record is not None:
        made.changes = changes(record.rows(), record.versions, {})
    if request.image is None or request.dry_run:
        return
    # The lock of the overlay keeps another run from replacing it during the packing.
    with files.workplace(target), progress(f"packing {request.path}") as on_step:
        on_step(str(request.image))
        base = record.base if record else howto.surroundings(environ)
        with pack_overlay(target, request, base, made.notes) as (replacement, made.image):
            files.publish([replacement])
        if record is not None:
            files.write_all(target, image_note(target, request.image).items())
            made.notes += editable_notes(record.requirements())


def _result(made: _Made, started_by: str) -> Result:
    request, image = made.request, made.image
    shown = [change for change in made.changes if request.verbose or change.change != SAME]
    notes, next_commands = list(made.notes), []
    if len(shown) < len(made.changes):
        of_base = sum(change.how == FROM_BASE for change in made.changes)
        kinds = ((len(made.changes) - len(shown) - of_base, "unchanged"), (of_base, "from the base"))
        counts = ", ".join(f"{number} {kind}" for number, kind in kinds if number)
        notes.append(f"not listed: {counts} (--verbose lists them)")
    if request.dry_run and image is None and request.image is not None:
        notes.append(f"would pack {request.path} into {request.image}")
    if request.dry_run and made.base is not None:
        has_torch = "torch" in made.base.packages
        unseen = "; whether compiled modules fit the base's torch is known only after a real run" if has_torch else ""
        notes.append(f"nothing was installed (--dry-run): this plan is based on wheel metadata{unseen}")
    elif made.base is not None:
        notes.append(f"base of {shown_path(made.target)}: {made.base.described()}")
        notes += [f"the old overlay is {shown_path(made.previous)}"] if made.previous else []
        python = shlex.quote(shown_path(made.target / "bin" / "python"))
        next_commands.append(f"{started_by} {python} script.py".lstrip())
        activate = shlex.quote(shown_path(made.target / "bin" / "activate"))
        next_commands += [] if started_by else [f"source {activate}"]
    if image:
        size = size_text(image["bytes"])
        notes.append(f"{image['path']}: {size}, {image['compression']}, sha256 {image['sha256']}")
        notes += [f"the old image is {image['previous']}"] if image["previous"] else []
        next_commands += howto.shown(image["use"])
    if not request.dry_run:
        overlay = shlex.quote(shown_path(Path(image["path"]) if image else made.target))
        system = "" if recognised() else "--system NAME "
        next_commands.append(f"uenvtool job {system}--venv {overlay} -o train.sh -- python train.py")
    return Result(
        data=made.data(),
        tables=(Table(headings=HEADINGS, rows=table_rows(change.data() for change in shown)),) if shown else (),
        notes=tuple(notes),
        warnings=tuple(made.warnings),
        next=tuple(next_commands),
    )
