"""Combines a request with its base, settings, requirements and previous overlay into a plan, before resolution."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from uenvtool.core import files, quoting
from uenvtool.core.errors import AnswerIsNo, BadInput, Position, Problem
from uenvtool.core.words import canonical, grouped
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.secrets import storable
from uenvtool.knowledge.system import load_system
from uenvtool.venv import projects
from uenvtool.venv.base import CONTAINER, NAMED, PLAIN, UENV, Base, find, names_base, plain_python, read_base
from uenvtool.venv.compat import fits, marker_environment, protected, satisfies
from uenvtool.venv.info import read_image_record, require_mountable
from uenvtool.venv.manifest import Foreign, foreign
from uenvtool.venv.overlay import CONFIG
from uenvtool.venv.record import FROM_BASE, OverlayRecord, read_record
from uenvtool.venv.request import IMAGE_SUFFIXES, VenvRequest, is_image_name
from uenvtool.venv.requirements import UserRequest, checked_names, names_of, read_request
from uenvtool.venv.settings import ALL, UvSettings, read_settings, with_options
from uenvtool.venv.sources import changed_files

NO_RUNTIME = "none"
"""The runtime of a system on which users load nothing before they work."""
_CONDA_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}
"""The conda-forge packages that have another name on PyPI."""
_CONDA_SPEC = re.compile(r"(?:\S+::)?([\w.-]+)\s*(.*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class OverlayPlan:
    """The inputs of the resolution: a request with its base, the user's requirements and settings, and the old overlay.

    requested: the user's requirements, including those of the old overlay. previous: the old overlay's record. foreign:
    the packages and files in the old overlay that uenvtool did not install. preferred: the version of each package to
    keep if possible. kept: the names of the packages that --keep-base leaves to the base.
    """

    request: VenvRequest
    base: Base
    requested: UserRequest
    settings: UvSettings
    overrides: tuple[str, ...] = ()
    previous: OverlayRecord | None = None
    foreign: Foreign = field(default_factory=Foreign)
    preferred: Mapping[str, str] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()

    @property
    def keeps_old(self) -> bool:
        """Return whether the run keeps the old overlay under another name."""
        return self.request.update or bool(self.foreign)

    @property
    def override_names(self) -> tuple[str, ...]:
        return names_of(self.overrides)

    def including(self, requested: UserRequest, overrides: Sequence[str], built_on_base: Sequence[str]) -> OverlayPlan:
        """Return the plan with these requirements, after adding the overrides and builds of a record or lock."""
        all_overrides = (*checked_names(overrides, "--override", "torch"), *self.overrides)
        all_built = (*built_on_base, *self.settings.built_on_base)
        settings = replace(self.settings, built_on_base=tuple(dict.fromkeys(all_built)))
        return replace(self, requested=requested, overrides=tuple(dict.fromkeys(all_overrides)), settings=settings)


def how_to_load_torch(environ: Mapping[str, str]) -> str:
    """Return a hint that lists the kinds of bases that can be loaded on this system."""
    uenv = "a uenv (`uenv start IMAGE --view=VIEW`), " if UENV in _runtimes(environ) else ""
    return f"load {uenv}a container, a module or a conda environment that has torch"


def with_files_here(request: VenvRequest, target: Path) -> tuple[VenvRequest, str]:
    """Return a request with the current directory's requirement files added, and a note about them or an empty string.

    Only a request that packs without changes gets files. A new overlay gets the first file of `found_here`. An existing
    overlay gets the files that its record names, if the files, the options or the package directories have changed
    since the overlay was made.
    """
    if request.squash is None or request.changes_overlay:
        return request, ""
    record = read_record(target)
    if record is None:
        names = [] if (target / CONFIG).is_file() else projects.found_here()[:1]
        return _with(request, names, {}), f"made from {names[0]} in this directory" if names else ""
    made_from = record.made_from
    names = list(made_from.get("names", ()))
    if not names or made_from["folder"] != _relative_cwd(target) or not all(map(os.path.isfile, names)):
        return request, ""
    shown = ", ".join(names)
    if made_from["digest"] != _digest(names):
        return _with(request, names, made_from), f"{request.path} is updated because {shown} has changed"
    if any(value and value != tuple(made_from.get(name, ())) for name, value in request.of_project.items()):
        return _with(request, names, made_from), f"{request.path} is updated from {shown} with other options"
    if changed_files(record.sources):
        return _with(request, names, made_from), ""
    same = replace(request, extra=(), group=(), no_install_project=False, keep_base=False)
    return same, f"packed without changes: {shown} has not changed"


def made_from(request: VenvRequest, target: Path, previous: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the field `made_from` of a record, which describes the current directory's files that the request names.

    previous: the old record's `made_from`, which is kept if the request names no such file and no lock.
    """
    named = [*request.requirements, *([str(request.from_)] if request.from_ else [])]
    names = [name for name in named if name in projects.FOUND_HERE]
    if not names:
        return {} if request.from_ else previous
    return {
        "names": names,
        "folder": _relative_cwd(target),
        "digest": _digest(names),
        **{name: list(value) for name, value in request.of_project.items()},
    }


