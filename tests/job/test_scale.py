"""Test the statements of docs/benchmarks.md about a job script."""

from __future__ import annotations

from tests.conftest import Cli


def test_a_job_of_10_000_nodes_is_as_long_as_one_of_three(cli: Cli) -> None:
    words = ("--system", "clariden", "--account", "a", "--image", "u")

    few, many = (cli("job", *words, "--nodes", nodes, "--", "true").stdout for nodes in ("3", "10000"))

    assert many.replace("=10000", "=3").replace("--nodes 10000", "--nodes 3") == few
