"""The part of Spack's spec syntax that a recipe uses, read with the column of what is wrong.

    name @versions +variant ~variant name=value %compiler ^dependency

A value can hold a ${fact} of the system, which is filled in before Spack sees it.

Spack itself has the last word when it concretizes; this reader is there so that a slip in a recipe
is reported at its line and column before Spack is started, and so that versions can be compared.
Source: Spack's documentation, "Spec syntax"; compared with Spack's own parser in
tests/real/test_spack_syntax.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from uenvtool.model.version import Versions, versions

_SPACE = re.compile(r"[ \t]+")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_VERSIONS = re.compile(r"@[ \t]*((?:git\.[\w./-]+=)?=?[\w.:\-]+(?:[ \t]*,[ \t]*=?[\w.:\-]+)*)")
_FLAG = re.compile(r"(\+\+|~~|--|\+|~|-)[ \t]*([A-Za-z_0-9][A-Za-z_0-9.-]*)")
_VALUE = re.compile(
    r"([A-Za-z_0-9][A-Za-z_0-9.-]*)(:?==?)[ \t]*"
    r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|(?:[A-Za-z_0-9\-+*.,:=~/\\]|\$\{\w+\})+)"
)
_EDGE = re.compile(r"[%^]{1,2}(?:\[[^\]]*\])?[ \t]*")


class SpecSyntaxError(ValueError):
    """Text that is not a spec; `column` counts from 1 within it."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A dependency that a spec constrains. lead: what stands before the name, such as `^` or `%`."""

    lead: str
    package: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
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
        """The part that is about the package itself: name, version and variants."""
        version = f"@{self.versions}" if self.versions else ""
        return " ".join(filter(None, [f"{self.package}{version}", *self.words.values()]))

    @property
    def dependencies(self) -> str:
        """The part that is about dependencies."""
        return " ".join(edge.text for edge in self.edges)

    def over(self, below: Spec) -> Spec:
        """This spec laid over another of the same package.

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


def parse_spec(text: str) -> Spec:
    """The spec that a text means; SpecSyntaxError if it means none."""
    reader = _Reader(text)
    spec = reader.node(named=False)
    edges = reader.edges()
    if not text.strip():
        raise SpecSyntaxError("the spec is empty", 1)
    return replace(spec, text=_SPACE.sub(" ", text.strip()), edges=edges)


class _Reader:
    """Reads a spec from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.index = 0

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.index)
        if found:
            self.index = found.end()
        return found

    def node(self, *, named: bool) -> Spec:
        """A package name and its constraints, up to an edge or the end."""
        self.match(_SPACE)
        package = ""
        if not _VALUE.match(self.text, self.index):
            name = self.match(_NAME)
            package = name[0] if name else ""
        if named and not package:
            raise SpecSyntaxError("a package name is missing", self.index + 1)
        constraint: Versions | None = None
        variants: dict[str, bool | str] = {}
        words: dict[str, str] = {}
        while self.index < len(self.text):
            start = self.index
            if self.match(_SPACE):
                continue
            if self.text[start] in "%^":
                break
            if self.text[start] == "@":
                if constraint is not None:
                    raise SpecSyntaxError("a second version", start + 1)
                constraint = self.version()
            else:
                name_of_variant = self.variant(variants)
                words[name_of_variant] = self.text[start : self.index]
        return Spec(text="", package=package, versions=constraint, variants=variants, words=words)

    def version(self) -> Versions:
        start = self.index
        match = self.match(_VERSIONS)
        if not match:
            raise SpecSyntaxError("a version is missing behind '@'", start + 2)
        try:
            return versions(match[1])
        except ValueError as error:
            raise SpecSyntaxError(str(error), start + 2) from error

    def variant(self, variants: dict[str, bool | str]) -> str:
        """Read one variant into `variants`; its name."""
        start = self.index
        name: str
        value: bool | str
        if match := self.match(_VALUE):
            name, value = match[1], match[3].strip("\"'")
        elif match := self.match(_FLAG):
            name, value = match[2], match[1][0] == "+"
        else:
            wrong = re.match(r"\S+", self.text[start:])
            raise SpecSyntaxError(f"{wrong[0] if wrong else ''!r} is not part of a spec", start + 1)
        if variants.setdefault(name, value) != value:
            raise SpecSyntaxError(f"the variant {name} has two values", start + 1)
        return name

    def edges(self) -> tuple[Edge, ...]:
        found = []
        while self.index < len(self.text):
            start = self.index
            lead = self.match(_EDGE)
            if not lead:
                raise SpecSyntaxError("expected '%' or '^'", self.index + 1)
            node = self.node(named=True)
            text = _SPACE.sub(" ", self.text[start : self.index].strip())
            found.append(Edge(lead=lead[0].strip(), package=node.package, text=text))
        return tuple(found)
