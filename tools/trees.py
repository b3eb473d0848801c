"""Writes the trees of the knowledge that ships, read in place of its YAML; an installation gets them (hook.py)."""

from __future__ import annotations

import sys
from pathlib import Path

PLACE = "uenvtool/compiled"
TOP = Path(__file__).resolve().parent.parent


def write(folder: Path) -> None:
    """Let a folder hold the trees of what ships, and nothing else; what is no YAML is told of when it is read."""
    sys.path.insert(0, str(TOP))
    from uenvtool.core.errors import BadInput
    from uenvtool.knowledge.kinds import KINDS
    from uenvtool.knowledge.recognise import signs_of
    from uenvtool.knowledge.source import compiled

    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    for path in sorted({path for kind in KINDS for path in (TOP / kind.shipped).glob("**/*.yaml")}):
        for data in filter(None, (path.read_bytes(), signs_of(path.read_bytes()))):
            try:
                name, content = compiled(data)
            except BadInput:
                continue
            (folder / name).write_text(content, encoding="ascii")


if __name__ == "__main__":
    write(TOP / PLACE)
