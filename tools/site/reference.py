"""MkDocs hook that adds the README as the first page of the site, and a reference generated from the program."""

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
"""The directories of the reference, each with the template of its pages."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages. Raises BadInput if a file of the knowledge is invalid."""
    os.environ["COLUMNS"] = "80"  # of the help texts
    for path, text in generated_pages():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Return a page in which links to files that are not pages of the site are plain text."""
    folder = Path(page.file.src_uri).parent

    def link(match: re.Match[str]) -> str:
        path = os.path.normpath(folder / match[2])
        return match[0] if files.get_file_from_path(path) else match[1]

    return LINK.sub(link, markdown)


def generated_pages() -> Iterator[tuple[str, str]]:
    """Yield the path below docs/ and the text of each generated page."""
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
        listed = [(name, entry.get("heading") or name, _sentence(entry)) for name, entry in entries.items()]
        yield f"reference/{folder}/index.md", templates.get_template("index.md").render(title=folder, listed=listed)


def _entries() -> dict[str, dict[str, Any]]:
    """Return the values of each page, by directory of the reference and name of the entry."""
    variables = explain(ExplainRequest(all=True)).data
    rules = {name: explained_rule(rule).parts for name, rule in sorted(load_rules().items())}
    findings = {
        name: explained_finding(known).parts | {"heading": known.title, "messages": known.messages}
        for name, known in sorted(load_findings().findings.items())
    }
    return {
        "variables": {entry["name"]: entry for entry in variables},
        "rules": rules,
        "findings": findings,
        "commands": dict(_commands()),
        "files": {kind.name: json.loads(schema_text(kind.name)) | {"folder": kind.file("NAME")} for kind in KINDS},
    }


def _commands() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each command by name, with its help and the help of its subcommands."""
    helps: dict[str, dict[str, str]] = {name: {} for commands in READERS.values() for name in commands}
    for context in contexts():
        if name := context.command_path.partition(" ")[2].partition(" ")[0]:
            with contextlib.redirect_stdout(io.StringIO()) as printed:  # Typer prints it
                context.get_help()
            helps[name][context.command_path] = printed.getvalue()
    yield from ((name, {"about": COMMANDS[name].sentence, "helps": found}) for name, found in helps.items())


def _sentence(entry: dict[str, Any]) -> str:
    """Return the sentence that describes an entry in the index."""
    return next((str(entry[key]) for key in ("about", "what", "description") if entry.get(key)), "")


def _cell(value: object) -> str:
    """Return a value as a cell of a Markdown table."""
    return re.sub(r"\s+", " ", _prose(value)).replace("|", "\\|")


def _prose(value: object) -> str:
    """Return a text as Markdown, with its addresses as links and all HTML escaped."""
    return re.sub(r"(https?://[^\s,;)]+[^\s,;).])", r"<\1>", str(value).replace("<", "&lt;"))
