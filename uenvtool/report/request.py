"""What a user asks of `uenvtool report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from uenvtool.core.value import value_class
from uenvtool.knowledge.options import Repos, SystemName, Uarch, named_paths


@value_class
class ReportRequest:
    """A request for a page about a stack."""

    source: Annotated[
        str,
        Argument(metavar="ENV|IMAGE|OVERLAY|LOCK", help="A resolved environment or its recipe, an image, an overlay."),
    ]
    output: Annotated[Path, Option("-o", metavar="FILE", help="The page.")] = Path("report.html")
    system: SystemName = None
    uarch: Uarch = None
    repo: Repos = ()
    force: Annotated[bool, Option("--force", help="Replace a page that was changed by hand.")] = False

    @property
    def repos(self) -> dict[str, Path]:
        """Return the package repositories to read licences in, by name. Raises BadInput for a word that names none."""
        return named_paths(self.repo)
