"""The parts of pages that tools/pages.py makes are what the program gives; the table of Slingshot has every site."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from tests.support.project import ROOT
from uenvtool.knowledge.tuning import load_all


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("pages")


def test_each_part_is_what_the_program_gives(pages: ModuleType) -> None:
    stale = [part.page for part in pages.PARTS if (pages.DOCS / part.page).read_text(encoding="utf-8") != part.text()]

    assert stale == [], "python tools/pages.py"


def test_each_site_has_a_column_and_each_of_their_variables_a_row(pages: ModuleType) -> None:
    lines = [line.strip("| ").split(" | ") for line in pages.slingshot() if line.startswith("|")]
    rows = {cells[0].strip(" `"): [cell.strip() for cell in cells[1:]] for cells in lines}
    columns = {name.partition(" ")[0]: at for at, name in enumerate(rows["variable"])}

    assert {"Alps", "HPE", "Olivia", "Isambard-AI", "Frontier", "Perlmutter", "Polaris"} <= set(columns)
    assert {found.name for found in load_all().variables if "hpe" in found.says} <= set(rows)
    assert rows["FI_CXI_DEFAULT_TX_SIZE"][columns["HPE"]] == "`2048`"
    assert rows["FI_CXI_DEFAULT_TX_SIZE"][columns["Polaris"]] == ""
    assert "`0` (img-2026, ce-2026), `1` (docs-2026" in rows["NCCL_CROSS_NIC"][columns["Alps"]]
    for name, cells in rows.items():
        assert cells[0], name  # what it is
        assert cells[-1], name  # what is set here
