"""Gathers everything that is known of a request before anything is resolved."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from uenvtool.core import quoting
from uenvtool.core.errors import AnswerIsNo, BadInput, Problem
from uenvtool.core.words import canonical
from uenvtool.venv.base import Base, read_base
from uenvtool.venv.conda import held_against
from uenvtool.venv.discovery import CONTAINER, NAMED, PLAIN, UENV, find, plain_python
from uenvtool.venv.info import read_image_record, require_mountable
from uenvtool.venv.manifest import Foreign, foreign
from uenvtool.venv.projects import PYPROJECT, UV_LOCK, settings_of_project
from uenvtool.venv.record import FROM_BASE, OverlayRecord, read_record
from uenvtool.venv.request import IMAGE_SUFFIXES, VenvRequest, is_image_name
from uenvtool.venv.requirements import UserRequest, checked_names, names_of, read_request
from uenvtool.venv.settings import ALL, UvSettings, read_settings, with_options

NO_RUNTIME = "none"
"""The runtime of a system where nothing is loaded before one works."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OverlayPlan:
    """What a request comes to here.

    wanted: the packages. previous: the record of the overlay that is made again; there: what others put into it.
    preferred: versions to stay with, by name. What is built with the base's torch stands in the settings.
    """

    request: VenvRequest
    base: Base
    wanted: UserRequest
    settings: UvSettings
    overrides: tuple[str, ...] = ()
    previous: OverlayRecord | None = None
    there: Foreign = field(default_factory=Foreign)
    preferred: Mapping[str, str] = field(default_factory=dict)

    @property
    def keeps_old(self) -> bool:
        """Tell if the overlay that is made again stays under another name."""
        return self.request.update or bool(self.there)

    @property
    def override_names(self) -> tuple[str, ...]:
        """Return the packages that may replace protected ones."""
        return names_of(self.overrides)


def load_one(environ: Mapping[str, str]) -> str:
    """Say what can be loaded here that has torch; a uenv only where there are some."""
    uenv = "a uenv (`uenv start IMAGE --view=VIEW`), " if UENV in _runtimes(environ) else ""
    return f"load {uenv}a container, a module or an environment of conda that has torch"


def refuse_wrong_words(request: VenvRequest) -> None:
    """Raise BadInput if a word of the request cannot be what it stands for, by the words alone."""
    path = request.path
    if re.search(r"[<>=!~]=|[<>\[]|\.(txt|whl|in|toml)\Z|\A\Z", path) and not os.path.exists(path):
        hint = f"the folder comes first: `uenvtool venv .venv '{path}'`; a file of requirements is `-r FILE`"
        raise BadInput(f"{path} is not the name of a folder for an overlay", hint=hint)
    if os.pathsep in os.path.abspath(path):
        raise BadInput(f"{path} has a {os.pathsep!r} in it, which no PATH can hold", hint="choose another name")
    if request.squash and not is_image_name(request.squash):
        hint = f"it ends in {', '.join(IMAGE_SUFFIXES)}"
        raise BadInput(f"--squash {request.squash}: not the name of an image", hint=hint)
    checked_names(request.override, "--override", "--override torch, or with a version: --override torch==2.7.0")
    checked_names(request.remove, "--remove", "--remove lightning")
    checked_names([name for name in request.no_build_isolation if name], "--no-build-isolation", "flash-attn")
    if request.mount is not None:
        require_mountable(request.mount)
    if request.from_ and (request.wants_packages or request.remove):
        raise BadInput(
            "the lock says all that is installed", hint="add packages afterwards: `uenvtool venv PATH PACKAGE`"
        )
    if request.no_install_project and not request.from_:
        raise BadInput("--no-install-project is for --from", hint="nothing else installs the folder's project unasked")
    if (request.extra or request.group) and not (request.requirements or request.from_):
        raise BadInput(
            "--extra and --group are of a project, and none is named", hint="add -r pyproject.toml, or --from uv.lock"
        )
    if request.view != "default" and not request.uenv:
        raise BadInput("--view is for --uenv", hint="name the image too: --uenv IMAGE")
    if request.base is not None and request.no_base:
        raise BadInput("--base and --no-base contradict each other", hint="give one of them")


def planned(request: VenvRequest, target: Path, environ: Mapping[str, str]) -> OverlayPlan:
    """Read the base, the user's settings and requirements, and what the overlay was made of before.

    Raises BadInput if one of them is wrong, AnswerIsNo if the base that is meant is not here.
    """
    previous = read_record(target)
    there = foreign(target, previous.versions) if previous else Foreign()
    if previous is None and request.image is not None and request.image.is_file():
        previous = read_image_record(request.image)  # the loose overlay is gone
    if request.update and previous is None and not (request.wants_packages or request.from_):
        raise BadInput(f"{request.path} is not there to be updated", hint="name its folder, or its image with --squash")
    base = _base(request, previous, target, environ)
    settings = read_settings(environ, os.path.dirname(os.path.dirname(base.base_executable)))
    has_cache = settings.has_cache and (not request.dry_run or bool(environ.get("UV_CACHE_DIR")))
    settings = replace(settings, project=_of_project(request), has_cache=has_cache)
    built = [name for name in request.no_build_isolation if name]
    first_words = {canonical(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]) for text in request.packages}
    wanted = read_request(
        (
            *request.packages,
            *(name for name in built if names_of([name])[0] not in first_words),
        ),
        request.requirements,
        request.editable,
        settings.constraints,
        extras=request.extra,
        groups=request.group,
        require_hashes=settings.require_hashes,
    )
    wanted = replace(wanted, notes=held_against(base, wanted.of_conda))
    before = previous if request.from_ is None else None
    every = (ALL,) if "" in request.no_build_isolation else ()
    built_on_base = (*every, *names_of(built), *settings.built_on_base)
    settings = replace(with_options(settings, wanted.options), built_on_base=tuple(dict.fromkeys(built_on_base)))
    plan = OverlayPlan(
        request=request,
        base=base,
        wanted=wanted,
        settings=settings,
        overrides=tuple(dict.fromkeys(request.override)),
        previous=previous,
        there=there,
        preferred={} if before is None or request.update else before.versions,
    )
    plan = plan if before is None else _with_previous(plan, before)
    return _without_removed(plan, before) if request.remove else plan


