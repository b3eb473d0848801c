"""Reads files of findings: `findings/*.yaml`, or everything that is wrong in them."""

from __future__ import annotations

from collections.abc import Iterable

from uenvtool.core.errors import BadInput, Problem, unknown
from uenvtool.knowledge.extend import load_extended
from uenvtool.knowledge.finding import FindingFile, Known, KnownFinding, LogFact, LogLine
from uenvtool.knowledge.kinds import FINDINGS
from uenvtool.knowledge.locate import Location, locate
from uenvtool.knowledge.reader import TreeReader, text, texts
from uenvtool.knowledge.sound import elsewhere, sound, twice
from uenvtool.knowledge.source import Node


def load_finding_file(name: str) -> FindingFile:
    """The findings of one file, by its name or path.

    Raises BadInput with every problem found, also for a finding that another file has too, and for one that names
    another that is nowhere.
    """
    file = _load(locate(FINDINGS, name))
    others = elsewhere(FINDINGS, file.name, lambda location: _load(location).findings)
    problems = [*twice(file.findings, others), *_unknown_ids(file.findings.values(), {*file.findings, *others})]
    if problems:
        raise BadInput(problems)
    return file


def load_findings() -> Known:
    """Every finding by id, and every fact by name."""
    files = [_load(location) for location in sound(FINDINGS).values()]
    return Known(
        {name: finding for file in files for name, finding in file.findings.items()},
        {name: fact for file in files for name, fact in file.facts.items()},
    )


def _unknown_ids(findings: Iterable[KnownFinding], known: Iterable[str]) -> list[Problem]:
    return [
        unknown("finding", other, known, finding.position)
        for finding in findings
        for other in finding.hidden_by
        if other not in known
    ]


def _load(location: Location) -> FindingFile:
    return _Reader(load_extended(location, FINDINGS)).file()


class _Reader(TreeReader):
    """Makes findings and facts of a tree."""

    def file(self) -> FindingFile:
        findings = {name: self.finding(name, node) for name, node in self.entries("findings")}
        facts = {name: self.fact(name, node) for name, node in self.entries("facts")}
        self.fail_if_wrong()
        return FindingFile(
            name=self.chain[0].name, description=text(self.tree, "description"), findings=findings, facts=facts
        )

    def finding(self, name: str, node: Node) -> KnownFinding:
        return KnownFinding(
            id=name,
            severity=text(node, "severity"),
            what=text(node, "what"),
            why=text(node, "why"),
            fix=text(node, "fix"),
            source=text(node, "source"),
            position=node.key or node.position,
            command=text(node, "command"),
            workaround=text(node, "workaround"),
            log=self.lines(node, "log"),
            missing=self.lines(node, "missing"),
            when=self.when(node),
            hidden_by=texts(node, "hidden_by"),
            fallback="fallback" in node.value,
        )

    def fact(self, name: str, node: Node) -> LogFact:
        lines = self.lines(node, "log")
        for line, child in zip(lines, node.value["log"].value, strict=True):
            if not line.value and (line.match is None or "value" not in line.match.groupindex):
                self.problem("this line gives no value", child.position, "write `value`, or a group (?P<value>...)")
        return LogFact(name=name, label=text(node, "label"), log=lines)

    def lines(self, node: Node, key: str) -> tuple[LogLine, ...]:
        listed = node.get(key)
        return tuple(self.line(child) for child in (listed.value if listed else ()))

    def line(self, node: Node) -> LogLine:
        patterns = {key: self.pattern(node, key) for key in ("match", "unless", "near", "not_near")}
        return LogLine(text=str(node.value["text"].value), value=text(node, "value"), **patterns)
