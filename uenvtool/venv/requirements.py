"""Reads the user's requirements with their line numbers and hashes, from the command line and requirements files.

uv reads the same files, and only uv decides which packages are installed. uenvtool records the requirements, finds the
base's packages that the user named, and prints line numbers in messages. As in pip and uv, paths of wheels and
directories are relative to the current directory, and paths of other requirements files to the file that names them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin

from uenvtool.core import files
from uenvtool.core.errors import BadInput, Position, Problem, ToolFailed
from uenvtool.core.limits import limited
from uenvtool.core.words import canonical
from uenvtool.venv.projects import is_project, project_lines, project_name

if TYPE_CHECKING:
    from packaging.requirements import Requirement

MAX_BYTES = 10_000_000
MAX_DEPTH = 50
"""How many requirements files may name each other in a chain."""
COMMAND_LINE = "you"
STANDARD_INPUT = "/dev/stdin"
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
ARCHIVES = (".whl", ".zip", ".tar", ".tbz", ".tgz", ".tlz", ".txz", ".gz", ".bz2", ".lz", ".lzma", ".xz", ".zst")
"""The suffixes of files that uv installs, from uv's list, including the ones that may follow `.tar`."""
_BRACKETS = {"LEFT_BRACKET": "[", "RIGHT_BRACKET": "]", "LEFT_PARENTHESIS": "(", "RIGHT_PARENTHESIS": ")"}
SHOWN = 80
"""The maximum number of characters of a requirement in a message."""
_URL = re.compile(r"(?:[a-z0-9+]+)://|file:", re.IGNORECASE)
_HASH = re.compile(r"\s--hash(?:=|\s+)(\S+)")
_FRAGMENT = re.compile(r"#(?:.*&)?(sha(?:256|384|512))=([0-9a-fA-F]+)")
_OPTION = re.compile(r"(--[\w-]+|-[rcei]|-)(?:[=\s]\s*)?(.*)\Z", re.DOTALL)
REQUIREMENT, CONSTRAINT, EDITABLE = "--requirement", "--constraint", "--editable"
_LONG_NAMES = {"-r": REQUIREMENT, "-c": CONSTRAINT, "-e": EDITABLE, "-i": "--index-url"}


@dataclass(frozen=True, kw_only=True, slots=True)
class UserRequirement:
    """A requirement of the user.

    text: the requirement in the form that uv accepts. name: the normalized name, or an empty string if only a build can
    determine it (a directory or URL). origin: the file or option of the requirement, as the table prints it. position:
    its position in a file. requirement: the parsed form, if it is PEP 508. hashes: the allowed hashes, as `sha256:HEX`;
    without hashes, any file is allowed. read_by_uv: whether uv itself reads the requirement's file.
    """

    text: str
    name: str
    origin: str = ""
    position: Position | None = None
    requirement: Requirement | None = None
    hashes: tuple[str, ...] = ()
    read_by_uv: bool = False

    @property
    def recorded(self) -> str:
        """Return the text with its hashes, as records and locks store it."""
        return " ".join([self.text, *(f"--hash={value}" for value in self.hashes)])

    @property
    def editable(self) -> str:
        """Return the directory or URL of an editable project, or an empty string for other requirements."""
        url = self.text.removeprefix("-e ") if self.text.startswith("-e ") else ""
        return unquote(url.removeprefix("file://")) if url.startswith("file://") else url

    @property
    def is_of_index(self) -> bool:
        """Return whether the package comes from an index, and not from a file, directory, repository or URL."""
        return self.requirement is not None and not self.requirement.url

    @property
    def operators(self) -> frozenset[str]:
        """Return the operators of the version specifiers, for example >= and < for `a>=1,<2`."""
        specifiers = self.requirement.specifier if self.requirement else ()
        return frozenset(specifier.operator for specifier in specifiers)


