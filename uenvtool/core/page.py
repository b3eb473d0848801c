"""Makes a page to look at: one file with its data, style and scripts in it, which asks no network for anything."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from uenvtool import __version__
from uenvtool.core import quoting
from uenvtool.core.filling import filled

PARTS = Path(__file__).parent / "page"
"""The frame of all pages, its style, and the script that they share."""


def page(title: str, data: Any, script: Path) -> str:
    """Return the page that a script draws of data: `draw(data)`, with what core/page/page.js has.

    The browser runs the two scripts alone, by their sums: nothing in the data is run, whatever it is.
    """
    style = (PARTS / "page.css").read_text(encoding="utf-8")
    code = (PARTS / "page.js").read_text(encoding="utf-8") + script.read_text(encoding="utf-8")
    return filled(
        (PARTS / "page.html").read_text(encoding="utf-8"),
        TITLE=quoting.html(title),
        GENERATOR=f"uenvtool {__version__}",
        STYLE=style,
        STYLE_SUM=_sum(style),
        DATA=quoting.html_json(data),
        SCRIPT=code,
        SCRIPT_SUM=_sum(code),
    )


def _sum(text: str) -> str:
    """Return the sum of a part, as a policy names it (https://www.w3.org/TR/CSP3/#grammardef-hash-source)."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
