"""One thing that a user wants: a requirement, a wheel, an archive or a project's folder; and all of them together."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.core.errors import BadInput, Position
from uenvtool.core.files import read_bytes

if TYPE_CHECKING:
    from packaging.requirements import Requirement

MAX_BYTES = 10_000_000
MAX_LETTERS = 4096
"""Of one requirement: a URL may be long, a version or a marker is not."""
URL = re.compile(r"(?:[a-z0-9+]+)://|file:", re.IGNORECASE)
_OPTIONS = re.compile(r"\s--(hash|config-settings?|global-option|install-option)(?=[=\s]|\Z)")
"""What can follow a requirement on its line."""
_BRACKETS = {"LEFT_BRACKET": "`[`", "RIGHT_BRACKET": "`]`", "LEFT_PARENTHESIS": "`(`", "RIGHT_PARENTHESIS": "`)`"}
_HASH = re.compile(r"\s--hash(?:=|\s+|\Z)(\S*)")
_FRAGMENT = re.compile(r"#(?:.*&)?(sha(?:256|384|512))=([0-9a-fA-F]+)")
_HASH_LETTERS = {"sha256": 64, "sha384": 96, "sha512": 128}
"""The hashes that pip compares, and how long each is in hexadecimal (FIPS 180-4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequirement:
    """One thing that the user wants.

    text: as uv takes it. name: normalized, empty if only a build gives it (a folder, a URL). origin: who
    wants it, as the table shows it. position: its place in a file. requirement: parsed, if it is PEP 508.
    hashes: the only ones that its file may have, as `sha256:HEX`; none if any will do.
    """

    text: str
    name: str
    origin: str
    position: Position | None = None
    requirement: Requirement | None = None
    editable: bool = False
    hashes: tuple[str, ...] = ()

    @property
    def recorded(self) -> str:
        """The text with its hashes, as records and locks keep it."""
        return " ".join([self.text, *(f"--hash={value}" for value in self.hashes)])

    @property
    def place(self) -> str:
        """The folder or URL of an editable project, as a person writes it."""
        from urllib.parse import unquote

        url = self.text.removeprefix("-e ")
        return unquote(url.removeprefix("file://")) if url.startswith("file://") else url

    @property
    def is_of_index(self) -> bool:
        """Tell if an index decides which versions of it there are."""
        return self.requirement is not None and not self.requirement.url


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequest:
    """All that the user wants.

    files: paths or URLs, as they were named. streams: the content of those of the files that can be read only once,
    as /dev/stdin. constraints: what constraint files say. options: pip's, from the files, by their long names.
    require_hashes: each package needs a hash.
    """

    requirements: tuple[UserRequirement, ...] = ()
    files: tuple[str, ...] = ()
    streams: Mapping[str, str] = field(default_factory=dict)
    constraints: tuple[UserRequirement, ...] = ()
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    require_hashes: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The normalized names of what the user named."""
        return frozenset(requirement.name for requirement in self.requirements if requirement.name)


def recorded_requirement(text: str, origin: str, place: Position | None = None) -> UserRequirement:
    """What a record says that the user wanted: every path in it is absolute already.

    place: of the record, for what is wrong in it; the requirement itself has none.
    """
    parse = editable if text.startswith("-e ") else parsed
    return replace(parse(text.removeprefix("-e "), origin, place, Path("/")), position=None)


def resolved_place(line: str) -> UserRequirement:
    """A folder, file or URL as uv writes it into a resolution: as it was named, from the current folder."""
    parse = editable if line.startswith("-e ") else parsed
    return parse(line.removeprefix("-e "), "", None, Path.cwd())


def names_of(texts: Sequence[str]) -> tuple[str, ...]:
    """The normalized names of requirements that were checked before."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    return tuple(canonicalize_name(Requirement(text).name) for text in texts)


def checked_names(texts: Sequence[str], option: str, example: str) -> tuple[str, ...]:
    """The requirements that an option names. Raises BadInput if a text is not a requirement."""
    from packaging.requirements import InvalidRequirement, Requirement

    for text in texts:
        try:
            Requirement(text)
        except (InvalidRequirement, RecursionError) as error:
            raise BadInput(f"{option} {text}: {_first_line(error)}", hint=f"a package's name: {example}") from error
    return tuple(texts)


def editable(value: str, origin: str, position: Position | None, folder: Path) -> UserRequirement:
    """An editable folder; `-e` of a repository is what uv and pip clone, and is passed on."""
    if URL.match(value) and not value.startswith("file:"):
        return UserRequirement(text=f"-e {value}", name=_egg(value), origin=origin, position=position, editable=True)
    place, bracket, extras = value.partition("[")
    path = _path(place, folder).resolve()
    if not any((path / name).is_file() for name in ("pyproject.toml", "setup.py", "setup.cfg")):
        raise BadInput(
            f"-e {value}: {path} holds no Python project", position, "name a folder with a pyproject.toml or setup.py"
        )
    text = f"-e {path.as_uri()}{bracket}{extras}"
    return UserRequirement(text=text, name=_project_name(path), origin=origin, position=position, editable=True)


def parsed(text: str, origin: str, position: Position | None, folder: Path) -> UserRequirement:
    """One requirement with the hashes behind it: PEP 508, a URL, or the path of a folder, wheel or archive."""
    wanted = _OPTIONS.split(text, maxsplit=1)[0].strip()
    for option in _OPTIONS.findall(text):
        if option != "hash":
            hint = "build it yourself, `pip wheel PACKAGE` with this option, and name the wheel in its place"
            raise BadInput(f"{wanted}: --{option} of one package is not taken here", position, hint)
    hashes = tuple(_checked_hash(value, position) for value in _HASH.findall(text))
    if set(wanted) & {"\n", "\r"}:
        raise BadInput(f"{wanted!r} is more than one line", position, "one requirement each")
    if len(wanted) > MAX_LETTERS:
        hint = "no requirement is so long; is it a file that should be named with -r?"
        raise BadInput(f"{wanted[:40]}... has {len(wanted)} characters", position, hint)
    found = _named(wanted, origin, position, folder) or _direct(wanted, origin, position, folder)
    fragments = tuple(f"{kind}:{value.lower()}" for kind, value in _FRAGMENT.findall(found.text))
    return replace(found, hashes=hashes or fragments)


def _named(text: str, origin: str, position: Position | None, folder: Path) -> UserRequirement | None:
    """A requirement as PEP 508 writes it; None if it names a place alone. Raises BadInput if it is neither."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        requirement = Requirement(text)
    except RecursionError as error:
        raise BadInput(f"{text!r} is nested too deep", position, "take brackets out of its marker") from error
    except InvalidRequirement as error:
        if _is_place(text):
            return None
        raise BadInput(f"{text!r} is no requirement: {_first_line(error)}", position, _hint(text)) from error
    if requirement.url and re.match(r"(file:)?(\.\.?/|~)", requirement.url):
        text = text.replace(requirement.url, _path(requirement.url, folder).resolve().as_uri())
    name = canonicalize_name(requirement.name)
    return UserRequirement(text=text, name=name, origin=origin, position=position, requirement=requirement)


def _is_place(text: str) -> bool:
    """Tell if a text that is no requirement is the URL or path of one."""
    place = text.partition("[")[0]
    return bool(URL.match(text)) or os.sep in place or place.endswith((".whl", ".tar.gz", ".zip"))


def _direct(text: str, origin: str, position: Position | None, folder: Path) -> UserRequirement:
    """A requirement that names a place."""
    if URL.match(text):
        return UserRequirement(text=text, name=_egg(text), origin=origin, position=position)
    place, bracket, extras = text.partition("[")
    path = _path(place, folder)
    if not path.exists():
        raise BadInput(f"{text}: no such file or folder", position, "name a wheel, an archive or a project's folder")
    path = path.resolve()
    name = _wheel_name(path) if path.suffix == ".whl" else _project_name(path)
    place_text = f"{path.as_uri()}{bracket}{extras}"
    if name:
        place_text = f"{name}{bracket}{extras} @ {path.as_uri()}"
    return UserRequirement(text=place_text, name=name, origin=origin, position=position)


def _path(place: str, folder: Path) -> Path:
    """The path that a word names, a `file:` URL too; a relative one counts from the folder."""
    from urllib.parse import unquote

    if place.startswith("file:"):
        place = unquote(place.removeprefix("file:").removeprefix("//"))
    return folder / os.path.expanduser(place)


def _checked_hash(value: str, position: Position | None) -> str:
    """The value of --hash, in small letters. Raises BadInput if it can be the hash of no file."""
    if not value:
        raise BadInput("--hash has no value", position, "for example --hash=sha256:HEX; `pip hash FILE` prints it")
    kind, _, digest = value.partition(":")
    length = _HASH_LETTERS.get(kind)
    if length is None:
        hint = f"--hash=sha256:HEX, or {' or '.join(sorted(set(_HASH_LETTERS) - {'sha256'}))}"
        raise BadInput(f"--hash={value}: {kind!r} is no hash that can be compared", position, hint)
    if not re.fullmatch(f"[0-9a-fA-F]{{{length}}}", digest):
        raise BadInput(f"--hash={value}: not {length} hexadecimal digits", position, "`pip hash FILE` prints it")
    return f"{kind}:{digest.lower()}"


def wheel_version(place: str) -> str:
    """The version in the name of the wheel that a path or URL leads to; empty if it leads to something else."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        return str(parse_wheel_filename(place.partition("#")[0].rpartition("/")[2])[1])
    except InvalidWheelFilename:
        return ""


def _wheel_name(path: Path) -> str:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        return str(parse_wheel_filename(path.name)[0])
    except InvalidWheelFilename as error:
        raise BadInput(
            f"{path.name} is not a wheel's name: {_first_line(error)}", hint="NAME-VERSION-TAGS.whl"
        ) from error


def _project_name(path: Path) -> str:
    """A project's name, read from pyproject.toml without building anything; empty if it is not there."""
    from packaging.utils import canonicalize_name

    try:
        text = read_bytes(path / "pyproject.toml", MAX_BYTES).decode("utf-8")
    except (FileNotFoundError, BadInput, UnicodeDecodeError):
        return ""
    in_project = re.search(r"^\[project\]\s*$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    named = re.search(r"^name\s*=\s*[\"']([^\"']+)[\"']", in_project[1], re.MULTILINE) if in_project else None
    return canonicalize_name(named[1]) if named else ""


def _egg(url: str) -> str:
    from packaging.utils import canonicalize_name

    match = re.search(r"[#&]egg=([A-Za-z0-9._-]+)", url)
    if match:
        return canonicalize_name(match[1])
    name = url.rsplit("/", 1)[-1]
    return _wheel_name(Path(name.split("#")[0])) if name.split("#")[0].endswith(".whl") else ""


def _first_line(error: Exception) -> str:
    """What a parser says, with brackets as they are written in place of its names for them."""
    return re.sub(
        r"\b(LEFT|RIGHT)_(BRACKET|PARENTHESIS)\b", lambda name: _BRACKETS[name[0]], str(error).splitlines()[0]
    )


def _hint(text: str) -> str:
    if re.match(r"[A-Za-z0-9._-]+\s*=\s*[0-9]", text):
        return "one package and version is NAME==VERSION, with two equal signs"
    if re.match(r"[A-Za-z0-9._-]+\s+[A-Za-z0-9]", text):
        return "one requirement a line, NAME or NAME>=VERSION; a comment starts with #"
    return "NAME, NAME>=VERSION, NAME[EXTRA], NAME @ URL, or a path with a / in it"
