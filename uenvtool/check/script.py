"""Parser for bash batch scripts that finds #SBATCH options, variables and commands, also inside steps."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from uenvtool.check.parts import BATCH, OUTER, STEP, CheckedFile, Part, Path, Piece, ShellCommand
from uenvtool.check.sbatch import long_name, options
from uenvtool.check.shell import FUNCTION, body, commands
from uenvtool.check.values import OPERATORS, Values
from uenvtool.core.words import grouped
from uenvtool.knowledge.rule import LINES, Look
from uenvtool.knowledge.runtime import script_runtimes

_DIRECTIVE = re.compile(r"^#SBATCH(?!\w)[ \t]*(.*)", re.MULTILINE)
_AS_COMMENT = re.compile(
    r"^(?:[ \t]+#|#[ \t]+)SBATCH[ \t]+-.*|^#(?!sbatch)(?i:S[BATCH]{3,7})(?:[ \t]+--?|-{2})[A-Za-z].*", re.MULTILINE
)
"""A line that sbatch ignores, because it has a space next to the `#`, or because SBATCH is misspelt."""
BYTE_ORDER_MARK = "\ufeff"
_FOREIGN = re.compile(r"^#(PBS|BSUB|COBALT|OAR|PJM|\$|FLUX:|flux:)[ \t]*-", re.MULTILINE)
_SCHEDULERS = {"PBS": "PBS", "BSUB": "LSF", "COBALT": "Cobalt", "OAR": "OAR", "PJM": "PJM", "$": "Grid Engine"}
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}|\{%|<%|@[A-Z_]+@|\b__[A-Z][A-Z0-9_]*__\b|%\(\w+\)s")
_FIELD = re.compile(r"\{[A-Za-z_][\w.]*\}")
"""A field that str.format fills in. A single field, or a field in a file name, is more likely a mistake."""
_OPTION = re.compile(
    r"(?:--([a-z][\w-]*)(?:=|[ \t]+(?=[^-#\s]))?|-([A-Za-z])[ \t]*)"
    r"((?:\"[^\"]*\"|'[^']*'|<[^<>\n]*>|\{[^{}\n]*\}|\[[^\[\]\n]*\]|[^\s\"'])*)"
)
"""An option of sbatch. A placeholder such as `<partition name>` is one value, although sbatch ends it at the space."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")
_DECLARING = frozenset(("export", "declare", "typeset", "local", "readonly", "env", "setenv"))
SHELLS = frozenset(("bash", "sh", "zsh", "dash"))
OPTION_C = re.compile(r"-[a-z]*c")
"""The option of a shell before a script, such as `-c` or `-lc`."""
_STEPS = frozenset(("srun", "apptainer", "singularity", "mpirun", "mpiexec", "podman", "docker", "enroot", "uenv"))
_EMPTY = ("''", '""')
_DEEPEST = 4
"""The maximum nesting depth of shells inside shells that the parser follows."""


def read_script(text: str, shown: str) -> CheckedFile:
    """Parse a batch script and the batch scripts that it writes."""
    returns = [match.start() for match in re.finditer("\r\n", text)]
    dropped = [*returns, *([0] if text.startswith(BYTE_ORDER_MARK) else [])]
    offsets = range(len(text)) if not dropped else sorted(set(range(len(text))).difference(dropped))
    source = _source(text.removeprefix(BYTE_ORDER_MARK).replace("\r\n", "\n"), offsets, text, shown, 0)
    return dataclasses.replace(source, carriage_returns=tuple(returns), has_shebang=text.startswith("#!"))


def _source(text: str, offsets: Sequence[int], whole: str, shown: str, depth: int) -> CheckedFile:
    written, frame = commands(text), Frame(Values(()))
    heredocs = [piece for command in written for piece in _scripts(text, command)] if depth < _DEEPEST else []
    parts = [part for command in written for part in _command(text, offsets, frame, 0, command)]
    top = [part for part in parts if part.kind == "command" and part.scope == BATCH]
    first = top[0].offset if top else len(whole)
    outer_text = _blanked(text, heredocs)
    parts += _directives(outer_text, offsets, first)
    parts += _lines(_blanked(outer_text, [*_printed(text, written)]), offsets)
    parts.sort(key=lambda part: part.offset)
    foreign = _FOREIGN.search(outer_text)
    return CheckedFile(
        shown=shown,
        text=whole,
        parts=tuple(_with_exports(parts)),
        kinds=_kinds(parts),
        inner=(
            *(_written_script(text, piece, offsets, whole, shown, depth + 1) for piece in heredocs),
            *(
                script
                for command in written
                for script in _wrapped_scripts(text, command, offsets, whole, shown, depth)
            ),
        ),
        foreign=_SCHEDULERS.get(foreign[1], "flux") if foreign else "",
        template=_template(parts),
    )


