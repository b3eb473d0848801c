"""Test quoting for languages whose programs are not available in tests, according to their manuals."""

from __future__ import annotations

import html
import re
import shlex

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.activation.test_undo import AWKWARD, TEXT
from tests.support.shells import run
from uenvtool.core import quoting
from uenvtool.core.errors import BadInput

VALUES = st.one_of(AWKWARD, TEXT, st.text("\"'\\$#, a,", max_size=6))


@given(value=VALUES)
@example(value='a "b" \\c#d')
def test_sbatch_splits_a_line_into_the_values_again(value: str) -> None:
    if not value.isprintable():
        with pytest.raises(BadInput, match="cannot contain the value of job-name"):
            quoting.sbatch("job-name", value)
        return

    assert shlex.split(f"#SBATCH --job-name={quoting.sbatch('job-name', value)} --nodes=1") == [
        "#SBATCH",
        f"--job-name={value}",
        "--nodes=1",
    ]


@given(value=VALUES)
@example(value='"$HOME"\\')
def test_a_dockerfile_ends_no_value_early_and_expands_nothing(value: str) -> None:
    if "\n" in value or "\r" in value:
        with pytest.raises(BadInput, match="cannot contain the value of V"):
            quoting.docker("V", value)
        return

    quoted = quoting.docker("V", value)

    assert re.fullmatch(r'"(?:[^"\\$]|\\.)*"', quoted, re.DOTALL)
    assert re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL) == value


@settings(max_examples=12)
@given(value=VALUES)
@example(value="it's\n\\n")
def test_a_command_in_a_comment_is_one_line_that_bash_reads_as_it_was(value: str) -> None:
    line = quoting.bash_line(value)

    assert line.isprintable()
    assert run("bash", f"export V={line}\nSNAP\n").snaps[0][b"V"] == value.encode()


@given(value=VALUES)
@example(value="<a href=\"x\">&amp; 'b'")
def test_a_drawing_shows_a_text_as_it_is(value: str) -> None:
    written = quoting.html(value)

    assert html.unescape(written) == quoting.comment(value)
    assert not {"<", ">", '"'} & {*written}
