"""The requirements on every result of the command line for any input."""

from __future__ import annotations

import re

from tests.conftest import Answer

UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
UGLY = re.compile(r"\bNone\b|(?<!\w)b'\S|\[Errno|object is not|<class|Error:|unexpected [A-Z]|nothing said")
"""What a programmer would understand, and a user not."""


def assert_is_an_answer(answer: Answer, given: object, codes: tuple[int, ...] = (0, 1, 2)) -> None:
    """The exit code is one of these, nothing crashed, and the terminal gets plain text.

    Bad input is told in words that a user understands, with a way out.
    """
    shown = f"{given!r:.300}\nexit {answer.code}\n{answer.stderr[-2000:]}"
    assert answer.code in codes, shown
    assert "Traceback" not in answer.stderr, shown
    assert "please report" not in answer.stderr, shown
    assert not UNPRINTABLE.search(answer.stderr), shown
    if answer.code == 2:
        assert "hint: " in answer.stderr, shown
        assert not UGLY.search(answer.stderr.partition("hint: ")[0]), shown
