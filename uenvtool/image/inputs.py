"""The inputs of an image: their hash, the image that has it already, and who says that an image was tested."""

from __future__ import annotations

import json
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.env.installable import Installable
from uenvtool.image.metadata import PACKED
from uenvtool.image.pack import file_sha256
from uenvtool.image.read import read_texts

HASH_LENGTH = 12
LARGEST_MARKER = 4096


def inputs_hash(environment: Installable) -> str:
    """The hash of all that decides what is in an image: each file of its environment, the lock among them."""
    inputs = {"mount": environment.mount, "view": environment.view, "files": environment.texts}
    return files.digest(json.dumps(inputs, sort_keys=True))[:HASH_LENGTH]


def is_made_of(image: Path, inputs: str) -> bool:
    """If an image is there and says that these are its inputs. Raises BadInput if what is there is no image."""
    return image.is_file() and inputs_of(image) == inputs


def inputs_of(image: Path) -> str:
    """The hash of the inputs that an image says that it is made of, or "". Raises BadInput if it is no image."""
    try:
        found = json.loads(read_texts(image, [PACKED]).get(PACKED, "{}")).get("inputs")
    except (ValueError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""


def marker_of(image: Path) -> Path:
    """The file that says that an image was tested."""
    return image.with_name(f"{image.name}.tested")


def tested_sha256(image: Path) -> str | None:
    """The sum that was marked as tested; None without a marker. Raises BadInput if the marker is none."""
    marker = marker_of(image)
    if not marker.is_file():
        return None
    words = files.read_bytes(marker, LARGEST_MARKER).decode("utf-8", "replace").split()
    if not words or len(words[0]) != 64:
        raise BadInput(f"{marker} is not a marker", hint=f"remove it, or write it: uenvtool image mark-tested {image}")
    return words[0]


def mark(image: Path, sha256: str) -> Path:
    """Write beside an image with this sum that it was tested; gives the file, which `sha256sum --check` reads."""
    marker = marker_of(image)
    files.write(marker, f"{sha256}  {image.name}\n")
    return marker


def has_mark_of_another(image: Path) -> bool:
    """If the image that is marked as tested is not this one. Raises as `tested_sha256`."""
    tested = tested_sha256(image)
    return tested is not None and tested != file_sha256(image)
