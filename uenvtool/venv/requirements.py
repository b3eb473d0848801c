"""Reads what a user wants: words of the command line, requirement files, editable projects.

uv gets one list of it, and reads none of these files: only so is it known which line asks for what, and which hashes
it names. As for pip and uv, the paths of wheels and folders in them count from the current folder, those of other
requirement files from the file that names them.
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
from uenvtool.core.errors import BadInput, Position, Problem, ToolFailed, did_you_mean
from uenvtool.core.words import canonical
from uenvtool.venv.projects import is_project, project_lines

if TYPE_CHECKING:
    from packaging.requirements import Requirement

MAX_BYTES = 10_000_000
MAX_DEPTH, MAX_FILES = 20, 1000
MAX_LETTERS = 4096
"""Of one requirement: a URL may be long, a version or a marker is not."""
COMMAND_LINE = "you"
STANDARD_INPUT = "/dev/stdin"
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
REQUIRE_HASHES = "require-hashes"
ARCHIVES = (".whl", ".zip", ".tar", ".tbz", ".tgz", ".tlz", ".txz", ".gz", ".bz2", ".lz", ".lzma", ".xz", ".zst")
"""The ends of the names of what uv installs: its own list, with what may stand behind `.tar`."""
URL = re.compile(r"(?:[a-z0-9+]+)://|file:", re.IGNORECASE)
_OPTIONS = re.compile(r"\s--(hash|config-settings?|global-option|install-option)(?=[=\s]|\Z)")
"""What can follow a requirement on its line."""
_HASH = re.compile(r"\s--hash(?:=|\s+|\Z)(\S*)")
_FRAGMENT = re.compile(r"#(?:.*&)?(sha(?:256|384|512))=([0-9a-fA-F]+)")
_HASH_LETTERS = {"sha256": 64, "sha384": 96, "sha512": 128}
"""The hashes that pip compares, and how long each is in hexadecimal (FIPS 180-4)."""
_BRACKETS = {"LEFT_BRACKET": "`[`", "RIGHT_BRACKET": "`]`", "LEFT_PARENTHESIS": "`(`", "RIGHT_PARENTHESIS": "`)`"}
_LONG_NAMES = {
    "-r": "--requirement", "-c": "--constraint", "-e": "--editable", "-i": "--index-url", "-f": "--find-links",
}  # fmt: skip
_PASSED_ON = {
    "--index-url", "--extra-index-url", "--find-links", "--no-index", "--no-binary", "--only-binary",
    "--pre", "--prefer-binary", "--require-hashes", "--trusted-host", "--no-build-isolation", "--use-feature",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class UserRequirement:
    """One thing that the user wants.

    text: as uv takes it. name: normalized, empty if only a build gives it (a folder, a URL). origin: who
    wants it, as the table shows it. position: its place in a file. requirement: parsed, if it is PEP 508.
    hashes: the only ones that its file may have, as `sha256:HEX`; none if any will do.
    """

    text: str
    name: str
    origin: str = ""
    position: Position | None = None
    requirement: Requirement | None = None
    hashes: tuple[str, ...] = ()

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


@dataclass(frozen=True, kw_only=True, slots=True)
class UserRequest:
    """All that the user wants.

    files: paths or URLs, as they were named. constraints: what constraint files say. options: pip's, from the files,
    by their long names. require_hashes: each package needs a hash. notes: what is not taken from them.
    """

    requirements: tuple[UserRequirement, ...] = ()
    files: tuple[str, ...] = ()
    constraints: tuple[UserRequirement, ...] = ()
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    require_hashes: bool = False
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
    wanted = _OPTIONS.split(text, maxsplit=1)[0].strip()
    for option in _OPTIONS.findall(text):
        if option != "hash":
            hint = "build it yourself, `pip wheel PACKAGE` with this option, and name the wheel in its place"
            raise BadInput(f"{wanted}: --{option} of one package is not supported", position, hint)
    hashes = tuple(_checked_hash(value, position) for value in _HASH.findall(text))
    if set(wanted) & {"\n", "\r"}:
        raise BadInput(f"{wanted!r} is more than one line", position, "one requirement each")
    if len(wanted) > MAX_LETTERS:
        hint = "no requirement is so long; is it a file that should be named with -r?"
        raise BadInput(f"{wanted[:40]}... has {len(wanted)} characters", position, hint)
    found = _of_place(wanted, position) if wanted.startswith("-e ") else _of_words(wanted, position)
    fragments = tuple(f"{kind}:{value.lower()}" for kind, value in _FRAGMENT.findall(found.text))
    return replace(found, origin=origin, position=position, hashes=hashes or fragments)


def _of_words(text: str, position: Position | None) -> UserRequirement:
    """Read a requirement as PEP 508 writes it, else a place."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except RecursionError as error:
        raise BadInput(f"invalid requirement {text!r}: nested too deep", position, "simplify its marker") from error
    except InvalidRequirement as error:
        place = text.partition("[")[0]
        if URL.match(text) or os.sep in place or place.endswith(ARCHIVES):
            return _of_place(text, position)
        raise BadInput(f"invalid requirement {text!r}: {_first_line(error)}", position, _hint(text)) from error
    if requirement.url and re.match(r"(file:)?(\.\.?/|~)", requirement.url):
        text = text.replace(requirement.url, _path(requirement.url).resolve().as_uri())
    return UserRequirement(text=text, name=names_of([requirement.name])[0], requirement=requirement)


