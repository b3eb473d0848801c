"""What each command prints with --json, as JSON Schema; outputs.yaml says it, in words that its head explains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from uenvtool.core.errors import require_known
from uenvtool.knowledge.schema import SCHEMA_FOLDER
from uenvtool.knowledge.source import read

_TYPES = {"text": "string", **{name: name for name in ("integer", "number", "boolean", "null")}}
_VALUE = re.compile(r"(?P<value>.*?)(?: \((?P<about>.*)\))?")
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def output_schema(command: str) -> dict[str, Any]:
    """Return the schema (Draft 2020-12) of what a command, such as `job check`, prints. Raises BadInput."""
    commands, shared = outputs()["commands"], outputs()["shared"]
    require_known("output of a command", [command], commands)
    body, used = _schema(commands[command]), dict[str, Any]()
    while missing := [name for name in _named({**body, "$defs": used}) if name not in used]:
        used |= {name: _schema(shared[name]) for name in missing}
    title = f"uenvtool {command} --json"
    return {"$schema": DRAFT, "title": title, **body, **({"$defs": used} if used else {})}


@cache
def outputs() -> dict[str, Any]:
    """Return the forms of `commands`, by the words of each, and those that they have in common, `shared`."""
    path = SCHEMA_FOLDER / "outputs.yaml"
    found: dict[str, Any] = read(path, str(path)).plain()
    return found


def _schema(form: Any) -> dict[str, Any]:
    """Return the schema of a form as outputs.yaml writes it."""
    if isinstance(form, list):
        return {"type": "array", "items": _schema(form[0])}
    if isinstance(form, dict):
        return {"anyOf": list(map(_schema, form["either"]))} if list(form) == ["either"] else _object(form)
    found = _VALUE.fullmatch(form)
    about = {"description": found["about"]} if found and found["about"] else {}
    return {**_scalar(found["value"] if found else form), **about}


def _object(form: dict[str, Any]) -> dict[str, Any]:
    named = {name.removesuffix("?"): _schema(value) for name, value in form.items() if name != "..."}
    required = [name for name in form if name != "..." and not name.endswith("?")]
    others = {"additionalProperties": _schema(form["..."])} if "..." in form else {}
    return {"type": "object", "properties": named, "required": required, **others}


def _scalar(value: str) -> dict[str, Any]:
    if value.startswith("$"):
        return {"$ref": f"#/$defs/{value[1:]}"}
    if value.startswith("one of "):
        return {"enum": value.removeprefix("one of ").split(", ")}
    types = [_TYPES[word] for word in value.split(" or ")] if value != "anything" else []
    return {"type": types[0] if len(types) == 1 else types} if types else {}


def _named(schema: Any) -> Iterator[str]:
    """Yield the names of the shared forms that a schema refers to."""
    if isinstance(schema, dict):
        yield from (value.rpartition("/")[2] for name, value in schema.items() if name == "$ref")
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from _named(part)
