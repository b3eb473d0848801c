"""Verifies images by what is in them, without loading them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from uenvtool.core.errors import ExitCode, Problem
from uenvtool.core.result import Result, Table
from uenvtool.image.cache import has_mark_of_another, marker_of
from uenvtool.image.check import Report, check, some


def verify(images: Sequence[Path], build_folders: Sequence[str] = ()) -> Result:
    """Check that every path of a view exists, no file looks into a build folder, and libraries are found.

    build_folders: further folders that no file may name. The exit code is NO if anything is wrong.
    Raises BadInput if a file is not an image or damaged, ToolMissing without unsquashfs 4.5 or later.
    """
    found = [(str(image), check(image, build_folders)) for image in images]
    problems = [Problem(f"{image}: {problem}") for image, report in found for problem in report.problems]
    problems += [Problem(problem) for image in images for problem in _of_marker(image)]
    return Result(
        data=[
            {
                "path": image,
                "tree_sha256": report.sha256,
                "files": report.files,
                "libraries": report.libraries,
                "problems": list(report.problems),
                "libraries_elsewhere": dict(report.elsewhere),
                "build_folder_on_record": list(report.recording),
            }
            for image, report in found
        ],
        tables=(Table(headings=("image", "files", "libraries", "tree sha256", "result"), rows=_rows(found)),),
        problems=tuple(problems),
        notes=(
            *(_from_base(image, report) for image, report in found if report.is_overlay and report.elsewhere),
            *(_on_record(image, report) for image, report in found if report.recording),
        ),
        exit_code=ExitCode.NO if problems else ExitCode.DONE,
    )


def _rows(found: Sequence[tuple[str, Report]]) -> list[tuple[str, ...]]:
    return [
        (image, str(report.files), str(report.libraries), report.sha256, "wrong" if report.problems else "right")
        for image, report in found
    ]


def _of_marker(image: Path) -> Iterator[str]:
    """What is wrong with the marker of a tested image, if there is one: another image was tested."""
    if has_mark_of_another(image):
        yield f"{image}: {marker_of(image).name} is of another image: test this one, and mark it again"


def _from_base(image: str, report: Report) -> str:
    libraries = ", ".join(report.elsewhere)
    return f"{image} lies on a base, which has to have {libraries}"


def _on_record(image: str, report: Report) -> str:
    files = f"{len(report.recording)} files record where they were built ({some(report.recording)})"
    return f"{image}: {files}, as origin or debug information, which no run looks into"
