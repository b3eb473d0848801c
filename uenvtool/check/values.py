"""Expands words and numbers in a batch script with the variables that have only one value."""

from __future__ import annotations

import ast
import contextlib
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from uenvtool.check.parts import OUTER, Part
from uenvtool.check.shell import AND, CASE, IF, LOOP

_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)(?::?[-=]([^}]*))?\}?")
_ALL = re.compile(r"\$\{([A-Za-z_]\w*)(?:\[[@*]\]|:?-([^${}]*))?\}|\$([A-Za-z_]\w*)")
_FOUND = re.compile(r"\$\((?:which|command -v|type -P) ([\w.-]+)\)")
"""A command substitution that returns the path of a program."""
_UNKNOWN = "$_"
"""A word for text that only one branch of the script adds to a value."""
OPERATORS = frozenset(";&|<>`\n")
"""Characters that make the value of a variable more than one command."""
_MOST_WORDS = 500
"""The number of words of a command that are expanded. A command that starts a training program has far fewer."""
_MOST_CHARACTERS = 2_000
"""The maximum length of a value that can grow."""


_CALCULATION = re.compile(r"\$\(\((.*)\)\)|\$\(expr (.*)\)", re.DOTALL)
_OPERAND = re.compile(r"\$\{#(\w+)\[[@*]\]\}|\$?\{?\b([A-Za-z_]\w*)\}?")
_ARITHMETIC = re.compile(r"(?!.*(\d\s*\(|\)\s*[\d(]|\d\s+\d))[\d\s()+*/%-]+", re.DOTALL)
_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", re.DOTALL)
_ELEMENT = re.compile(rf"(?:{_QUOTED.pattern}|\\.|[^\s\"'])+", re.DOTALL)
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_SEVERAL = re.compile(r"[$`{*?]|^\[")
"""Characters outside quotes with which one word can become several elements, or an element can have any index."""


def _result(node: ast.expr) -> int:
    """Return the value of an expression. Raises KeyError for an unknown operation."""
    if isinstance(node, ast.BinOp):
        return _OPERATIONS[type(node.op)](_result(node.left), _result(node.right))
    return -_result(node.operand) if isinstance(node, ast.UnaryOp) else int(ast.literal_eval(node))


class Values:
    """The variables of a script that have only one value.

    known: the numbers that Slurm will set in the job, by variable.
    functions: the command that a function runs with its arguments, by the name of the function.
    scripts: the values that contain several commands, each with the offset of each character, by variable.
    """

    def __init__(self, variables: Iterable[Part]) -> None:
        self._by_name: dict[str, str | None] = {}
        self.known: dict[str, int | None] = {}
        self.functions: dict[str, tuple[str, ...]] = {}
        self.scripts: dict[str, tuple[str, Sequence[int]]] = {}
        for part in variables:
            self.assign(part)

    def assign(self, part: Part) -> None:
        """Record an assignment. A variable that gets several values is unknown, but a value can grow."""
        name, text, before = part.name, part.text, self._by_name.get(part.name)
        itself = (f"${name} ", f"${{{name}}} ", f'("${{{name}[@]}}" ')
        own = next((form for form in itself if text.startswith(form)), "")
        if name not in self._by_name or before == text:
            self._by_name[name] = None if part.appends or own else text
        elif before is None or not (part.appends or own) or len(before) > _MOST_CHARACTERS:
            self._by_name[name] = None
        else:
            is_array = before[-1:] == ")" and text[:1] == "("
            is_sure = part.around.isdisjoint((IF, CASE, LOOP, AND))
            added = text[len(own) or is_array : len(text) - is_array] if is_sure else _UNKNOWN
            end = len(before) - is_array
            self._by_name[name] = f"{before[:end]}{' ' if own or is_array else ''}{added}{before[end:]}"

    def command(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return a command with its first word expanded, if this is a variable, `eval` or a function (`functions`)."""
        first, rest = argv[0], argv[1:]
        if first in self.functions:
            words: Sequence[str] = self.functions[first]
        elif first == "eval":
            words, rest = self.expanded(" ".join(rest).split()), ()
        else:
            words = self.expanded((first,)) if first[:1] in ("$", OUTER) else ()
        is_known = words and re.match(r"[\w./~]", words[0]) and OPERATORS.isdisjoint("".join(words))
        return (*words, *rest) if is_known else argv

    def script(self, text: str) -> tuple[str, Sequence[int]] | None:
        """Return the script in the variable of which a text consists, or None."""
        name = _ALL.fullmatch(text.replace(OUTER, "$"))
        is_known = name and self._by_name.get(name[1] or name[3]) is not None
        return self.scripts.get(name[1] or name[3]) if name and is_known else None

    def number(self, text: str, depth: int = 0) -> int | None:
        """Return the number to which a text expands, or None if it is unknown."""
        text = text.strip("\"' ")
        if text.isdecimal():
            return int(text) if len(text) < 10 else None
        if calculation := _CALCULATION.fullmatch(text.replace(OUTER, "$")):
            return self.calculated(calculation[1] or calculation[2].replace("\\*", "*"), depth)
        name = _NAME.fullmatch(text.replace(OUTER, "$"))
        if name is None or depth > 4:
            return None
        if name[1] in self.known:
            return self.known[name[1]]
        value = self._by_name.get(name[1], name[2])
        return self.number(value, depth + 1) if value is not None else None

    def calculated(self, text: str, depth: int = 0) -> int | None:
        """Return the result of an arithmetic expression of bash, or None if a part of it is unknown."""

        def digits(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            number = len(self.elements(match[1]) or ()) if match[1] else self.number(f"${name}", depth + 1)
            return "?" if number is None else f" {number} "

        plain = _OPERAND.sub(digits, text) if depth < 4 and len(text) < _MOST_CHARACTERS else ""
        plain = plain.replace("$((", "(").replace("))", ")") if "$((" in plain else plain
        if not _ARITHMETIC.fullmatch(plain):
            return None
        with contextlib.suppress(SyntaxError, ValueError, ArithmeticError, RecursionError, KeyError):
            return _result(ast.parse(plain.strip().replace("/", "//"), mode="eval").body)
        return None

    def elements(self, name: str) -> list[str] | None:
        """Return the elements of an array, or None if their number is unknown."""
        text = self._by_name.get(name) or ""
        found = _ELEMENT.findall(_COMMENT.sub("", text[1:-1]))
        is_known = text[:1] == "(" and not any(_SEVERAL.search(_QUOTED.sub("", element)) for element in found)
        return found if is_known and not re.search(r"\[[@*]\]", text) else None

    def expanded(self, words: Sequence[str], depth: int = 0) -> tuple[str, ...]:
        """Return the words. The words of its value replace a word that consists of one variable."""
        expansion: list[str] = []
        for word in words[:_MOST_WORDS]:
            name = _ALL.fullmatch(word.replace(OUTER, "$")) if word[:1] in ("$", OUTER) else None
            value = self._by_name.get(name[1] or name[3], name[2]) if name else None
            if name and name[2] and value == word:  # NAME=${NAME:-DEFAULT}
                value = name[2]
            if value is None or depth > 3:
                expansion.append(word)
            else:
                listed = value[1:-1] if value.startswith("(") and value.endswith(")") else _FOUND.sub(r"\1", value)
                # an arithmetic or command substitution is one word
                shares = [listed] if listed.startswith(("$(", "`")) else listed.split()
                expansion += self.expanded([share.strip("\"'") for share in shares], depth + 1)
        return tuple(expansion[:_MOST_WORDS])
