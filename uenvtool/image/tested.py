"""`uenvtool image mark-tested`: says beside an image that it was tested, and in the places that keep images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uenvtool.core.errors import BadInput
from uenvtool.core.result import Progress, Result, silent
from uenvtool.image.inputs import inputs_of, mark
from uenvtool.image.kept import Key, keep, place_of
from uenvtool.image.pack import file_sha256
from uenvtool.image.read import require_image


def mark_tested(image: Path, push_images: Sequence[str] = (), progress: Progress = silent) -> Result:
    """Write beside an image that it was tested: FILE.tested, which `sha256sum --check` reads.

    push_images: places that get the image and the mark. Raises BadInput if the file is not an image, or
    is to be put into a place and not named by its inputs; ToolFailed if the disk or a place fails.
    """
    require_image(image)
    places = [place_of(text) for text in push_images]
    key = _key(image) if places else None
    digest = file_sha256(image)
    marker = mark(image, digest)
    warnings = tuple(keep(places, image, key, progress, sha256=digest)) if key else ()
    data = {"image": str(image), "sha256": digest, "marker": str(marker)}
    return Result(data=data, text=str(marker), warnings=warnings)


def _key(image: Path) -> Key:
    """Under which places keep an image, from its name. Raises BadInput if it is not named by its inputs."""
    name, _, inputs = image.name.removesuffix(".squashfs").rpartition("-")
    if not name or inputs != inputs_of(image):
        hint = "places keep what `uenvtool image build --tag hash` made, under the name that it got"
        raise BadInput(f"{image} is not named NAME-HASH.squashfs after its inputs", hint=hint)
    return Key(name=name, inputs=inputs)
