"""Renderer of an examination: one line per finding, all details with --verbose, or the commands of --fix."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from uenvtool.core import quoting
from uenvtool.core.errors import ExitCode
from uenvtool.core.result import Result, Table
from uenvtool.doctor.finding import Examination, Finding, worst_first
from uenvtool.doctor.log.tail import shortened
from uenvtool.doctor.log.traceback import FINALLY
from uenvtool.doctor.plot import table
from uenvtool.doctor.request import DoctorRequest
from uenvtool.knowledge.finding import BROKEN, NOTE, RISK, SLOW, KnownFinding
from uenvtool.knowledge.kinds import FINDINGS
from uenvtool.knowledge.load import skipped_file_notes
from uenvtool.knowledge.tuning import load_all

HEADINGS = ("severity", "finding", "what and where")
COLOURS = {BROKEN: "red", SLOW: "yellow", RISK: "yellow", NOTE: "dim"}
MOST_LINES, FEWEST_LINES = 15, 6
"""The maximum number of findings, so that the output fits a screen of 24 lines, also together with a network test.
If there are more than FEWEST_LINES rows, each is cut to one line."""
MOST_DETAIL = 160
_RAISED_AT = re.compile(r" at \S{1,60}:\d+(?: in \S{1,40})?$")
"""Matches the place at the end of a detail. A shortened detail keeps this place."""


def report(examination: Examination, request: DoctorRequest, *, what: str, notes: Iterable[str]) -> Result:
    """Return the output of doctor. The exit code is NO if a finding is more than a note.

    what: the name of the examined input in the output.
    notes: messages about written files.
    """
    findings = worst_first(_with_commands(finding, request.system) for finding in examination.findings)
    data = {
        "findings": [finding.data() for finding in findings],
        "facts": dict(examination.facts),
        "quotes": [{"place": place, "text": text} for place, text in examination.quotes],
        "unseen": list(examination.unseen),
        **({"runs": [run.data() for run in examination.runs]} if examination.runs else {}),
    }
    extra_tables = (*(table(run, whole=request.verbose) for run in examination.runs), *_quoted(examination))
    code = ExitCode.NO if any(finding.known.severity != NOTE for finding in findings) else ExitCode.DONE
    if request.fix:
        notes = () if findings else tuple(_closing(examination, what, False))
        return Result(data=data, file="\n".join(_fix_lines(findings)), notes=notes, exit_code=code)
    head = [
        *(_fact(name, value, request) for name, value in examination.facts),
        *_closing(examination, what, bool(findings)),
    ]
    if request.verbose:
        text = "\n\n".join(filter(None, ["\n".join(head), *map(_whole, findings)]))
        skipped = skipped_file_notes(FINDINGS)
        return Result(data=data, text=text, tables=extra_tables, notes=(*skipped, *notes), exit_code=code)
    most = max(MOST_LINES - sum(len(extra.rows) + 2 for extra in extra_tables), FEWEST_LINES)
    rows = [(finding.known.severity, finding.known.id, line_of(finding)) for finding in findings[:most]]
    rows[1:1] = [row for finding in findings[:1] for row in _answer(finding)]
    more = [f"{len(findings) - most} more findings; --verbose prints all"] if len(findings) > most else []
    hint = ["--verbose prints reasons and sources; --fix prints the commands of all findings"] if findings else []
    links = {finding.known.id: finding.known.page for finding in findings}
    shown = Table(headings=HEADINGS, rows=rows, colours=COLOURS, links=links, cut=len(rows) > FEWEST_LINES)
    return Result(
        data=data,
        text="\n".join(head),
        tables=(*([shown] if findings else []), *extra_tables),
        notes=(*skipped_file_notes(FINDINGS), *more, *hint, *notes),
        exit_code=code,
    )


def _fact(name: str, value: str, request: DoctorRequest) -> str:
    return f"{name}: {value if request.verbose else shortened(value, MOST_DETAIL)}"


def _answer(finding: Finding) -> Iterator[tuple[str, str, str]]:
    """Yield the rows below the first finding: the advice in the log, the fix, and the command to paste."""
    if finding.advice:
        yield "", "log says", finding.advice
    yield "", "fix", finding.known.fix
    if finding.commands and finding.known.severity != NOTE:
        yield "", "paste", "; ".join(finding.commands)


def _quoted(examination: Examination) -> Iterator[Table]:
    """Yield a table of the quoted log lines with their numbers and, if there are several logs, their names."""
    # after the table of a network test, only one more line fits on a screen
    shown = examination.quotes[:1] if examination.runs else examination.quotes
    places = [(*place.rpartition(":"), text) for place, text in shown]
    is_one = len({log for log, *_ in places}) == 1
    if places:
        rows = [(line if is_one else f"{log}:{line}", text) for log, _, line, text in places]
        yield Table(headings=("line", "text"), rows=rows)


def _closing(examination: Examination, what: str, is_wrong: bool) -> Iterable[str]:
    """Return a line that states whether problems were found and which checks were skipped, if it has content."""
    amount = f" ({examination.looked_at})" if examination.looked_at else ""
    parts = [line.partition(": ") for line in examination.unseen]
    skipped = ", ".join(f"{check} ({why})" if why else check for check, _, why in parts)
    nothing = "warnings but no failure found" if examination.quotes else "no problems found"
    nothing = nothing if examination.has_end else "no failure found, and no end of the run,"
    opening = [] if is_wrong else [f"{nothing} in {what}{amount}"]
    line = "; ".join([*opening, *([f"skipped: {skipped}"] if skipped else [])])
    return [line] if line else []


def line_of(finding: Finding) -> str:
    """Return the problem of a finding, the observation and the location in one line."""
    detail = _shortened_detail(finding.detail)
    what = f"{finding.known.what}: {detail}" if detail else finding.known.what
    return ", ".join(filter(None, [what, finding.where, finding.place]))


def _shortened_detail(detail: str) -> str:
    """Return a detail with at most MOST_DETAIL characters, with both exceptions of a chain and the last place."""
    first, finally_, last = detail.rpartition(FINALLY) if len(detail) > MOST_DETAIL else ("", "", detail)
    begin = shortened(_RAISED_AT.sub("", first), MOST_DETAIL // 2) + finally_
    at = match[0] if (match := _RAISED_AT.search(last)) else ""
    return begin + shortened(last.removesuffix(at), MOST_DETAIL - len(begin) - len(at)) + at


def _whole(finding: Finding) -> str:
    known = finding.known
    parts = {
        "where": ", ".join(filter(None, [finding.place, finding.where])),
        "line": finding.text,
        "seen": f"{finding.count} times" if finding.count > 1 else "",
        "why": known.why,
        "log says": finding.advice,
        "fix": known.fix,
        "paste": f"`{'; '.join(finding.commands)}`" if finding.commands else "",
        "source": known.source,
        "page": known.page,
    }
    title = f"{known.severity}: {known.what}" + (f": {finding.detail}" if finding.detail else "") + f"  [{known.id}]"
    return "\n".join([title, *(f"  {name + ':':<10}{text}" for name, text in parts.items() if text)])


def _fix_lines(findings: Iterable[Finding]) -> Iterable[str]:
    given: set[str] = set()
    for finding in findings:
        printable = filter(str.isprintable, " ".join(line_of(finding).split()))  # the line stays one comment
        yield f"# {finding.known.severity}: {''.join(printable)}"
        commands = [command for command in finding.commands if command not in given]
        given.update(commands)
        yield from commands or [f"# {quoting.comment(finding.known.fix)}"]


def _with_commands(finding: Finding, system: str | None) -> Finding:
    if finding.commands:
        return finding
    known = finding.known
    commands = tuple(f"export {name}={quoting.sh(value)}" for name, value in settings_of(known))
    with_system = f"uenvtool activate --system {system}" if system else "uenvtool activate"
    command = known.command.replace("uenvtool activate", with_system)
    return dataclasses.replace(finding, commands=commands or ((command,) if command else ()))


def settings_of(known: KnownFinding) -> list[tuple[str, str]]:
    """Return the variables and values of the workaround that fixes a finding."""
    if known.workaround is None:
        return []
    return [(setting.name, setting.value or "") for setting in load_all().workarounds[known.workaround.name].settings]
