"""What a user asks for: packages named on the command line, requirement files, editable folders.

The files are read here for positions and names; uv reads them again, as they are, to resolve.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
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


@dataclass(frozen=True, slots=True)
class Asked:
    """One thing that was asked for.

    text: as uv takes it. name: normalized, empty where only a build tells it (a folder, a URL).
    origin: what the table says of who asked. position: where it stands in a file.
    """

    text: str
    name: str
    origin: str
    position: Position | None = None
    requirement: Requirement | None = None
    editable: bool = False

    @property
    def is_direct(self) -> bool:
        """Whether it names a place (folder, file, URL) and not a version on an index."""
        return self.requirement is None or bool(self.requirement.url)


@dataclass(frozen=True, slots=True)
class Request:
    """All that was asked for. files: requirement files as they were named; constraints: likewise."""

    asked: tuple[Asked, ...] = ()
    files: tuple[Path, ...] = ()
    constraints: tuple[Path, ...] = ()
    constrained: tuple[Asked, ...] = ()

    def named(self, name: str) -> tuple[Asked, ...]:
        """What was asked of one package, where its marker is for this machine or not given."""
        return tuple(each for each in self.asked if each.name == name)


def read_request(
    packages: Sequence[str], files: Sequence[Path], editables: Sequence[Path], constraints: Sequence[str] = ()
) -> Request:
    """Everything as one request. Raises BadInput with all problems, each with its file and line."""
    problems: list[Problem] = []
    asked: list[Asked] = []
    constrained: list[Asked] = []
    for text in packages:
        asked += _collected(lambda text=text: [_parsed(text, COMMAND_LINE, None, Path.cwd())], problems)
    for folder in editables:
        asked += _collected(lambda folder=folder: [_editable(str(folder), COMMAND_LINE, None, Path.cwd())], problems)
    for file in map(str, files):
        asked += _file(file, Path.cwd(), None, problems, constrained, 0)
    for file in constraints:
        constrained += _file(file, Path.cwd(), None, problems, constrained, 0)
    if problems:
        raise BadInput(problems)
    return Request(tuple(asked), tuple(files), tuple(map(Path, constraints)), tuple(constrained))


def asked_again(text: str, origin: str) -> Asked:
    """What a record says was asked for: every path in it is absolute already."""
    if text.startswith("-e "):
        return _editable(text[3:], origin, None, Path("/"))
    return _parsed(text, origin, None, Path("/"))


def names_of(texts: Sequence[str]) -> tuple[str, ...]:
    """The normalized names of requirements that were checked before."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    return tuple(canonicalize_name(Requirement(each).name) for each in texts)


def _collected(parse: object, problems: list[Problem]) -> list[Asked]:
    try:
        found: list[Asked] = parse()  # type: ignore[operator]
    except BadInput as error:
        problems.extend(error.problems)
        return []
    return found


def _file(
    name: str,
    beside: Path,
    named_at: Position | None,
    problems: list[Problem],
    constrained: list[Asked],
    depth: int,
) -> list[Asked]:
    """The lines of a requirement file; a file that another names is found beside that one."""
    if _URL.match(name):
        return []  # uv fetches it; its lines have no place here
    path = beside / os.path.expanduser(name)
    if depth > MAX_DEPTH:
        problems.append(Problem(f"{name}: files name each other more than {MAX_DEPTH} deep", named_at))
        return []
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"byte {error.start} is not UTF-8"
        hint = "check the name and the permissions" if isinstance(error, OSError) else "save the file as UTF-8"
        problems.append(Problem(f"cannot read {path}: {why}", named_at or Position(name), hint))
        return []
    shown = os.path.relpath(path) if path.is_absolute() and not os.path.isabs(name) else str(name)
    found: list[Asked] = []
    for line, content in logical_lines(text):
        position = Position(shown, line)
        try:
            found += _line(content, position, path.parent, problems, constrained, depth)
        except BadInput as error:
            problems.extend(error.problems)
    return found


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


