"""Commands that share their first word with verbs: `uenvtool job ...` and `uenvtool job check ...`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import typer
from typer.core import TyperCommand

BEHIND = "uenvtool.words"
"""The key of a context's `meta` for the words behind `--`; None if there is no `--`."""
Words = Callable[[list[str]], Iterable[str]]


def with_verbs(
    verbs: Mapping[str, Callable[..., int]], *, words: Words = list, keep_behind: bool = False
) -> type[TyperCommand]:
    """Return a class of commands whose first word may be one of the verbs.

    words: changes the words of the command itself before they are read. keep_behind: what stands behind `--` is
    no argument of the command, but handed on in the context, see BEHIND.
    """
    apps = {name: _app(function) for name, function in verbs.items()}

    class WithVerbs(TyperCommand):
        """The command itself, or the verb that its first word names."""

        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            if args and args[0] in apps:
                verb = typer.main.get_command(apps[args[0]])
                return verb.make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
            end = args.index("--") if keep_behind and "--" in args else len(args)
            context = super().make_context(info_name, list(words(args[:end])), parent=parent, **extra)
            context.meta[BEHIND] = args[end + 1 :] if end < len(args) else None
            return context

    return WithVerbs


def _app(function: Callable[..., int]) -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.command()(function)
    return app