def _of_place(text: str, position: Position | None) -> UserRequirement:
    """Read the URL or path of a wheel, an archive or a folder; `-e` of a repository is what uv clones."""
    word = text.removeprefix("-e ").strip()
    option = text[: len(text) - len(word)].strip()
    if URL.match(word) and not (option and word.startswith("file:")):
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
    name = _wheel(path.name)[0] if path.suffix == ".whl" else project_name(path)
    if path.suffix == ".whl" and not name:
        raise BadInput(f"{path.name}: invalid name of a wheel", position, "NAME-VERSION-TAGS.whl")
    if option or not name:
        return UserRequirement(text=f"{option} {path.as_uri()}{bracket}{extras}".strip(), name=name)
    return UserRequirement(text=f"{name}{bracket}{extras} @ {path.as_uri()}", name=name)


def _path(place: str) -> Path:
    """Return the path that a word names, a `file:` URL too; a relative one counts from the current folder."""
    if place.startswith("file:"):
        place = unquote(place.removeprefix("file:").removeprefix("//"))
    return Path.cwd() / os.path.expanduser(place)


def _checked_hash(value: str, position: Position | None) -> str:
    """Return the value of --hash, in small letters. Raises BadInput if it can be the hash of no file."""
    kind, _, digest = value.partition(":")
    if not re.fullmatch(f"[0-9a-fA-F]{{{_HASH_LETTERS.get(kind, 0)}}}", digest) or not digest:
        hint = f"--hash=KIND:HEX of {', '.join(_HASH_LETTERS)}; `pip hash FILE` prints it"
        raise BadInput(f"invalid hash: --hash={value}", position, hint)
    return f"{kind}:{digest.lower()}"


def wheel_version(place: str) -> str:
    """Return the version in the name of the wheel that a path or URL leads to; empty if it is something else."""
    return _wheel(place.partition("#")[0].rpartition("/")[2])[1]


def _wheel(name: str) -> tuple[str, str]:
    """Return the normalized name and the version of a wheel; empty texts if it is not named as one."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        found = parse_wheel_filename(name)
    except InvalidWheelFilename:
        return "", ""
    return str(found[0]), str(found[1])


def project_name(path: Path) -> str:
    """Read a project's name from its pyproject.toml without building anything; empty if it is not there."""
    import tomlkit

    try:
        document = tomlkit.parse(files.read_bytes(path / "pyproject.toml", MAX_BYTES).decode("utf-8")).unwrap()
        return names_of([document["project"]["name"]])[0]
    except (FileNotFoundError, BadInput, ValueError, KeyError, TypeError):
        return ""


def _name_in_url(url: str) -> str:
    match = re.search(r"[#&]egg=([A-Za-z0-9._-]+)", url)
    return names_of([match[1]])[0] if match else _wheel(url.rpartition("/")[2].partition("#")[0])[0]


def _first_line(error: Exception) -> str:
    first = str(error).splitlines()[0]
    return re.sub(r"\b(LEFT|RIGHT)_(BRACKET|PARENTHESIS)\b", lambda name: _BRACKETS[name[0]], first)


def _hint(text: str) -> str:
    if re.match(r"[A-Za-z0-9._-]+\s*=\s*[0-9]", text):
        return "one package and version is NAME==VERSION, with two equal signs"
    if re.match(r"[A-Za-z0-9._-]+\s+[A-Za-z0-9]", text):
        return "one requirement a line, NAME or NAME>=VERSION; a comment starts with #"
    return "NAME, NAME>=VERSION, NAME[EXTRA], NAME @ URL, or a path with a / in it"


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
    """Read everything as one request; `-` stands for standard input. Raises BadInput with all problems, each with its
    place, and ToolFailed if a URL does not answer.

    named, constraints: requirement files, by path or URL; named may be a project's, with its extras and groups.
    require_hashes: each package needs a hash.
    """
    reader = _Reader(extras, groups)
    requirements: list[UserRequirement] = []
    for text in (*packages, *(f"-e {folder}" for folder in editables)):
        try:
            requirements.append(parse(text, COMMAND_LINE))
        except BadInput as error:
            reader.problems += error.problems
    places = tuple(STANDARD_INPUT if file == "-" else file for file in named)
    for place in places:
        requirements += reader.file(place)
    for place in constraints:
        reader.constraints += reader.file(place)
    BadInput.raise_any(reader.problems)
    return UserRequest(
        requirements=tuple(requirements),
        files=places,
        constraints=tuple(reader.constraints),
        options=reader.options,
        require_hashes=require_hashes or REQUIRE_HASHES in reader.options,
        notes=tuple(reader.notes),
    )


