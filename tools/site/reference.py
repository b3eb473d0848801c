"""Adds generated pages to the site: the README as the first page, and a reference of the program and its knowledge."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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


class Directory(NamedTuple):
    """A directory of the reference: the template of its pages, and the title and first sentence of its index."""

    template: str
    title: str
    about: str


DIRECTORIES = {
    "variables": Directory(
        "variable",
        "Environment variables",
        "These are the environment variables in the tuning files. A tuning is the recommended environment variables of "
        "a network or library, with reasons.",
    ),
    "rules": Directory("rule", "Rules of check", "A rule is one check of a batch script by `uenvtool check`."),
    "findings": Directory(
        "finding", "Findings of doctor", "A finding is one diagnosis of a log or a shell by `uenvtool doctor`."
    ),
    "commands": Directory("command", "Commands", "These are the commands of uenvtool, with all of their options."),
    "files": Directory(
        "schema",
        "Kinds of files",
        "These are the kinds of YAML files that you can write for uenvtool, with all of their fields.",
    ),
}
"""The directories of the reference, by name."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages. Raises BadInput if a knowledge file is invalid."""
    os.environ["COLUMNS"] = "80"  # the width of the help texts
    for path, text in generated_pages():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Return a page in which each link to a file of the repository that is not a page of the site is plain text."""
    directory = Path(page.file.src_uri).parent

    def link(match: re.Match[str]) -> str:
        path = os.path.normpath(directory / match[2])
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
        autoescape=False,  # noqa: S701  the pages are Markdown, and the texts are from this repository
    )
    templates.filters |= {"cell": _cell, "meaning": _meaning, "prose": _prose}
    for directory, entries in _entries().items():
        kind = DIRECTORIES[directory]
        template = templates.get_template(f"{kind.template}.md")
        for name, entry in entries.items():
            yield f"reference/{directory}/{name}.md", template.render(name=name, entry=entry)
        listed = [(name, entry.get("heading") or name, _summary(entry)) for name, entry in entries.items()]
        index = templates.get_template("index.md").render(title=kind.title, about=kind.about, listed=listed)
        yield f"reference/{directory}/index.md", index


def _entries() -> dict[str, dict[str, Any]]:
    """Return the entries that have a page, by directory of the reference and name."""
    variables = explain(ExplainRequest(all=True)).data
    rules = {name: explained_rule(rule).data | {"heading": rule.title} for name, rule in sorted(load_rules().items())}
    findings = {
        name: {**explained_finding(known).data, "heading": known.title, "messages": known.messages}
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
    """Yield each command by name, with its help text and those of its subcommands."""
    helps: dict[str, dict[str, str]] = {name: {} for commands in READERS.values() for name in commands}
    for context in contexts():
        if name := context.command_path.partition(" ")[2].partition(" ")[0]:
            with contextlib.redirect_stdout(io.StringIO()) as printed:  # Typer prints the help
                context.get_help()
            helps[name][context.command_path] = printed.getvalue()
    yield from ((name, {"about": COMMANDS[name].summary, "helps": found}) for name, found in helps.items())


def _summary(entry: dict[str, Any]) -> str:
    """Return the text of an entry in the index."""
    if entry.get("about"):
        return str(entry["about"])
    return next((str(entry[key]) for key in ("what", "description") if entry.get(key)), "")


def _meaning(field: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the description of a field, or of the definition that the field refers to."""
    definition = schema["$defs"].get(field.get("$ref", "").rpartition("/")[2], {})
    return str(field.get("description") or definition.get("description", ""))


def _cell(value: object) -> str:
    """Return a value as the cell of a table."""
    return re.sub(r"\s+", " ", _prose(value)).replace("|", "\\|")


def _prose(value: object) -> str:
    """Return a text in which addresses are links and no character is HTML."""
    return re.sub(r"(https?://[^\s,;)]+[^\s,;).])", r"<\1>", str(value).replace("<", "&lt;"))
