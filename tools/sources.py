"""Prints the values in knowledge/tuning that a source no longer contains, for maintainers, a few times a year.

    tools/sources.py [--clones DIR] [SOURCE...]

The script downloads the files of the sources, or reads them in clones, each in a directory with the name of its
repository. It executes none of them. The exit code is 1 if a source differs. The variables https_proxy and
SSL_CERT_FILE set a proxy and certificates.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core import console
from uenvtool.core.errors import ExitCode, ToolFailed, UenvtoolError, require_known
from uenvtool.core.files import fetched
from uenvtool.core.result import Result, Table
from uenvtool.core.words import grouped, listed
from uenvtool.knowledge.sources import Source, load_sources
from uenvtool.knowledge.tuning import Tuning, Value, load_all

MOST_BYTES = 4_000_000
"""The maximum size of a file of a source."""
MOST_FILES = 3
GAP = r"\s.{0,1000}?\s"
"""The pattern for `...` in the text of a source."""
RAW = "https://raw.githubusercontent.com"
NEWEST = "HEAD"
FAMILIES = ("NCCL_", "FI_", "HSA_", "NVSHMEM_", "OMPI_MCA_")
"""The prefixes of variables that knowledge/tuning, or `beside` of the source, must list if a source sets them."""
_VALUE = r"""(?:"(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)'|(?P<bare>[^\s"'`|<>()]+))"""


@dataclass(frozen=True)
class Statement:
    """The value of a variable that knowledge/tuning records for a source, compared with the source's files.

    place: FILE:LINE of the value in the files, or empty. others: the values that the files contain instead.
    """

    source: str
    variable: str
    value: Value
    place: str
    others: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Return whether the files contain the value."""
        return bool(self.place)


def check(names: Sequence[str] = (), *, clones: Path | None = None) -> Result:
    """Compare the recorded values of the sources with their files. The exit code is 1 if they differ.

    clones: a directory of clones, each named after its repository; None: download the files. Raises BadInput if a
    source is unknown.
    """
    tuning, chosen = load_all(), _chosen(names)
    statements: list[Statement] = []
    missing: list[tuple[str, str]] = []
    unread: dict[str, str] = {}
    failed: list[tuple[str, str]] = []
    for name, source in chosen.items():
        if why := _not_here(source, clones):
            unread[name] = why
            continue
        texts = {}
        for file in source.files:
            try:
                texts[file] = _in_clone(source, file, clones) if clones else _over_network(source, file)
            except UenvtoolError as error:
                failed.append((name, f"{file}: {error.problems[0].message}"))
        if not texts:
            continue
        recorded = _values_of(tuning, name)
        statements += [judged(source, variable, value, texts) for variable, value in recorded.items()]
        missing += [(name, variable) for variable in unrecorded(source, recorded, texts)]
    return _answer(statements, missing, unread, failed)


def judged(source: Source, variable: str, value: Value, texts: Mapping[str, str]) -> Statement:
    """Return whether one of the texts contains a variable's value, or the text that the source records for it."""
    others: list[Value] = []
    for file, text in texts.items():
        if variable in source.words:
            if (at := _words_at(text, source.words[variable])) >= 0:
                return Statement(source.name, variable, value, _place(file, text, at))
            continue
        for at, stated in given(variable, text):
            if stated == value:
                return Statement(source.name, variable, value, _place(file, text, at))
            others.append(stated)
    return Statement(source.name, variable, value, "", tuple(dict.fromkeys(map(_word, others))))


def given(variable: str, text: str) -> Iterator[tuple[int, Value]]:
    """Yield each position in a text that sets a variable, with the value, or None if the text removes the variable.

    The recognized forms are `V=x`, `V="x"`, `V: x`, `V = "x"`, `['V'] = 'x'`, `defvar V "x"`, `V="${V:-x}"` and `unset
    V`.
    """
    name = re.escape(variable)
    pattern = rf"""(?<![\w$]){name}(?:['"]\])?(?:[ \t]*[=:][ \t]*|[ \t]+(?=")){_VALUE}"""
    for match in re.finditer(pattern, text):
        value = match["double"] if match["double"] is not None else match["single"]
        if value is None:
            value = match["bare"].rstrip(",;.:\\")
        default = re.fullmatch(rf"\$\{{{name}:?-(.*)\}}", value)
        yield match.start(), None if value == "null" else _plain(default[1] if default else value)
    for match in re.finditer(rf"\bunset(?:[ \t]+-v)?(?:[ \t]+\w+)*?[ \t]+{name}\b", text):
        yield match.start(), None


def unrecorded(source: Source, recorded: Mapping[str, Value], texts: Mapping[str, str]) -> list[str]:
    """Return the variables of FAMILIES that the texts export or define but that are not recorded."""
    pattern = rf"""(?:^|export |defvar |-e |--env |- )((?:{"|".join(FAMILIES)})\w+)(?:=| "|: ")"""
    found = {name for text in texts.values() for name in re.findall(pattern, text, re.MULTILINE)}
    return sorted(found - set(recorded) - set(source.beside))


def _not_here(source: Source, clones: Path | None) -> str:
    """Return the reason why a source cannot be read, or an empty text."""
    if not source.files:
        return "the source is not public" if not source.url else "the source lists no files"
    if clones and not source.repository:
        return "the source is not in a repository"
    return f"{_clone(source, clones)} does not exist" if clones and not _clone(source, clones).is_dir() else ""


def _over_network(source: Source, file: str) -> str:
    """Download a file. Raises ToolFailed if the download fails, and BadInput if the file is too large."""
    return fetched(_address(source, file), MOST_BYTES).decode("utf-8", "replace")


def _in_clone(source: Source, file: str, clones: Path) -> str:
    """Return the committed version of a file in a clone. Raises ToolFailed if git fails.

    Files that a partial clone lacks are not downloaded, because the clone's configuration could start any program for
    that.
    """
    words = ["git", "-C", str(_clone(source, clones)), "cat-file", "blob", f"{source.ref or NEWEST}:{file}"]
    environment = {**os.environ, "GIT_ALLOW_PROTOCOL": "none"}
    answer = subprocess.run(words, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if answer.returncode:
        raise ToolFailed(answer.stderr.strip().rpartition("\n")[2])
    return answer.stdout


def _clone(source: Source, clones: Path) -> Path:
    return clones / source.repository.rpartition("/")[2]


def _answer(
    statements: Sequence[Statement],
    missing: Sequence[tuple[str, str]],
    unread: Mapping[str, str],
    failed: Sequence[tuple[str, str]],
) -> Result:
    wrong = [found for found in statements if not found.holds]
    rows = [
        (
            found.source,
            found.variable,
            _word(found.value),
            f"contain {' and '.join(found.others)}" if found.others else "do not contain it",
        )
        for found in wrong
    ]
    rows += [(name, variable, "-", "set the variable") for name, variable in missing]
    read = {found.source for found in statements}
    code = ExitCode.NO if wrong or missing or failed else ExitCode.DONE
    return Result(
        text=f"{len(statements)} values of {len(read)} sources: {len(statements) - len(wrong)} confirmed, "
        f"{len(wrong)} not found; {len(missing)} variables are not recorded",
        tables=(Table(headings=("source", "variable", "recorded", "its files"), rows=rows),) if rows else (),
        warnings=tuple(_warnings(failed)),
        notes=tuple(f"{name} was not read: {why}" for name, why in unread.items()),
        exit_code=code if read else ExitCode.FAILED,
    )


def _warnings(failed: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield each reason once, with the first files that could not be read for this reason."""
    parts = [(name, *why.partition(": ")[::2]) for name, why in failed]
    for why, files in grouped((why, f"{name}: {file}") for name, file, why in parts).items():
        yield f"{listed(files, MOST_FILES)}: {why}"


def _chosen(names: Sequence[str]) -> dict[str, Source]:
    known = load_sources()
    require_known("source", names, known)
    return {name: source for name, source in known.items() if not names or name in names}


def _values_of(tuning: Tuning, source: str) -> dict[str, Value]:
    """Return the recorded values of a source, by variable."""
    return {found.name: found.says[source] for found in tuning.variables if source in found.says}


def _address(source: Source, file: str) -> str:
    if file.startswith("https://"):
        return file
    return f"{RAW}/{source.repository}/{source.ref or NEWEST}/{file}"


def _place(file: str, text: str, at: int) -> str:
    return f"{file}:{text.count(chr(10), 0, at) + 1}"


def _words_at(text: str, words: str) -> int:
    """Return the offset of some words with any whitespace between them, and any text for `...`, or -1."""
    pattern = r"\s+".join(re.escape(word) for word in words.split()).replace(r"\s+\.\.\.\s+", GAP)
    match = re.search(pattern, text, re.DOTALL)
    return match.start() if match else -1


def _plain(value: str) -> str:
    """Return a value in the form of knowledge/tuning, in which `\\${NAME}` is $NAME."""
    return re.sub(r"\$\{(\w+)\}", r"$\1", value.replace("\\", ""))


def _word(value: Value) -> str:
    return "unset" if value is None else value


def main() -> int:
    """Check the sources that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="SOURCE", help="the sources to check; default: all")
    parser.add_argument(
        "--clones", type=Path, metavar="DIR", help="read clones in this directory instead of downloading files"
    )
    options = parser.parse_args()
    try:
        return console.show(check(options.names, clones=options.clones))
    except UenvtoolError as error:
        console.note(str(error))
        return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(main())