def _of_project(request: VenvRequest) -> Mapping[str, Any]:
    """Return uv's settings of the first project that is named: its pyproject.toml, its lock, or its folder."""
    named = [*map(Path, request.requirements), *([request.from_] if request.from_ else [])]
    folders = [path.parent for path in named if path.name in (PYPROJECT, UV_LOCK)]
    folders += [path.expanduser() for path in (*request.editable, *map(Path, request.packages))]
    return next(filter(None, map(settings_of_project, folders)), {})


def _base(request: VenvRequest, previous: OverlayRecord | None, target: Path, environ: Mapping[str, str]) -> Base:
    before = previous.base if previous else {}
    if request.no_base or (before.get("kind") == PLAIN and request.base is None):
        return read_base(plain_python(environ), environ)
    recorded = str(before.get("python", ""))
    of_base = before.get("kind") in (NAMED, UENV) and not recorded.startswith(f"{target}{os.sep}")
    is_here = of_base and not environ.get("UENV_VIEW") and os.access(recorded, os.X_OK)
    found = find(request.base or (recorded if is_here else None), environ)
    is_elsewhere = found.kind == PLAIN or (found.kind == CONTAINER and before.get("kind") in (NAMED, UENV))
    if is_elsewhere and previous is not None and request.base is None:
        load = quoting.sh_again(str(before.get("load") or ""))
        load = f": {load}" if load else ""
        raise AnswerIsNo(
            f"{target.name} lies on {before.get('name')}, which is not loaded",
            hint=f"load it first{load}; or name another base with --base PYTHON",
        )
    here = _system_with_runtime(environ) if found.kind == PLAIN else ""
    if here:
        raise AnswerIsNo(
            f"no torch lies under this: nothing is loaded on {here}, and {found.python} is a bare Python",
            hint=f"{load_one(environ)}, name a base that has torch with --base PYTHON, "
            "or make a plain environment with --no-base",
        )
    return read_base(found, environ)


def _system_with_runtime(environ: Mapping[str, str]) -> str:
    """Return the name of this system if images are loaded here before one works; empty elsewhere."""
    if not _runtimes(environ) - {NO_RUNTIME}:
        return ""
    from uenvtool.knowledge.recognise import recognised

    system = recognised(environ)
    return system[0] if system else "a machine with the uenv client"


def _runtimes(environ: Mapping[str, str]) -> set[str]:
    """Return the runtimes that are here: those of the system, if it is a known one, and uenv by its client."""
    from uenvtool.knowledge.recognise import recognised
    from uenvtool.knowledge.system import load_system

    system = recognised(environ)
    own = load_system(system[0]).runtimes if system else ()
    return {*own, *([UENV] if shutil.which("uenv", path=environ.get("PATH")) else [])}


def _with_previous(plan: OverlayPlan, previous: OverlayRecord) -> OverlayPlan:
    """Add what was wanted before. Of one package, what is wanted now counts; of one file, what it says now."""
    wanted = plan.wanted
    texts = {requirement.text for requirement in wanted.requirements}
    positions = [requirement.position for requirement in wanted.requirements]
    files_now = {*wanted.files, *(position.file for position in positions if position)}
    kept = tuple(
        requirement
        for requirement in previous.requirements()
        if requirement.name not in wanted.names
        and requirement.text not in texts
        and requirement.origin.rpartition(":")[0] not in files_now
    )
    overrides = (*checked_names(previous.overrides, "--override", "torch"), *plan.overrides)
    built_on_base = (*previous.built_on_base, *plan.settings.built_on_base)
    return replace(
        plan,
        wanted=replace(wanted, requirements=(*kept, *wanted.requirements)),
        overrides=tuple(dict.fromkeys(overrides)),
        settings=replace(plan.settings, built_on_base=tuple(dict.fromkeys(built_on_base))),
    )


def _without_removed(plan: OverlayPlan, previous: OverlayRecord | None) -> OverlayPlan:
    if previous is None:
        raise BadInput(f"{plan.request.path} is not there, so nothing can be removed", hint="name its folder")
    removed, named = set(names_of(plan.request.remove)), plan.wanted.names | set(plan.override_names)
    AnswerIsNo.raise_any(_not_wanted(name, previous, sorted(named)) for name in sorted(removed - named))
    kept = tuple(wanted for wanted in plan.wanted.requirements if wanted.name not in removed)
    built_on_base = tuple(name for name in plan.settings.built_on_base if name not in removed)
    return replace(
        plan,
        wanted=replace(plan.wanted, requirements=kept),
        overrides=tuple(text for text in plan.overrides if names_of([text])[0] not in removed),
        settings=replace(plan.settings, built_on_base=built_on_base),
    )


def _not_wanted(name: str, previous: OverlayRecord, wanted: list[str]) -> Problem:
    package = next((row for row in previous.packages if row["name"] == name), None)
    known = f"you asked for {', '.join(wanted) or 'nothing'}"
    if package is None:
        return Problem(f"{name} is not in this overlay", None, known)
    if package["how"] == FROM_BASE:
        return Problem(f"{name} is the base's, not this overlay's", None, known)
    askers = ", ".join(package["asked_by"])
    return Problem(f"{name} cannot be removed: {askers} asks for it", None, f"remove that: {known}")
