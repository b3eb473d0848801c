"""The table of docs/slingshot.md, made of knowledge/tuning: `python tools/slingshot.py` writes it.

It says what each variable does, who sets what, what is set here and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from uenvtool.core.words import grouped
from uenvtool.knowledge.sources import load_sources
from uenvtool.knowledge.tuning import Setting, TunedVariable, Tuning, load_all

PAGE = Path(__file__).resolve().parents[1] / "docs" / "slingshot.md"
BEGIN, END = "<!-- made of knowledge/tuning: python tools/slingshot.py -->\n\n", "\n<!-- end -->\n"
EVERYWHERE = "fabric == slingshot"
"""The term of a condition that the whole page is about."""


def page() -> str:
    """Return the page with the table as knowledge/tuning gives it now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + "".join(f"{line}\n" for line in table()) + END + rest.partition(END)[2]


def table() -> Iterator[str]:
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
    """Yield each value that is set on this fabric, with where and why, and each workaround; or that there is none."""
    settings = [found for found in tuning.settings if found.name == name and EVERYWHERE in found.when.text]
    for value, alike in grouped((_value(setting), setting) for setting in settings).items():
        reasons = dict.fromkeys(setting.reason for setting in alike)
        longest = [reason for reason in reasons if not any(reason in other for other in reasons if other != reason)]
        yield f"{value} ({'; '.join(map(_condition, alike))}): {'; '.join(longest)}"
    for found in tuning.workarounds.values():
        yield from (f"{_value(each)} with `--workaround {found.name}`" for each in found.settings if each.name == name)


def _value(setting: Setting) -> str:
    if setting.removes:
        return "removed"
    return "left to the hook" if setting.is_expected else f"`{setting.value}`"


def _condition(setting: Setting) -> str:
    """Return where a setting holds, but for the fabric, in words that a table has room for."""
    terms = [term for term in setting.when.text.split(" and ") if term != EVERYWHERE]
    words = ", ".join(terms).replace("runtime in ", "").replace("runtime == ", "").replace("|", "/")
    return words.replace(" == ", " is ").replace(" != ", " is not ")


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
