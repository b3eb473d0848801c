"""Everything that is known of an order before anything is resolved."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from uenvtool.core.errors import AnswerIsNo, BadInput
from uenvtool.venv.base import Base, read_base
from uenvtool.venv.image import read_image_record
from uenvtool.venv.order import Order
from uenvtool.venv.precedence import SITE
from uenvtool.venv.record import OverlayRecord, read_record
from uenvtool.venv.requirement_files import read_request
from uenvtool.venv.requirements import UserRequest, checked_names, names_of
from uenvtool.venv.settings import ALL, Settings, read_settings, with_options
from uenvtool.venv.versions import canonical
from uenvtool.venv.where import NAMED, PLAIN, UENV, FoundBase, find, plain_python

NO_RUNTIME = "none"
"""The runtime of a system where nothing is loaded before one works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an order comes to here.

    previous: the record of the overlay that is made again. preferred: versions to stay with, by name.
    built_on_base: packages that are built with the base's, see `Settings`.
    """

    order: Order
    base: Base
    request: UserRequest
    settings: Settings
    precedence: str
    overrides: tuple[str, ...] = ()
    previous: OverlayRecord | None = None
    preferred: Mapping[str, str] = field(default_factory=dict)

    @property
    def override_names(self) -> tuple[str, ...]:
        """The packages that may replace protected ones."""
        return names_of(self.overrides)


def planned(order: Order, target: Path, environ: Mapping[str, str]) -> Plan:
    """Read the base, the user's settings and requirements, and what the overlay was made of before.

    Raises BadInput if one of them is wrong, AnswerIsNo if the base that is meant is not here.
    """
    previous = read_record(target) or _packed_record(order)
    if order.update and previous is None and not (order.wants_packages or order.lock):
        raise BadInput(f"{order.path} is not there to be updated", hint="name its folder, or its image with --squash")
    base = _base(order, previous, target, environ)
    settings = read_settings(environ, os.path.dirname(os.path.dirname(base.base_executable)))
    named = (*order.files, *settings.files)
    built = [name for name in order.built_on_base if name]
    also = [name for name in built if names_of([name])[0] not in _first_words(order.packages)]
    request = read_request(
        (*order.packages, *also),
        named,
        order.editables,
        settings.constraints,
        require_hashes=settings.require_hashes,
    )
    settings = with_options(settings, request.options)
    before = previous if previous is not None and order.lock is None else None
    every = (ALL,) if len(built) < len(order.built_on_base) else ()
    overrides, built_on_base = order.overrides, (*every, *names_of(built), *settings.built_on_base)
    if before is not None:
        request = _with_previous(before, request)
        overrides = (*checked_names(before.overrides, "--override", "torch"), *overrides)
        built_on_base = (*before.built_on_base, *built_on_base)
    request, overrides, built_on_base = _without_removed(order, before, request, overrides, built_on_base)
    return Plan(
        order=order,
        base=base,
        request=request,
        settings=replace(settings, built_on_base=tuple(dict.fromkeys(built_on_base))),
        precedence=order.precedence or (previous.precedence if previous else SITE),
        overrides=tuple(dict.fromkeys(overrides)),
        previous=previous,
        preferred={} if before is None or order.update else before.versions,
    )


def _first_words(packages: tuple[str, ...]) -> set[str]:
    """The normalized names with which requirements start; of a path or URL it is of no use, and harms nothing."""
    return {canonical(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]) for text in packages}


def _packed_record(order: Order) -> OverlayRecord | None:
    """What the image was made of that is to be updated, if the loose overlay is gone."""
    is_there = order.update and order.image is not None and order.image.is_file()
    return read_image_record(order.image) if is_there and order.image else None


def _base(order: Order, previous: OverlayRecord | None, target: Path, environ: Mapping[str, str]) -> Base:
    was_plain = previous is not None and previous.base.get("kind") == PLAIN and order.base is None
    if order.no_base or was_plain:
        return read_base(plain_python(environ), environ)
    found = find(order.base or _recorded_python(previous, target, environ), environ)
    if previous is not None and order.base is None and found.kind == PLAIN:
        _refuse_unloaded(target, previous)
    if found.kind == PLAIN:
        _refuse_plain(found, environ)
    return read_base(found, environ)


def _recorded_python(previous: OverlayRecord | None, target: Path, environ: Mapping[str, str]) -> str | None:
    """The base of the overlay that is made again, if the user has loaded no other one."""
    if previous is None or environ.get("UENV_VIEW"):
        return None
    python = str(previous.base.get("python", ""))
    named = previous.base.get("kind") in (NAMED, UENV) and not python.startswith(f"{target}{os.sep}")
    return python if named and os.access(python, os.X_OK) else None


def _refuse_unloaded(target: Path, previous: OverlayRecord) -> None:
    name, load = previous.base.get("name"), previous.base.get("load")
    raise AnswerIsNo(
        f"{target.name} lies on {name}, which is not loaded",
        hint=f"load it first{f': {load}' if load else ''}; or name another base with --base PYTHON",
    )


def _refuse_plain(found: FoundBase, environ: Mapping[str, str]) -> None:
    """Raise AnswerIsNo if people here load a uenv or a container first, and nothing is loaded."""
    here = _system_with_runtime(environ)
    if here:
        raise AnswerIsNo(
            f"no torch lies under this: nothing is loaded on {here}, and {found.python} is a bare Python",
            hint="load a uenv (uenv start IMAGE --view=VIEW) or start a container, name a base with --base PYTHON, "
            "or make a plain environment with --no-base",
        )


def _system_with_runtime(environ: Mapping[str, str]) -> str:
    """The name of this system if images are loaded here before one works; empty elsewhere."""
    from uenvtool.knowledge.recognise import recognised
    from uenvtool.knowledge.system_reader import load_system

    system = recognised(environ)
    if system is not None and set(load_system(system[0]).runtimes) - {NO_RUNTIME}:
        return system[0]
    return "a machine with the uenv client" if shutil.which("uenv", path=environ.get("PATH")) else ""


def _with_previous(previous: OverlayRecord, request: UserRequest) -> UserRequest:
    """What was wanted before, and what is wanted now.

    Of one package, what is wanted now; of one file, what it says now.
    """
    texts = {requirement.text for requirement in request.requirements}
    positions = [requirement.position for requirement in request.requirements]
    files_now = {*request.files, *(position.file for position in positions if position)}
    kept = tuple(
        requirement
        for requirement in previous.requirements()
        if requirement.name not in request.names
        and requirement.text not in texts
        and requirement.origin.rpartition(":")[0] not in files_now
    )
    return replace(request, requirements=(*kept, *request.requirements))


def _without_removed(
    order: Order,
    previous: OverlayRecord | None,
    request: UserRequest,
    overrides: tuple[str, ...],
    built_on_base: tuple[str, ...],
) -> tuple[UserRequest, tuple[str, ...], tuple[str, ...]]:
    """The same without the packages of --remove. Raises AnswerIsNo if one of them was not wanted."""
    removed = set(names_of(order.remove))
    if not removed:
        return request, overrides, built_on_base
    if previous is None:
        raise BadInput(f"{order.path} is not there, so nothing can be removed from it", hint="name its folder")
    wanted = request.names | set(names_of(overrides))
    for name in sorted(removed - wanted):
        raise AnswerIsNo(*_not_wanted(name, previous, sorted(wanted)))
    return (
        replace(request, requirements=tuple(wanted for wanted in request.requirements if wanted.name not in removed)),
        tuple(text for text in overrides if names_of([text])[0] not in removed),
        tuple(name for name in built_on_base if name not in removed),
    )


def _not_wanted(name: str, previous: OverlayRecord, wanted: list[str]) -> tuple[str, None, str]:
    package = next((row for row in previous.packages if row.get("name") == name), None)
    known = f"you asked for {', '.join(wanted)}" if wanted else "you asked for nothing"
    if package is None:
        return f"{name} is not in this overlay", None, known
    askers = ", ".join(package.get("asked_by", ()))
    if package.get("how") == "from base":
        return f"{name} is the base's, not this overlay's", None, known
    return f"{name} cannot be removed: {askers} asks for it", None, f"remove that: {known}"
