"""Converts lists of specs with their comments to the lines of a recipe's groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from uenvtool.core.yamltext import comment, indented, scalar, with_comment
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.yaml_comments import Comments
from uenvtool.knowledge.yamltree import Node

_OLD_COMPILER = re.compile(r"%[\w-]+(?:@[\w.:]+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecLine:
    """A spec or variant with the comments above it and on its line. The last one of a list also has those below."""

    text: str
    above: tuple[str, ...] = ()
    remark: str = ""
    below: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return the YAML lines of a list entry."""
        return [
            *(line for text in self.above for line in comment(text)),
            *with_comment(f"- {scalar(self.text)}", self.remark),
            *(line for text in self.below for line in comment(text)),
        ]


def lines_of(comments: Comments, node: Node | None, *, is_old: bool = False) -> list[SpecLine]:
    """Return the entries of a list. is_old: Whether the specs are written for Spack before 1.0."""
    if node is None or not node.value:
        return []
    last, dash = (node.key or node.position).line, node.value[0].position.column - 2
    entries = []
    for entry in node.value:
        number, spec = entry.position.line, str(entry.value)
        above, remark = comments.above(last, number - 1), comments.take(number, number)
        entries.append(SpecLine(text=modern(spec) if is_old else spec, above=above, remark=remark))
        last = number
    entries[-1] = replace(entries[-1], below=comments.below(last, dash))
    return entries


def modern(spec: str) -> str:
    """Return a spec for Spack before 1.0 in the syntax of Spack 1.0.

    Before 1.0, variants after `%COMPILER` belong to the package. In 1.0, they belong to the compiler.
    """
    parts = re.split(r"(?=\^)", spec)
    return " ".join(" ".join([*_OLD_COMPILER.sub(" ", part).split(), *_OLD_COMPILER.findall(part)]) for part in parts)


def grouped_lines(named: Mapping[str, Sequence[SpecLine]], *, is_one: bool) -> Iterator[str]:
    """Yield the groups of root specs. is_one: Whether the environment has one version of each package.

    If so, all lines of a package are joined. Otherwise, they are in separate groups.
    """
    groups: dict[str, dict[str, SpecLine]] = {}
    for name, items in named.items():
        for item in items:
            package, number = parse_spec(item.text).package, 1
            earlier = next((group for group in groups.values() if package in group), None) if is_one else None
            joined = _joined(earlier[package], item) if earlier else None
            if earlier and joined:
                earlier[package] = joined
                continue
            while package in (group := groups.setdefault(name if number == 1 else f"{name}-{number}", {})):
                number += 1
            group[package] = item
    if groups:
        yield "groups:"
    for name, group in groups.items():
        yield from (
            f"  {name}:",
            "    specs:",
            *(line for item in group.values() for line in indented(item.lines(), 4)),
        )


def _joined(line: SpecLine, other: SpecLine) -> SpecLine | None:
    first, second = parse_spec(line.text), parse_spec(other.text)
    if any(first.words[name] != second.words[name] for name in first.words.keys() & second.words.keys()):
        return None
    if first.versions and second.versions and first.versions.text != second.versions.text:
        return None
    remarks = (line.remark, other.remark, "joined from two lines" if line.text != other.text else "")
    text = second.over(first).text
    above, below = (*line.above, *other.above), (*line.below, *other.below)
    return replace(line, text=text, above=above, remark="; ".join(filter(None, remarks)), below=below)
