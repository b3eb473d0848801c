"""A spec taken apart: its package, its version, its variants, and what it says of dependencies.

    name @versions +variant ~variant name=value /hash %compiler ^dependency %[when='+x'] c,cxx=gcc

A value can hold a ${fact} of the system, which is filled in before Spack sees it. What is no such part is told with its
column; whether the parts make sense together is Spack's to say. Nothing that Spack takes is refused here.
Source: Spack's documentation, "Spec syntax", for Spack 1.1; tests/real/test_spack_syntax.py asks Spack itself.
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
"""`c,cxx=` before the package that provides c and cxx."""
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

    text: as written, white space folded. package: the name, or "" for constraints alone. versions: what stands behind
    `@`, or None. words: what stands for each variant, by its name. edges: the `%` and `^` parts behind it.
    """

    text: str
    package: str
    versions: Versions | None = None
    words: dict[str, str] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def own(self) -> str:
        """The part that is about the package itself: name, version and variants."""
        version = f"@{self.versions}" if self.versions else ""
        return " ".join(filter(None, [f"{self.package}{version}", *self.words.values()]))

    @property
    def dependencies(self) -> str:
        """The part that is about dependencies."""
        return " ".join(edge.text for edge in self.edges)

    def over(self, below: Spec) -> Spec:
        """Return this spec laid over another of the same package.

        Its version, each of its variants and each of its dependencies replace those below; the rest stays.
        """
        spec = Spec(
            text="",
            package=self.package or below.package,
            versions=self.versions or below.versions,
            words=below.words | self.words,
            edges=tuple({edge.package: edge for edge in (*below.edges, *self.edges)}.values()),
        )
        return replace(spec, text=f"{spec.own} {spec.dependencies}".strip())


@functools.lru_cache(maxsize=1 << 15)  # lists are joined, then read: each spec comes twice
def parse_spec(text: str) -> Spec:
    """Return the spec that a text means. Raises SpecSyntaxError if a part of it is none of a spec's."""
    if not text.strip():
        raise SpecSyntaxError("the spec is empty", 0)
    parts = list(_parts(text))
    starts = [index for index, part in enumerate(parts) if part.lastgroup == "edge"]
    own = parts[: starts[0]] if starts else parts
    package, constraint, words = _node(own)
    edges = []
    for start, end in itertools.pairwise([*starts, len(parts)]):
        needed, last = parts[start + 1 : end], parts[end - 1]
        if not needed:
            raise SpecSyntaxError("a package name is missing", parts[start].end())
        name, _, _ = _node(needed)
        edges.append(Edge(package=name, text=_SPACE.sub(" ", text[parts[start].start() : last.end()])))
    return Spec(
        text=_SPACE.sub(" ", text.strip()), package=package, versions=constraint, words=words, edges=tuple(edges)
    )


def _parts(text: str) -> Iterator[re.Match[str]]:
    """Yield the parts of a spec; the last group of each names its kind."""
    index = 0
    while index < len(text):
        part = _PART.match(text, index)
        if part is None:
            if text[index] == "@":
                raise SpecSyntaxError("a version is missing behind '@'", index + 1)
            raise _unknown_part(text, index)
        if part.lastgroup != "space":
            yield part
        index = part.end()


def _unknown_part(text: str, index: int) -> SpecSyntaxError:
    word = re.match(r"\S+", text[index:])
    return SpecSyntaxError(f"{word[0] if word else ''!r} is not part of a spec", index)


def _node(parts: list[re.Match[str]]) -> tuple[str, Versions | None, dict[str, str]]:
    package = ""
    constraint: Versions | None = None
    words: dict[str, str] = {}
    for index, part in enumerate(parts):
        match part.lastgroup:
            case "package":
                if index > 0:
                    raise _unknown_part(part.string, part.start())
                package = "" if part[0] == "*" else part[0]
            case "versions" | "git":
                if constraint is not None:
                    raise SpecSyntaxError("a second version", part.start())
                constraint = _versions(part)
            case "hash":
                words["/"] = part[0]
            case _:
                name = part["flag"] or part["value"]
                if name in words and name not in _MAY_BE_TWICE:
                    raise SpecSyntaxError(f"the variant {name} stands here twice", part.start())
                words[name] = f"{words[name]} {part[0]}" if name in words else part[0]
    return package, constraint, words


def _versions(part: re.Match[str]) -> Versions:
    try:
        return versions(part["versions"] or part["git"])
    except ValueError as error:
        raise SpecSyntaxError(str(error), part.start() + 1) from error