@dataclass(frozen=True, kw_only=True, slots=True)
class UserRequest:
    """All requirements of the user.

    files: the paths or URLs as the user typed them. sources: the files that uv also reads. lines: the lines from
    standard input, which can be read only once. constraints: the requirements in constraint files. options: pip's
    options in the files, by their long names. require_hashes: whether each package needs a hash. conda_specs: the conda
    packages in an environment.yml, which are not installed. notes: messages about the conda packages.
    """

    requirements: list[UserRequirement] = field(default_factory=list)
    files: tuple[str, ...] = ()
    sources: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    constraints: list[UserRequirement] = field(default_factory=list)
    options: dict[str, list[str]] = field(default_factory=dict)
    require_hashes: bool = False
    conda_specs: list[tuple[Position, str]] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Return the normalized names of the required packages."""
        return frozenset(requirement.name for requirement in self.requirements if requirement.name)


def names_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the normalized names of valid requirements."""
    from packaging.requirements import Requirement

    return tuple(canonical(Requirement(text).name) for text in texts)


def checked_names(texts: Sequence[str], option: str, example: str) -> tuple[str, ...]:
    """Return the requirements that an option names. Raises BadInput if a requirement is invalid."""
    from packaging.requirements import InvalidRequirement, Requirement

    for text in texts:
        try:
            Requirement(text)
        except (InvalidRequirement, RecursionError) as error:
            message = f"{option} '{text}': {_first_line(error)}"
            raise BadInput(message, hint=f"name a package, for example {example}") from error
    return tuple(texts)


def parse(text: str, origin: str = "", position: Position | None = None) -> UserRequirement:
    """Return a requirement from its text: PEP 508, a URL, or the path of a directory, wheel or archive.

    Hashes may follow it, and `-e ` before it makes it editable. Raises BadInput with the position if it is invalid.
    """
    specification = _HASH.sub("", text).strip()
    if set(specification) & {"\n", "\r"}:
        raise BadInput(f"{specification!r} has more than one line", position, "write one requirement per line")
    misplaced = re.search(r"\s(--[a-z-]+)", specification)
    if misplaced:
        hint = "build a wheel with `pip wheel` and name the wheel; only --hash=KIND:HEX may follow a requirement"
        message = f"{specification[: misplaced.start()]}: {misplaced[1]} is not supported after a requirement"
        raise BadInput(message, position, hint)
    requirement = (
        _parse_location(specification, position)
        if specification.startswith("-e ")
        else _parse_specifier(specification, position)
    )
    hashes = _HASH.findall(text) or [f"{kind}:{value}" for kind, value in _FRAGMENT.findall(requirement.text)]
    return replace(requirement, origin=origin, position=position, hashes=tuple(value.lower() for value in hashes))


def _parse_specifier(text: str, position: Position | None) -> UserRequirement:
    from packaging.requirements import InvalidRequirement, Requirement

    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    try:
        requirement = Requirement(text)
    except (RecursionError, ValueError) as error:  # InvalidRequirement is one
        location = text.partition("[")[0]
        if isinstance(error, InvalidRequirement) and (
            _URL.match(text) or os.sep in location or location.endswith(ARCHIVES)
        ):
            return _parse_location(text, position)
        reason = "nested too deeply" if isinstance(error, RecursionError) else _first_line(error)
        raise BadInput(f"invalid requirement {shown!r}: {reason}", position, _hint(text)) from error
    if requirement.url and re.match(r"(file:)?(\.\.?/|~)", requirement.url):
        text = text.replace(requirement.url, _path(requirement.url).resolve().as_uri())
    return UserRequirement(text=text, name=canonical(requirement.name), requirement=requirement)


