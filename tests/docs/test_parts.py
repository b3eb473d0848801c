"""Test that the generated parts of docs/ are up to date and contain every Slingshot variable and site."""

from __future__ import annotations

import importlib
import re
from types import ModuleType

import pytest

from tests.support.project import ROOT
from uenvtool.knowledge.tuning import load_all


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("pages")


def test_each_part_is_up_to_date(pages: ModuleType) -> None:
    stale = [part.page for part in pages.PARTS if (pages.DOCS / part.page).read_text(encoding="utf-8") != part.text()]

    assert stale == [], "python tools/pages.py"


def test_each_site_is_a_source_and_each_of_its_variables_has_a_section(pages: ModuleType) -> None:
    text = "\n".join(pages.slingshot())
    sections = {part.partition("`")[0]: part for part in text.split("#### `")[1:]}
    documents = re.findall(r"^- ([\w-]+).*, `[\w.-]+`: \[", text, re.MULTILINE)

    assert {"Alps", "HPE", "Olivia", "Isambard-AI", "Frontier", "Perlmutter", "Polaris"} <= set(documents)
    assert {variable.name for variable in load_all().variables if "hpe" in variable.says} <= set(sections)
    assert "| `2048` | Frontier, Olivia (sigma2), HPE, Isambard-AI |" in sections["FI_CXI_DEFAULT_TX_SIZE"]
    assert "Polaris" not in sections["FI_CXI_DEFAULT_TX_SIZE"]
    assert "| `0` | Alps (img-2026, ce-2026) |" in sections["NCCL_CROSS_NIC"]
    assert "| `1` | Alps (docs-2026" in sections["NCCL_CROSS_NIC"]
    for name, section in sections.items():
        assert re.search(r"`\n\n\S.*\.\n\n\| value", section), name  # the definition, then the values
        assert "Set by uenvtool:" in section or "uenvtool does not set" in section, name
