"""Shows overlays, compares their packed and unpacked copies, and reads the environments that jobs use."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from uenvtool.core import quoting
from uenvtool.core.errors import BadInput, Position, ToolMissing
from uenvtool.core.files import read_bytes
from uenvtool.core.limits import limited
from uenvtool.core.result import Result, Table
from uenvtool.core.words import canonical, size_text
from uenvtool.image.metadata import ENV, PACKED
from uenvtool.image.read import by_name, listing, read_texts, require_image, superblock
from uenvtool.venv import howto
from uenvtool.venv.base import MAX_CONFIG, PLAIN, RECORD_FOLDER, site_packages
from uenvtool.venv.outcome import HEADINGS, table_rows
from uenvtool.venv.overlay import CONFIG
from uenvtool.venv.record import (
    RECORD_IN_IMAGE,
    OverlayRecord,
    noted_image,
    parse_record,
    read_record,
    recorded_requirement,
    require_record,
)
from uenvtool.venv.request import default_image
from uenvtool.venv.requirements import UserRequirement
from uenvtool.venv.sources import DIRTY

_PROGRAM = re.compile(r"bin/([^/]+)")
_PACKAGE = re.compile(r"lib/python3[^/]*/site-packages/([^/]+?)-[^/-]+\.dist-info")
_FOREIGN = "do not load the image, and ask its author about it: uenvtool does not write such metadata"


def info(path: Path) -> Result:
    """Return the base, packages, size and settings of an overlay, read from its directory or image."""
    data = described(path)
    rows = table_rows(data["packages"])
    return Result(
        data=data,
        text="\n".join(f"{name}: {value}" for name, value in _facts(data) if value not in ("", None)),
        notes=tuple(data.get("notes", ())),
        warnings=tuple(_warnings(path.absolute(), data)),
        next=tuple(howto.shown(data.get("use", ()))),
        tables=(Table(headings=HEADINGS, rows=rows),) if rows else (),
    )


def described(path: Path) -> dict[str, Any]:
    """Return the record of a packed or unpacked overlay with its size and image, as data for --json."""
    if not path.exists():
        raise BadInput(f"file or directory not found: '{path}'", hint="name an overlay's directory or image")
    if not path.is_dir():
        return _of_image(path)
    record = require_record(path)
    image = image_of(path.absolute())
    stats = [entry.lstat() for entry in path.rglob("*") if not entry.is_dir() or entry.is_symlink()]
    return {
        "path": str(path),
        **record.data(),
        "image": {"path": str(image), "older": is_older(image, path)} if image else None,
        "files": len(stats),
        "bytes": sum(stat.st_size for stat in stats),
    }


def _of_image(path: Path) -> dict[str, Any]:
    data, overlay = image_data(path), overlay_of(path.absolute())
    requests = (recorded_requirement(each["text"], each["origin"], str(path)) for each in data.get("requests", ()))
    base = data["base"] or howto.surroundings(os.environ)
    return {
        **data,
        "notes": editable_notes(requests),
        "overlay": {"path": str(overlay), "newer": is_older(path, overlay)} if overlay else None,
        "use": [*howto.uses(path, data["name"] or "", data["mount"] or "", base)],
    }


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    base = data["base"]
    load = quoting.sh_again(base.get("load", ""))
    load = f"; {load}" if load else ""
    missing = "" if data.get("base_is_here", True) else f" (not available{load})"
    yield "overlay", data["path"]
    yield "base", f"{base.get('name') or base.get('python') or 'none'}, Python {base.get('version', '?')}{missing}"
    yield "base directories", os.pathsep.join(base.get("folders", ()))
    yield "base fingerprint", base.get("fingerprint")
    yield "requested", ", ".join(request["text"] for request in data.get("requests", ()))
    yield "overrides", ", ".join(data.get("overrides", ()))
    yield "built on the base", ", ".join(data.get("built_on_base", ()))
    for source in data.get("sources", ()):
        commit = source["commit"].replace(DIRTY, " with uncommitted changes")
        yield f"source of {source['name']}", source["directory"] + (f", commit {commit}" if commit else "")
    for name in ("mount", "compression"):
        yield name, data.get(name)
    yield "size", size_text(data["bytes"]) + (f" in {data['files']} files" if "files" in data else "")


def outdated(path: Path, data: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each package of an overlay or image whose source has changed since it was built.

    path: the absolute path of the overlay or image. data: its record as data for --json.
    """
    is_packed = not path.is_dir()
    overlay = (overlay_of(path) or path.with_suffix("")) if is_packed else path
    image = path if is_packed else image_of(path)
    command = repack_command(overlay, image) if image else shlex.join(["uenvtool", "venv", shown_path(overlay)])
    for source in data.get("sources", ()):
        if source["changed"]:
            changed = shown_path(Path(os.path.commonpath(map(os.path.dirname, source["changed"]))))
            again = f"{'pack it again' if image else 'install it again'} with `{command}`"
            yield f"{source['name']} in {shown_path(path)} is older than {changed}/: {again}"


