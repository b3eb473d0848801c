"""Reads which packages a user names, from which line and with which hashes.

uv reads the same files, and alone decides what is installed. What is read here goes into the record, tells which of the
base's packages are meant, and gives messages their place. As for pip and uv, the paths of wheels and folders in a file
count from the current folder, those of other requirement files from the file that names them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin

from uenvtool.core import files
from uenvtool.core.errors import BadInput, Position, Problem, ToolFailed
from uenvtool.core.words import canonical
from uenvtool.venv.projects import is_project, project_lines, project_name

if TYPE_CHECKING:
    from packaging.requirements import Requirement

MAX_BYTES = 10_000_000
COMMAND_LINE = "you"
STANDARD_INPUT = "/dev/stdin"
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
ARCHIVES = (".whl", ".zip", ".tar", ".tbz", ".tgz", ".tlz", ".txz", ".gz", ".bz2", ".lz", ".lzma", ".xz", ".zst")
"""The ends of the names of what uv installs: its own list, with what may stand behind `.tar`."""
_BRACKETS = {"LEFT_BRACKET": "[", "RIGHT_BRACKET": "]", "LEFT_PARENTHESIS": "(", "RIGHT_PARENTHESIS": ")"}
SHOWN = 80
"""Letters of a requirement in a message."""
_URL = re.compile(r"(?:[a-z0-9+]+)://|file:", re.IGNORECASE)
_HASH = re.compile(r"\s--hash(?:=|\s+)(\S+)")
_FRAGMENT = re.compile(r"#(?:.*&)?(sha(?:256|384|512))=([0-9a-fA-F]+)")
_OPTION = re.compile(r"(--[\w-]+|-[rcei]|-)(?:[=\s]\s*)?(.*)\Z", re.DOTALL)
REQUIREMENT, CONSTRAINT, EDITABLE = "--requirement", "--constraint", "--editable"
_LONG_NAMES = {"-r": REQUIREMENT, "-c": CONSTRAINT, "-e": EDITABLE, "-i": "--index-url"}


@dataclass(frozen=True, kw_only=True, slots=True)
class UserRequirement:
    """One thing that the user wants.

    text: as uv takes it. name: normalized, empty if only a build gives it (a folder, a URL). origin: who
    wants it, as the table shows it. position: its place in a file. requirement: parsed, if it is PEP 508.
    hashes: the only ones that its file may have, as `sha256:HEX`; none if any will do. read_by_uv: it stands in a
    file that uv reads.
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
        """Return the text with its hashes, as records and locks keep it."""
        return " ".join([self.text, *(f"--hash={value}" for value in self.hashes)])

    @property
    def editable(self) -> str:
        """Return the folder or URL of an editable project, as a person writes it; empty for others."""
        url = self.text.removeprefix("-e ") if self.text.startswith("-e ") else ""
        return unquote(url.removeprefix("file://")) if url.startswith("file://") else url

    @property
    def is_of_index(self) -> bool:
        """Tell if an index decides which versions of it there are."""
        return self.requirement is not None and not self.requirement.url

    @property
    def operators(self) -> frozenset[str]:
        """Return the operators of its version specifiers: of `a>=1,<2` they are >= and <."""
        return frozenset(found.operator for found in self.requirement.specifier) if self.requirement else frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class UserRequest:
    """All that the user wants.

    files: paths or URLs, as they were named. sources: those of them that uv reads. lines: what came from a stream,
    which cannot be read twice. constraints: what constraint files say. options: pip's, in the files, by their long
    names. require_hashes: each package needs a hash. of_conda: specs of conda with their places. notes: what of them is
    not taken.
    """

    requirements: tuple[UserRequirement, ...] = ()
    files: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    constraints: tuple[UserRequirement, ...] = ()
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    require_hashes: bool = False
    of_conda: tuple[tuple[Position, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Return the normalized names of what the user named."""
        return frozenset(requirement.name for requirement in self.requirements if requirement.name)


def names_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the normalized names of requirements that were checked before."""
    from packaging.requirements import Requirement

    return tuple(canonical(Requirement(text).name) for text in texts)


def checked_names(texts: Sequence[str], option: str, example: str) -> tuple[str, ...]:
    """Return the requirements that an option names. Raises BadInput if a text is not a requirement."""
    from packaging.requirements import InvalidRequirement, Requirement

    for text in texts:
        try:
            Requirement(text)
        except (InvalidRequirement, RecursionError) as error:
            raise BadInput(f"{option} {text}: {_first_line(error)}", hint=f"a package's name: {example}") from error
    return tuple(texts)


def parse(text: str, origin: str = "", position: Position | None = None) -> UserRequirement:
    """Read one requirement with the hashes behind it: PEP 508, a URL, or the path of a folder, wheel or archive.

    `-e ` before it makes it editable. Raises BadInput with the position.
    """
    wanted = _HASH.sub("", text).strip()
    if set(wanted) & {"\n", "\r"}:
        raise BadInput(f"{wanted!r} is more than one line", position, "one requirement each")
    option = re.search(r"\s(--[a-z-]+)", wanted)
    if option:
        hint = "only --hash=KIND:HEX may; build it yourself (`pip wheel`), and name the wheel in its place"
        raise BadInput(f"{wanted[: option.start()]}: {option[1]} cannot follow a requirement here", position, hint)
    found = _of_place(wanted, position) if wanted.startswith("-e ") else _of_words(wanted, position)
    hashes = _HASH.findall(text) or [f"{kind}:{value}" for kind, value in _FRAGMENT.findall(found.text)]
    return replace(found, origin=origin, position=position, hashes=tuple(value.lower() for value in hashes))


def _of_words(text: str, position: Position | None) -> UserRequirement:
    from packaging.requirements import InvalidRequirement, Requirement

    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    try:
        requirement = Requirement(text)
    except (RecursionError, ValueError) as error:  # InvalidRequirement is one
        place = text.partition("[")[0]
        if isinstance(error, InvalidRequirement) and (_URL.match(text) or os.sep in place or place.endswith(ARCHIVES)):
            return _of_place(text, position)
        reason = "nested too deep" if isinstance(error, RecursionError) else _first_line(error)
        raise BadInput(f"invalid requirement {shown!r}: {reason}", position, _hint(text)) from error
    if requirement.url and re.match(r"(file:)?(\.\.?/|~)", requirement.url):
        text = text.replace(requirement.url, _path(requirement.url).resolve().as_uri())
    return UserRequirement(text=text, name=canonical(requirement.name), requirement=requirement)


def _of_place(text: str, position: Position | None) -> UserRequirement:
    """Read the URL or path of a wheel, an archive or a folder; `-e` of a repository is what uv clones."""
    word = text.removeprefix("-e ").strip()
    option = text[: len(text) - len(word)].strip()
    if _URL.match(word) and not (option and word.startswith("file:")):
        return UserRequirement(text=text, name=_name_in_url(word))
    place, bracket, extras = word.partition("[")
    path = _path(place).resolve()
    if option and not any((path / name).is_file() for name in PROJECT_FILES):
        hint = "name a folder with a pyproject.toml or setup.py"
        raise BadInput(f"{text}: {path} holds no Python project", position, hint)
    if not path.exists():
        raise BadInput(f"{text}: no such file or folder", position, "name a wheel, an archive or a project's folder")
    if path.is_file() and not path.name.endswith(ARCHIVES):
        raise BadInput(f"{text}: not a package", position, "name a wheel, an archive or a project's folder, or -r FILE")
    name = _name_of_wheel(path.name) if path.suffix == ".whl" else project_name(path)
    if option or not name:
        return UserRequirement(text=f"{option} {path.as_uri()}{bracket}{extras}".strip(), name=name)
    return UserRequirement(text=f"{name}{bracket}{extras} @ {path.as_uri()}", name=name)


def _path(place: str) -> Path:
    """Return the path that a word names, a `file:` URL too; a relative one counts from the current folder."""
    if place.startswith("file:"):
        place = unquote(place.removeprefix("file:").removeprefix("//"))
    return Path.cwd() / os.path.expanduser(place)


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
        return "one package and version is NAME==VERSION, with two equal signs"
    return "one requirement a line: NAME, NAME>=VERSION, NAME[EXTRA], NAME @ URL, or a path with a / in it"


def read_request(
    packages: Sequence[str],
    named: Sequence[str],
    editables: Sequence[Path],
    constraints: Sequence[str] = (),
    *,
    extras: Sequence[str] = (),
    groups: Sequence[str] = (),
    require_hashes: bool = False,
) -> UserRequest:
    """Read everything as one request; `-` stands for standard input.

    named, constraints: requirement files, by path or URL; named may be a project's, with its extras and groups.
    require_hashes: each package needs a hash. Raises BadInput with all problems, each with its place, and ToolFailed
    if a URL does not answer.
    """
    reader = _Reader(extras, groups)
    for text in (*packages, *(f"-e {folder}" for folder in editables)):
        try:
            reader.requirements.append(parse(text, COMMAND_LINE))
        except BadInput as error:
            reader.problems += error.problems
    places = tuple(STANDARD_INPUT if file == "-" else file for file in named)
    for place in places:
        reader.read(place, reader.requirements)
    for place in constraints:
        reader.read(place, reader.constraints, of_uv=False)
    BadInput.raise_any(reader.problems)
    return UserRequest(
        requirements=tuple(reader.requirements),
        files=places,
        sources=tuple(reader.sources),
        lines=tuple(reader.lines),
        constraints=tuple(reader.constraints),
        options=reader.options,
        require_hashes=require_hashes or "--require-hashes" in reader.options,
        of_conda=tuple(reader.of_conda),
    )


class _Reader:
    """Reads requirement files that name each other, each of them once; collects what is wrong in all of them."""

    def __init__(self, extras: Sequence[str], groups: Sequence[str]) -> None:
        self.extras, self.groups = extras, groups
        self.requirements: list[UserRequirement] = []
        self.constraints: list[UserRequirement] = []
        self.sources: list[str] = []
        self.lines: list[str] = []
        self.options: dict[str, list[str]] = {}
        self.of_conda: list[tuple[Position, str]] = []
        self.problems: list[Problem] = []
        self._seen: set[str] = set()

    def read(
        self,
        name: str,
        into: list[UserRequirement],
        *,
        of_uv: bool = True,
        named_at: Position | None = None,
        within: str = "",
    ) -> None:
        """Read a file. of_uv: uv reads it too. named_at, within: the line and the file that name it; none: the user."""
        place = _place(name, within)
        if place in self._seen:
            return
        self._seen.add(place)
        shown = os.path.relpath(place) if os.path.isabs(place) and not os.path.isabs(name) else place
        of_project, is_stream = is_project(place), files.is_stream(Path(place))
        try:
            text = _text(place, is_named=named_at is None)
            lines: Iterable[tuple[int, str]] = logical_lines(text)
            if of_project:
                lines, of_conda = project_lines(shown, text, self.extras, self.groups)
                self.of_conda += [(Position(shown, number), spec) for number, spec in of_conda]
        except (BadInput, ToolFailed) as error:
            problems = [_placed(found, name, named_at) for found in error.problems]
            if isinstance(error, ToolFailed):
                raise ToolFailed(problems) from error
            self.problems += problems
            return
        by_uv = of_uv and not of_project
        if by_uv and not is_stream and (named_at is None or is_project(within)):
            self.sources.append(place)  # the others are named by one that uv reads
        for number, line in lines:
            at = Position(shown, number)
            option, value = _option(line)
            if is_stream and by_uv:
                self.lines.append(f"{option} {_place(value, place)}" if option in (REQUIREMENT, CONSTRAINT) else line)
            try:
                if option == REQUIREMENT:
                    self.read(value, into, of_uv=of_uv, named_at=at, within=place)
                elif option == CONSTRAINT:
                    self.read(value, self.constraints, of_uv=by_uv, named_at=at, within=place)
                elif option in ("", EDITABLE):
                    text = f"-e {value}" if option else line
                    into.append(replace(parse(text, f"{at.file}:{at.line}", at), read_by_uv=by_uv))
                else:
                    self.options.setdefault(option, []).append(value)
            except BadInput as error:
                self.problems += error.problems


def _option(line: str) -> tuple[str, str]:
    """Return the long name of an option and its value; empty texts of a line that is a requirement."""
    found = _OPTION.match(line)
    return (_LONG_NAMES.get(found[1], found[1]), found[2].strip().strip("'\"")) if found else ("", "")


def _placed(problem: Problem, name: str, named_at: Position | None) -> Problem:
    if named_at is None:
        return problem if problem.position else replace(problem, position=Position(name))
    return replace(problem, message=f"{name}: {problem.message}", position=named_at)


def _text(place: str, *, is_named: bool) -> str:
    read = files.read_named if is_named else files.read_bytes
    try:
        content = files.fetched(place, MAX_BYTES) if _URL.match(place) else read(Path(place), MAX_BYTES)
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        hint = f"it is looked for at {os.path.abspath(place)}"
        raise BadInput("cannot read it: no such file", hint=hint) from None
    except UnicodeDecodeError as error:
        raise BadInput(f"cannot read it: byte {error.start} is not UTF-8", hint="save it as UTF-8") from error
    if "\0" in text:
        raise BadInput(f"cannot read it: byte {content.find(0)} is zero", hint="it is no text: name another file")
    if is_named and files.is_stream(Path(place)) and not any(logical_lines(text)):
        raise BadInput("no requirements came from it", hint="name a file: -r requirements.txt")
    return text


def _place(name: str, beside: str) -> str:
    """Return the path or URL of a file that is named where the file `beside` lies, which has one of both too."""
    if name.startswith("file:"):
        return str(_path(name))
    if _URL.match(name):
        return name
    if _URL.match(beside):
        return urljoin(beside, name)
    folder = "" if files.is_stream(Path(beside)) else os.path.dirname(beside)
    return os.path.join(folder, os.path.expanduser(name))


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    r"""Give line number and content of each line that says something; `\` joins lines, as pip reads them."""
    start, joined = 0, ""
    for number, raw in enumerate([*text.splitlines(), ""], 1):
        start = start or number
        if raw.rstrip().endswith("\\") and not raw.lstrip().startswith("#"):
            joined += raw.rstrip()[:-1] + " "
            continue
        content = re.sub(r"(^|\s)#.*$", "", joined + raw).strip()
        if content:
            yield start, content
        start, joined = 0, ""
