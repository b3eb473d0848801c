"""Caches of images, folders and registries: an image is stored under the hash of its inputs, so that nobody builds it
twice; FILE.tested beside an image says that it was tested."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.result import Progress, Result, silent
from uenvtool.core.value import value_class
from uenvtool.env.installable import Installable
from uenvtool.env.together import texts_of
from uenvtool.image import registry
from uenvtool.image.metadata import PACKED
from uenvtool.image.pack import file_sha256
from uenvtool.image.read import read_texts, refuse_foreign, require_image
from uenvtool.image.reframe import require_passed

SCHEME = "oci://"
PIECE_BYTES = 1 << 20
HASH_LENGTH = 12
LARGEST_MARKER = 4096
HINT = "name a folder, or oci://REGISTRY/PATH; the path of a registry has small letters, digits and single . _ - /"
_REGISTRY = re.compile(
    r"(localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+|[A-Za-z0-9-]+(?=:))(:\d+)?(/[a-z0-9]+([._-][a-z0-9]+)*)*"
)
"""A host without a dot or a port would be a user of docker.io to skopeo."""
_AGAIN = re.compile(r"(?m)^#   again: .*\n")


def inputs_hash(environments: Sequence[Installable]) -> str:
    """Return the hash of all that decides what is in an image: each file of its environments, the locks among them.

    The folder that an environment is made in again, which its files name, does not.
    """
    texts = {name: _AGAIN.sub("", text) for name, text in texts_of(environments).items()}
    inputs = {"mount": environments[0].mount, "view": environments[0].view, "files": texts}
    return files.digest(json.dumps(inputs, sort_keys=True))[:HASH_LENGTH]


def inputs_of(image: Path) -> str:
    """Return the hash of the inputs that an image says that it is made of, or "". Raises BadInput if it is no image."""
    try:
        found = json.loads(read_texts(image, [PACKED]).get(PACKED, "{}")).get("inputs")
    except (ValueError, AttributeError):
        return ""
    return found if isinstance(found, str) else ""


def is_made_of(image: Path, inputs: str) -> bool:
    """Tell if an image is there and says that these are its inputs. Raises BadInput if what is there is no image."""
    return image.is_file() and inputs_of(image) == inputs


def marker_of(image: Path) -> Path:
    """Return the file that says that an image was tested."""
    return image.with_name(f"{image.name}.tested")


def tested_sha256(image: Path) -> str | None:
    """Return the sum that was marked as tested; None without a marker. Raises BadInput if the marker is none."""
    marker = marker_of(image)
    if not marker.is_file():
        return None
    words = files.read_bytes(marker, LARGEST_MARKER).decode("utf-8", "replace").split()
    if not words or len(words[0]) != 64:
        raise BadInput(
            f"{marker} is not a marker", hint=f"remove it, or write it: `uenvtool image mark-tested {image}`"
        )
    return words[0]


def has_mark_of_another(image: Path) -> bool:
    """Tell if the image that is marked as tested is not this one. Raises as `tested_sha256`."""
    tested = tested_sha256(image)
    return tested is not None and tested != file_sha256(image)


def mark(image: Path, sha256: str) -> Path:
    """Write beside an image with this sum that it was tested; `sha256sum --check` reads the file that it gives."""
    marker = marker_of(image)
    files.write(marker, f"{sha256}  {image.name}\n")
    return marker


@value_class
class Key:
    """What a cache stores an image under: the name of what it is an image of, and the hash of its inputs."""

    name: str
    inputs: str

    def __str__(self) -> str:
        return f"{self.name}-{self.inputs}"

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"{self}.squashfs"


@value_class(kw_only=False)
class Folder:
    """A folder with files NAME-HASH.squashfs, and NAME-HASH.squashfs.tested beside those that were tested."""

    path: Path

    @property
    def shown(self) -> str:
        """The cache as a user names it."""
        return str(self.path)

    def fetch(self, key: Key, new: Path) -> str | None:
        """Copy an image to a new file that nobody reads yet, if it is here.

        Gives the sum that is marked as tested, "" without a mark, None if there is no such image. Raises an
        error of ours if the cache does not answer or the image is damaged.
        """
        if not self.path.is_dir():
            raise BadInput("there is no such folder")
        image = self.path / key.file_name
        if not image.is_file():
            return None
        files.fill_from(new, _pieces(image))
        return tested_sha256(image) or ""

    def store(self, image: Path, key: Key, sha256: str, tested: bool) -> bool:
        """Put an image here, and that it was tested. False if there is another one of these inputs: it stays.

        Raises ToolFailed if the cache does not take it.
        """
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


@value_class(kw_only=False)
class Registry:
    """A registry, with images HOST/PATH/NAME:HASH; the tag HASH-tested is given to those that were tested.

    Its methods are those of Folder.
    """

    address: str

    @property
    def shown(self) -> str:
        return f"{SCHEME}{self.address}"

    def fetch(self, key: Key, new: Path) -> str | None:
        reference = self._reference(key)
        manifest = registry.manifest_at(reference)
        if manifest is None:
            return None
        sha256 = registry.image_sha256(manifest)
        registry.pull(reference, sha256, new, new.parent)
        return sha256 if registry.manifest_at(f"{reference}-tested") == manifest else ""

    def store(self, image: Path, key: Key, sha256: str, tested: bool) -> bool:
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
        return f"{self.address}/{repository_name(key.name)}:{key.inputs}"


Cache = Folder | Registry


def repository_name(name: str) -> str:
    """Return the name of an image as registries take it."""
    separated = re.sub(r"[^a-z0-9]+", lambda run: run[0] if run[0] in "._-" else "-", name.lower())
    return separated.strip("._-") or "environment"


def named_cache(text: str) -> Cache:
    """Return the cache that a user names. Raises BadInput if it is none, ToolMissing without what reaches it."""
    if not text.startswith(SCHEME):
        if "://" in text or not text:
            raise BadInput(f"{text!r} is no place that keeps images", hint=HINT)
        return Folder(Path(os.path.abspath(text)))
    address = text.removeprefix(SCHEME).rstrip("/")
    if _REGISTRY.fullmatch(address) is None:
        raise BadInput(f"{text!r} is no place that keeps images", hint=HINT)
    registry.find_skopeo()
    return Registry(address)


@value_class
class Fetched:
    """What caches gave. cache: the one whose image is the target now, "" if none is. warnings: of the others."""

    cache: str = ""
    warnings: tuple[str, ...] = ()


def fetch(caches: Sequence[Cache], key: Key, target: Path, progress: Progress) -> Fetched:
    """Copy an image from the first cache that has it; the target is as it was until the new one is complete.

    A cache that does not answer, and an image that is not of these inputs, are ignored with a warning.
    Raises BadInput if the target is not an image of this tool's, ToolFailed if it cannot be written.
    """
    refuse_foreign(target)
    warnings: list[str] = []
    for cache in caches:
        with files.workplace(target) as work, progress(f"asking {cache.shown} for {key}"):
            try:
                tested = cache.fetch(key, work / "new")
                if tested is None:
                    continue
                if not is_made_of(work / "new", key.inputs):
                    raise BadInput(f"what it has as {key} is not an image of these inputs")
                if tested and file_sha256(work / "new") != tested:
                    raise BadInput(f"what it has as {key} is not the image that was marked as tested")
            except (BadInput, ToolFailed) as error:
                problem = error.problems[0]
                warnings.append(f"{cache.shown} is ignored: {'; '.join(filter(None, (problem.message, problem.hint)))}")
                continue
            _publish(work / "new", target)
        if tested:
            mark(target, tested)
        else:
            files.remove_file(marker_of(target))  # of an image that was there before
        return Fetched(cache=cache.shown, warnings=tuple(warnings))
    return Fetched(warnings=tuple(warnings))


def store(
    caches: Sequence[Cache], image: Path, key: Key, progress: Progress, *, sha256: str | None = None
) -> tuple[str, ...]:
    """Put an image and its marker, if it has one, into caches; give a sentence for each that has another one.

    sha256: of the image, if that is known. Raises ToolFailed if a cache does not take it; BadInput if the
    marker is another image's.
    """
    if not caches:
        return ()
    sha256 = sha256 or file_sha256(image)
    marked = tested_sha256(image)
    if marked not in (None, sha256):
        raise BadInput(f"{marker_of(image)} has the sum of another image", hint="test this one, and mark it again")
    others = []
    for cache in caches:
        with progress(f"putting {key} into {cache.shown}"):
            if not cache.store(image, key, sha256, marked is not None):
                others.append(f"{cache.shown} has another image of these inputs, which stays: another run built it")
    return tuple(others)


def mark_tested(
    image: Path, push_images: Sequence[str] = (), progress: Progress = silent, *, reframe: Path | None = None
) -> Result:
    """Write beside an image that it was tested: FILE.tested, which `sha256sum --check` reads.

    push_images: caches that get the image and the mark. reframe: the report of the tests, which decides. Raises
    AnswerIsNo if that does not say that they passed; BadInput if the file is not an image, or
    is to be put into a cache and not named by its inputs; ToolFailed if the disk or a cache fails.
    """
    require_image(image)
    caches = [named_cache(text) for text in push_images]
    name, _, inputs = image.name.removesuffix(".squashfs").rpartition("-")
    if caches and (not name or inputs != inputs_of(image)):
        hint = "places keep what `uenvtool image build RECIPE --tag hash` made, under the name that it got"
        raise BadInput(f"{image} is not named NAME-HASH.squashfs after its inputs", hint=hint)
    notes = (require_passed(reframe, image),) if reframe else ()
    digest = file_sha256(image)
    marker = mark(image, digest)
    warnings = store(caches, image, Key(name=name, inputs=inputs), progress, sha256=digest)
    data = {"image": str(image), "sha256": digest, "marker": str(marker)}
    return Result(data=data, text=str(marker), warnings=warnings, notes=notes)


def _publish(new: Path, target: Path) -> None:
    files.sync(new)
    files.set_shared_mode(new)
    files.publish([files.Replacement(new=new, target=target)])


def _pieces(path: Path) -> Iterator[bytes]:
    with files.opened(path) as stream:
        while piece := stream.read(PIECE_BYTES):
            yield piece
