"""What a user wants: packages named on the command line, requirement files, editable folders.

The files are read here for positions and names; uv reads them again, as they are, to resolve.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uenvtool.errors import BadInput, Position, Problem

if TYPE_CHECKING:
    from packaging.requirements import Requirement

MAX_DEPTH = 20
COMMAND_LINE = "you"
_OPTION_WITH_VALUE = re.compile(r"(--?[A-Za-z][\w-]*)(?:[=\s]\s*(.*))?\Z", re.DOTALL)
_URL = re.compile(r"(?:[a-z0-9+]+)://|file:", re.IGNORECASE)
_PER_REQUIREMENT = re.compile(r"\s--(hash|config-settings?|global-option|install-option)[=\s]")
_PASSED_ON = {
    "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-index", "--no-binary", "--only-binary",
    "--pre", "--prefer-binary", "--require-hashes", "--trusted-host", "--no-build-isolation", "--use-feature",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequirement:
    """One thing that the user wants.

    text: as uv takes it. name: normalized, empty if only a build gives it (a folder, a URL). origin: who
    wants it, as the table shows it. position: its place in a file. requirement: parsed, if it is PEP 508.
    """

    text: str
    name: str
    origin: str
    position: Position | None = None
    requirement: Requirement | None = None
    editable: bool = False

    @property
    def is_of_index(self) -> bool:
        """Tell if an index decides which versions of it there are."""
        return self.requirement is not None and not self.requirement.url


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequest:
    """All that the user wants. files, constraint_files: as they were named; constraints: what the latter say."""

    requirements: tuple[UserRequirement, ...] = ()
    files: tuple[Path, ...] = ()
    constraint_files: tuple[Path, ...] = ()
    constraints: tuple[UserRequirement, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The normalized names of what the user named."""
        return frozenset(requirement.name for requirement in self.requirements if requirement.name)


def read_request(
    packages: Sequence[str], files: Sequence[Path], editables: Sequence[Path], constraints: Sequence[str] = ()
) -> UserRequest:
    """Everything as one request. Raises BadInput with all problems, each with its file and line."""
    reader = _Reader()
    here = Path.cwd()
    requirements: list[UserRequirement] = []
    for text in packages:
        requirements += reader.collected(_parsed, text, COMMAND_LINE, None, here)
    for folder in editables:
        requirements += reader.collected(_editable, str(folder), COMMAND_LINE, None, here)
    for file in map(str, files):
        requirements += reader.file(file, here)
    for file in constraints:
        reader.constraints += reader.file(file, here)
    if reader.problems:
        raise BadInput(reader.problems)
    return UserRequest(
        requirements=tuple(requirements),
        files=tuple(files),
        constraint_files=tuple(map(Path, constraints)),
        constraints=tuple(reader.constraints),
    )


def recorded_requirement(text: str, origin: str) -> UserRequirement:
    """What a record says that the user wanted: every path in it is absolute already."""
    if text.startswith("-e "):
        return _editable(text[3:], origin, None, Path("/"))
    return _parsed(text, origin, None, Path("/"))


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
        except InvalidRequirement as error:
            raise BadInput(f"{option} {text}: {_first_line(error)}", hint=f"a package's name: {example}") from error
    return tuple(texts)


Parser = Callable[[str, str, "Position | None", Path], UserRequirement]
"""Takes a text, its origin, its position, and the folder that its paths are relative to."""


