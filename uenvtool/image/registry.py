"""Images in a registry, laid out as the uenv client lays them out, and moved by skopeo.

The client (uenv 9.2, src/uenv/oras.cpp) has oras push a file `store.squashfs` as an artifact of the type
application/x-squashfs, and attach the image's folder `meta` to it as one of the type uenv/meta.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uenvtool.core import files, tools
from uenvtool.core.errors import BadInput, ToolFailed, ToolMissing
from uenvtool.image.listing import FILE, by_name, listing
from uenvtool.image.read import read_texts

SQUASHFS, META = "application/x-squashfs", "uenv/meta"
"""The types of both artifacts."""
FILE_NAME = "store.squashfs"
"""The name under which the client looks for what it pulled."""
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
TAR = "application/vnd.oci.image.layer.v1.tar"
"""The type that oras gives a file for which none is named."""
TITLE, REFERENCE = "org.opencontainers.image.title", "org.opencontainers.image.ref.name"
EMPTY = b"{}"
ANSWER_SECONDS = 60
NOT_THERE = re.compile(r"\b(manifest|name|repository|tag|artifact|image)( \S+)? (unknown|not found)\b")
"""What registries say of an image that they do not have; any other failure is none of this answer."""

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


def find_skopeo() -> str:
    """Return the program skopeo. Raises ToolMissing with the ways to get it."""
    found = shutil.which("skopeo")
    if found is None:
        hint = (
            "install it: apt install skopeo, dnf install skopeo, conda install -c conda-forge skopeo; or name a folder"
        )
        raise ToolMissing("the program skopeo is not on PATH; it reaches registries", hint=hint)
    return found


def manifest_at(reference: str) -> str | None:
    """Return the manifest that a registry has as HOST/PATH:TAG; None if it has none.

    Raises ToolFailed if it does not answer, or refuses to.
    """
    words = [find_skopeo(), "--command-timeout", f"{ANSWER_SECONDS}s", "inspect", "--raw", f"docker://{reference}"]
    done = tools.run(words)
    if done.code == 0:
        return done.stdout
    if NOT_THERE.search(done.stderr):
        return None
    raise _failed(done)


def image_sha256(manifest: str) -> str:
    """Return the sum of the image that a manifest names. Raises BadInput if it does not name exactly one file."""
    try:
        (layer,) = json.loads(manifest)["layers"]
        found = _DIGEST.fullmatch(layer["digest"])
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if found is None:
        raise BadInput("it is not an image that was pushed as one file")
    return found[1]


def pull(reference: str, sha256: str, target: Path, work: Path) -> None:
    """Take the image with this sum to a new file. work: an empty folder on the target's filesystem.

    skopeo holds all that comes against its sum. Raises ToolFailed if the registry, the way to it or the disk fails.
    """
    folder = work / "pulled"
    _run("copy", "--preserve-digests", f"docker://{reference}", f"dir:{folder}")
    if not files.move(folder / sha256, target):
        raise ToolFailed(f"{target} and {folder} are not on one disk")


def push(image: Path, sha256: str, reference: str) -> None:
    """Put an image with its metadata into a registry, as HOST/PATH:TAG and HOST/PATH:TAG-meta.

    Raises ToolFailed if the registry does not take it.
    """
    packed, metadata, blobs = artifacts_of(sha256, image.stat().st_size, metadata_of(image))
    with files.scratch_folder() as folder:
        files.fill(folder, {f"blobs/sha256/{sum_}": content for sum_, content in blobs.items()})
        files.link(folder / "blobs" / "sha256" / sha256, os.path.abspath(image))
        index = [
            _described(manifest.encode(), MANIFEST, **{REFERENCE: name})
            for name, manifest in (("image", packed), ("meta", metadata))
        ]
        layout = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"})}
        files.fill(folder, {**layout, "index.json": _json({"schemaVersion": 2, "manifests": index})})
        _run("copy", "--preserve-digests", f"oci:{folder}:image", f"docker://{reference}")
        _run("copy", "--preserve-digests", f"oci:{folder}:meta", f"docker://{reference}-meta")


def name_again(reference: str, tag: str) -> None:
    """Give an image in a registry a second tag. Raises ToolFailed if the registry does not take it."""
    again = f"{reference.rpartition(':')[0]}:{tag}"
    _run("copy", "--preserve-digests", f"docker://{reference}", f"docker://{again}")


def artifacts_of(sha256: str, size: int, metadata: Mapping[str, bytes]) -> tuple[str, str, dict[str, bytes]]:
    """Return what is pushed for an image of this sum and size, with these files in its folder `meta`.

    That is its manifest, that of its metadata, and the content that both name, by its sum.
    """
    layer = {"mediaType": TAR, "digest": f"sha256:{sha256}", "size": size, "annotations": {TITLE: FILE_NAME}}
    image = _manifest(SQUASHFS, layer)
    unpacked = _tar(metadata)
    packed = gzip.compress(unpacked, mtime=0)
    about = {"io.deis.oras.content.digest": f"sha256:{_sha256(unpacked)}", "io.deis.oras.content.unpack": "true"}
    attached = _described(packed, f"{TAR}+gzip", **about, **{TITLE: "meta"})
    subject = _described(image.encode(), MANIFEST)
    meta = _manifest(META, attached, subject=subject)
    blobs = [EMPTY, packed, image.encode(), meta.encode()]
    return image, meta, {_sha256(content): content for content in blobs}


def metadata_of(image: Path) -> dict[str, bytes]:
    """Return the files below `meta` in an image, by their names."""
    entries = listing(image, ["meta"])
    names = [os.fsdecode(entry.name) for entry in entries if entry.kind == FILE and entry.name.startswith(b"meta/")]
    texts = read_texts(image, names, known=by_name(entries))
    return {name: text.encode("utf-8", "surrogateescape") for name, text in sorted(texts.items())}


def _tar(contents: Mapping[str, bytes]) -> bytes:
    """Return an archive of these files and their folders, the same bytes for the same files."""
    stream = io.BytesIO()
    folders = {str(parent) for name in contents for parent in Path(name).parents if parent.parts}
    with tarfile.TarFile(fileobj=stream, mode="w") as archive:
        for folder in sorted(folders):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def _manifest(kind: str, layer: Mapping[str, Any], **more: Any) -> str:
    config = _described(EMPTY, "application/vnd.oci.empty.v1+json")
    head = {"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": kind, "config": config}
    return _json({**head, "layers": [layer], **more})


def _described(content: bytes, media_type: str, **annotations: str) -> dict[str, Any]:
    described = {"mediaType": media_type, "digest": f"sha256:{_sha256(content)}", "size": len(content)}
    return {**described, "annotations": annotations} if annotations else described


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _run(*words: str) -> None:
    done = tools.run([find_skopeo(), *words])
    if done.code != 0:
        raise _failed(done)


def _failed(done: tools.Completed) -> ToolFailed:
    """Return the error with the reason that skopeo gives (`... level=fatal msg="REASON"`)."""
    found = re.search(r'msg="(.*)"$', done.reason)
    why = found[1].replace('\\"', '"') if found else done.reason
    hint = (
        "see that you are logged in (`skopeo login`); a registry without TLS is named in containers-registries.conf(5)"
    )
    return ToolFailed(f"skopeo failed: {why}", hint=hint)
