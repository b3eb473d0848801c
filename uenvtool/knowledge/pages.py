"""The pages that the documentation has of what ships, at the address where a site publishes it."""

from __future__ import annotations

import os
import re

from uenvtool.knowledge.kinds import FINDINGS, RULES, TUNING
from uenvtool.knowledge.locate import data_root

PUBLISHED = "UENVTOOL_DOCS"
"""The variable that names the address at which what `mkdocs build` makes lies; without it nothing has a page."""
FOLDERS = {TUNING.shipped: "variables", RULES.shipped: "rules", FINDINGS.shipped: "findings"}
"""The folders of the reference (tools/site) by those of the entries."""
_ADDRESS = re.compile(r"https?://[!-~]+")


def page_of(name: str, file: str) -> str:
    """Return the address of the page of a variable, rule or finding; empty where it has none.

    file: where it stands. What is in a file of the user's own has no page.
    """
    top = os.environ.get(PUBLISHED, "")
    if not _ADDRESS.fullmatch(top):
        return ""
    folder = os.path.dirname(os.path.relpath(file, data_root()))
    return f"{top.rstrip('/')}/reference/{FOLDERS[folder]}/{name}.html" if folder in FOLDERS else ""
