"""Parses a spec into its package, its version, its variants and its dependencies.

    name @versions +variant ~variant name=value /hash %compiler ^dependency %[when='+x'] c,cxx=gcc

A value can contain a ${fact} of the system, which is filled in before Spack reads the spec. A text that is not part of
a spec is reported with its column. Spack checks whether the parts are consistent. Every spec that Spack accepts is
accepted here. Source: Spack's documentation, "Spec syntax", for Spack 1.1. tests/real/test_spack_syntax.py compares the
parser with Spack.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from uenvtool.knowledge.version import Versions, versions

_SPACE = re.compile(r"[ \t]+")
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_BARE = r"(?:[A-Za-z0-9_\-+*.,:=%^~/\\]|\$\{\w+\})+"
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_VERSION = r"=?[A-Za-z0-9_][A-Za-z0-9_.-]*\b"
_RANGE = rf"(?:(?:{_VERSION})?:(?:{_VERSION}(?!\s*=))?|{_VERSION})"
_VIRTUALS = r"(?:[A-Za-z0-9_-]+(?:,[A-Za-z0-9_-]+)*=(?=\w))?"
"""The prefix `c,cxx=` of a package that provides c and cxx."""
_PART = re.compile(
    rf"""
      (?P<edge>(?:\^|%%|%)(?:\[(?:{_QUOTED}|[^\]'"])*\])?\s*{_VIRTUALS})
    | @(?P<git>(?:git\.[A-Za-z0-9_][\w./-]*|[A-Fa-f0-9]{{40}})(?:={_VERSION})?)
    | @\s*(?P<versions>{_RANGE}(?:\s*,\s*{_RANGE})*)
    | (?:\+\+|~~|--|[~+-])\s*(?P<flag>{_NAME})
    | (?P<value>{_NAME}):?==?(?:{_BARE}|{_QUOTED})
    | (?P<package>{_NAME}|\*)
    | (?P<hash>/[A-Za-z0-9_]+)
    | (?P<space>\s+)
    """,
    re.VERBOSE,
)
_MAY_BE_TWICE = {"namespace", "cflags", "cxxflags", "fflags", "cppflags", "ldflags", "ldlibs"}


class SpecSyntaxError(ValueError):
    """The error for a text that is not a valid spec. `column` is the column of the error and counts from 1."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.column = index + 1


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency that a spec constrains. text: The dependency with its prefix, such as `^` or `%`."""

    package: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """A package with constraints, as a recipe requests it.

    text: The spec as written, with folded white space.
    package: The name, or an empty string if there are only constraints.
    versions: The version constraint after `@`, or None.
    words: The tokens that set each variant, by variant name.
    edges: The `%` and `^` parts.
    """

    text: str
    package: str
    versions: Versions | None = None
    words: dict[str, str] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def without_dependencies(self) -> str:
        """The package's own part of the spec: name, version and variants."""
        version = f"@{self.versions}" if self.versions else ""
        return " ".join(filter(None, [f"{self.package}{version}", *self.words.values()]))

    @property
    def dependencies(self) -> str:
        """The `%` and `^` parts of the spec as one text."""
        return " ".join(edge.text for edge in self.edges)

    def over(self, below: Spec) -> Spec:
        """Return this spec merged with an inherited spec of the same package. Parts of this spec take precedence."""
        spec = Spec(
            text="",
            package=self.package or below.package,
            versions=self.versions or below.versions,
            words=below.words | self.words,
            edges=tuple({edge.package: edge for edge in (*below.edges, *self.edges)}.values()),
        )
        return replace(spec, text=f"{spec.without_dependencies} {spec.dependencies}".strip())


@functools.lru_cache(maxsize=1 << 15)  # each spec is parsed twice: once to join lists and once to read them
def parse_spec(text: str) -> Spec:
    """Return the spec in a text. Raises SpecSyntaxError if a part of the text is not valid in a spec."""
    if not text.strip():
        raise SpecSyntaxError("the spec is empty", 0)
    parts = list(_parts(text))
    starts = [index for index, part in enumerate(parts) if part.lastgroup == "edge"]
    package, constraint, tokens = _node(parts[: starts[0]] if starts else parts)
    edges = []
    for start, end in itertools.pairwise([*starts, len(parts)]):
        needed, last = parts[start + 1 : end], parts[end - 1]
        if not needed:
            raise SpecSyntaxError("a package name is missing", parts[start].end())
        edges.append(Edge(_node(needed)[0], _SPACE.sub(" ", text[parts[start].start() : last.end()])))
    return Spec(
        text=_SPACE.sub(" ", text.strip()), package=package, versions=constraint, words=tokens, edges=tuple(edges)
    )


def _parts(text: str) -> Iterator[re.Match[str]]:
    index = 0
    while index < len(text):
        part = _PART.match(text, index)
        if part is None:
            if text[index] == "@":
                raise SpecSyntaxError("the version after '@' is missing", index + 1)
            raise _unknown_part(text, index)
        if part.lastgroup != "space":
            yield part
        index = part.end()


def _unknown_part(text: str, index: int) -> SpecSyntaxError:
    return SpecSyntaxError(f"{text[index:].split(maxsplit=1)[0]!r} is not valid in a spec", index)


def _node(parts: list[re.Match[str]]) -> tuple[str, Versions | None, dict[str, str]]:
    package = ""
    constraint: Versions | None = None
    tokens: dict[str, str] = {}
    for index, part in enumerate(parts):
        match part.lastgroup:
            case "package":
                if index > 0:
                    raise _unknown_part(part.string, part.start())
                package = "" if part[0] == "*" else part[0]
            case "versions" | "git":
                if constraint is not None:
                    raise SpecSyntaxError("the spec has a second version", part.start())
                constraint = _versions(part)
            case "hash":
                tokens["/"] = part[0]
            case _:
                name = part["flag"] or part["value"]
                if name in tokens and name not in _MAY_BE_TWICE:
                    raise SpecSyntaxError(f"the spec sets the variant {name!r} twice", part.start())
                tokens[name] = f"{tokens[name]} {part[0]}" if name in tokens else part[0]
    return package, constraint, tokens


def _versions(part: re.Match[str]) -> Versions:
    try:
        return versions(part["versions"] or part["git"])
    except ValueError as error:
        raise SpecSyntaxError(str(error), part.start() + 1) from error