def _warnings(path: Path, data: Mapping[str, Any]) -> Iterator[str]:
    yield from outdated(path, data)
    image, overlay = data.get("image"), data.get("overlay")
    if image and image["older"]:
        command = repack_command(path, Path(image["path"]))
        yield f"{shown_path(Path(image['path']))} is older than this overlay: pack it again with `{command}`"
    if overlay and overlay["newer"]:
        command = repack_command(Path(overlay["path"]), path)
        yield f"this image is older than {shown_path(Path(overlay['path']))}: pack it again with `{command}`"


def image_data(path: Path) -> dict[str, Any]:
    """Return an image's metadata and record as data for --json. Raises BadInput if uenvtool did not pack the image."""
    texts = read_texts(path, [ENV, PACKED, RECORD_IN_IMAGE])
    if PACKED not in texts:
        raise BadInput(f"{path} is not an image that uenvtool packed", hint="list its files with `unsquashfs -l`")
    head = superblock(path)
    env, settings = _json(texts.get(ENV, "{}"), path), _json(texts[PACKED], path)
    mount, name = str(env.get("mount", "")), str(env.get("name", ""))
    if mount:
        require_mountable(mount, Position(f"{path}:{ENV}"), _FOREIGN)
    record = parse_record(texts[RECORD_IN_IMAGE], f"{path}:{RECORD_IN_IMAGE}") if RECORD_IN_IMAGE in texts else None
    base, sources = (record.base, record.sources) if record else ({}, ())
    printed = [(f"base.{key}", base.get(key, ""), RECORD_IN_IMAGE) for key in ("image", "view")]
    printed += [("name", name, ENV)]
    printed += [("sources", source[key], RECORD_IN_IMAGE) for source in sources for key in ("directory", "commit")]
    for what, text, file in printed:
        if not text.isprintable():
            message = f"{what} {text!r} contains a character that no command can print"
            raise BadInput(message, Position(f"{path}:{file}"), _FOREIGN)
    return {
        "path": str(path),
        "bytes": path.stat().st_size,
        **(record.data() if record else {"base": {}, "packages": []}),
        "settings": {"bytecode": settings.get("bytecode")},
        "name": name or None,
        "mount": mount or None,
        "compression": f"{head.compression}, {head.block >> 10} KiB blocks" if head else None,
    }


def _json(text: str, path: Path) -> dict[str, Any]:
    try:
        with limited(str(path)):
            data = json.loads(text)
    except ValueError as error:
        message = f"{path}: image metadata is unreadable: {error}"
        raise BadInput(message, hint="the image is damaged: pack it again") from error
    return data if isinstance(data, dict) else {}


def read_image_record(image: Path) -> OverlayRecord | None:
    """Return the record in a packed overlay, or None if it has none. Raises BadInput if the file is not an image."""
    text = read_texts(image, [RECORD_IN_IMAGE]).get(RECORD_IN_IMAGE)
    return None if text is None else parse_record(text, f"{image}:{RECORD_IN_IMAGE}")


def image_of(overlay: Path) -> Path | None:
    """Return the image of an unpacked overlay: the recorded one, or else an image next to it and named after it."""
    image = noted_image(overlay) or default_image(overlay)
    return image if image.is_file() else None


def overlay_of(image: Path) -> Path | None:
    """Return the overlay directory next to an image, if the image was packed from it, or else None."""
    overlays = (image.parent / name for name in (image.stem, f".{image.stem}"))
    return next((path for path in overlays if read_record(path) is not None and image_of(path) == image), None)


def is_older(image: Path, overlay: Path) -> bool:
    """Return whether an image differs from its overlay's current state, or False if the image cannot be read here."""
    try:
        record = read_image_record(image)
    except (BadInput, ToolMissing):
        return False
    return record is not None and record != read_record(overlay)


def repack_command(overlay: Path, image: Path) -> str:
    """Return the command that packs an overlay into its image again."""
    arguments = ["uenvtool", "venv", shown_path(overlay), "--squash"]
    return shlex.join(arguments if image == default_image(overlay) else [*arguments, shown_path(image)])


