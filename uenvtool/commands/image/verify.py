"""Verifies images by what is in them, without loading them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uenvtool.errors import ExitCode, Problem
from uenvtool.image.check import Report, check
from uenvtool.image.contents import read
from uenvtool.result import Result, Table


def verify(images: Sequence[Path], build_folders: Sequence[str] = ()) -> Result:
    """Whether every path of a view exists, nothing names a build folder, and libraries are found.

    build_folders: further folders that no file may name. The exit code is NO if anything is wrong.
    Raises BadInput if a file is not an image or damaged, ToolMissing without unsquashfs 4.5 or later.
    """
    found = []
    overlays = set()
    for image in images:
        contents = read(image)
        found.append((str(image), check(contents, build_folders)))
        if contents.is_overlay:
            overlays.add(str(image))
    problems = [Problem(f"{image}: {problem}") for image, report in found for problem in report.problems]
    return Result(
        data=[
            {
                "path": image,
                "tree_sha256": report.sha256,
                "files": report.files,
                "libraries": report.libraries,
                "problems": list(report.problems),
                "libraries_elsewhere": dict(report.elsewhere),
            }
            for image, report in found
        ],
        tables=(Table(headings=("image", "files", "libraries", "tree sha256", "result"), rows=_rows(found)),),
        problems=tuple(problems),
        notes=tuple(_from_base(image, report) for image, report in found if image in overlays and report.elsewhere),
        exit_code=ExitCode.NO if problems else ExitCode.DONE,
    )


def _rows(found: Sequence[tuple[str, Report]]) -> list[tuple[str, ...]]:
    return [
        (image, str(report.files), str(report.libraries), report.sha256, "wrong" if report.problems else "right")
        for image, report in found
    ]


def _from_base(image: str, report: Report) -> str:
    libraries = ", ".join(report.elsewhere)
    return f"{image} lies on a base, which has to have {libraries}"
