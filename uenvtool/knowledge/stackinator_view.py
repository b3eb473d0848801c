"""Converts the views of a Stackinator recipe and comments on the settings that are left out."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from uenvtool.core.yamltext import comment, flow, indented, quoted, scalar, with_comment
from uenvtool.knowledge.yaml_comments import Comments
from uenvtool.knowledge.yamltree import Node

LEFT_OUT = "left out:"
Data = Mapping[str, Any]
_PLACES = {"mount": "${mount}", "view_path": "${view_root}", "view_name": "${view}"}


def left_out(what: str, why: str) -> list[str]:
    """Return the comment for a setting that is left out."""
    return comment(f"{LEFT_OUT} {what}: {why}")


def rest_of(fields: Data, known: Collection[str], place: str) -> list[str]:
    """Return a comment for each field that a uenvtool recipe does not have.

    place: A phrase that says where the fields are.
    """
    unread = ((name, value) for name, value in fields.items() if name not in known and value is not None)
    why = f"a recipe has no such field ({place})"
    return [line for name, value in unread for line in left_out(field_text(name, value), why)]


def field_text(name: str, value: object) -> str:
    """Return a field as a text on one line."""
    return f"{name}: {json.dumps(value, ensure_ascii=False)}"


def views_of(
    views: Sequence[tuple[str, dict[str, Any]]], default: str | None, comments: Comments, node: Node | None
) -> Iterator[str]:
    """Yield the lines of the default view and of the other views, which have the variables of the default view.

    node: The views in the Stackinator recipe, for the comments.
    """
    if not views:
        yield from (*comment("The Stackinator recipe has no view."), "view: {load: none, link: roots}")
        return
    (first, main), *others = views
    if default and default != first:
        yield from left_out(field_text("default-view", default), f"{first} is the default view")
    loaded = [] if default else ["  load: none"]
    nodes = node.value if node else {}
    lines = [*_linked(main), *_variables(main["uenv"], _reasons(comments, nodes.get(first)))]
    about = comment(comments.of(nodes.get(first)))
    yield from ("view:", *loaded, *indented([*about, f"name: {scalar(first)}", *lines], 2))
    yield from ("views:",) if others else ()
    for name, view in others:
        differing = [field_text(key, value) for key, value in view["uenv"].items() if value != main["uenv"].get(key)]
        why = f"this view sets the same variables as {first}, with its own paths"
        remark = left_out("; ".join(differing), why) if differing else []
        about = comment(comments.of(nodes.get(name)))
        yield from (f"  {scalar(name)}:", *indented([*about, *_linked(view), *remark], 4))


def _reasons(comments: Comments, view: Node | None) -> dict[str, str]:
    """Return the comments about each variable that a view sets."""
    try:
        entries = view.at(("uenv", "env_vars", "set")).value if view else []
    except (KeyError, TypeError):
        return {}
    lines = {name: entry.position.line for entry in entries for name in entry.value}
    return {name: comments.take(comments.start(line), line) for name, line in lines.items()}


def ordered(views: Data, default: str | None) -> list[tuple[str, dict[str, Any]]]:
    """Return the views, with the default view first."""
    return sorted(((name, _view(view)) for name, view in views.items()), key=lambda view: view[0] != default)


def _view(view: Data | None) -> dict[str, Any]:
    uenv = {"add_compilers": True, "prefix_paths": {}, "env_vars": {}, **((view or {}).get("uenv") or {})}
    return {"link": "roots", **(view or {}), "uenv": uenv}


def _linked(view: Data) -> list[str]:
    lists = [f"{name}: {flow(map(str, view[name]))}" for name in ("select", "exclude") if view.get(name)]
    return [
        f"link: {scalar(str(view['link']))}",
        *lists,
        *rest_of(view, ("link", "select", "exclude", "uenv"), "under the view"),
    ]


def _variables(uenv: Data, reasons: Mapping[str, str]) -> Iterator[str]:
    variables = uenv["env_vars"]
    yield from rest_of(uenv, ("add_compilers", "prefix_paths", "env_vars"), "under the view")
    yield from rest_of(variables, ("set", "prepend_path"), "under env_vars of the view")
    yield f"add_compilers: {'true' if uenv['add_compilers'] else 'false'}"
    prepended: dict[str, list[str]] = {}
    for name, path in (pair for entry in variables.get("prepend_path", ()) for pair in entry.items()):
        prepended.setdefault(name, []).insert(0, _placed(path))  # Stackinator puts the last entry first
    for key, paths in (("prefix_paths", uenv["prefix_paths"]), ("prepend_path", prepended)):
        yield from (
            (f"{key}:", *(f"  {scalar(name)}: {flow(directories)}" for name, directories in paths.items()))
            if paths
            else ()
        )
    values = {name: value for entry in variables.get("set", ()) for name, value in entry.items()}
    unset = {name: value for name, value in values.items() if "${" in str(value)}
    yield from rest_of(unset, (), "under env_vars of the view; the value needs a variable of the user's shell")
    yield from ("env:",) if values.keys() - unset.keys() else ()
    for name in (name for name in values if name not in unset):
        value = "null" if values[name] is None else quoted(_placed(values[name]))
        yield from with_comment(f"  {scalar(name)}: {value}", reasons.get(name, ""))


def _placed(text: object) -> str:
    return re.sub(r"\$@(\w+)@", lambda match: _PLACES.get(match[1], match[0]), str(text))
