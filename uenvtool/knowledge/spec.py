"""Spack's spec syntax, read with the column of what is wrong.

    name @versions +variant ~variant name=value /hash %compiler ^dependency %[when='+x'] c,cxx=gcc

A value can hold a ${fact} of the system, which is filled in before Spack sees it.

Spack itself has the last word when it concretizes; this reader is there so that a slip in a recipe
is reported at its line and column before Spack is started, and so that versions can be compared.
Source: Spack's documentation, "Spec syntax", for Spack 1.1; tests/real/test_spack_syntax.py compares
the verdict on thousands of generated specs with that of Spack's own parser.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from uenvtool.knowledge.version import Versions, versions

_SPACE = re.compile(r"[ \t]+")
_WORD = r"[A-Za-z0-9_][A-Za-z0-9_-]*"
_PACKAGE = rf"{_WORD}(?:\.{_WORD})*"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_BARE = r"(?:[A-Za-z0-9_\-+*.,:=%^~/\\]|\$\{\w+\})+"
_QUOTED = r"'(?:[^']|(?<=\\)')*'|\"(?:[^\"]|(?<=\\)\")*\""
_VERSION = r"=?[A-Za-z0-9_][A-Za-z0-9_.-]*\b"
_RANGE = rf"(?:(?:{_VERSION})?:(?:{_VERSION}(?!\s*=))?|{_VERSION})"
_GIT = r"(?:git\.[A-Za-z0-9_][A-Za-z0-9_./-]*|[A-Fa-f0-9]{40})"
_VIRTUALS = rf"(?:\s*{_WORD}(?:,{_WORD})*=(?P<%s>{_PACKAGE}))?"
"""`c,cxx=gcc`: the package that provides c and cxx."""
_KINDS = {
    "edge_with": r"(?:\^|%%|%)\[",
    "edge_close": r"\]" + _VIRTUALS % "close_package",
    "edge": r"(?:\^|%%|%)" + _VIRTUALS % "edge_package",
    "git": rf"@(?P<git_version>{_GIT}(?:={_VERSION})?)",
    "version": rf"@\s*(?P<versions>{_RANGE}(?:\s*,\s*{_RANGE})*)",
    "flag": rf"(?P<sign>\+\+|~~|--|[~+-])\s*(?P<flag_name>{_NAME})",
    "value": rf"(?P<value_name>{_NAME})(?P<equals>:?==?)(?P<text>{_BARE}|{_QUOTED})",
    "file": r"(?:\.|/|[A-Za-z0-9_-]*/)[A-Za-z0-9_./-]*\.(?:json|yaml)",
    "package": rf"{_PACKAGE}|\*",
    "hash": r"/[A-Za-z0-9_]+",
    "space": r"\s+",
    "other": r"[\s\S]",
}
"""The kinds of tokens, in the order in which Spack tries them."""
_ARCHITECTURE = {"arch", "architecture", "platform", "os", "operating_system", "target"}
_COMPILER_FLAGS = {"cflags", "cxxflags", "fflags", "cppflags", "ldflags", "ldlibs"}
_RESERVED = {*_ARCHITECTURE, "namespace", "patches", "dev_path"}
_EDGE_KEYS = ("deptypes", "virtuals", "when")
_DEPTYPES = {"build", "link", "run", "test", "all"}


class SpecSyntaxError(ValueError):
    """Text that is not a spec. index: of what is wrong in it; `column` counts from 1."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.column = index + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """A dependency that a spec constrains. text: with what stands before the name, such as `^` or `%`."""

    package: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """A package with constraints, as a recipe asks for it.

    text: as written, white space folded. package: the name, or "" for constraints alone.
    versions: what stands behind `@`, or None. variants: name to value (True, False or text).
    words: what stands for each variant, by its name. edges: the `%` and `^` parts behind it.
    """

    text: str
    package: str
    versions: Versions | None = None
    variants: dict[str, bool | str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def own(self) -> str:
        """Return the part that is about the package itself: name, version and variants."""
        version = f"@{self.versions}" if self.versions else ""
        return " ".join(filter(None, [f"{self.package}{version}", *self.words.values()]))

    @property
    def dependencies(self) -> str:
        """Return the part that is about dependencies."""
        return " ".join(edge.text for edge in self.edges)

    def over(self, below: Spec) -> Spec:
        """Return this spec laid over another of the same package.

        Its version, each of its variants and each of its dependencies replace those below; the rest stays.
        """
        spec = Spec(
            text="",
            package=self.package or below.package,
            versions=self.versions or below.versions,
            variants=below.variants | self.variants,
            words=below.words | self.words,
            edges=tuple({edge.package: edge for edge in (*below.edges, *self.edges)}.values()),
        )
        return replace(spec, text=f"{spec.own} {spec.dependencies}".strip())


_Token = re.Match[str]
"""Its last group, which is the outermost one and closed last, is its kind, one of _KINDS."""


@functools.lru_cache(maxsize=1 << 15)  # lists are joined, then read: each spec comes twice
def parse_spec(text: str) -> Spec:
    """Return the spec that a text means.

    Raises:
        SpecSyntaxError: it means none, or several, or a file.
    """
    if not text.strip():
        raise SpecSyntaxError("the spec is empty", 0)
    reader = _Reader(text)
    node = reader.node()
    edges = tuple(reader.edges(node))
    return Spec(
        text=_SPACE.sub(" ", text.strip()),
        package=node.package,
        versions=node.versions,
        variants=node.variants,
        words=node.words,
        edges=edges,
    )


class _Node:
    """A package name and its constraints, as far as they are read."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.versions: Versions | None = None
        self.variants: dict[str, bool | str] = {}
        self.words: dict[str, str] = {}
        self.hash = ""
        self.architecture: set[str] = set()
        self.dependencies: dict[str, _Node] = {}

    def add_dependency(self, node: _Node, index: int) -> None:
        """Note a dependency; one that is asked for twice has to fit both times."""
        known = self.dependencies.setdefault(node.package, node) if node.package else node
        if known is node:
            return
        if known.excludes(node):
            raise SpecSyntaxError(f"{node.package} is asked for twice, and one excludes the other", index)
        known.versions = known.versions or node.versions
        known.variants = {**node.variants, **known.variants}
        known.hash = known.hash or node.hash

    def excludes(self, other: _Node) -> bool:
        """Tell if no package meets both."""
        versions = self.versions and other.versions and not self.versions.intersects(other.versions)
        hashes = self.hash and other.hash and self.hash != other.hash
        flags = any(
            isinstance(value, bool) and other.variants.get(name, value) != value
            for name, value in self.variants.items()
        )
        return bool(versions or hashes or flags)


