"""The blocks (branches, loops, functions and subshells) that enclose each command of a script."""

from __future__ import annotations

from collections.abc import Sequence

from uenvtool.check.parts import Path, ShellCommand

IF, LOOP, CASE, GROUP, FUNCTION, SUBSHELL, AND = "if", "loop", "case", "group", "function", "subshell", "and"
_OPENS = {"if": IF, "while": LOOP, "until": LOOP, "for": LOOP, "select": LOOP, "case": CASE}
_CLOSES = {"fi": (IF,), "done": (LOOP,), "esac": (CASE,), "}": (GROUP, FUNCTION, AND)}
DEEPEST = 50
"""The maximum nesting depth that a path records; deeper blocks count as part of the last recorded one."""
_NEXT = frozenset(("then", "elif", "else"))
_PASSED = frozenset(("!", "time", "do", "exec", "nohup", "command"))
"""Words that may precede a command in the same block."""


class Blocks:
    """The stack of open blocks while the commands of a script are read in order."""

    def __init__(self) -> None:
        self._open: list[tuple[str, int, int]] = []
        self._chained = 0
        self._defines = False
        self._pattern = False  # the words before the next `)` are a pattern of `case`

    def place(self, command: ShellCommand, end: str, offset: int) -> bool:
        """Remove the keywords from a command and set its path. Return False if no command remains.

        end: the operator or newline that ends the command.
        offset: the position of `end`.
        """
        is_command = self._keywords(command) and not self._pattern
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
        """Open and close blocks for the leading keywords, remove them, and return whether a command remains."""
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
            elif word not in _PASSED:
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
                del self._open[i:]
                return

    def _path(self) -> Path:
        """Return the enclosing blocks. The condition of an `if` is not inside it, because it always runs."""
        path = tuple(block for block in self._open[:DEEPEST] if block[0] != IF or block[2])
        return (*path, (AND, self._chained, 0)) if self._chained else path