def _scripts(text: str, command: ShellCommand) -> Iterator[Piece]:
    """Yield the batch scripts that a command writes, from its heredoc or a quoted argument."""
    quoted = (piece for word in command.words for piece in word if piece.kind in ("single", "double"))
    for piece in (*quoted, *([command.body] if command.body else [])):
        if _DIRECTIVE.search(text, piece.start, piece.end):
            yield piece


def _printed(text: str, written: Sequence[ShellCommand]) -> Iterator[Piece]:
    """Yield the texts for the reader, in a heredoc that only `cat`, `less` or `:` reads, or in triple quotes."""
    for command in written:
        first, last = command.words[0][0], command.words[0][-1]
        piece = command.body if command.spellings in (["cat"], ["less"], [":"]) and not command.piped else None
        if piece and ">" not in text[last.end : piece.start]:
            yield piece
        if text[first.start : first.end] in _EMPTY and "\n" in command.spellings[0]:
            yield Piece("double", first.start, last.end)


def _written_script(text: str, piece: Piece, offsets: Sequence[int], whole: str, shown: str, depth: int) -> CheckedFile:
    if piece.kind == "quoted":
        return _source(text[piece.start : piece.end], offsets[piece.start : piece.end], whole, shown, depth)
    kind = "double" if piece.kind == "heredoc" else piece.kind
    script, places = body(text, [Piece(kind, piece.start, piece.end)])
    return _source(script, [offsets[place] for place in places], whole, shown, depth)


def _wrapped_scripts(
    text: str, command: ShellCommand, offsets: Sequence[int], whole: str, shown: str, depth: int
) -> Iterator[CheckedFile]:
    """Yield the script of `sbatch --wrap`, with the options of the command as its #SBATCH lines."""
    words = command.spellings
    index = next((i for i, word in enumerate(words) if word.partition("=")[0] == "--wrap"), 0)
    is_apart = words[index : index + 1] == ["--wrap"]
    if words[:1] != ["sbatch"] or not index or depth >= _DEEPEST or index + is_apart >= len(words):
        return
    script, places = body(text, command.words[index + is_apart][0 if is_apart else 1 :])
    inner = _source(script, [offsets[place] for place in places], whole, shown, depth + 1)
    begin, end = offsets[command.words[0][0].start], offsets[command.words[0][-1].end - 1] + 1
    given = {name: value.replace("$", OUTER) for name, value in options(words[1:])[0].items() if name != "wrap"}
    parts = [Part(kind="directive", name=name, text=value, offset=begin, end=end) for name, value in given.items()]
    yield dataclasses.replace(inner, parts=(*parts, *inner.parts), kinds=inner.kinds | {"slurm"})


def _blanked(text: str, pieces: Sequence[Piece]) -> str:
    kept: list[str] = []
    position = 0
    for piece in sorted(pieces, key=lambda piece: piece.start):
        if piece.start >= position:
            kept += (text[position : piece.start], " " * (piece.end - piece.start))
            position = piece.end
    return "".join(kept) + text[position:]


def _directives(text: str, offsets: Sequence[int], first_command: int) -> Iterator[Part]:
    """Yield the #SBATCH lines and their options.

    An option after the first command, where sbatch stops reading, is `late`. A line that sbatch treats as a comment is
    `ignored`.
    """
    for line in _DIRECTIVE.finditer(text):
        kind = "directive" if offsets[line.start()] < first_command else "late"
        arguments = re.split(r"[ \t]#", line[1])[0]
        if arguments and kind == "directive":
            begin, end = line.start(1), line.start(1) + len(arguments)
            yield Part(kind="sbatch", name="", text=arguments, offset=offsets[begin], end=offsets[end - 1] + 1)
        for option in _OPTION.finditer(arguments):
            name, value = _named(option)
            start = line.start(1) + option.start()
            end = start + len(option[0].rstrip())
            yield Part(kind=kind, name=name, text=value, offset=offsets[start], end=offsets[end - 1] + 1)
    for line in _AS_COMMENT.finditer(text):
        if offsets[line.start()] < first_command and not _DIRECTIVE.match(line[0]):
            begin, end = offsets[line.start()], offsets[line.end() - 1] + 1
            yield Part(kind="ignored", name="", text=line[0], offset=begin, end=end)


