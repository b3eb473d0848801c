"""Splits shell text into commands of words with their places, also if a script has placeholders or errors in it.

shlex gives no positions, and bashlex refuses a script that is not yet complete. This reads what the check
needs: words, quotes, substitutions, heredocs, pipes, and the branches and loops that a command stands in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from uenvtool.check.blocks import Blocks
from uenvtool.check.parts import OUTER, Piece, ShellCommand

_TOKEN = re.compile(
    rf"""(?P<blank>(?:[ \t\r]|\\\r?\n)+)
    |(?P<end>\n|&&|\|\||;;?&?|\|&?|[()])
    |(?P<heredoc><<-?[ \t]*(?P<quote>['"\\]?)(?P<mark>\w+)['"]?)
    |(?P<redirection>\d*(?:&>>?|<<<|[<>]&|>[>|]|<>|[<>]))
    |(?P<amp>&)
    |(?P<single>'[^']*(?:'|\Z))
    |(?P<open>[${OUTER}]\(|"|`|[${OUTER}]\{{)
    |(?P<escape>\\.)
    |(?P<plain>[^\s'"`${OUTER}\\;&|()<>]+|.)""",
    re.VERBOSE | re.DOTALL,
)
_INSIDE = re.compile(rf"\\.|[${OUTER}]\(|[${OUTER}]\{{|[\"'`(){{}}]", re.DOTALL)
_ESCAPES = {"double": re.compile(r"\\[$`\"\\\n]"), "escape": re.compile(r"\\.", re.DOTALL)}
"""What a backslash escapes, by the kind of piece; nothing in the others."""
_MARKS = {
    "double": re.compile(r"\\[$`\"\\\n]|\$"),
    "escape": re.compile(r"\\.", re.DOTALL),
    "plain": re.compile(r"\$"),
    "open": re.compile(r"\$"),
}
"""The same, and a `$`."""
_OPENING = {'"': ("$(", "${"), "`": ("$(", "${"), "${": ("$(", "${", '"', "`")}
_OPENING["("] = _OPENING["$("] = ("(", "$(", "${", '"', "`")
"""What opens a further level, by what is open."""
_CLOSING = {'"': '"', "(": ")", "$(": ")", "${": "}", "`": "`"}


def commands(text: str) -> Iterator[ShellCommand]:
    """Yield the commands of a text in order; comments, redirections and the patterns of `case` are left out."""
    position = 0
    blocks = Blocks()
    here = ShellCommand()
    word: list[Piece] | None = None
    skips = False  # the next word is the file of a redirection
    heredocs: list[tuple[re.Match[str], ShellCommand]] = []
    while position < len(text):
        if word is None and text[position] == "#":
            position = _line_end(text, position)
            continue
        found = _TOKEN.match(text, position)
        if found is None:  # a lone backslash at the very end
            break
        kind, start, position = str(found.lastgroup), found.start(), found.end()
        if found["heredoc"]:
            heredocs.append((found, here))
            word = None
        elif kind in ("blank", "redirection"):
            word, skips = None, kind == "redirection" or skips
        elif kind in ("end", "amp") and (end := _array_or_arithmetic(text, start, here, word)):
            position = end
            if word is not None:
                word.append(Piece("open", start, end))
        elif kind in ("end", "amp"):
            here.piped, here.background = found[0] in ("|", "|&"), kind == "amp"
            if _is_placed(text, here, blocks, found[0], start):
                yield here
            here, word, skips = ShellCommand(pipe=here.piped), None, False
            if found[0] == "\n":
                position = _past_heredocs(text, position, heredocs)
        else:
            if kind == "open":
                position = closing(text, start, position)
                kind = "double" if found[0] == '"' else "open"
            if word is None:
                word = []
                if not skips:
                    here.words.append(word)
                skips = False
            word.append(Piece(kind, start, position))
    if _is_placed(text, here, blocks, "\n", position):
        yield here


def _is_placed(text: str, command: ShellCommand, blocks: Blocks, end: str, offset: int) -> bool:
    """Spell the words and say where the command stands; tell if it is one."""
    command.spellings = [spelling(text, word) for word in command.words]
    return blocks.place(command, end, offset)


def _array_or_arithmetic(text: str, start: int, here: ShellCommand, word: list[Piece] | None) -> int:
    """Return the offset behind the list of `name=(...)` or behind `((...))` that starts here; 0 if neither does."""
    if text[start] != "(":
        return 0
    if word and text[word[-1].end - 1] == "=":
        return closing(text, start, start + 1)
    is_arithmetic = text.startswith("((", start) and (not here.words or spelling(text, here.words[0]) == "for")
    return closing(text, start, start + 1) if is_arithmetic else 0


def closing(text: str, start: int, position: int) -> int:
    """Return the offset behind what was opened at `start`; the end of the text if nothing closes it."""
    stack = [text[start:position].replace(OUTER, "$")]
    while stack:
        found = _INSIDE.search(text, position)
        if found is None:
            return len(text)
        position = found.end()
        top, mark = stack[-1], found[0].replace(OUTER, "$")
        if mark == _CLOSING[top]:
            stack.pop()
        elif mark in _OPENING[top]:
            stack.append(mark)
        elif mark == "'" and top in ("(", "$("):
            position = text.find("'", position) + 1 or len(text)
    return position


def spelling(text: str, word: Sequence[Piece]) -> str:
    """Return a word as its command gets it; substitutions are left as they are."""
    found = []
    for piece in word:
        start, end = _inside(text, piece)
        part = text[start:end]
        escapes = _ESCAPES.get(piece.kind) if "\\" in part else None
        found.append(escapes.sub(lambda escape: _meant(escape[0]), part) if escapes else part)
    return "".join(found)


def body(text: str, word: Sequence[Piece]) -> tuple[str, list[int]]:
    """Return a word that is a script itself, and the offset of each of its characters.

    A `$` that the outer shell expands is written as OUTER.
    """
    found: list[str] = []
    offsets: list[int] = []
    for piece in word:
        position, end = _inside(text, piece)
        marks = _MARKS.get(piece.kind)
        for mark in marks.finditer(text, position, end) if marks else ():
            meant = OUTER if mark[0] == "$" else _meant(mark[0])
            found += (text[position : mark.start()], meant)
            offsets += [*range(position, mark.start()), *[mark.end() - 1] * len(meant)]
            position = mark.end()
        found.append(text[position:end])
        offsets += range(position, end)
    return "".join(found), offsets


def _inside(text: str, piece: Piece) -> tuple[int, int]:
    """Return the piece without its quotes."""
    if piece.kind not in ("single", "double") or text[piece.start] not in "'\"":
        return piece.start, piece.end
    closed = piece.end - piece.start > 1 and text[piece.end - 1] == text[piece.start]
    return piece.start + 1, piece.end - closed


def _meant(escape: str) -> str:
    return "" if escape == "\\\n" else escape[1:]


def _line_end(text: str, position: int) -> int:
    found = text.find("\n", position)
    return len(text) if found < 0 else found


def _past_heredocs(text: str, position: int, heredocs: list[tuple[re.Match[str], ShellCommand]]) -> int:
    """Give each heredoc that starts here its body; the offset behind them."""
    for mark, command in heredocs:
        ended = re.compile(rf"^\t*{re.escape(mark['mark'])}$", re.MULTILINE).search(text, position)
        command.body = Piece("quoted" if mark["quote"] else "heredoc", position, ended.start() if ended else len(text))
        position = min(len(text), ended.end() + 1) if ended else len(text)
    heredocs.clear()
    return position
