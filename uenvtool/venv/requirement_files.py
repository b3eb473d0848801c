"""All that a user wants as one request: words of the command line, requirement files, editable folders.

The files are read here for positions, names and hashes; uv reads them again, as they are, to resolve. As for pip and
uv, the paths of wheels and folders in them count from the current folder, those of other requirement files from the
file that names them. One that is named by its URL is read from there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urljoin

from uenvtool.core import files
from uenvtool.core.errors import BadInput, Position, Problem, ToolFailed, did_you_mean
from uenvtool.venv.requirements import URL, UserRequest, UserRequirement, editable, parsed

MAX_BYTES = 10_000_000
MAX_DEPTH = 20
MAX_FILES = 1000
COMMAND_LINE = "you"
STANDARD_INPUT = "/dev/stdin"
_OPTION_WITH_VALUE = re.compile(r"(--?[A-Za-z][\w-]*)(?:[=\s]\s*(.*))?\Z", re.DOTALL)
REQUIRE_HASHES = "require-hashes"
_LONG_NAMES = {"-i": "--index-url", "-f": "--find-links"}
_PASSED_ON = {
    "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-index", "--no-binary", "--only-binary",
    "--pre", "--prefer-binary", "--require-hashes", "--trusted-host", "--no-build-isolation", "--use-feature",
}  # fmt: skip

_KNOWN = _PASSED_ON | {"-r", "--requirement", "-c", "--constraint", "-e", "--editable"}

Parser = Callable[[str, str, "Position | None", Path], UserRequirement]
"""Takes a text, its origin, its position, and the folder that its paths are relative to."""


def read_request(
    packages: Sequence[str],
    named: Sequence[str],
    editables: Sequence[Path],
    constraints: Sequence[str] = (),
    *,
    require_hashes: bool = False,
) -> UserRequest:
    """Everything as one request; `-` stands for standard input. Raises BadInput with all problems, each with its place,
    and ToolFailed if a URL does not answer.

    named, constraints: requirement files, by path or URL. require_hashes: each package needs a hash.
    """
    reader = _Reader()
    requirements: list[UserRequirement] = []
    for text in packages:
        requirements += reader.collected(parsed, text, COMMAND_LINE, None)
    for folder in editables:
        requirements += reader.collected(editable, str(folder), COMMAND_LINE, None)
    places = tuple(STANDARD_INPUT if file == "-" else file for file in named)
    for place in places:
        requirements += reader.file(place)
    for place in constraints:
        reader.constraints += reader.file(place)
    if reader.problems:
        raise BadInput(reader.problems)
    return UserRequest(
        requirements=tuple(requirements),
        files=places,
        streams=reader.streams,
        constraints=tuple(reader.constraints),
        options=reader.options,
        require_hashes=require_hashes or REQUIRE_HASHES in reader.options,
    )


class _Reader:
    """Reads requirement files that name each other; collects what is wrong in all of them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.constraints: list[UserRequirement] = []
        self.streams: dict[str, str] = {}
        self.options: dict[str, list[str]] = {}
        self._count = 0
        self._is_endless = False

    def collected(self, parse: Parser, text: str, origin: str, position: Position | None) -> list[UserRequirement]:
        """What a parser makes of a text; nothing, and a problem more, if it refuses."""
        try:
            return [parse(text, origin, position, Path.cwd())]
        except BadInput as error:
            self.problems.extend(error.problems)
            return []

    def file(self, name: str, named_at: Position | None = None, above: tuple[str, ...] = ()) -> list[UserRequirement]:
        """The requirements of a file; one that another names is found beside that one.

        above: the files that lead to it, by path or URL, the nearest last. Nothing, once there were too many: that is
        told once.
        """
        if self._is_endless:
            return []
        place = _place(name, above[-1] if above else "")
        try:
            self._refuse_endless(place, above)
            text = self._text(place, is_named=named_at is None)
        except (BadInput, ToolFailed) as error:
            named = f"{name}: " if named_at else ""
            at = named_at or Position(name)
            problems = [replace(found, message=named + found.message, position=at) for found in error.problems]
            if isinstance(error, ToolFailed):
                raise ToolFailed(problems) from error
            self.problems += problems
            return []
        shown = os.path.relpath(place) if os.path.isabs(place) and not os.path.isabs(name) else place
        found: list[UserRequirement] = []
        for line, content in logical_lines(text):
            try:
                found += self._line(content, Position(shown, line), (*above, place))
            except BadInput as error:
                self.problems.extend(error.problems)
        return found

    def _refuse_endless(self, place: str, above: tuple[str, ...]) -> None:
        self._count += 1
        if place in above:
            raise BadInput("it leads to itself", hint="take this line out")
        self._is_endless = len(above) > MAX_DEPTH or self._count > MAX_FILES
        if len(above) > MAX_DEPTH:
            raise BadInput(f"files name each other more than {MAX_DEPTH} deep", hint="write them into one")
        if self._count > MAX_FILES:
            raise BadInput(f"more than {MAX_FILES} files are read for this", hint="write them into one")

    def _text(self, place: str, *, is_named: bool) -> str:
        """The text of a file, or of a stream that the user names: that one can be read only once."""
        try:
            if URL.match(place):
                return files.fetched(place, MAX_BYTES).decode("utf-8-sig")
            path = Path(place)
            if is_named and files.is_stream(path):
                text = files.read_named(path, MAX_BYTES).decode("utf-8-sig")
                if not any(logical_lines(text)):
                    raise BadInput("no requirements came from it", hint="name a file: -r requirements.txt")
                self.streams[place] = text
                return text
            return files.read_bytes(path, MAX_BYTES).decode("utf-8-sig")
        except FileNotFoundError:
            raise BadInput(
                "cannot read it: no such file", hint=f"it is looked for at {os.path.abspath(place)}"
            ) from None
        except UnicodeDecodeError as error:
            raise BadInput(f"cannot read it: byte {error.start} is not UTF-8", hint="save it as UTF-8") from error

    def _line(self, content: str, position: Position, within: tuple[str, ...]) -> list[UserRequirement]:
        """What a line asks for. within: the file that it stands in, and before it those that lead there."""
        origin = f"{position.file}:{position.line}"
        if not content.startswith("-"):
            return [parsed(content, origin, position, Path.cwd())]
        match = _OPTION_WITH_VALUE.match(content)
        option, value = (match[1], (match[2] or "").strip().strip("'\"")) if match else (content, "")
        if option[:2] in ("-r", "-c", "-e") and option not in ("-r", "-c", "-e"):  # -rFILE, as pip takes it
            option, value = content[:2], content[2:].strip()
        if option in ("-r", "--requirement"):
            return self.file(value, position, within)
        if option in ("-c", "--constraint"):
            self.constraints += self.file(value, position, within)
            return []
        if option in ("-e", "--editable"):
            return [editable(value, origin, position, Path.cwd())]
        if option not in _PASSED_ON:
            question = did_you_mean(option, _KNOWN)
            hint = f"{question} take it out; a requirements file may have {', '.join(sorted(_KNOWN))}".lstrip()
            raise BadInput(f"unknown option {option!r}", position, hint)
        name = _LONG_NAMES.get(option, option).removeprefix("--")
        if name == "find-links" and not URL.match(value):
            value = str(_beside(within[-1], value))
        self.options.setdefault(name, []).append(value or "true")
        return []


def _place(name: str, beside: str) -> str:
    """The path or URL of a file that is named where the file `beside` lies, which has one of both too."""
    if name.startswith("file:"):
        return unquote(name.removeprefix("file:").removeprefix("//"))
    if URL.match(name):
        return name
    return urljoin(beside, name) if URL.match(beside) else str(Path(beside).parent / os.path.expanduser(name))


def _beside(file: str, place: str) -> Path:
    """A folder that a requirement file names: beside the file if it is there, else below the current folder."""
    place = os.path.expanduser(place)
    beside = Path(file).parent.absolute() / place
    return beside if beside.exists() else Path.cwd() / place


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