def _parse_location(text: str, position: Position | None) -> UserRequirement:
    location = text.removeprefix("-e ").strip()
    option = text[: len(text) - len(location)].strip()
    if _URL.match(location) and not (option and location.startswith("file:")):
        return UserRequirement(text=text, name=_name_in_url(location))
    location_path, bracket, extras = location.partition("[")
    path = _path(location_path).resolve()
    if option and not any((path / name).is_file() for name in PROJECT_FILES):
        hint = "name a directory with a pyproject.toml or setup.py"
        raise BadInput(f"{text}: {path} is not a Python project", position, hint)
    if not path.exists():
        hint = "name a wheel, an archive or the directory of a project"
        raise BadInput(f"file or directory not found: '{text}'", position, hint)
    if path.is_file() and not path.name.endswith(ARCHIVES):
        hint = "name a wheel, an archive or the directory of a project, or use -r FILE for a requirements file"
        raise BadInput(f"'{text}' is not a package", position, hint)
    name = _name_of_wheel(path.name) if path.suffix == ".whl" else project_name(path)
    if option or not name:
        return UserRequirement(text=f"{option} {path.as_uri()}{bracket}{extras}".strip(), name=name)
    return UserRequirement(text=f"{name}{bracket}{extras} @ {path.as_uri()}", name=name)


def _path(location: str) -> Path:
    if location.startswith("file:"):
        location = unquote(location.removeprefix("file:").removeprefix("//"))
    return Path.cwd() / os.path.expanduser(location)


def _name_of_wheel(name: str) -> str:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        return str(parse_wheel_filename(name)[0])
    except InvalidWheelFilename:
        return ""


def _name_in_url(url: str) -> str:
    match = re.search(r"[#&]egg=([A-Za-z0-9._-]+)", url)
    return canonical(match[1]) if match else _name_of_wheel(url.rpartition("/")[2].partition("#")[0])


def _first_line(error: Exception) -> str:
    text = str(error).splitlines()[0]
    for name, letter in _BRACKETS.items():
        text = text.replace(name, f"`{letter}`")
    return text


def _hint(text: str) -> str:
    if re.match(r"[A-Za-z0-9._-]+\s*=\s*[0-9]", text):
        return "write NAME==VERSION, with two equal signs"
    return "write NAME, NAME>=VERSION, NAME[EXTRA], NAME @ URL, or a path that contains /, one requirement per line"


def read_request(
    packages: Sequence[str],
    files_named: Sequence[str],
    editables: Sequence[Path],
    constraints: Sequence[str] = (),
    *,
    extras: Sequence[str] = (),
    groups: Sequence[str] = (),
    require_hashes: bool = False,
) -> UserRequest:
    """Return all requirements as one request; the file name `-` means standard input.

    files_named: paths or URLs of requirements files and project files; the requirements of the projects' extras and
    groups are added. constraints: paths or URLs of constraint files. Raises BadInput with all problems and their
    positions, and ToolFailed if a URL does not answer.
    """
    reader = _Reader(extras, groups)
    request = reader.request
    for text in (*packages, *(f"-e {project}" for project in editables)):
        try:
            request.requirements.append(parse(text, COMMAND_LINE))
        except BadInput as error:
            reader.problems += error.problems
    sources_named = tuple(STANDARD_INPUT if file == "-" else file for file in files_named)
    for source in sources_named:
        with limited(source):
            reader.read(source, request.requirements)
    for source in constraints:
        with limited(source):
            reader.read(source, request.constraints, of_uv=False)
    BadInput.raise_any(reader.problems)
    needs_hashes = require_hashes or "--require-hashes" in request.options
    return replace(request, files=sources_named, require_hashes=needs_hashes)