class _Reader:
    """Reads a spec from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.position = 0

    @property
    def next(self) -> _Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    @property
    def index(self) -> int:
        """Return where the next token begins."""
        return self.next.start() if self.next else len(self.text)

    def accept(self, *kinds: str) -> _Token | None:
        """Return the next token, if it is of one of these kinds."""
        token = self.next
        if token is None or token.lastgroup not in kinds:
            return None
        self.position += 1
        return token

    def node(self, package: str = "") -> _Node:
        """Return a package name, which may be missing or known already, and its constraints."""
        if file := self.accept("file"):
            raise SpecSyntaxError(f"{file[0]!r} is a file, not a spec", file.start())
        if not package and (name := self.accept("package")):
            package = name["package"]
        namespace, _, name_alone = package.rpartition(".")
        node = _Node("" if package == "*" else name_alone)
        if namespace:
            node.words["namespace"] = f"namespace={namespace}"
        while token := self.accept("git", "version", "flag", "value", "hash"):
            _READERS[str(token.lastgroup)](node, token)
        return node

    def edges(self, root: _Node) -> Iterator[Edge]:
        """Yield what follows the first node, to the end."""
        current = root
        while token := self.accept("edge", "edge_with"):
            package = token["edge_package"] if token.lastgroup == "edge" else self.edge_attributes()
            start = self.position
            dependency = self.node(package or "")
            if start == self.position and not package:
                raise SpecSyntaxError("a package name is missing", self.index)
            direct = token[0].startswith("%")
            if token.lastgroup == "edge":
                (current if direct else root).add_dependency(dependency, token.start())
            current = current if direct else dependency
            text = _SPACE.sub(" ", self.text[token.start() : self.index].strip())
            yield Edge(package=dependency.package, text=text)
        if self.next:
            raise _unknown(self.text, self.index)

    def edge_attributes(self) -> str | None:
        """Read the attributes of a dependency; gives the package, if it stands behind `c=` at the bracket's end."""
        while token := self.accept("value"):
            name, value = token["value_name"], token["text"].strip("'\" ")
            if token["equals"] not in ("=", ":=") or name not in _EDGE_KEYS:
                raise SpecSyntaxError(f"{name} is not one of {', '.join(_EDGE_KEYS)}", token.start())
            if name == "deptypes" and not _DEPTYPES.issuperset(value.split(",")):
                raise SpecSyntaxError(f"{value!r} is not one of {', '.join(sorted(_DEPTYPES))}", token.start())
            if name == "when":
                _check_when(value.split(",")[0], token)
        end = self.accept("edge_close")
        if not end:
            raise SpecSyntaxError("expected a name=value or ']'", self.index)
        return end["close_package"]


