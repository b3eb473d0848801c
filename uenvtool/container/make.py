"""The use cases: the files of an image written, shown or compared, and its name."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from uenvtool.container.image import Image, again, image_of
from uenvtool.container.plan import unlocked
from uenvtool.container.planning import planned
from uenvtool.container.request import ContainerRequest, TagRequest
from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.core.result import Result

CONTAINERS = Path("containers")
TOLERATED = {*files.TOLERATED, "sources", "ci.toml"}
"""Others' files beside ours: downloads for a machine without the internet, and the EDF that ci.sh makes."""


def make(request: ContainerRequest) -> Result:
    """Write the files of an image, compare them with what lies there, or only show them.

    Raises BadInput for what is wrong in a recipe or component, or without a checksum if `locked`; AnswerIsNo if a
    check finds differences.
    """
    plan = planned(request)
    open_ends = list(unlocked(plan))
    if request.locked:
        BadInput.raise_any(open_ends)
    command = again(plan, request)
    image = image_of(plan, command, is_small=request.recipe is None)
    folder = request.output or CONTAINERS / plan.name
    data = {**_data(image), "folder": str(folder)}
    notes = tuple(problem.message for problem in open_ends)
    if request.dry_run:
        return Result(data={**data, "files": dict(image.files)}, file=image.files["Containerfile"], notes=notes)
    if request.check:
        output = [] if request.output is None else ["-o", shlex.quote(os.fspath(folder))]
        files.check_generated(folder, image.files, again=" ".join([command, *output]))
        return Result(data={**data, "drift": None}, notes=(f"{folder} is what its inputs give",))
    with files.locked(folder):
        files.refuse_foreign(folder, image.files, tolerated=TOLERATED, force=request.force)
        files.write_generated(folder, image.files)
    return Result(
        data={**data, "files": list(image.files)},
        text="\n".join(str(folder / name) for name in image.files),
        notes=(image.identity.canonical, *notes),
        next=(f"bash {shlex.quote(str(folder / 'build.sh'))}",),
    )


def tag(request: TagRequest) -> Result:
    """Return the canonical name of an image, with its hash. Raises BadInput as `make` does."""
    files_request = ContainerRequest(recipe=request.recipe, system=request.system, uarch=request.uarch)
    plan = planned(files_request)
    image = image_of(plan, again(plan, files_request))
    return Result(data=_data(image), text=image.identity.canonical)


def _data(image: Image) -> dict[str, Any]:
    identity = image.identity
    return {
        "recipe": image.plan.name,
        "system": image.plan.system.name,
        "uarch": image.plan.uarch,
        "canonical": identity.canonical,
        "tested": identity.tested,
        "stable": identity.stable,
        "hash": identity.content,
        "tests_hash": identity.tests,
        "components": image.plan.versions,
    }
