"""Holds what commands print with --json against their schemas, and lets nothing pass that these do not name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import takewhile
from typing import Any

from jsonschema import Draft202012Validator

from uenvtool.knowledge.outputs import output_schema, outputs


def hold(arguments: Sequence[object], printed: str) -> None:
    """Raise AssertionError if a command line that asks for JSON got another one than its schema says."""
    words = [str(word) for word in takewhile("--".__ne__, map(str, arguments))]
    if "--json" not in words or not printed.startswith(("{", "[")):  # help, or nothing
        return
    told = " ".join(word for word in words if not word.startswith("-"))
    command = max((name for name in outputs()["commands"] if f"{told} ".startswith(f"{name} ")), key=len, default="")
    assert command, f"uenvtool/schemas/outputs.yaml has nothing of {told}"
    wrong = [
        f"{list(error.absolute_path)}: {error.message}" for error in _closed(command).iter_errors(json.loads(printed))
    ]
    assert wrong == [], f"uenvtool {command} --json: uenvtool/schemas/outputs.yaml says otherwise: {wrong}"


@cache
def _closed(command: str) -> Draft202012Validator:
    return Draft202012Validator(closed(output_schema(command)))


def closed(schema: Any) -> Any:
    """Return a schema whose objects have no names but those that it knows."""
    if isinstance(schema, list):
        return list(map(closed, schema))
    if not isinstance(schema, dict):
        return schema
    others = {"additionalProperties": False} if schema.get("type") == "object" else {}
    return others | {name: closed(value) for name, value in schema.items()}