def _with(request: VenvRequest, names: Sequence[str], previous: Mapping[str, Any]) -> VenvRequest:
    return replace(
        request,
        requirements=tuple(name for name in names if not projects.is_lock(name)),
        from_=next((Path(name) for name in names if projects.is_lock(name)), None),
        extra=request.extra or tuple(previous.get("extra", ())),
        group=request.group or tuple(previous.get("group", ())),
        keep_base=request.keep_base or "--keep-base" in previous.get("options", ()),
        no_install_project=request.no_install_project or "--no-install-project" in previous.get("options", ()),
    )


def _relative_cwd(target: Path) -> str:
    return os.path.relpath(Path.cwd(), target)


def _digest(names: Sequence[str]) -> str:
    # A uv.lock is installed together with the groups in pyproject.toml.
    inputs = [
        *names,
        *([projects.PYPROJECT] if projects.UV_LOCK in names and os.path.isfile(projects.PYPROJECT) else []),
    ]
    return files.digest(b"\0".join(files.read_bytes(Path(name), projects.MAX_BYTES) for name in inputs))


def refuse_invalid(request: VenvRequest) -> None:
    """Raise BadInput if an argument or a combination of options is invalid, without reading any file."""
    path = request.path
    if re.search(r"[<>=!~]=|[<>\[]|\.(txt|whl|in|toml)\Z|\A\Z", path) and not os.path.exists(path):
        hint = f"put the directory first, as in `uenvtool venv .venv '{path}'`; name a requirements file with `-r FILE`"
        raise BadInput(f"'{path}' is not a valid directory name for an overlay", hint=hint)
    if os.pathsep in os.path.abspath(path):
        hint = f"choose a name without {os.pathsep!r}"
        raise BadInput(f"'{path}' contains {os.pathsep!r}, which separates the entries of PATH", hint=hint)
    if request.squash and not is_image_name(request.squash):
        hint = f"use a file name that ends in {', '.join(IMAGE_SUFFIXES[:-1])} or {IMAGE_SUFFIXES[-1]}"
        raise BadInput(f"--squash '{request.squash}' is not a valid image name", hint=hint)
    checked_names(request.override, "--override", "--override torch, or with a version: --override torch==2.7.0")
    checked_names(request.remove, "--remove", "--remove lightning")
    checked_names([name for name in request.no_build_isolation if name], "--no-build-isolation", "flash-attn")
    if request.mount is not None:
        require_mountable(request.mount)
    if request.from_ and (request.wants_packages or request.remove or request.allow_older):
        raise BadInput(
            "--from cannot be combined with packages, -r, -e, --remove or --allow-older",
            hint="install the lock first, and add packages afterwards: `uenvtool venv PATH PACKAGE`",
        )
    is_of_uv_lock = request.from_ is not None and request.from_.name == projects.UV_LOCK
    if request.no_install_project and not is_of_uv_lock:
        hint = "add --from uv.lock, or remove --no-install-project: other locks list the packages to install"
        raise BadInput("--no-install-project requires --from uv.lock", hint=hint)
    has_project = is_of_uv_lock or any(file.endswith(projects.TOML) for file in request.requirements)
    if (request.extra or request.group) and not has_project:
        raise BadInput("--extra and --group require a project", hint="add -r pyproject.toml or --from uv.lock")
    if request.mount is not None and request.squash is None:
        raise BadInput("--mount requires --squash", hint="add --squash, because only an image has a mount point")
    if request.view != "default" and not request.uenv:
        raise BadInput("--view requires --uenv", hint="add --uenv IMAGE")
    if request.base is not None and request.no_base:
        raise BadInput("--base cannot be combined with --no-base", hint="remove one of the two options")


