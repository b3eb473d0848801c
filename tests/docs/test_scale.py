"""The page of start-up at scale has the table of its model, and the model does what the page says."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.conftest import Cli
from tests.support.project import ROOT

PAGE = ROOT / "docs/scale.md"


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import scale

    return scale


def test_the_table_of_the_page_is_the_models(scale: ModuleType) -> None:
    _, _, rest = PAGE.read_text().partition("<!-- benchmarks/scale.py -->\n")

    assert rest.partition("<!-- end -->")[0].strip().splitlines() == list(scale.table())


def test_more_ranks_than_the_servers_can_serve_wait_for_each_other(scale: ModuleType) -> None:
    counted = scale.Counted(lookups=1000, reads=0, megabytes=0)
    published = scale.Published(lookups=10_000, reads=1, megabytes=1)

    assert scale.seconds(counted, published, 1) == pytest.approx(0.5)  # one answer after the other
    assert scale.seconds(counted, published, 4000) == pytest.approx(100)  # 1,000 nodes


def test_a_time_that_grows_with_the_square_has_the_power_of_two(scale: ModuleType) -> None:
    import side_by_side

    lines = list(side_by_side.growth({f"{size} lines": 1 + 1e-6 * (size - 10) ** 2 for size in (10, 1_000, 10_000)}))

    assert lines[0] == "beyond the first 10, one of 1000 lines costs 990 us"
    assert lines[-1] == "the time beyond that grows with the number of lines to the power of 2.00"


def test_a_job_of_10_000_nodes_is_as_long_as_one_of_three(cli: Cli) -> None:
    words = ("--system", "clariden", "--account", "a", "--image", "u")

    few, many = (cli("job", *words, "--nodes", nodes, "--", "true").stdout for nodes in ("3", "10000"))

    assert many.replace("=10000", "=3").replace("--nodes 10000", "--nodes 3") == few
