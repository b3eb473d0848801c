"""Checks a tree of nodes against its JSON Schema and reports the problems in plain English."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from uenvtool.core.errors import MAX_LISTED, BadInput, Problem, did_you_mean
from uenvtool.core.words import grouped
from uenvtool.knowledge.pattern import Pattern
from uenvtool.knowledge.yamltree import Node

SCHEMA_DIRECTORY = Path(__file__).parent.parent / "schemas"
MAX_PROBLEMS = 20

_KINDS = {
    "object": "names with values (`name: value`)",
    "array": "a list (`- item`)",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "nothing",
}
_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", type(None): "null"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@cache
def schema_text(name: str) -> str:
    """Return the text of a JSON Schema."""
    return (SCHEMA_DIRECTORY / f"{name}.json").read_text(encoding="utf-8")


@cache
def schema(name: str) -> Any:
    """Return a JSON Schema as data."""
    return json.loads(schema_text(name))


def check_schema(tree: Node, name: str) -> None:
    """Check a tree against the named schema. Raises BadInput with all problems and their positions."""
    errors = _validator(name).iter_errors(tree.plain())
    all_problems = (problem for error in errors for problem in _problems(error, tree, name))
    problems = set(islice(all_problems, 5 * MAX_PROBLEMS))  # enough to include the first problems of the file
    if problems:
        in_order = sorted(problems, key=lambda problem: (problem.position or tree.position, problem.message))
        raise BadInput(in_order[:MAX_PROBLEMS])


@cache  # a command reads several files of one kind
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    validator = extend(Draft202012Validator, {"pattern": _whole_pattern, "format": _regular_expression})
    return validator(schema(name))


def _whole_pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    # in JSON Schema, `$` only matches the end of the text, not a final newline as in Python
    whole = pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern
    if isinstance(instance, str) and not re.search(whole, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _regular_expression(_validator: Any, form: str, instance: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if form == "regex" and isinstance(instance, str):
        try:
            _ = Pattern(instance).compiled
        except re.error as error:
            yield ValidationError(f"not a valid RE2 regular expression: {error}")


def _problems(error: Any, tree: Node, name: str) -> Iterator[Problem]:
    node = tree.at(tuple(error.absolute_path))
    if error.validator in ("anyOf", "oneOf") and (branch := _fitting_branch(error)):
        for inner in branch:
            yield from _problems(inner, tree, name)
        return
    if error.validator == "additionalProperties":
        yield from _unknown_keys(error, node)
        return
    named = error.validator not in ("required", "propertyNames")  # their messages contain the name
    field = next((part for part in reversed(error.absolute_path) if isinstance(part, str)), "") if named else ""
    message = f"{_shortened(field)}: {_message(error)}" if field else _message(error)
    is_name = "propertyNames" in error.absolute_schema_path and error.instance in node.value
    place = node.value[error.instance].key if is_name else node.position
    yield Problem(message, place, _hint(error) or f"run `uenvtool schema {name}` for the valid values")


def _is_long_enum(error: Any) -> bool:
    return bool(error.validator == "enum" and len(error.validator_value) > MAX_LISTED)


def _fitting_branch(error: Any) -> list[Any]:
    branches = grouped((inner.schema_path[0], inner) for inner in error.context).values()
    return next((inner for inner in branches if all(each.validator != "type" or each.path for each in inner)), [])


def _unknown_keys(error: Any, node: Node) -> Iterator[Problem]:
    known = sorted(error.schema.get("properties", {}))
    for name in node.value.keys() - set(known):
        hint = f"{did_you_mean(name, known)} use one of these keys: {', '.join(known)}"
        yield Problem(f"unknown key {_shortened(name)!r}", node.value[name].key, hint.lstrip())


def _hint(error: Any) -> str | None:
    if error.validator == "required":
        missing = _missing(error)
        about = _description(error.schema.get("properties", {}).get(missing, {}))
        return f"add `{missing}:`{f', {_lowered(about)}' if about else ''}"
    if error.validator == "pattern" and _has_controls(error):
        return "write the text on one line, without control characters"
    near = f"{did_you_mean(error.instance, error.validator_value)} " if _is_long_enum(error) else ""
    description = _description(error.schema)
    if description.startswith("Use "):
        return f"{near}{_lowered(description)}"
    if description and error.validator in ("type", "anyOf", "oneOf"):
        return f"write {_expected(error)}: {_lowered(description)}"
    if description:
        instruction = "use one of these values" if error.validator == "enum" else "correct the value"
        return f"{near}{instruction}. {description}"
    return near.strip() or (
        f"use a text that matches {error.validator_value}" if error.validator == "pattern" else None
    )


def _lowered(description: str) -> str:
    return description if description[1:2].isupper() else description[:1].lower() + description[1:]


def _has_controls(error: Any) -> bool:
    plain = _CONTROL.sub(" ", error.instance) if error.validator == "pattern" else error.instance
    return plain != error.instance and bool(re.search(error.validator_value, plain))


def _missing(error: Any) -> str:
    return str(error.message).split(" is a required")[0].strip("'\"")


def _message(error: Any) -> str:
    value = error.instance
    if error.validator in ("type", "anyOf", "oneOf"):
        return f"expected {_expected(error)}, got {_kind_of(value)}"
    if error.validator == "required":
        return f"{_missing(error)!r} is missing"
    if error.validator == "enum":
        known = "a known name" if _is_long_enum(error) else f"one of {', '.join(map(str, error.validator_value))}"
        return f"{value!r} is not {known}"
    if error.validator == "pattern":
        if _has_controls(error):
            return f"{_shortened(value)!r} contains a line break or another control character"
        return f"{_shortened(value)!r} does not have the required form"
    if error.validator == "propertyNames":
        return f"{_shortened(value)!r} is not a valid name here"
    return str(error.message)


def _expected(error: Any) -> str:
    branches = [inner for inner in error.context if inner.validator == "type" and not inner.path]
    named = [branch.validator_value for branch in branches or [error]]
    kinds = [kind for kinds in named for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    return " or ".join(dict.fromkeys(_KINDS[kind] for kind in kinds))


def _kind_of(value: Any) -> str:
    kind = _KINDS[_TYPES[type(value)]]
    return kind if isinstance(value, dict | list) or value is None else f"{kind} ({_shortened(value)})"


def _shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _description(schema: Any) -> str:
    return schema.get("description", "") if isinstance(schema, dict) else ""
