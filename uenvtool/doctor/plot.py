"""Table and plot that compare a network test with the measured bandwidths of the system."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core import files, quoting
from uenvtool.core.errors import BadInput
from uenvtool.core.result import Table
from uenvtool.doctor.network import SMALL, Run, shown, verdict

BAR = 14
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 400, 56, 24, 32, 44
STEPS, MOST_SIZES = 5, 10
STYLE = (
    "svg{background:#fff;font:11px system-ui,sans-serif;fill:#1f2328}.axis{stroke:#d0d7de}"
    ".run,.reference{fill:none;stroke:#0b57d0;stroke-width:2}"
    ".reference{stroke:#57606a;stroke-dasharray:5 4}@media(prefers-color-scheme:dark)"
    "{svg{background:#14181d;fill:#e6edf3}.axis{stroke:#3a434e}.run{stroke:#8ab4f8}}"
)


def table(run: Run, *, whole: bool = False) -> Table:
    """Return a run as a table, with a bar for each size and a mark at the system's figure.

    whole: include the small sizes, which measure latency.
    """
    figures = {figure.bytes: figure.busbw for figure in run.figures}
    rows = [row for row in run.rows if whole or row.bytes >= SMALL or row.wrong] or list(run.rows)
    top = max([row.busbw for row in rows] + [figures.get(row.bytes, 0) for row in rows]) or 1
    cells = [
        (
            shown(row.bytes),
            f"{row.time:g}" if row.time else "",
            f"{row.busbw:.2f}",
            f"{row.in_place:.2f}" if row.in_place else "",
            f"{figures[row.bytes]:.2f}" if row.bytes in figures else "",
            verdict(run, row),
            _bar(row.busbw / top, figures.get(row.bytes, 0) / top),
        )
        for row in rows
    ]
    headings = (run.test or "size", "us", "GB/s", "in place", "reference", "verdict", "")
    columns = [column for column in range(len(headings)) if column == 0 or any(line[column] for line in cells)]
    rows_of_columns = [[line[column] for column in columns] for line in cells]
    return Table(headings=tuple(headings[column] for column in columns), rows=rows_of_columns, cut=True)


def _bar(part: float, mark: float) -> str:
    bar = ("#" * round(part * BAR)).ljust(BAR)
    at = round(mark * BAR) - 1
    return (f"{bar[:at]}|{bar[at + 1 :]}" if at >= 0 else bar).rstrip()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scale:
    """The coordinates of sizes (logarithmic) and bandwidths (linear) in the plot."""

    sizes: Sequence[int]
    top: float

    def x(self, size: int) -> str:
        span = math.log2(self.sizes[-1] / self.sizes[0]) or 1
        return f"{LEFT + math.log2(size / self.sizes[0]) / span * (WIDTH - LEFT - RIGHT):.1f}"

    def y(self, value: float) -> str:
        return f"{HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM):.1f}"


def _element(tag: str, attributes: Mapping[str, object], text: str = "") -> str:
    given = "".join(f' {name}="{quoting.html(str(value))}"' for name, value in attributes.items())
    return f"<{tag}{given}>{quoting.html(text)}</{tag}>"


def _elements(run: Run) -> Iterator[str]:
    label = f"{run.name} {run.date[:10]}".strip() or run.test
    lines = [("run", {row.bytes: row.busbw for row in run.rows}, label)]
    if run.figures:
        figures = {figure.bytes: figure.busbw for figure in run.figures}
        lines.insert(0, ("reference", figures, f"reference: {run.figures[0].source}"))
    sizes = sorted({size for _, points, _ in lines for size in points if size > 0}) or [1]
    most = max(max(points.values()) for _, points, _ in lines) or 1
    step = 10 ** math.floor(math.log10(most)) / 2
    scale = _Scale(sizes=sizes, top=math.ceil(most / step) * step)
    yield from _axes(scale)
    for number, (kind, points, name) in enumerate(lines):
        path = [f"{scale.x(size)},{scale.y(points[size])}" for size in sorted(points) if size > 0]
        y = TOP + 8 + 16 * number
        yield _element("polyline", {"class": kind, "points": " ".join(path)})
        yield _element("line", {"class": kind, "x1": LEFT + 8, "x2": LEFT + 32, "y1": y, "y2": y})
        yield _element("text", {"x": LEFT + 38, "y": y + 4}, name)


def _axes(scale: _Scale) -> Iterator[str]:
    for value in (scale.top * step / STEPS for step in range(STEPS + 1)):
        y = scale.y(value)
        yield _element("line", {"class": "axis", "x1": LEFT, "x2": WIDTH - RIGHT, "y1": y, "y2": y})
        yield _element("text", {"x": LEFT - 6, "y": y, "text-anchor": "end"}, f"{value:g}")
    yield _element("text", {"x": 6, "y": 14}, "GB/s")
    for size in scale.sizes[:: math.ceil(len(scale.sizes) / MOST_SIZES)]:
        yield _element("text", {"x": scale.x(size), "y": HEIGHT - BOTTOM + 18, "text-anchor": "middle"}, shown(size))


def svg(run: Run) -> str:
    """Return the plot as the text of an SVG file that follows the reader's light or dark theme."""
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">\n<style>{STYLE}</style>'
    return "\n".join([start, *_elements(run), "</svg>", ""])


def require_svg(output: Path) -> None:
    """Raise BadInput if the name of a file does not end with .svg."""
    if output.suffix != ".svg":
        raise BadInput(f"-o {str(output)!r}: the file name must end with .svg", hint="use a name such as busbw.svg")


def draw(output: Path, runs: Sequence[Run], *, force: bool) -> str:
    """Write a plot of the last run, and return a message about the file.

    Raises BadInput if `runs` is empty, the file name does not end with .svg, or a file that uenvtool did not write
    exists.
    """
    if not runs:
        hint = "pass a log of nccl-tests, PyTorch's all_reduce_bench or the OSU benchmarks"
        raise BadInput("the log contains no network test", hint=hint)
    require_svg(output)
    files.write_siblings(output.parent, {output.name: svg(runs[-1])}, force=force)
    return f"wrote {output}; open it in a browser"
