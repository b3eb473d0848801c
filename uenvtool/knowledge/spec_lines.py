"""Lists of specs with the comments that say why each is there, as lines of a recipe's groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from uenvtool.core.yamltext import comment, indented, scalar, with_comment
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.yamltree import Node

_OLD_COMPILER = re.compile(r"%[\w-]+(?:@[\w.:]+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class SpecLine:
    """A spec, or a variant, with the comments above and beside it."""

    text: str
    above: tuple[str, ...] = ()
    beside: str = ""

    def lines(self) -> list[str]:
        """Return it as an entry of a list."""
        return [
            *(line for one in self.above for line in comment(one)),
            *with_comment(f"- {scalar(self.text)}", self.beside),
        ]


def lines_of(text: str, node: Node | None, *, is_old: bool = False) -> list[SpecLine]:
    """Return the entries of a list in a YAML text. is_old: they are written for Spack before 1.0."""
    if node is None or not node.value:
        return []
    lines, last = text.splitlines(), (node.key or node.position).line
    found = []
    for entry in node.value:
        at, spec = entry.position.line, str(entry.value)
        above = (line.strip().lstrip("# ") for line in lines[last : at - 1] if line.strip().startswith("#"))
        behind = re.search(r"\s#\s*(.*)$", lines[at - 1][entry.position.column :]) if at != last else None
        found.append(
            SpecLine(
                text=modern(spec) if is_old else spec,
                above=tuple(filter(None, above)),
                beside=behind[1] if behind else "",
            )
        )
        last = at
    return found


def modern(spec: str) -> str:
    """Return a spec of Spack before 1.0, where variants behind `%COMPILER` are the package's own, as 1.0 reads it."""
    parts = re.split(r"(?=\^)", spec)
    return " ".join(" ".join([*_OLD_COMPILER.sub(" ", part).split(), *_OLD_COMPILER.findall(part)]) for part in parts)


def grouped_lines(named: Mapping[str, Sequence[SpecLine]], *, is_one: bool) -> Iterator[str]:
    """Yield the groups of root specs.

    is_one: there is one version of each package, so that lines of one are joined; else they go into groups apart.
    """
    found: dict[str, dict[str, SpecLine]] = {}
    for name, items in named.items():
        for item in items:
            package, number = parse_spec(item.text).package, 1
            before = next((group for group in found.values() if package in group), None) if is_one else None
            joined = _joined(before[package], item) if before else None
            if before and joined:
                before[package] = joined
                continue
            while package in (group := found.setdefault(name if number == 1 else f"{name}-{number}", {})):
                number += 1
            group[package] = item
    if found:
        yield "groups:"
    for name, group in found.items():
        yield from (
            f"  {name}:",
            "    specs:",
            *(line for item in group.values() for line in indented(item.lines(), 4)),
        )


def _joined(one: SpecLine, other: SpecLine) -> SpecLine | None:
    """Return two lines of one package as one, which is what Spack makes of them; None if they contradict each other."""
    first, second = parse_spec(one.text), parse_spec(other.text)
    if any(first.words[name] != second.words[name] for name in first.words.keys() & second.words.keys()):
        return None
    if first.versions and second.versions and first.versions.text != second.versions.text:
        return None
    remarks = (one.beside, other.beside, "of two lines there" if one.text != other.text else "")
    text = second.over(first).text
    return replace(one, text=text, above=(*one.above, *other.above), beside="; ".join(filter(None, remarks)))
