"""The parts of pages that the program knows: `python tools/pages.py` writes them anew.

Each stands in its page between two comments: the commands; what each variable of Slingshot is, who sets it, and what is
set here, why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from uenvtool.cli import READERS, contexts
from uenvtool.core.words import grouped
from uenvtool.knowledge.sources import load_sources
from uenvtool.knowledge.tuning import Setting, TunedVariable, Tuning, load_all

DOCS = Path(__file__).resolve().parents[1] / "docs"
EVERYWHERE = "fabric == slingshot"
"""The term of the conditions whose settings the table of Slingshot has."""


class Part(NamedTuple):
    """What is made, the page that has it, and the function that yields its lines."""

    name: str
    page: str
    lines: Callable[[], Iterator[str]]

    def text(self) -> str:
        """Return the page with this part as the program gives it now."""
        begin, end = f"<!-- {self.name}: made by `python tools/pages.py` -->\n\n", "\n<!-- end -->\n"
        before, _, rest = (DOCS / self.page).read_text(encoding="utf-8").partition(begin)
        return before + begin + "".join(f"{line}\n" for line in self.lines()) + end + rest.partition(end)[2]


def commands() -> Iterator[str]:
    """Yield a row a command, with those below it, under a heading for each kind of reader."""
    known = {context.command_path.removeprefix("uenvtool "): context for context in contexts()}
    for reader, named in READERS.items():
        yield from (f"**{reader}**", "", _row(["command", "what it does"]), _row(["---"] * 2))
        for path, context in known.items():
            if path.partition(" ")[0] in named and not getattr(context.command, "commands", None):
                words = " ".join([path, *context.command.collect_usage_pieces(context)[1:]])
                yield _row([f"`uenvtool {words}`", context.command.get_short_help_str(limit=200)])
        yield ""


def slingshot() -> Iterator[str]:
    """Yield the lines: a row a variable that a site's source gives a value, and what the sources are."""
    tuning, sources = load_all(), load_sources()
    sites = grouped((source.site, name) for name, source in reversed(sources.items()) if source.site)
    yield _row(["variable", "what it is", *sites, "set here"])
    yield _row(["---"] * (len(sites) + 3))
    for variable in tuning.variables:
        if variable.file == "knowledge/tuning/slingshot.yaml" and any(
            set(variable.says) & set(names) for names in sites.values()
        ):
            cells = [_said(variable, names) for names in sites.values()]
            yield _row(
                [f"`{variable.name}`", variable.about, *cells, "; ".join(_set_here(variable.name, tuning)) or "not set"]
            )
    yield ""
    for site, names in sites.items():
        where = "; ".join(
            f"`{name}`: [{sources[name].title}]({sources[name].url}), {sources[name].date}" for name in names
        )
        yield f"- {site}: {where}"


def _said(variable: TunedVariable, names: list[str]) -> str:
    """Return what a site's sources say; which of them, unless all say the same."""
    said = {name: variable.says[name] for name in names if name in variable.says}
    by_value = grouped(("unset" if value is None else f"`{value}`", name) for name, value in said.items())
    if by_value and len(next(iter(by_value.values()))) == len(names):
        return next(iter(by_value))
    return ", ".join(f"{value} ({', '.join(said_by)})" for value, said_by in by_value.items())


def _set_here(name: str, tuning: Tuning) -> Iterator[str]:
    """Yield each value that is set on this fabric, with its reasons, and each workaround."""
    settings = [found for found in tuning.settings if found.name == name and EVERYWHERE in found.when.text]
    for value, alike in grouped((_value(setting), setting) for setting in settings).items():
        reasons = dict.fromkeys(setting.reason for setting in alike)
        longest = [reason for reason in reasons if not any(reason in other for other in reasons if other != reason)]
        yield f"{value}: {'; '.join(longest)}"
    for found in tuning.workarounds.values():
        yield from (f"{_value(each)} with `--workaround {found.name}`" for each in found.settings if each.name == name)


def _value(setting: Setting) -> str:
    if setting.removes:
        return "removed"
    return "left to the hook" if setting.is_expected else f"`{setting.value}`"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


PARTS = [
    Part("commands", "commands.md", commands),
    Part("commands", "skill.md", commands),
    Part("slingshot", "network.md", slingshot),
]

if __name__ == "__main__":
    for part in PARTS:
        (DOCS / part.page).write_text(part.text(), encoding="utf-8")
