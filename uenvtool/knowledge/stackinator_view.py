"""The views of a recipe of Stackinator as ours, and the comments that stand for what has no place here."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from uenvtool.core.yamltext import comment, flow, indented, quoted, scalar

LEFT_OUT = "left out:"
Data = Mapping[str, Any]
_PLACES = {"mount": "${mount}", "view_path": "${view_root}", "view_name": "${view}"}


def left_out(what: str, why: str) -> list[str]:
    """Return the comment that stands for something."""
    return comment(f"{LEFT_OUT} {what}: {why}")


def rest_of(fields: Data, known: Collection[str], whose: str) -> list[str]:
    """Return a comment for each field that ours has no place for."""
    unread = ((name, value) for name, value in fields.items() if name not in known and value is not None)
    return [line for name, value in unread for line in left_out(said(name, value), f"no field has it here ({whose})")]


def said(name: str, value: object) -> str:
    """Return a field as its file says it."""
    return f"{name}: {json.dumps(value, ensure_ascii=False)}"


def views_of(views: Sequence[tuple[str, dict[str, Any]]], default: str | None) -> Iterator[str]:
    """Yield the view that is loaded if none is named, and the further ones, which have its variables."""
    if not views:
        yield from (*comment("Stackinator makes no view of it."), "view: {link: roots}")
        return
    (first, main), *others = views
    if default and default != first:
        yield from left_out(said("default-view", default), f"{first} is loaded if none is named")
    yield from ("view:", f"  name: {scalar(first)}", *indented([*_linked(main), *_variables(main["uenv"])], 2))
    yield from ("views:",) if others else ()
    for name, view in others:
        own = [said(key, value) for key, value in view["uenv"].items() if value != main["uenv"].get(key)]
        why = f"it has the variables of {first} here, with paths of its own"
        left = left_out(f"its own {'; '.join(own)}", why) if own else []
        yield from (f"  {scalar(name)}:", *indented([*_linked(view), *left], 4))


def ordered(views: Data, default: str | None) -> list[tuple[str, dict[str, Any]]]:
    """Return the views, that first which is loaded if none is named."""
    return sorted(((name, _view(view)) for name, view in views.items()), key=lambda view: view[0] != default)


def _view(view: Data | None) -> dict[str, Any]:
    """Return a view with all that Stackinator takes where it says nothing."""
    uenv = {"add_compilers": True, "prefix_paths": {}, "env_vars": {}, **((view or {}).get("uenv") or {})}
    return {"link": "roots", **(view or {}), "uenv": uenv}


def _linked(view: Data) -> list[str]:
    lists = [f"{name}: {flow(map(str, view[name]))}" for name in ("select", "exclude") if view.get(name)]
    return [
        f"link: {scalar(str(view['link']))}",
        *lists,
        *rest_of(view, ("link", "select", "exclude", "uenv"), "of the view"),
    ]


def _variables(uenv: Data) -> Iterator[str]:
    variables = uenv["env_vars"]
    yield from rest_of(uenv, ("add_compilers", "prefix_paths", "env_vars"), "of the view")
    yield from rest_of(variables, ("set", "prepend_path"), "of the view's env_vars")
    yield f"add_compilers: {'true' if uenv['add_compilers'] else 'false'}"
    prepended: dict[str, list[str]] = {}
    for name, path in (pair for one in variables.get("prepend_path", ()) for pair in one.items()):
        prepended.setdefault(name, []).insert(0, _placed(path))  # the last one comes first there
    for key, paths in (("prefix_paths", uenv["prefix_paths"]), ("prepend_path", prepended)):
        yield from (
            (f"{key}:", *(f"  {scalar(name)}: {flow(folders)}" for name, folders in paths.items())) if paths else ()
        )
    values = {name: value for one in variables.get("set", ()) for name, value in one.items()}
    unset = {name: value for name, value in values.items() if "${" in str(value)}
    yield from rest_of(unset, (), "of the view's env_vars; the shell's variables are not known here")
    yield from ("env:",) if values.keys() - unset.keys() else ()
    for name in (name for name in values if name not in unset):
        yield f"  {scalar(name)}: {'null' if values[name] is None else quoted(_placed(values[name]))}"


def _placed(text: object) -> str:
    """Return a text with the places of the image as ours names them."""
    return re.sub(r"\$@(\w+)@", lambda found: _PLACES.get(found[1], found[0]), str(text))