class _Reader:
    """Reads requirement files that name each other; collects what is wrong in all of them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.constraints: list[UserRequirement] = []

    def collected(
        self, parse: Parser, text: str, origin: str, position: Position | None, folder: Path
    ) -> list[UserRequirement]:
        """What a parser makes of a text; nothing, and a problem more, if it refuses."""
        try:
            return [parse(text, origin, position, folder)]
        except BadInput as error:
            self.problems.extend(error.problems)
            return []

    def file(self, name: str, beside: Path, named_at: Position | None = None, depth: int = 0) -> list[UserRequirement]:
        """The lines of a requirement file; a file that another names is found beside that one."""
        if _URL.match(name):
            return []  # uv fetches it; its lines have no place here
        path = beside / os.path.expanduser(name)
        if depth > MAX_DEPTH:
            self.problems.append(Problem(f"{name}: files name each other more than {MAX_DEPTH} deep", named_at))
            return []
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else f"byte {error.start} is not UTF-8"
            hint = "check the name and the permissions" if isinstance(error, OSError) else "save the file as UTF-8"
            self.problems.append(Problem(f"cannot read {path}: {why}", named_at or Position(name), hint))
            return []
        shown = os.path.relpath(path) if path.is_absolute() and not os.path.isabs(name) else name
        found: list[UserRequirement] = []
        for line, content in logical_lines(text):
            try:
                found += self._line(content, Position(shown, line), path.parent, depth)
            except BadInput as error:
                self.problems.extend(error.problems)
        return found

    def _line(self, content: str, position: Position, folder: Path, depth: int) -> list[UserRequirement]:
        origin = f"{position.file}:{position.line}"
        if not content.startswith("-"):
            return [_parsed(_PER_REQUIREMENT.split(content, maxsplit=1)[0], origin, position, folder)]
        match = _OPTION_WITH_VALUE.match(content)
        option, value = (match[1], (match[2] or "").strip().strip("'\"")) if match else (content, "")
        if option[:2] in ("-r", "-c", "-e") and option not in ("-r", "-c", "-e"):  # -rFILE, as pip takes it
            option, value = content[:2], content[2:].strip()
        if option in ("-r", "--requirement"):
            return self.file(value, folder, position, depth + 1)
        if option in ("-c", "--constraint"):
            self.constraints += self.file(value, folder, position, depth + 1)
            return []
        if option in ("-e", "--editable"):
            return [_editable(value, origin, position, folder)]
        if option in _PASSED_ON:
            return []
        raise BadInput(f"unknown option {option}", position, "pip's requirement file options are known here")


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Line number and content of each line that says something; `\\` joins lines, as pip reads them."""
    start, joined = 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        start = start or number
        if raw.rstrip().endswith("\\") and not raw.lstrip().startswith("#"):
            joined += raw.rstrip()[:-1] + " "
            continue
        content = re.sub(r"(^|\s)#.*$", "", joined + raw).strip()
        if content:
            yield start, content
        start, joined = 0, ""
    content = re.sub(r"(^|\s)#.*$", "", joined).strip()
    if content:
        yield start, content


def _editable(value: str, origin: str, position: Position | None, folder: Path) -> UserRequirement:
    """An editable folder; `-e` of a repository is what uv and pip clone, and is passed on."""
    if _URL.match(value) and not value.startswith("file:"):
        return UserRequirement(text=f"-e {value}", name=_egg(value), origin=origin, position=position, editable=True)
    place, bracket, extras = value.removeprefix("file://").partition("[")
    path = (folder / os.path.expanduser(place)).resolve()
    if not any((path / name).is_file() for name in ("pyproject.toml", "setup.py", "setup.cfg")):
        raise BadInput(f"-e {value}: no Python project there", position, "it needs a pyproject.toml or setup.py")
    text = f"-e {path.as_uri()}{bracket}{extras}"
    return UserRequirement(text=text, name=_project_name(path), origin=origin, position=position, editable=True)


def _parsed(text: str, origin: str, position: Position | None, folder: Path) -> UserRequirement:
    """One requirement: PEP 508, a URL, or the path of a folder, wheel or archive."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    text = text.strip()
    if set(text) & {"\n", "\r"}:
        raise BadInput(f"{text!r} is more than one line", position, "one requirement each")
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        direct = _direct(text, origin, position, folder)
        if direct is None:
            raise BadInput(f"{text!r} is no requirement: {_first_line(error)}", position, _hint(text)) from error
        return direct
    if requirement.url and requirement.url.startswith(("./", "../", "~")):
        place = (folder / os.path.expanduser(requirement.url)).resolve()
        text = text.replace(requirement.url, place.as_uri())
    name = canonicalize_name(requirement.name)
    return UserRequirement(text=text, name=name, origin=origin, position=position, requirement=requirement)


def _direct(text: str, origin: str, position: Position | None, folder: Path) -> UserRequirement | None:
    """A requirement that names a place; None if the text does not."""
    if _URL.match(text):
        return UserRequirement(text=text, name=_egg(text), origin=origin, position=position)
    place, bracket, extras = text.partition("[")
    path = folder / os.path.expanduser(place)
    if not (os.sep in place or place.endswith((".whl", ".tar.gz", ".zip"))):
        return None
    if not path.exists():
        raise BadInput(f"{text}: no such file or folder", position, "name a wheel, an archive or a project's folder")
    path = path.resolve()
    name = _wheel_name(path) if path.suffix == ".whl" else _project_name(path)
    place_text = f"{path.as_uri()}{bracket}{extras}"
    if name:
        place_text = f"{name}{bracket}{extras} @ {path.as_uri()}"
    return UserRequirement(text=place_text, name=name, origin=origin, position=position)


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
        text = (path / "pyproject.toml").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
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
    return str(error).splitlines()[0].strip()


def _hint(text: str) -> str:
    if re.match(r"[A-Za-z0-9._-]+\s*=\s*[0-9]", text):
        return "one package and version is NAME==VERSION, with two equal signs"
    if re.match(r"[A-Za-z0-9._-]+\s+[A-Za-z0-9]", text):
        return "one requirement a line, NAME or NAME>=VERSION; a comment starts with #"
    return "NAME, NAME>=VERSION, NAME[EXTRA], NAME @ URL, or a path with a / in it"
