"""Measures rendering recipes with 10 to 10,000 specs, and the exponent of the growth."""

from __future__ import annotations

from collections.abc import Iterator

from side_by_side import Comparison, Place, Way, growth

LARGE = """\
description: A recipe with many specs.
home: clariden
uarchs: [any]
spack: {{url: https://github.com/spack/spack.git, tag: v1.1.0}}
repos: {{builtin: {{url: https://github.com/spack/spack-packages.git, tag: v2026.06.0}}}}
groups: {{all: {{specs: [{specs}]}}}}
view: {{link: all}}
"""


def comparisons(place: Place) -> Iterator[Comparison]:
    """Yield the comparison."""
    sizes = (10, 100, 1_000) if place.small else (10, 30, 100, 300, 1_000, 3_000, 10_000)
    for size in sizes:
        recipe = place.folder / "recipes" / f"r{size}" / "recipe.yaml"
        recipe.parent.mkdir(parents=True)
        recipe.write_text(LARGE.format(specs=", ".join(f"pkg-{i}@1.{i} +shared" for i in range(size))))
    ways = [
        Way(f"{size} specs", place.tool("build", f"r{size}", "--no-concretize", "-o", f"out{size}")) for size in sizes
    ]
    yield Comparison(
        "Rendering, by the number of specs", ways, "`uenvtool build`, including its start.", remarks=growth
    )
