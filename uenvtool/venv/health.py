"""What is wrong with an environment on a base, by its files alone: what doctor asks about an overlay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.core.words import canonical
from uenvtool.venv.base import Distribution, installed
from uenvtool.venv.compiled import numpy_problems, torch_problems
from uenvtool.venv.info import image_of, is_older, repack_command
from uenvtool.venv.overlay import CONFIG
from uenvtool.venv.record import RECORD_IN_IMAGE, parse_record, read_record
from uenvtool.venv.where import RECORD_FOLDER


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """What is wrong with an environment.

    overrides: the packages of the base that it replaces because its maker said so, by normalized name. older_image:
    the image that holds another state of it; repack: the command that packs it again. for_other_numpy,
    for_other_torch: what is compiled for another one than that in effect, a sentence each.
    """

    overrides: frozenset[str] = frozenset()
    older_image: str = ""
    repack: str = ""
    for_other_numpy: tuple[str, ...] = ()
    for_other_torch: tuple[str, ...] = ()


def health(environment: Path, folders: Sequence[str], *, read_libraries: bool) -> Health:
    """Look at a virtual environment, an overlay or another; nothing of it is imported or run.

    folders: the package folders of its Python in their order, its own and its base's. read_libraries: read the
    compiled modules whole, which takes seconds; of an environment without a base nothing is read.
    """
    overrides = frozenset(_overrides(environment))
    image = image_of(environment) if (environment / RECORD_FOLDER).is_dir() else None
    is_stale = image is not None and is_older(image, environment)
    own = next((folder for folder in folders if folder.startswith(f"{environment}/")), "")
    of_numpy, of_torch = _misfits(own, folders, overrides) if own and read_libraries else ((), ())
    return Health(
        overrides=overrides,
        older_image=str(image) if is_stale else "",
        repack=repack_command(environment, image) if image is not None and is_stale else "",
        for_other_numpy=of_numpy,
        for_other_torch=of_torch,
    )


def _overrides(environment: Path) -> list[str]:
    try:
        if "uenvtool-base" not in (environment / CONFIG).read_text(encoding="utf-8", errors="replace"):
            return []
        packed = environment / RECORD_IN_IMAGE  # an image that is mounted has its record there
        record = read_record(environment) or parse_record(packed.read_text(encoding="utf-8"), str(packed))
    except (BadInput, OSError, UnicodeDecodeError):
        return []
    return [canonical(name) for name in record.overrides]


def _misfits(own: str, folders: Sequence[str], overrides: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    before: dict[str, Distribution] = {}
    try:
        for folder in folders:
            if folder != own:
                before = {**installed(Path(folder)), **before}
        new = installed(Path(own)) if before else {}
    except (OSError, ValueError, TypeError, KeyError):  # metadata that is damaged, as a half removed package leaves it
        return (), ()
    return (
        tuple(problem.message for problem in numpy_problems(before, new)),
        tuple(problem.message for problem in torch_problems(before, new, overrides)),
    )