@functools.cache
def _token_pattern() -> re.Pattern[str]:
    """Return the pattern of a token; it takes milliseconds to compile, and many commands read no spec."""
    return re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))


def _tokens(text: str) -> Iterator[_Token]:
    for match in _token_pattern().finditer(text):
        if match.lastgroup == "other":
            raise _unknown(text, match.start())
        if match.lastgroup != "space":
            yield match


def _unknown(text: str, index: int) -> SpecSyntaxError:
    """Return the error for characters that begin no token."""
    if text[index] == "@":
        return SpecSyntaxError("a version is missing behind '@'", index + 1)
    word = re.match(r"\S+", text[index:])
    return SpecSyntaxError(f"{word[0] if word else ''!r} is not part of a spec", index)


def _check_when(text: str, token: _Token) -> None:
    if not text:
        raise SpecSyntaxError("the condition is empty", token.start())
    try:
        parse_spec(text)
    except SpecSyntaxError as error:
        raise SpecSyntaxError(f"in the condition: {error}", token.start()) from error


def _read_version(node: _Node, token: _Token) -> None:
    if node.versions is not None:
        raise SpecSyntaxError("a second version", token.start())
    try:
        node.versions = versions(token["versions"] or token["git_version"])
    except ValueError as error:
        raise SpecSyntaxError(str(error), token.start() + 1) from error


def _read_flag(node: _Node, token: _Token) -> None:
    _add_variant(node, token, token["flag_name"], token["sign"][0] == "+")


def _read_value(node: _Node, token: _Token) -> None:
    name, text = token["value_name"], token["text"]
    if token["equals"].endswith("==") and name in _RESERVED:
        raise SpecSyntaxError(f"{name} cannot be handed on by '=='", token.start())
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    value = text[1:-1].replace(f"\\{text[0]}", text[0]) if quoted else text
    if value != "*" and "*" in value.split(","):
        raise SpecSyntaxError("'*' stands for any value, and for itself alone", token.start())
    if name in _COMPILER_FLAGS or name == "namespace":
        before = name in node.variants
        node.variants[name] = f"{node.variants[name]} {value}" if before else value
        node.words[name] = f"{node.words[name]} {token[0]}" if before else token[0]
    else:
        _add_variant(node, token, name, value)


def _add_variant(node: _Node, token: _Token, name: str, value: bool | str) -> None:
    if name in _ARCHITECTURE:
        _take_architecture(node, token, name, str(value))
    elif name in node.variants:
        raise SpecSyntaxError(f"the variant {name} stands here twice", token.start())
    node.variants[name] = value
    node.words[name] = token[0]


def _take_architecture(node: _Node, token: _Token, name: str, value: str) -> None:
    """Note which parts of the architecture are set: `arch=` sets the target, or all of platform-os-target."""
    whole = name in ("arch", "architecture")
    part = name.replace("operating_system", "os")
    if node.architecture & ({"platform", "os", "target"} if whole else {part}):
        raise SpecSyntaxError("a second architecture", token.start())
    parts = {"platform", "os", "target"} if value.count("-") == 2 else {"target"}
    node.architecture |= parts if whole else {part}


def _read_hash(node: _Node, token: _Token) -> None:
    if node.hash:
        raise SpecSyntaxError("a second hash", token.start())
    node.hash = node.words["/"] = token["hash"]


_READERS = {
    "git": _read_version,
    "version": _read_version,
    "flag": _read_flag,
    "value": _read_value,
    "hash": _read_hash,
}
