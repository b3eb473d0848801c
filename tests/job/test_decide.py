"""Test that `decide.py` makes all decisions about a job, and that other modules only use them."""

from __future__ import annotations

import ast

from tests.conftest import ROOT
from uenvtool.job.plan import JobPlan


def test_the_plan_computes_only_a_name_and_a_quotient() -> None:
    assert {name for name, value in vars(JobPlan).items() if isinstance(value, property)} == {"use", "cores_of_rank"}


def test_decide_asks_the_refusals_only_whether_the_job_is_possible() -> None:
    tree = ast.parse((ROOT / "uenvtool" / "job" / "decide.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]

    names = {alias.name for node in imports if node.module == "uenvtool.job.refusals" for alias in node.names}

    assert names == {"Case", "refusals"}