def _line(
    content: str,
    position: Position,
    folder: Path,
    problems: list[Problem],
    constrained: list[Asked],
    depth: int,
) -> list[Asked]:
    origin = f"{position.file}:{position.line}"
    if not content.startswith("-"):
        return [_parsed(_PER_REQUIREMENT.split(content, maxsplit=1)[0], origin, position, folder)]
    match = _OPTION_WITH_VALUE.match(content)
    option, value = (match[1], (match[2] or "").strip().strip("'\"")) if match else (content, "")
    if option[:2] in ("-r", "-c", "-e") and option not in ("-r", "-c", "-e"):  # -rFILE, as pip takes it
        option, value = content[:2], content[2:].strip()
    if option in ("-r", "--requirement"):
        return _file(value, folder, position, problems, constrained, depth + 1)
    if option in ("-c", "--constraint"):
        constrained += _file(value, folder, position, problems, constrained, depth + 1)
        return []
    if option in ("-e", "--editable"):
        return [_editable(value, origin, position, folder)]
    if option in _PASSED_ON:
        return []
    raise BadInput(f"unknown option {option}", position, "pip's requirement file options are known here")


def _editable(value: str, origin: str, position: Position | None, folder: Path) -> Asked:
    """An editable folder; `-e` of a repository is what uv and pip clone, and is passed on."""
    if _URL.match(value) and not value.startswith("file:"):
        return Asked(f"-e {value}", _egg(value), origin, position, editable=True)
    place, bracket, extras = value.removeprefix("file://").partition("[")
    path = (folder / os.path.expanduser(place)).resolve()
    if not any((path / name).is_file() for name in ("pyproject.toml", "setup.py", "setup.cfg")):
        raise BadInput(f"-e {value}: no Python project there", position, "it needs a pyproject.toml or setup.py")
    return Asked(f"-e {_as_url(path)}{bracket}{extras}", _project_name(path), origin, position, editable=True)


def _parsed(text: str, origin: str, position: Position | None, folder: Path) -> Asked:
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
            raise BadInput(f"{text!r} is no requirement: {_short(error)}", position, _hint(text)) from error
        return direct
    if requirement.url and requirement.url.startswith(("./", "../", "~")):
        place = (folder / os.path.expanduser(requirement.url)).resolve()
        text = text.replace(requirement.url, _as_url(place))
    return Asked(text, canonicalize_name(requirement.name), origin, position, requirement)


def _direct(text: str, origin: str, position: Position | None, folder: Path) -> Asked | None:
    """A requirement that names a place; None where the text is no place."""
    if _URL.match(text):
        return Asked(text, _egg(text), origin, position)
    place, bracket, extras = text.partition("[")
    path = folder / os.path.expanduser(place)
    if not (os.sep in place or place.endswith((".whl", ".tar.gz", ".zip"))):
        return None
    if not path.exists():
        raise BadInput(f"{text}: no such file or folder", position, "name a wheel, an archive or a project's folder")
    path = path.resolve()
    name = _wheel_name(path) if path.suffix == ".whl" else _project_name(path)
    if name:
        return Asked(f"{name}{bracket}{extras} @ {_as_url(path)}", name, origin, position)
    return Asked(f"{_as_url(path)}{bracket}{extras}", "", origin, position)


def _wheel_name(path: Path) -> str:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        return str(parse_wheel_filename(path.name)[0])
    except InvalidWheelFilename as error:
        raise BadInput(f"{path.name} is no wheel's name: {_short(error)}", hint="NAME-VERSION-TAGS.whl") from error


def _project_name(path: Path) -> str:
    """A project's name, read from pyproject.toml without building anything; empty where it is not there."""
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


def _as_url(path: Path) -> str:
    return path.as_uri()


def _short(error: Exception) -> str:
    return str(error).splitlines()[0].strip()


def _hint(text: str) -> str:
    if re.match(r"[A-Za-z0-9._-]+\s*=\s*[0-9]", text):
        return "one package and version is NAME==VERSION, with two equal signs"
    if re.match(r"[A-Za-z0-9._-]+\s+[A-Za-z0-9]", text):
        return "one requirement a line, NAME or NAME>=VERSION; a comment starts with #"
    return "NAME, NAME>=VERSION, NAME[EXTRA], NAME @ URL, or a path with a / in it"