def planned(request: VenvRequest, target: Path, environ: Mapping[str, str]) -> OverlayPlan:
    """Return the plan of a request. Raises BadInput for invalid input, and AnswerIsNo if the base is not loaded."""
    previous = read_record(target)
    foreign_files = foreign(target, previous.versions) if previous else Foreign()
    if previous is None and request.image is not None and request.image.is_file():
        previous = read_image_record(request.image)  # the unpacked overlay was removed
    if request.update and previous is None and not (request.wants_packages or request.from_):
        hint = "name the overlay's directory, or its image with --squash"
        raise BadInput(f"--update: overlay not found: '{request.path}'", hint=hint)
    base = base_of(request, previous, target, environ)
    settings = read_settings(environ, os.path.dirname(os.path.dirname(base.base_executable)))
    has_cache = settings.has_cache and (not request.dry_run or bool(environ.get("UV_CACHE_DIR")))
    settings = replace(settings, project=_project_settings(request), has_cache=has_cache)
    built_packages = [name for name in request.no_build_isolation if name]
    first_words = {canonical(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]) for text in request.packages}
    requested = read_request(
        (*request.packages, *(name for name in built_packages if names_of([name])[0] not in first_words)),
        request.requirements,
        request.editable,
        settings.constraints,
        extras=request.extra,
        groups=request.group,
        require_hashes=settings.require_hashes,
    )
    requested = replace(requested, notes=_conda_notes(base, requested.conda_specs))
    inherited = previous if request.from_ is None else None
    all_packages = (ALL,) if "" in request.no_build_isolation else ()
    built_on_base = (*all_packages, *names_of(built_packages), *settings.built_on_base)
    settings = replace(with_options(settings, requested.options), built_on_base=tuple(dict.fromkeys(built_on_base)))
    plan = OverlayPlan(
        request=request,
        base=base,
        requested=requested,
        settings=settings,
        overrides=tuple(dict.fromkeys(request.override)),
        previous=previous,
        foreign=foreign_files,
        preferred={} if inherited is None or request.update else inherited.versions,
    )
    plan = plan if inherited is None else _with_previous(plan, inherited)
    plan = _without_removed(plan, inherited) if request.remove else plan
    return _keeping_base(plan) if request.keep_base else plan


def _project_settings(request: VenvRequest) -> Mapping[str, Any]:
    named = [*map(Path, request.requirements), *([request.from_] if request.from_ else [])]
    directories = [path.parent for path in named if path.name in (projects.PYPROJECT, projects.UV_LOCK)]
    directories += [path.expanduser() for path in (*request.editable, *map(Path, request.packages))]
    return next(filter(None, map(projects.settings_of_project, directories)), {})


def base_of(request: VenvRequest, previous: OverlayRecord | None, target: Path, environ: Mapping[str, str]) -> Base:
    """Return the base that a request names, or else the base of the previous overlay or the loaded one.

    Raises BadInput if the named base does not exist, and AnswerIsNo if no base is loaded.
    """
    recorded_base = previous.base if previous else {}
    if request.no_base or (recorded_base.get("kind") == PLAIN and not names_base(request, environ)):
        return read_base(plain_python(environ), environ)
    recorded_python = str(recorded_base.get("python", ""))
    is_reusable = recorded_base.get("kind") in (NAMED, UENV) and not recorded_python.startswith(f"{target}{os.sep}")
    recorded_exists = is_reusable and not environ.get("UENV_VIEW") and os.access(recorded_python, os.X_OK)
    found_base = find(request.base or (recorded_python if recorded_exists else None), environ)
    is_elsewhere = found_base.kind == PLAIN or (
        found_base.kind == CONTAINER and recorded_base.get("kind") in (NAMED, UENV)
    )
    if is_elsewhere and previous is not None and request.base is None:
        load = quoting.sh_again(str(recorded_base.get("load") or ""))
        load = f": {load}" if load else ""
        raise AnswerIsNo(
            f"the base of {target.name}, {recorded_base.get('name')}, is not loaded",
            hint=f"load it first{load}, or name another base with --base PYTHON",
        )
    if found_base.kind == PLAIN and _runtimes(environ) - {NO_RUNTIME}:
        system = recognised(environ)
        place = system[0] if system else "a machine with the uenv client"
        raise AnswerIsNo(
            f"no base with torch: nothing is loaded on {place}, and {found_base.python} is a plain Python",
            hint=f"{how_to_load_torch(environ)}, name a base that has torch with --base PYTHON, "
            "or create a plain environment with --no-base",
        )
    return read_base(found_base, environ)


def _runtimes(environ: Mapping[str, str]) -> set[str]:
    system = recognised(environ)
    known = load_system(system[0]).runtimes if system else ()
    return {*known, *([UENV] if shutil.which("uenv", path=environ.get("PATH")) else [])}


