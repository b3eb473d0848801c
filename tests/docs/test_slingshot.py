"""docs/slingshot.md is what tuning/ gives, and names each variable that a site's source sets on Slingshot."""

from __future__ import annotations

from tests.support import slingshot
from uenvtool.knowledge.tuning import load_all


def test_the_table_is_what_tuning_gives() -> None:
    assert slingshot.PAGE.read_text(encoding="utf-8") == slingshot.page(), "python -m tests.support.slingshot"


def test_each_site_has_a_column_and_each_of_their_variables_a_row() -> None:
    lines = list(slingshot.table())
    rows = {
        line.split("|")[1].strip(" `"): [cell.strip() for cell in line.split("|")[2:]] for line in lines if "|" in line
    }
    columns = {name.partition(" ")[0]: at for at, name in enumerate(rows["variable"])}

    assert {"Alps", "HPE", "Olivia", "Isambard-AI", "Frontier", "Perlmutter", "Polaris"} <= set(columns)
    assert {found.name for found in load_all().variables if "hpe" in found.says} <= set(rows)
    assert rows["FI_CXI_DEFAULT_TX_SIZE"][columns["HPE"]] == "`2048`"
    assert rows["FI_CXI_DEFAULT_TX_SIZE"][columns["Polaris"]] == ""
    assert "`0` (img-2026, ce-2026), `1` (docs-2026" in rows["NCCL_CROSS_NIC"][columns["Alps"]]


def test_every_variable_of_the_table_says_what_it_is_and_what_is_set_here() -> None:
    for line in list(slingshot.table())[2:]:
        if line.startswith("| "):
            cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
            assert cells[1], line
            assert cells[-1], line