def _template(parts: Sequence[Part]) -> str:
    placeholders = [match[0] for part in parts if part.kind == "sbatch" and (match := _PLACEHOLDER.search(part.text))]
    values = [part.text for part in parts if part.kind == "directive" and part.name not in ("output", "error")]
    fields = [value for value in values if _FIELD.fullmatch(value)]
    return next(iter(placeholders), fields[0] if len(set(fields)) > 1 else "")


def options_of(line: str) -> Iterator[tuple[str, str]]:
    """Return the long name and value of each option in an sbatch command line."""
    return map(_named, _OPTION.finditer(line))


def _named(option: re.Match[str]) -> tuple[str, str]:
    name = long_name(option[2] or option[1])
    return name, option[3].strip("\"'")


def _lines(text: str, offsets: Sequence[int]) -> Iterator[Part]:
    for line in re.finditer(r"^(?:[ \t]*(?=[^#\s])|(?=#!))(.+)", text, re.MULTILINE):
        code = line[1].partition(" #")[0]
        start = line.start(1)
        yield Part(kind="line", name="", text=code, offset=offsets[start], end=offsets[start + len(code) - 1] + 1)


def _with_exports(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts, with a variable marked as exported if the script has `export NAME` or `set -a`."""
    names = {word for part in parts if part.kind == "command" and part.name == "export" for word in part.argv[1:]}
    exports_all = any(
        {"-a", "allexport"} & {*part.argv} for part in parts if part.kind == "command" and part.name == "set"
    )
    for part in parts:
        if part.kind == "variable" and not part.exported and (exports_all or part.name in names):
            yield dataclasses.replace(part, exported=True)
        else:
            yield part


class Frame(NamedTuple):
    """The variables before a command, and the scope, step, blocks and quotes in which it runs (see Part)."""

    values: Values
    scope: str = BATCH
    step: int = -1
    path: Path = ()
    literal: bool = False


def _command(text: str, offsets: Sequence[int], around: Frame, depth: int, command: ShellCommand) -> Iterator[Part]:
    words = command.words
    spellings = command.spellings
    for begin, end, reason in command.breaks:
        yield Part(kind="syntax", name="", text=reason, offset=offsets[begin], end=offsets[end - 1] + 1)
    places = [(offsets[word[0].start], offsets[word[-1].end - 1] + 1) for word in words]
    frame = around._replace(path=around.path + command.path)
    start = next((i for i, word in enumerate(spellings) if not _ASSIGNMENT.match(word)), len(words))
    for i in range(start):
        variable = _variable(spellings[i], places[i], frame, exported=start < len(words))
        frame.values.assign(variable)
        if not OPERATORS.isdisjoint(variable.text) and words[i][0].kind == "plain":
            script, moved = body(text, words[i][1:])
            frame.values.scripts[variable.name] = script, [offsets[place] for place in moved]
        yield variable
    if start == len(words):
        return
    given = tuple(spellings[start:])
    argv = frame.values.command(given)
    name = argv[0].rpartition("/")[2] or argv[0]
    _record_function(text, command, argv, frame.values)
    at = places[start][0]
    yield Part(
        kind="command",
        name=f"| {name}" if command.pipe else name,
        text=text[words[start][0].start : words[-1][-1].end] if argv == given else " ".join(argv),
        offset=at,
        end=places[-1][1],
        scope=frame.scope,
        argv=argv,
        step=frame.step,
        path=frame.path,
        literal=frame.literal,
        background=command.background,
        piped=command.piped,
    )
    inside = frame._replace(scope=STEP, step=at) if name in _STEPS else frame
    if name in _DECLARING:
        yield from _declared(name, spellings[start + 1 :], places[start + 1 :], frame)
    if inside.scope == STEP:
        yield from _given(spellings, places, inside)
    if depth < _DEEPEST:
        run = _body_of(spellings, start)
        if run is not None:
            yield from _nested(text, words[run], offsets, inside, depth)
        if command.body is not None and (name in SHELLS or name in _STEPS):
            begin, end = command.body.start, command.body.end
            inside = inside._replace(literal=frame.literal or command.body.kind == "quoted")
            for nested in commands(text[begin:end]):
                yield from _command(text[begin:end], offsets[begin:end], inside, depth + 1, nested)


def _record_function(text: str, command: ShellCommand, argv: Sequence[str], values: Values) -> None:
    """Record a function that runs its arguments in a step, as in `run() { srun "$@"; }`, unless it shifts them."""
    name = function_name(text, command.path)
    if name and argv[0] == "shift":
        values.functions[name] = ()
    elif name and argv[0] in _STEPS and argv[-1] in ("$@", "${@}", "$*"):
        values.functions.setdefault(name, tuple(argv[:-1]))


def function_name(text: str, path: Path) -> str:
    """Return the name of the innermost function that contains a command, or an empty string."""
    start = max((offset for kind, offset, _ in path if kind == FUNCTION), default=0)
    name = _FUNCTION_NAME.search(text, max(0, start - 100), start) if start else None
    return name[1] if name else ""


_FUNCTION_NAME = re.compile(r"([\w-]+)[ \t]*(?:\([ \t]*\))?\s*\Z")


def _body_of(spellings: Sequence[str], start: int) -> int | None:
    """Return the index of the script after `bash -c` or `bash -lc`."""
    for i in range(start, len(spellings) - 2):
        if spellings[i][-2:] == "sh" and spellings[i].rpartition("/")[2] in SHELLS:
            for j in range(i + 1, len(spellings) - 1):
                if OPTION_C.fullmatch(spellings[j]):
                    return j + 1
    return None


def _nested(text: str, word: Sequence[Piece], offsets: Sequence[int], frame: Frame, depth: int) -> Iterator[Part]:
    """Yield the parts of a script in a word, as literal if the whole word is in single quotes."""
    script, places = body(text, word)
    inside = frame._replace(literal=frame.literal or [piece.kind for piece in word] == ["single"])
    moved = offsets[places.start : places.stop] if isinstance(places, range) else [offsets[i] for i in places]
    script, moved = frame.values.script(script) or (script, moved)
    for command in commands(script):
        yield from _command(script, moved, inside, depth + 1, command)


def _variable(word: str, place: tuple[int, int], frame: Frame, *, exported: bool) -> Part:
    name, _, value = word.partition("=")
    offset, end = place
    return Part(
        kind="variable", name=name.rstrip("+"), text=value, offset=offset, end=end, scope=frame.scope, step=frame.step,
        path=frame.path, exported=exported, appends=name.endswith("+"), literal=frame.literal,
    )  # fmt: skip


def _declared(name: str, words: Sequence[str], places: Sequence[tuple[int, int]], frame: Frame) -> Iterator[Part]:
    if name == "setenv" and words:
        value = words[1] if len(words) > 1 else ""
        yield _variable(f"{words[0]}={value}", places[0], frame, exported=True)
        return
    exported = name in ("export", "env") or (name in ("declare", "typeset") and "-x" in words)
    for word, place in zip(words, places, strict=True):
        if _ASSIGNMENT.match(word):
            variable = _variable(word, place, frame, exported=exported)
            frame.values.assign(variable)
            yield variable
        elif name == "env" and not word.startswith("-"):
            return  # env runs this word as a command


def _given(spellings: Sequence[str], places: Sequence[tuple[int, int]], frame: Frame) -> Iterator[Part]:
    """Yield the variables of the options `--env NAME=VALUE`."""
    for i, word in enumerate(spellings):
        if word[:2] not in ("--", "-e"):
            continue
        assignment = word.partition("=")[2] if word.startswith("--env=") else ""
        if word in ("--env", "-e") and i + 1 < len(spellings):
            assignment = spellings[i + 1]
        if _ASSIGNMENT.match(assignment):
            yield _variable(assignment, places[i], frame, exported=True)


def _kinds(parts: Sequence[Part]) -> frozenset[str]:
    by_kind = grouped((part.kind, part) for part in parts)
    kinds = {
        runtime.name
        for runtime in script_runtimes()
        if any(_is_shown(look, by_kind.get(look.kind, ())) for look in runtime.in_script)
    }
    if "directive" in by_kind or any(part.name.removeprefix("| ") == "srun" for part in by_kind.get("command", ())):
        kinds.add("slurm")
    return frozenset(kinds | {"script"})


def _is_shown(look: Look, parts: Sequence[Part]) -> bool:
    names = {part.name for part in parts}
    names = {name for name in names if look.kind in LINES or look.name.fullmatch(name)}
    return any(look.accepts(part.text) for part in parts if part.name in names)
