"""References of network tests: their scope, their order, and their own tolerance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli, Write
from tests.doctor.test_bandwidth import table
from uenvtool.knowledge.reference import figures_of, load_references
from uenvtool.knowledge.system import load_system

GIB = 1 << 30
OWN = """\
description: Mine.
systems: [clariden]
figures:
- {test: all_reduce_perf, nodes: 2, bytes: 1073741824, busbw: 120, tolerance: 0.01, source: "measured here, 2026-11"}
"""


def busbw(system: str, uarch: str = "", runtime: str = "", size: int = GIB) -> list[float]:
    figures = figures_of(load_system(system), uarch, runtime)
    return [each.busbw for each in figures if each.test == "all_reduce_perf" and each.bytes == size]


def test_a_system_has_the_figures_of_the_systems_that_it_extends() -> None:
    assert busbw("clariden") == busbw("santis", "gh200") == [150.0]
    assert busbw("frontier") == []


def test_node_types_of_one_system_have_their_own_figures() -> None:
    assert (busbw("beverin", "mi300"), busbw("beverin", "mi200")) == ([140.0], [105.0])
    assert busbw("beverin") == []  # a log does not show which nodes it is from


def test_a_runtime_has_its_own_figure_before_the_common_one() -> None:
    assert busbw("isambard-ai", runtime="apptainer", size=8 * GIB) == [90.0, 163.0]
    assert busbw("isambard-ai", runtime="conda", size=8 * GIB) == [163.0]


def test_figures_of_a_gpu_and_a_fabric_apply_to_any_system_with_them(write: Write) -> None:
    gpu = "{vendor: nvidia, model: H100, arch: 90, count: %d}"
    node = "nodes: {h100: {target: zen4, os: sles15, gpu: %s}}\n"
    write("systems/mine.yaml", "description: Mine.\nsite: here\nfabric: infiniband\n" + node % gpu % 8)
    write("systems/few.yaml", "description: Mine.\nsite: here\nfabric: infiniband\n" + node % gpu % 4)

    assert (busbw("mine", size=16 * GIB), busbw("few", size=16 * GIB)) == ([460.0], [])


@pytest.mark.parametrize(("measured", "verdict"), [(136.0, "good"), (134.0, "11% below")])
def test_a_figure_has_its_own_tolerance(cli: Cli, write: Write, measured: float, verdict: str) -> None:
    write("job.out", table((GIB, measured, "0")))

    (run,) = json.loads(cli("doctor", "job.out", "-s", "clariden", "--json").stdout)["runs"]

    assert [row["verdict"] for row in run["rows"]] == [verdict]
    assert next(row for row in run["figures"] if row["bytes"] == GIB)["tolerance"] == 0.1


def test_your_own_figure_comes_before_a_built_in_one(cli: Cli, write: Write) -> None:
    write("references/mine.yaml", OWN)
    write("job.out", table((GIB, 118.0, "0")))

    assert cli("validate", "references/mine.yaml").code == 0
    assert (
        "118 GB/s at 1 GB, 2% below 120 GB/s (measured here, 2026-11)"
        in cli("doctor", "job.out", "-s", "clariden").stdout
    )


def test_every_shipped_figure_has_a_source_with_a_date_and_names_known_systems() -> None:
    for path in (ROOT / "knowledge" / "references").glob("*.yaml"):
        references = load_references(str(path))
        assert all("202" in each.source for each in references.figures), path
        assert all((ROOT / "knowledge" / "systems" / f"{name}.yaml").is_file() for name in references.systems)
        keys = [(each.test, each.nodes, each.bytes, each.runtime) for each in references.figures]
        assert len(keys) == len({*keys}), path


def test_a_wrong_tolerance_is_rejected_with_its_place(cli: Cli, write: Write) -> None:
    path: Path = write("references/mine.yaml", OWN.replace("0.01", "5%"))

    answer = cli("validate", path)

    assert answer.code == 2
    assert "references/mine.yaml:4:" in answer.stderr