class _Reader:
    def __init__(self, extras: Sequence[str], groups: Sequence[str]) -> None:
        self.extras, self.groups = extras, groups
        self.request = UserRequest()
        self.problems: list[Problem] = []
        self._seen: set[str] = set()

    def read(
        self,
        name: str,
        target: list[UserRequirement],
        *,
        of_uv: bool = True,
        named_at: Position | None = None,
        named_in: str = "",
        depth: int = 0,
    ) -> None:
        # of_uv: whether uv reads the file too. named_at, named_in: the line and the file that name it, if any.
        source = _location(name, named_in)
        if source in self._seen:
            return
        if depth > MAX_DEPTH:
            message = f"'{name}' is nested more than {MAX_DEPTH} files deep"
            raise BadInput(message, named_at, "name the files directly, each with its own -r")
        self._seen.add(source)
        shown = os.path.relpath(source) if os.path.isabs(source) and not os.path.isabs(name) else source
        of_project, is_stream = is_project(source), files.is_stream(Path(source))
        try:
            text = _text(source, is_named=named_at is None)
            lines: Iterable[tuple[int, str]] = logical_lines(text)
            if of_project:
                lines, specs = project_lines(shown, text, self.extras, self.groups)
                self.request.conda_specs.extend((Position(shown, number), spec) for number, spec in specs)
        except (BadInput, ToolFailed) as error:
            problems = [_placed(found, name, named_at) for found in error.problems]
            if isinstance(error, ToolFailed):
                raise ToolFailed(problems) from error
            self.problems += problems
            return
        by_uv = of_uv and not of_project
        if by_uv and not is_stream and (named_at is None or is_project(named_in)):
            self.request.sources.append(source)  # uv finds the other files itself
        for number, line in lines:
            position = Position(shown, number)
            option, value = _option(line)
            names_file = option in (REQUIREMENT, CONSTRAINT)
            if is_stream and by_uv:
                self.request.lines.append(f"{option} {_location(value, source)}" if names_file else line)
            try:
                if names_file:
                    into, is_of_uv = (target, of_uv) if option == REQUIREMENT else (self.request.constraints, by_uv)
                    self.read(value, into, of_uv=is_of_uv, named_at=position, named_in=source, depth=depth + 1)
                elif option in ("", EDITABLE):
                    text = f"-e {value}" if option else line
                    target.append(replace(parse(text, f"{position.file}:{position.line}", position), read_by_uv=by_uv))
                else:
                    self.request.options.setdefault(option, []).append(value)
            except BadInput as error:
                self.problems += error.problems


def _option(line: str) -> tuple[str, str]:
    match = _OPTION.match(line)
    return (_LONG_NAMES.get(match[1], match[1]), match[2].strip().strip("'\"")) if match else ("", "")


def _placed(problem: Problem, name: str, named_at: Position | None) -> Problem:
    if named_at is None:
        return problem if problem.position else replace(problem, position=Position(name))
    return replace(problem, message=f"{name}: {problem.message}", position=named_at)


def _text(source: str, *, is_named: bool) -> str:
    read = files.read_named if is_named else files.read_bytes
    try:
        content = files.fetched(source, MAX_BYTES) if _URL.match(source) else read(Path(source), MAX_BYTES)
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise BadInput("file not found", hint=f"create {os.path.abspath(source)}, or fix its name") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"byte {error.start} is not UTF-8", hint="save the file as UTF-8") from error
    if "\0" in text:
        raise BadInput(f"not a text file: byte {content.find(0)} is zero", hint="name another file")
    if is_named and files.is_stream(Path(source)) and not any(logical_lines(text)):
        raise BadInput("standard input has no requirements", hint="name a file instead: -r requirements.txt")
    return text


def _location(name: str, naming_file: str) -> str:
    if name.startswith("file:"):
        return str(_path(name))
    if _URL.match(name):
        return name
    if _URL.match(naming_file):
        return urljoin(naming_file, name)
    directory = "" if files.is_stream(Path(naming_file)) else os.path.dirname(naming_file)
    return os.path.join(directory, os.path.expanduser(name))


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    r"""Yield the number and content of each line that is not empty or a comment; as in pip, `\` joins lines."""
    first_number, joined = 0, ""
    for number, raw in enumerate([*text.splitlines(), ""], 1):
        first_number = first_number or number
        if raw.rstrip().endswith("\\") and not raw.lstrip().startswith("#"):
            joined += raw.rstrip()[:-1] + " "
            continue
        content = re.sub(r"(^|\s)#.*$", "", joined + raw).strip()
        if content:
            yield first_number, content
        first_number, joined = 0, ""
