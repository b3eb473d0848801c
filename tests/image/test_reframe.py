"""The mark that ReFrame's tests earn, by what their report may say; tests/real/test_reframe.py runs some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.support.kept_images import packed_image
from tests.support.needs import needs

pytestmark = needs("mksquashfs", "unsquashfs")


@pytest.fixture
def image(place: Path) -> Path:
    return packed_image(place / "hello-0123456789ab.squashfs", "0123456789ab")


def report(place: Path, **session: Any) -> Path:
    """A report of two tests that passed a moment ago, or of what `session` says."""
    told = {"num_cases": 2, "num_failures": 0, "time_start_unix": 4e9, "version": "4.10.4", **session}
    failed = [{"unique_name": f"Test_{index}", "result": "fail"} for index in range(told["num_failures"])]
    path = place / "report.json"
    path.write_text(json.dumps({"session_info": told, "runs": [{"testcases": failed}]}))
    return path


@pytest.mark.parametrize(
    ("session", "message"),
    [
        ({"num_failures": 1}, "1 of 2 tests did not pass: Test_0"),
        ({"num_aborted": 2}, "2 of 2 tests did not pass"),
        ({"num_cases": 0}, "no test ran"),
        ({"num_skipped": 2}, "no test ran"),
        ({"time_start_unix": 1.0}, "the tests began before"),
    ],
)
def test_tests_that_did_not_pass_on_this_image_give_no_mark(
    cli: Cli, place: Path, image: Path, session: dict[str, Any], message: str
) -> None:
    answer = cli("image", "mark-tested", image, "--reframe", report(place, **session))

    assert answer.code == 1
    assert f"report.json:1:1: {message}" in answer.stderr
    assert not image.with_name(f"{image.name}.tested").exists()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"session_info": 1}', '{"session_info": {"time_start_unix": 1}}', None]
)
def test_what_is_no_report_is_refused(cli: Cli, place: Path, image: Path, content: str | None) -> None:
    if content is not None:
        (place / "report.json").write_text(content)

    answer = cli("image", "mark-tested", image, "--reframe", place / "report.json")

    assert answer.code == 2
    assert "report.json:1:1: " in answer.stderr
    assert not image.with_name(f"{image.name}.tested").exists()
