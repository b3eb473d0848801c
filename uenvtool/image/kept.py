"""Places that keep images under the hash of their inputs, so that nobody builds one twice: folders and registries."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from uenvtool.core import files
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.result import Progress
from uenvtool.image import registry
from uenvtool.image.inputs import is_made_of, mark, marker_of, tested_sha256
from uenvtool.image.pack import file_sha256
from uenvtool.image.read import refuse_foreign

SCHEME = "oci://"
PIECE_BYTES = 1 << 20
HINT = "name a folder, or oci://REGISTRY/PATH; the path of a registry has small letters, digits and single . _ - /"
_REGISTRY = re.compile(
    r"(localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+|[A-Za-z0-9-]+(?=:))(:\d+)?(/[a-z0-9]+([._-][a-z0-9]+)*)*"
)
"""A host without a dot or a port would be a user of docker.io to skopeo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Under which an image is kept: the name of what it is an image of, and the hash of its inputs."""

    name: str
    inputs: str

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"{self.name}-{self.inputs}.squashfs"


class Place(Protocol):
    """Where images are kept."""

    @property
    def shown(self) -> str:
        """The place as a user names it."""

    def fetch(self, key: Key, new: Path) -> str | None:
        """Take an image to a new file that nobody reads yet, if it is kept here.

        Gives the sum that is marked as tested, "" without a mark, None if there is no such image. Raises an
        error of ours if the place does not answer or the image is damaged.
        """

    def keep(self, image: Path, key: Key, sha256: str, tested: bool) -> bool:
        """Put an image here, and that it was tested. False if there is another one of these inputs: it stays.

        Raises ToolFailed if the place does not take it.
        """


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with files NAME-HASH.squashfs, and NAME-HASH.squashfs.tested beside those that were tested."""

    path: Path

    @property
    def shown(self) -> str:
        """The place as a user names it."""
        return str(self.path)

    def fetch(self, key: Key, new: Path) -> str | None:
        """See Place."""
        if not self.path.is_dir():
            raise BadInput("there is no such folder")
        image = self.path / key.file_name
        if not image.is_file():
            return None
        files.fill_from(new, _pieces(image))
        return tested_sha256(image) or ""

    def keep(self, image: Path, key: Key, sha256: str, tested: bool) -> bool:
        """See Place."""
        target = self.path / key.file_name
        refuse_foreign(target)
        if not is_made_of(target, key.inputs):
            with files.workplace(target) as work:
                files.fill_from(work / "new", _pieces(image))
                _publish(work / "new", target)
        elif file_sha256(target) != sha256:
            return False
        if tested:
            mark(target, sha256)
        return True


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry, with images HOST/PATH/NAME:HASH; the tag HASH-tested is given to those that were tested."""

    address: str

    @property
    def shown(self) -> str:
        """The place as a user names it."""
        return f"{SCHEME}{self.address}"

    def fetch(self, key: Key, new: Path) -> str | None:
        """See Place."""
        reference = self._reference(key)
        manifest = registry.manifest_at(reference)
        if manifest is None:
            return None
        sha256 = registry.image_sha256(manifest)
        registry.pull(reference, sha256, new, new.parent)
        return sha256 if registry.manifest_at(f"{reference}-tested") == manifest else ""

    def keep(self, image: Path, key: Key, sha256: str, tested: bool) -> bool:
        """See Place."""
        reference = self._reference(key)
        manifest = registry.manifest_at(reference)
        if manifest is None:
            registry.push(image, sha256, reference)
        elif registry.image_sha256(manifest) != sha256:
            return False
        if tested:
            registry.name_again(reference, f"{key.inputs}-tested")
        return True

    def _reference(self, key: Key) -> str:
        separated = re.sub(r"[^a-z0-9]+", lambda run: run[0] if run[0] in "._-" else "-", key.name.lower())
        return f"{self.address}/{separated.strip('._-') or 'environment'}:{key.inputs}"


def place_of(text: str) -> Place:
    """The place that a user names. Raises BadInput if it is none, ToolMissing without the program that reaches it."""
    if not text.startswith(SCHEME):
        if "://" in text or not text:
            raise BadInput(f"{text!r} is no place that keeps images", hint=HINT)
        return Folder(Path(os.path.abspath(text)))
    address = text.removeprefix(SCHEME).rstrip("/")
    if _REGISTRY.fullmatch(address) is None:
        raise BadInput(f"{text!r} is no place that keeps images", hint=HINT)
    registry.find_skopeo()
    return Registry(address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What the places gave. place: the one whose image is now the target, "" if none is. warnings: of the others."""

    place: str = ""
    warnings: tuple[str, ...] = ()


def take(places: Sequence[Place], key: Key, target: Path, progress: Progress) -> Taken:
    """Take an image from the first place that has it; the target is as it was until the new one is complete.

    A place that does not answer, and an image that is not of these inputs, are passed over with a warning.
    Raises BadInput if the target is not an image of this tool's, ToolFailed if it cannot be written.
    """
    refuse_foreign(target)
    warnings: list[str] = []
    for place in places:
        with files.workplace(target) as work, progress(f"asking {place.shown} for {key.name}-{key.inputs}"):
            try:
                tested = place.fetch(key, work / "new")
                if tested is None:
                    continue
                _require_right(work / "new", key, tested)
            except (BadInput, ToolFailed) as error:
                warnings.append(f"{place.shown} is passed over: {_reason(error)}")
                continue
            _publish(work / "new", target)
        if tested:
            mark(target, tested)
        else:
            files.remove_file(marker_of(target))  # of an image that was there before
        return Taken(place=place.shown, warnings=tuple(warnings))
    return Taken(warnings=tuple(warnings))


def keep(
    places: Sequence[Place], image: Path, key: Key, progress: Progress, *, sha256: str | None = None
) -> Iterator[str]:
    """Put an image and its marker, if it has one, into places; a sentence for each that keeps another one.

    sha256: of the image, if that is known. Raises ToolFailed if a place does not take it; BadInput if the
    marker is another image's.
    """
    if not places:
        return
    sha256 = sha256 or file_sha256(image)
    marked = tested_sha256(image)
    if marked not in (None, sha256):
        raise BadInput(f"{marker_of(image)} has the sum of another image", hint="test this one, and mark it again")
    for place in places:
        with progress(f"putting {key.name}-{key.inputs} into {place.shown}"):
            if not place.keep(image, key, sha256, marked is not None):
                yield f"{place.shown} has another image of these inputs, which stays: another run built it"


def _require_right(image: Path, key: Key, tested: str) -> None:
    if not is_made_of(image, key.inputs):
        raise BadInput(f"what it has as {key.name}-{key.inputs} is not an image of these inputs")
    if tested and file_sha256(image) != tested:
        raise BadInput(f"what it has as {key.name}-{key.inputs} is not the image that was marked as tested")


def _publish(new: Path, target: Path) -> None:
    files.sync(new)
    files.set_shared_mode(new)
    files.publish([files.Replacement(new=new, target=target)])


def _pieces(path: Path) -> Iterator[bytes]:
    with files.opened(path) as stream:
        while piece := stream.read(PIECE_BYTES):
            yield piece


def _reason(error: BadInput | ToolFailed) -> str:
    problem = error.problems[0]
    return f"{problem.message}; {problem.hint}" if problem.hint else problem.message
