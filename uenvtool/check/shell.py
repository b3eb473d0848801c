"""Lexer that splits shell text into commands and words with positions, even if it has placeholders or syntax errors.

shlex returns no positions, and bashlex rejects incomplete scripts. This module recognises only the syntax that `check`
needs: words, quotes, substitutions, heredocs, pipes, and the branches, loops, functions and subshells around a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from uenvtool.check.parts import OUTER, Path, Piece, ShellCommand

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
_PLAIN = re.compile(r"[\w./:,+@%=-]+")
_PLAIN_WORDS = re.compile(r"(?:[\w./:,+@%=-]+[ \t]+)+")
"""Several words without special characters, and the spaces after them. A long script consists mostly of such words."""
_WORDS = frozenset(("plain", "single", "open", "escape"))
"""The kinds of tokens that are pieces of words."""
_IN_TEST = frozenset(("end", "redirection", "amp"))
"""The kinds of tokens that are operators of `[[ ... ]]` inside it."""
_LONGEST_TEST, _BEFORE_TEST = 2_000, 4
"""The maximum number of characters of the rest of a test, and of the words up to its `[[`, such as `elif ! [[`."""
_INSIDE = re.compile(rf"\\.|[${OUTER}]\(|[${OUTER}]\{{|[\"'`(){{}}]", re.DOTALL)
_ESCAPES = {"double": re.compile(r"\\[$`\"\\\n]"), "escape": re.compile(r"\\.", re.DOTALL)}
"""The escape sequences in each kind of piece; other kinds have none."""
_MARKS = {
    "double": re.compile(r"\\[$`\"\\\n]|\$"),
    "escape": re.compile(r"\\.", re.DOTALL),
    "plain": re.compile(r"\$"),
    "open": re.compile(r"\$"),
}
"""The escape sequences and `$` characters in each kind of piece."""
_OPENING = {'"': ("$(", "${"), "`": ("$(", "${"), "${": ("$(", "${", '"', "`")}
_OPENING["("] = _OPENING["$("] = ("(", "$(", "${", '"', "`")
"""For each open delimiter, the delimiters that open a nested level inside it."""
_CLOSING = {'"': '"', "(": ")", "$(": ")", "${": "}", "`": "`"}
IF, LOOP, CASE, GROUP, FUNCTION, SUBSHELL, AND = "if", "loop", "case", "group", "function", "subshell", "and"
_OPENS = {"if": IF, "while": LOOP, "until": LOOP, "for": LOOP, "select": LOOP, "case": CASE}
_CLOSES = {"fi": (IF,), "done": (LOOP,), "esac": (CASE,), "}": (GROUP, FUNCTION, AND)}
_DEEPEST = 50
"""The maximum nesting depth that a path records. Deeper blocks count as part of the last recorded block."""
_NEXT = frozenset(("then", "elif", "else"))
_PASSED = frozenset(("!", "time", "do", "exec", "nohup", "command"))
"""Words that may precede a command in the same block. A word with options is itself a command."""
_SPACE_AT_END = re.compile(r"\\[ \t]+(#[^\n]*)?(?=\n|\Z)")
"""A backslash with a space after it at the end of a line. Bash reads it as an argument that consists of a space."""
_NEXT_CODE = re.compile(
    r"(?:[ \t]*(?:#[^\n]*)?\n)*([ \t]*)(?![\s#};)]|\Z|(?:then|elif|else|fi|do|done|esac)\b)(--?[A-Za-z]\S*)?"
)
"""The next line that contains a command, with its indentation and the option with which it begins."""
_DELIMITING = frozenset(("-d", "-t"))
"""Options of `cut`, `tr` and `sort`, whose argument can be a space."""


def commands(text: str) -> list[ShellCommand]:
    """Return the commands of a text in order, without comments, redirections and `case` patterns."""
    blocks = _Blocks()
    found = list(_commands(text, blocks))
    for command, following in zip(reversed(found[:-1]), reversed(found[1:]), strict=True):
        command.background |= command.piped and following.background
    for command in found if blocks.in_background else ():
        command.background |= not blocks.in_background.isdisjoint(block[:2] for block in command.path)
    return found


def _commands(text: str, blocks: _Blocks) -> Iterator[ShellCommand]:
    position = 0
    command = ShellCommand()
    word: list[Piece] | None = None
    skips = False  # the next word is the file of a redirection
    heredocs: list[tuple[re.Match[str], ShellCommand]] = []
    while position < len(text):
        if word is None and text[position] == "#":
            newline = text.find("\n", position)
            position = newline if newline >= 0 else len(text)
            continue
        token = _TOKEN.match(text, position)
        if token is None:  # a lone backslash at the very end
            break
        kind, (start, position) = str(token.lastgroup), token.span()
        if kind == "blank" or (kind in _IN_TEST and _is_in_test(text, command, position)):
            word, position = None, position if skips else _past_plain_words(text, position, command)
        elif kind == "escape" and word is None and (end := _space_at_end(text, start, command)):
            position = end
        elif kind in _WORDS:
            if kind == "open":
                position = closing(text, start, position)
                kind = "double" if token[0] == '"' else "open"
            if word is None:
                word = []
                if not skips:
                    command.words.append(word)
                skips = False
            word.append(Piece(kind, start, position))
        elif kind == "heredoc":
            heredocs.append((token, command))
            word = None
        elif kind == "redirection":
            word, skips = None, True
        elif token[0] == "(" and (end := _array_or_arithmetic(text, start, command, word)):
            position = end
            if word is not None:
                word.append(Piece("open", start, end))
        elif token[0] == "\n" and command.words and not heredocs and (end := _past_break(text, start, command)):
            word, position = None, end
        elif token[0] == "\n" and not command.words:  # a pipe or `&&` continues on the next line
            position, word, skips = _past_heredocs(text, position, heredocs), None, False
        else:
            command.piped, command.background = token[0] in ("|", "|&"), kind == "amp"
            if _completed(text, command, blocks, token[0], start):
                yield command
            command, word, skips = ShellCommand(pipe=command.piped), None, False
            if token[0] == "\n":
                position = _past_heredocs(text, position, heredocs)
    if _completed(text, command, blocks, "\n", position):
        yield command


def _past_plain_words(text: str, position: int, command: ShellCommand) -> int:
    """Add the plain words at a position to a command, and return the offset after them and their spaces."""
    plain = _PLAIN_WORDS.match(text, position)
    if plain is None:
        return position
    command.words += [[Piece("plain", *word.span())] for word in _PLAIN.finditer(text, position, plain.end())]
    return plain.end()


def _is_in_test(text: str, command: ShellCommand, position: int) -> bool:
    """Return whether a position is inside `[[ ... ]]`, which is one command, whatever operators it contains."""
    marks = [text[word[0].start : word[-1].end] for word in (*command.words[:_BEFORE_TEST], *command.words[-1:])]
    is_open = "[[" in marks and marks[-1] != "]]"
    return is_open and text.find("]]", position, position + _LONGEST_TEST) >= 0


def _completed(text: str, command: ShellCommand, blocks: _Blocks, end: str, offset: int) -> bool:
    command.spellings = [spelling(text, word) for word in command.words]
    return blocks.place(command, end, offset)


def _array_or_arithmetic(text: str, start: int, command: ShellCommand, word: list[Piece] | None) -> int:
    """Return the end of the array in `name=(...)` or of the arithmetic `((...))` that begins at `start`, or 0."""
    if word and text[word[-1].end - 1] == "=":
        return closing(text, start, start + 1)
    is_arithmetic = text.startswith("((", start) and (not command.words or spelling(text, command.words[0]) == "for")
    return closing(text, start, start + 1) if is_arithmetic else 0


def _space_at_end(text: str, start: int, command: ShellCommand) -> int:
    """Add a break if a line ends with a backslash and a space at `start`, and return the end of the line, or else 0."""
    match = _SPACE_AT_END.match(text, start)
    if match is None or not command.words or spelling(text, command.words[-1]) in _DELIMITING:
        return 0
    reason = "a space and a comment follow the backslash" if match[1] else "a space follows the backslash"
    command.breaks.append((start, match.end(), reason))
    return match.end()


def _past_break(text: str, newline: int, command: ShellCommand) -> int:
    """Add a break if a newline was not meant to end the command, and return the offset of the next code, or else 0.

    The next line continues the command if it begins with an option, or if a backslash and a space precede it. If empty
    lines or comment lines separate it from a backslash, it also continues the command if its indentation is deeper.
    The same is true if it has the indentation of a line that continues the command, and ends with a backslash.
    """
    is_at_break = bool(command.breaks) and command.breaks[-1][1] == newline
    if not is_at_break and text[newline + 1 : newline + 2] not in (" ", "\t", "\n", "#", "-"):
        return 0
    code = _NEXT_CODE.match(text, newline + 1)
    if code is None or spelling(text, command.words[-1]) == "in":  # a pattern of `case` can look like an option
        return 0
    line, first = (text.rfind("\n", 0, place) + 1 for place in (newline, command.words[0][0].start))
    rest = text[line:newline].strip()
    is_below = text[line - 2 : line] == "\\\n" and rest[:1] in ("", "#") and line >= command.words[-1][-1].end
    is_deeper = (is_at_break or is_below) and text[first : first + len(code[1])].strip() != ""
    is_aligned = text[line - 2 : line] == "\\\n" and first < line and _is_aligned(text, line, first, newline, code[1])
    if not (code[2] or is_deeper or is_aligned or (is_at_break and code.start(1) == newline + 1)):
        return 0
    if is_below:
        reason = f"{'a comment' if rest else 'an empty'} line follows the backslash"
        command.breaks.append((line - 2, line - 1, reason))
    elif is_aligned and not code[2]:
        command.breaks.append((newline - len(rest), newline, "the line does not end with a backslash"))
    elif not is_at_break:
        command.breaks.append((*code.span(2), "the line above does not end with a backslash"))
    return code.end(1)


def _is_aligned(text: str, line: int, first: int, newline: int, indentation: str) -> bool:
    """Return whether the line after `newline` ends with a backslash and has the deeper indentation of the line before.

    line, first: the offsets of the line that ends at `newline`, and of the first line of the command.
    """
    code = text[newline + 1 : (text.find("\n", newline + 1) + 1 or len(text))]
    is_same = text[line:newline].startswith(indentation) and text[line + len(indentation)] not in " \t"
    is_deeper = text[first : first + len(indentation)].strip() != ""
    return code.startswith(indentation) and code.endswith("\\\n") and is_same and is_deeper


def closing(text: str, start: int, position: int) -> int:
    """Return the offset after the delimiter that closes the one at `start`, or the end of the text if none does."""
    stack = [text[start:position].replace(OUTER, "$")]
    while stack:
        match = _INSIDE.search(text, position)
        if match is None:
            return len(text)
        position = match.end()
        top, mark = stack[-1], match[0].replace(OUTER, "$")
        if mark == _CLOSING[top]:
            stack.pop()
        elif mark in _OPENING[top]:
            stack.append(mark)
        elif mark == "'" and top in ("(", "$("):
            position = text.find("'", position) + 1 or len(text)
    return position


def spelling(text: str, word: Sequence[Piece]) -> str:
    """Return a word as its command receives it, with quotes removed and substitutions unchanged."""
    if len(word) == 1 and word[0].kind == "plain":
        return text[word[0].start : word[0].end]
    parts = []
    for piece in word:
        start, end = _range_without_quotes(text, piece)
        part = text[start:end]
        escapes = _ESCAPES.get(piece.kind) if "\\" in part else None
        parts.append(escapes.sub(lambda escape: _unescaped(escape[0]), part) if escapes else part)
    return "".join(parts)


def body(text: str, word: Sequence[Piece]) -> tuple[str, Sequence[int]]:
    """Return a word as a script, with OUTER for each `$` that the outer shell expands, and each character's offset."""
    if len(word) == 1 and word[0].kind == "single":
        start, end = _range_without_quotes(text, word[0])
        return text[start:end], range(start, end)
    parts: list[str] = []
    offsets: list[int] = []
    for piece in word:
        position, end = _range_without_quotes(text, piece)
        marks = _MARKS.get(piece.kind)
        for mark in marks.finditer(text, position, end) if marks else ():
            replacement = OUTER if mark[0] == "$" else _unescaped(mark[0])
            parts += (text[position : mark.start()], replacement)
            offsets += [*range(position, mark.start()), *[mark.end() - 1] * len(replacement)]
            position = mark.end()
        parts.append(text[position:end])
        offsets += range(position, end)
    return "".join(parts), offsets


