"""Writes the generated parts of docs/: `python tools/pages.py`.

Each part is between two comments of its page: the list of commands, and the Slingshot variables with the values that
sites recommend and uenvtool sets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from uenvtool.cli import READERS, contexts
from uenvtool.core.words import grouped
from uenvtool.knowledge.sources import load_sources
from uenvtool.knowledge.tuning import Setting, TunedVariable, Tuning, Value, load_all

DOCS = Path(__file__).resolve().parents[1] / "docs"
EVERYWHERE = "fabric == slingshot"
"""The condition of the settings that belong to Slingshot."""
GROUPS = {"NCCL": "NCCL and RCCL", "FI": "libfabric", "HSA": "ROCm"}
"""The headings of the Slingshot variables, by the first part of the variable's name."""


WORD = re.compile(r"(?!(?:libfabric|memhooks)\b)[a-z]+[ ']")
"""A word at the beginning of a text that begins a sentence with a capital letter: not a name."""


class Part(NamedTuple):
    """A generated part of a page: its name, its page, and the function that yields its lines."""

    name: str
    page: str
    lines: Callable[[], Iterator[str]]

    def text(self) -> str:
        """Return the text of the page with this part generated again."""
        begin, end = f"<!-- {self.name}: made by `python tools/pages.py` -->\n\n", "\n<!-- end -->\n"
        before, _, rest = (DOCS / self.page).read_text(encoding="utf-8").partition(begin)
        return before + begin + "".join(f"{line}\n" for line in self.lines()) + end + rest.partition(end)[2]


def commands() -> Iterator[str]:
    """Yield a table for each kind of reader, with one row per command and subcommand."""
    known = {context.command_path.removeprefix("uenvtool "): context for context in contexts()}
    for reader, named in READERS.items():
        yield from (f"**{reader}**", "", _row(["command", "what it does"]), _row(["---"] * 2))
        for path, context in known.items():
            if path.partition(" ")[0] in named and not getattr(context.command, "commands", None):
                words = " ".join([path, *context.command.collect_usage_pieces(context)[1:]])
                yield _row([f"`uenvtool {words}`", context.command.get_short_help_str(limit=200)])
        yield ""


def slingshot() -> Iterator[str]:
    """Yield a section for each group of Slingshot variables that a site recommends, and the list of the sources."""
    tuning, sources = load_all(), load_sources()
    sites = grouped((source.site, name) for name, source in reversed(sources.items()) if source.site)
    names = {name for site in sites.values() for name in site}
    for group, variables in grouped(
        (GROUPS[variable.name.partition("_")[0]], variable)
        for variable in tuning.variables
        if variable.file == "knowledge/tuning/slingshot.yaml" and names & set(variable.says)
    ).items():
        yield from (f"### {group}", "")
        for variable in variables:
            yield from (f"#### `{variable.name}`", "", _sentences(variable.about), "")
            yield from (_row(["value", "recommended by"]), _row(["---"] * 2))
            yield from (_row([value, ", ".join(who)]) for value, who in _recommended(variable, sites).items())
            settings = list(_settings(variable.name, tuning))
            yield from ("", "Set by uenvtool:" if settings else "uenvtool does not set this variable.", "")
            if settings:
                yield from (*settings, "")
    yield from ("### Documents", "")
    for site, names_of_site in sites.items():
        for name in names_of_site:
            yield f"- {site}, `{name}`: [{sources[name].title}]({sources[name].url}), {sources[name].date}"


def _recommended(variable: TunedVariable, sites: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the sites that recommend each value, with their sources unless all sources of the site give that value."""
    rows: list[tuple[str, str]] = []
    for site, names in sites.items():
        by_value = grouped((_shown(variable.says[name]), name) for name in names if name in variable.says)
        for value, sources in by_value.items():
            tags = "" if len(sources) == len(names) else f" ({', '.join(sources)})"
            rows.append((value, f"{site.partition(' ')[0]}{tags}"))
    return grouped(rows)


def _shown(value: Value) -> str:
    return "unset" if value is None else f"`{value}`"


def _settings(name: str, tuning: Tuning) -> Iterator[str]:
    """Yield a list item for each value that uenvtool sets on this fabric, with its reasons, and each workaround."""
    settings = [setting for setting in tuning.settings if setting.name == name and EVERYWHERE in setting.when.text]
    for value, alike in grouped((_value(setting), setting) for setting in settings).items():
        reasons = dict.fromkeys(setting.reason for setting in alike)
        longest = [reason for reason in reasons if not any(reason in other for other in reasons if other != reason)]
        yield f"- {value}: {' '.join(map(_sentences, longest))}"
    for found in tuning.workarounds.values():
        for setting in found.settings:
            if setting.name == name:
                yield f"- {_value(setting)} with `--workaround {found.name}`: {_sentences(found.symptom)}"


def _value(setting: Setting) -> str:
    if setting.removes:
        return "removed"
    return (
        "left to the hook of the runtime. If the hook did not set it" if setting.is_expected else f"`{setting.value}`"
    )


def _sentences(text: str) -> str:
    """Return a text of the knowledge files as sentences, one for each part between semicolons."""
    parts = (part.rstrip(".") for part in text.split("; "))
    return " ".join(f"{part[0].upper() if WORD.match(part) else part[0]}{part[1:]}." for part in parts)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


PARTS = [
    Part("commands", "commands.md", commands),
    Part("commands", "skill.md", commands),
    Part("slingshot", "network-sources.md", slingshot),
]

if __name__ == "__main__":
    for part in PARTS:
        (DOCS / part.page).write_text(part.text(), encoding="utf-8")
