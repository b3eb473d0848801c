"""Adds to the site what is not written by hand: the README as its first page, and a reference made from the program."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from uenvtool.activation.explain import explain
from uenvtool.activation.explained import explained_finding, explained_rule
from uenvtool.activation.request import ExplainRequest
from uenvtool.cli import COMMANDS, READERS, contexts
from uenvtool.knowledge.finding import load_findings
from uenvtool.knowledge.kinds import KINDS
from uenvtool.knowledge.rule import load_rules
from uenvtool.knowledge.schema import schema_text

TOP = Path(__file__).parents[2]
LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)\s#]+)[^)\s]*\)")
PAGES = {"variables": "variable", "rules": "rule", "findings": "finding", "commands": "command", "files": "schema"}
"""The folders of the reference, and the template of a page of each."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages. Raises what the loaders of the knowledge raise."""
    os.environ["COLUMNS"] = "80"  # of the help texts
    for path, text in generated_pages():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Return a page in which a link to a file of the repository that is no page is plain text."""
    folder = Path(page.file.src_uri).parent

    def link(match: re.Match[str]) -> str:
        path = os.path.normpath(folder / match[2])
        return match[0] if files.get_file_from_path(path) else match[1]

    return LINK.sub(link, markdown)


def generated_pages() -> Iterator[tuple[str, str]]:
    """Give the path below docs/ and the text of each page that is made."""
    yield "index.md", (TOP / "README.md").read_text().replace("](docs/", "](")
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # noqa: S701  the pages are Markdown, and the texts our own
    )
    templates.filters |= {"cell": _cell, "prose": _prose}
    for folder, entries in _entries().items():
        template = templates.get_template(f"{PAGES[folder]}.md")
        for name, entry in entries.items():
            yield f"reference/{folder}/{name}.md", template.render(name=name, entry=entry)
        listed = [(name, _sentence(entry)) for name, entry in entries.items()]
        yield f"reference/{folder}/index.md", templates.get_template("index.md").render(title=folder, listed=listed)


def _entries() -> dict[str, dict[str, Any]]:
    """Return what has a page, by the folder of the reference and its name."""
    variables = explain(ExplainRequest(all=True)).data
    rules = {name: explained_rule(rule).parts for name, rule in sorted(load_rules().items())}
    findings = {name: explained_finding(known).parts for name, known in sorted(load_findings().findings.items())}
    return {
        "variables": {entry["name"]: entry for entry in variables},
        "rules": rules,
        "findings": findings,
        "commands": dict(_commands()),
        "files": {kind.name: json.loads(schema_text(kind.name)) | {"folder": kind.file("NAME")} for kind in KINDS},
    }


def _commands() -> Iterator[tuple[str, dict[str, Any]]]:
    """Give each command by name, with its help and that of its own commands."""
    helps: dict[str, dict[str, str]] = {name: {} for commands in READERS.values() for name in commands}
    for context in contexts():
        if name := context.command_path.partition(" ")[2].partition(" ")[0]:
            with contextlib.redirect_stdout(io.StringIO()) as printed:  # Typer prints it
                context.get_help()
            helps[name][context.command_path] = printed.getvalue()
    yield from ((name, {"about": COMMANDS[name].sentence, "helps": found}) for name, found in helps.items())


def _sentence(entry: dict[str, Any]) -> str:
    """Return what the index says of an entry."""
    return next((str(entry[key]) for key in ("about", "what", "description") if entry.get(key)), "")


def _cell(value: object) -> str:
    """Return a value as the cell of a table."""
    return re.sub(r"\s+", " ", _prose(value)).replace("|", "\\|")


def _prose(value: object) -> str:
    """Return a text whose addresses are links, and in which nothing else is HTML."""
    return re.sub(r"(https?://[^\s,;)]+[^\s,;).])", r"<\1>", str(value).replace("<", "&lt;"))