def _range_without_quotes(text: str, piece: Piece) -> tuple[int, int]:
    if piece.kind not in ("single", "double") or text[piece.start] not in "'\"":
        return piece.start, piece.end
    closed = piece.end - piece.start > 1 and text[piece.end - 1] == text[piece.start]
    return piece.start + 1, piece.end - closed


def _unescaped(escape: str) -> str:
    return "" if escape == "\\\n" else escape[1:]


def _past_heredocs(text: str, position: int, heredocs: list[tuple[re.Match[str], ShellCommand]]) -> int:
    for mark, command in heredocs:
        ended = re.compile(rf"^\t*{re.escape(mark['mark'])}$", re.MULTILINE).search(text, position)
        command.body = Piece("quoted" if mark["quote"] else "heredoc", position, ended.start() if ended else len(text))
        position = min(len(text), ended.end() + 1) if ended else len(text)
    heredocs.clear()
    return position


class _Blocks:
    """The stack of open blocks while the commands of a script are read in order."""

    def __init__(self) -> None:
        self._open: list[tuple[str, int, int]] = []
        self._chained = 0
        self._defines = False
        self._pattern = False  # the words before the next `)` are a pattern of `case`
        self._closed: tuple[str, int] | None = None
        self.in_background: set[tuple[str, int]] = set()

    def place(self, command: ShellCommand, end: str, offset: int) -> bool:
        """Remove the keywords from a command and set its path. Return False if no command remains.

        end: the operator or newline at `offset` that ends the command.
        """
        self._closed = None if command.words else self._closed
        is_command = self._keywords(command) and not self._pattern
        if end == "&" and not is_command and self._closed:
            self.in_background.add(self._closed)
        if end == "(" and len(command.words) == 1 and is_command:  # name()
            self._defines, is_command = True, False
        command.path = self._path()
        if end == ")" and self._open and self._open[-1][0] == CASE:
            self._next_arm()
            self._pattern = is_command = False
        elif end == ")" and not self._defines:
            self._close((SUBSHELL,))
        elif end == "(" and not self._defines:
            self._open.append((SUBSHELL, offset, 0))
        if end in ("&&", "||"):
            self._chained = offset
        elif end in ("\n", ";", "&") or end.startswith(";;"):
            self._chained = 0
            self._pattern |= end.startswith(";;")
        return is_command

    def _keywords(self, command: ShellCommand) -> bool:
        """Open or close a block for each leading keyword, remove the keywords, and return whether a command remains."""
        keyword_count = 0
        while keyword_count < len(command.words):
            word, offset = command.spellings[keyword_count], command.words[keyword_count][0].start
            if word in _OPENS:
                self._open.append((_OPENS[word], offset, 0))
                self._pattern = word == "case"
                if word in ("for", "select", "case"):
                    return False
            elif word in _NEXT:
                self._next_arm()
            elif word in _CLOSES:
                self._pattern = False
                self._close(_CLOSES[word])
            elif word == "{":
                self._open.append((FUNCTION if self._defines else AND if self._chained else GROUP, offset, 0))
                self._defines = False
            elif word == "function":
                self._defines = True
                keyword_count += 1
            elif word not in _PASSED or any(option[:1] == "-" for option in command.spellings[keyword_count + 1 :][:1]):
                break
            keyword_count += 1
        del command.words[:keyword_count], command.spellings[:keyword_count]
        return bool(command.words)

    def _next_arm(self) -> None:
        if self._open and self._open[-1][0] in (IF, CASE):
            kind, block, arm = self._open[-1]
            self._open[-1] = (kind, block, arm + 1)

    def _close(self, kinds: Sequence[str]) -> None:
        for i in range(len(self._open) - 1, -1, -1):
            if self._open[i][0] in kinds:
                self._closed = self._open[i][:2]
                del self._open[i:]
                return

    def _path(self) -> Path:
        # the condition of an `if` always runs, so it is not inside the block
        path = tuple(block for block in self._open[:_DEEPEST] if block[0] != IF or block[2])
        return (*path, (AND, self._chained, 0)) if self._chained else path