class _TooManyFiles(BadInput):
    """Requirement files name each other without an end in sight."""


class _Reader:
    """Reads requirement files that name each other; collects what is wrong in all of them."""

    def __init__(self, extras: Sequence[str], groups: Sequence[str]) -> None:
        self.extras, self.groups = extras, groups
        self.notes: list[str] = []
        self.problems: list[Problem] = []
        self.constraints: list[UserRequirement] = []
        self.options: dict[str, list[str]] = {}
        self._count = 0

    def file(self, name: str, named_at: Position | None = None, above: tuple[str, ...] = ()) -> list[UserRequirement]:
        """Read the requirements of a file. above: the files that lead to it, by path or URL, the nearest last."""
        place = _place(name, above[-1] if above else "")
        self._count += 1
        if len(above) > MAX_DEPTH or self._count > MAX_FILES:
            what = f"requirement files name each other more than {MAX_DEPTH} deep, or are more than {MAX_FILES} files"
            raise _TooManyFiles(what, named_at, "write them into one")
        try:
            if place in above:
                raise BadInput("it leads to itself", hint="take this line out")
            text = self._text(place, is_named=named_at is None)
        except (BadInput, ToolFailed) as error:
            shown, at = f"{name}: " if named_at else "", named_at or Position(name)
            problems = [replace(found, message=shown + found.message, position=at) for found in error.problems]
            if isinstance(error, ToolFailed):
                raise ToolFailed(problems) from error
            self.problems += problems
            return []
        shown = os.path.relpath(place) if os.path.isabs(place) and not os.path.isabs(name) else place
        found: list[UserRequirement] = []
        for line, content in self._lines(place, shown, text):
            try:
                found += self._line(content, Position(shown, line), (*above, place))
            except _TooManyFiles:
                raise
            except BadInput as error:
                self.problems += error.problems
        return found

    def _lines(self, place: str, shown: str, text: str) -> Iterable[tuple[int, str]]:
        if not is_project(place):
            return logical_lines(text)
        try:
            lines, notes = project_lines(shown, text, self.extras, self.groups)
        except BadInput as error:
            self.problems += error.problems
            return ()
        self.notes += notes
        return lines

    def _text(self, place: str, *, is_named: bool) -> str:
        read = files.read_named if is_named else files.read_bytes
        try:
            content = files.fetched(place, MAX_BYTES) if URL.match(place) else read(Path(place), MAX_BYTES)
            text = content.decode("utf-8-sig")
        except FileNotFoundError:
            hint = f"it is looked for at {os.path.abspath(place)}"
            raise BadInput("cannot read it: no such file", hint=hint) from None
        except UnicodeDecodeError as error:
            raise BadInput(f"cannot read it: byte {error.start} is not UTF-8", hint="save it as UTF-8") from error
        if is_named and files.is_stream(Path(place)) and not any(logical_lines(text)):
            raise BadInput("no requirements came from it", hint="name a file: -r requirements.txt")
        return text

    def _line(self, content: str, position: Position, within: tuple[str, ...]) -> list[UserRequirement]:
        """Read a line. within: the file that it stands in, and before it those that lead there."""
        origin = f"{position.file}:{position.line}"
        if not content.startswith("-"):
            return [parse(content, origin, position)]
        option, value = re.match(r"(--[\w-]*|-.?)(?:[=\s]\s*)?(.*)\Z", content, re.DOTALL).groups()  # type: ignore[union-attr]
        option, value = _LONG_NAMES.get(option, option), value.strip().strip("'\"")
        if option == "--requirement":
            return self.file(value, position, within)
        if option == "--constraint":
            self.constraints += self.file(value, position, within)
            return []
        if option == "--editable":
            return [parse(f"-e {value}", origin, position)]
        if option not in _PASSED_ON:
            known = sorted(_PASSED_ON | set(_LONG_NAMES.values()))
            hint = f"{did_you_mean(option, known)} take it out; a requirements file may have {', '.join(known)}"
            raise BadInput(f"unknown option {option!r}", position, hint.lstrip())
        if option == "--find-links" and not URL.match(value):
            value = str(_beside(within[-1], value))
        self.options.setdefault(option.removeprefix("--"), []).append(value or "true")
        return []


def _place(name: str, beside: str) -> str:
    """Return the path or URL of a file that is named where the file `beside` lies, which has one of both too."""
    if name.startswith("file:"):
        return str(_path(name))
    if URL.match(name):
        return name
    return urljoin(beside, name) if URL.match(beside) else str(Path(beside).parent / os.path.expanduser(name))


def _beside(file: str, place: str) -> Path:
    """Return a folder that a requirement file names: beside the file if it is there, else below the current folder."""
    beside = Path(file).parent.absolute() / os.path.expanduser(place)
    return beside if beside.exists() else _path(place)


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
