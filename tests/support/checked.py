"""The list of files that ship and fit their schemas: `python -m tests.support.checked` writes it."""

from __future__ import annotations

from collections.abc import Iterator

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
    """Write the list."""
    CHECKED.write_text("".join(f"{line}\n" for line in lines()))


if __name__ == "__main__":
    main()