def _conda_notes(base: Base, specs: Sequence[tuple[Position, str]]) -> tuple[str, ...]:
    problems: list[Problem] = []
    present: list[tuple[str, str]] = []
    missing_specs: list[tuple[str, str]] = []
    for position, spec in specs:
        match = _CONDA_SPEC.match(spec)
        name = canonical(match[1]) if match else ""
        name = _CONDA_NAMES.get(name, name)
        package = base.packages.get(name)
        version = base.version if name == "python" else package.version if package else ""
        if name == "pip":
            continue
        if not match or not version:
            missing_specs.append((position.file, spec))
            continue
        fits = _satisfies_conda(match[2], version)
        if not fits and name in ("python", "torch"):
            hint = (
                f"load a base with that version, or change the line to `{match[1]}`, "
                "because uenvtool does not install conda packages"
            )
            problems.append(Problem(f"{spec}: the base has {name} {version}", position, hint))
        elif name != "python":
            present.append((position.file, f"{name} {version}{'' if fits else f' (requested: {spec})'}"))
    AnswerIsNo.raise_any(problems)
    missing = "uenvtool does not install conda packages; add the packages that you need to the command"
    return (
        *(f"{file}: the base has {', '.join(texts)}" for file, texts in grouped(present).items()),
        *(f"{file}: {missing}: {', '.join(texts)}" for file, texts in grouped(missing_specs).items()),
    )


def _satisfies_conda(specification: str, version: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    # In conda, `=1.2` matches every version that begins with 1.2, and `1.2` only that version. A build may follow
    # (conda's documentation, "Package match specifications").
    parts = re.sub(r"([<>=!~,])\s+", r"\1", specification).split()
    text = parts[0] if parts else ""
    if re.match(r"=?[\w.*]", text):
        fuzzy = text.startswith("=")
        text = text.removeprefix("=").partition("=")[0]
        text = f"=={text}" if text.endswith(".*") or not fuzzy else f"=={text}.*"
    try:
        return satisfies(SpecifierSet(text), version)
    except InvalidSpecifier:
        return True  # another form of specification, which cannot be checked


def _with_previous(plan: OverlayPlan, previous: OverlayRecord) -> OverlayPlan:
    # New requirements replace the old ones of the same package, and the old ones of the same requirements file.
    requested = plan.requested
    texts = {storable(requirement.text) for requirement in requested.requirements}
    positions = [requirement.position for requirement in requested.requirements]
    files_now = storable((*requested.files, *(position.file for position in positions if position)))
    kept = tuple(
        requirement
        for requirement in previous.requirements()
        if requirement.name not in requested.names
        and requirement.text not in texts
        and requirement.origin.rpartition(":")[0] not in files_now
    )
    requested = replace(requested, requirements=[*kept, *requested.requirements])
    return plan.including(requested, previous.overrides, previous.built_on_base)


def _keeping_base(plan: OverlayPlan) -> OverlayPlan:
    base, environment = plan.base, marker_environment(plan.base)
    kept: dict[str, str] = {}
    for requested in plan.requested.requirements:
        requirement, package, rule = requested.requirement, base.packages.get(requested.name), protected(requested.name)
        if requirement is None or requested.name in plan.override_names or fits(requested, package, environment):
            continue
        if package is not None:
            kept[requested.name] = f"the base's {package.name} {package.version} is kept instead of {requirement}"
        elif rule is not None and rule.refuse_missing and "torch" in base.packages:
            kept[requested.name] = f"{requirement} is not installed, because the base contains this library"
    requirements = [each for each in plan.requested.requirements if each.name not in kept]
    notes = (*plan.requested.notes, *kept.values())
    requested_rest = replace(plan.requested, requirements=requirements, notes=notes)
    return replace(plan, requested=requested_rest, kept=frozenset(kept))


def _without_removed(plan: OverlayPlan, previous: OverlayRecord | None) -> OverlayPlan:
    if previous is None:
        raise BadInput(f"--remove: overlay not found: '{plan.request.path}'", hint="name the overlay's directory")
    removed, named = set(names_of(plan.request.remove)), plan.requested.names | set(plan.override_names)
    AnswerIsNo.raise_any(_not_removable(name, previous, sorted(named)) for name in sorted(removed - named))
    kept = [requirement for requirement in plan.requested.requirements if requirement.name not in removed]
    built_on_base = tuple(name for name in plan.settings.built_on_base if name not in removed)
    return replace(
        plan,
        requested=replace(plan.requested, requirements=kept),
        overrides=tuple(text for text in plan.overrides if names_of([text])[0] not in removed),
        settings=replace(plan.settings, built_on_base=built_on_base),
    )


def _not_removable(name: str, previous: OverlayRecord, requested: list[str]) -> Problem:
    package = next((row for row in previous.packages if row["name"] == name), None)
    requested_text = f"you requested {', '.join(requested) or 'nothing'}"
    hint = f"check the name; {requested_text}"
    if package is None:
        return Problem(f"{name} is not installed in this overlay", None, hint)
    if package["how"] == FROM_BASE:
        return Problem(f"{name} belongs to the base, not to this overlay", None, hint)
    askers = ", ".join(package["asked_by"])
    hint = f"remove {askers} instead; {requested_text}"
    return Problem(f"{name} cannot be removed: it is required by {askers}", None, hint)
