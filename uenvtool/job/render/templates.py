"""The templates of a job's files."""

from __future__ import annotations

from pathlib import Path

TEMPLATES = Path(__file__).parent.parent / "templates"


def template(name: str) -> str:
    """Return the text of a template."""
    return (TEMPLATES / name).read_text(encoding="utf-8")
