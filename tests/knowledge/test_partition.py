"""Times of partitions as Slurm counts them."""

import pytest

from uenvtool.knowledge.jobs import minutes, time_text

FORMS = {
    "30": 30, "1:30": 2, "90:00": 90, "01:00:00": 60, "00:00:01": 1, "1-0": 1440, "2-12:30": 3630, "1-00:00:30": 1441
}  # fmt: skip
"""What sbatch(1) takes; seconds count as a minute."""


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_sbatch(form: str) -> None:
    assert minutes(form) == FORMS[form]
    assert minutes(time_text(FORMS[form])) == FORMS[form]


def test_zero_is_no_limit() -> None:
    assert minutes("0") == minutes("00:00:00") == minutes("UNLIMITED") == float("inf")
