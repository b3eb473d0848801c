"""What is made of the files that ship: `python -m tests.support.checked` lists those that fit their schemas."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support import slingshot
from tests.support.project import ROOT
from uenvtool.knowledge.kinds import KINDS
from uenvtool.knowledge.schema import CHECKED, check, digest
from uenvtool.knowledge.source import parse


def lines() -> Iterator[str]:
    """Sum and path of each file that ships. Raises BadInput for one that does not fit its schema."""
    for kind in KINDS:
        for path in sorted(ROOT.glob(f"{kind.folder}/{kind.pattern}")):
            data = path.read_bytes()
            check(parse(data, str(path)), kind.name)
            yield f"{digest(data, kind.name)}  {path.relative_to(ROOT)}"


def main() -> None:
    """Write the list, and the table of docs/slingshot.md."""
    CHECKED.write_text("".join(f"{line}\n" for line in lines()))
    slingshot.PAGE.write_text(slingshot.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