def require_mountable(mount: str, position: Position | None = None, hint: str = "") -> None:
    """Raise BadInput if a path cannot be a mount point. Runtimes interpret spaces and the characters : , $ { }."""
    if not re.fullmatch(r"(/[\w.+@%-]+)+", mount) or os.path.normpath(mount) != mount:
        advice = "use an absolute path of letters, digits and . + @ % _ - that exists on the nodes, such as /user-tools"
        raise BadInput(f"{mount!r} is not a valid mount point", position, hint or advice)


def editable_notes(requirements: Iterable[UserRequirement]) -> list[str]:
    """Return a note for each editable project in an image, which contains only the project's path."""
    projects = filter(None, (requirement.editable for requirement in requirements))
    return [
        f"{project} is editable: its directory must exist on every machine that uses the image" for project in projects
    ]


def shown_path(path: Path) -> str:
    """Return a path relative to the current directory if it is inside it, or else unchanged."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """An overlay or another tool's virtual environment, packed or unpacked. Unknown values are empty or None.

    home, python: the directory and the path of the Python that created the environment. sees_base: whether the
    environment also imports that Python's packages. packages: the normalized names of its own packages. programs, site:
    the names in bin/ and the package directory, if another tool created it. name, mount: the uenv name and mount point
    of its image. kind, platform, image, view, in_container: the base in the record of an overlay (FoundBase).
    base_is_here: whether this base is available. newer: the unpacked overlay, if it has changed since it was packed.
    outdated: a warning for each package whose source has changed since it was built.
    """

    is_overlay: bool
    home: str
    python: str
    sees_base: bool
    packages: frozenset[str]
    programs: frozenset[str] = frozenset()
    site: str = ""
    is_packed: bool = False
    name: str = ""
    mount: str = ""
    kind: str = ""
    platform: str = ""
    image: str = ""
    view: str = ""
    in_container: bool | None = None
    base_is_here: bool = False
    newer: str = ""
    outdated: tuple[str, ...] = ()


def read_environment(path: Path) -> Environment:
    """Return the environment in a directory or an image. Raises BadInput if the path is not a virtual environment."""
    is_packed = not path.is_dir()
    text, names = _config_of_other(path)
    data = image_data(path) if is_packed else {} if text else require_record(path).data()
    overlay = overlay_of(path.absolute()) if is_packed else None
    return replace(
        _of_other(text, names) if text else _of_overlay(data),
        is_packed=is_packed,
        name=data.get("name") or "",
        mount=data.get("mount") or "",
        newer=str(overlay) if overlay and is_older(path, overlay) else "",
        outdated=tuple(outdated(path.absolute(), data)),
    )


def _of_overlay(data: Mapping[str, Any]) -> Environment:
    base = data["base"]
    values: dict[str, Any] = {name: base.get(name, "") for name in ("python", "kind", "platform", "image", "view")}
    return Environment(
        **values,
        is_overlay=True,
        home=os.path.dirname(values["python"]),
        sees_base=values["kind"] != PLAIN,
        packages=frozenset(canonical(row["name"]) for row in data["packages"]),
        in_container=bool(base["in_container"]) if "in_container" in base else None,
        base_is_here=bool(data.get("base_is_here")),
    )


def _config_of_other(path: Path) -> tuple[str, Iterable[str]]:
    if path.is_dir():
        if (path / RECORD_FOLDER).is_dir() or not (path / CONFIG).is_file():
            return "", ()
        text = read_bytes(path / CONFIG, MAX_CONFIG).decode("utf-8", "replace")
        paths = (*path.glob("bin/*"), *path.glob("lib/python3*/site-packages/*.dist-info"))
        return text, [os.fspath(name.relative_to(path)) for name in paths]
    require_image(path)
    entries = by_name(listing(path, [CONFIG, "bin", "lib", RECORD_IN_IMAGE]))
    return "" if RECORD_IN_IMAGE in entries else read_texts(path, [CONFIG], known=entries).get(CONFIG, ""), entries


def _of_other(text: str, names: Iterable[str]) -> Environment:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    settings = {key.strip().lower(): value.strip() for key, _, value in pairs}
    home = settings.get("home", "")
    minor = ".".join((settings.get("version") or settings.get("version_info") or "3").split(".")[:2])
    names = tuple(names)
    return Environment(
        is_overlay=False,
        home=home,
        python=settings.get("executable") or settings.get("base-executable") or f"{home}/python{minor}",
        sees_base=settings.get("include-system-site-packages", "").lower() == "true",
        site=site_packages(minor),
        programs=frozenset(match[1] for match in map(_PROGRAM.fullmatch, names) if match),
        packages=frozenset(canonical(match[1]) for match in map(_PACKAGE.fullmatch, names) if match),
    )
