"""Parsing of tracebacks whose lines have labels or are mixed with other output."""

from __future__ import annotations

import pytest

from tests.doctor.test_log import read
from uenvtool.doctor.log.traceback import HEADER, exception_text
from uenvtool.doctor.report import line_of

PLAIN = f'{HEADER}:\n  File "/home/u/train.py", line 12, in main\n    x = d["a"]\n        ~^^^^^\nKeyError: \'a\'\n'
LIBRARY = f'{HEADER}:\n  File "/opt/lib/python3.12/site-packages/q/r.py", line 3, in f\n    g()\nx.FooError: no\n'
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
SAID = "KeyError: 'a' at train.py:12 in main"


def labelled(label: str, text: str = PLAIN) -> str:
    return "".join(label + line for line in text.splitlines(keepends=True))


def said(log: str) -> str:
    """Return the summary of the first traceback in a log."""
    start = log.rfind("\n", 0, log.index(HEADER)) + 1
    return exception_text(log[start : log.index(HEADER)], log[start:])[0]


@pytest.mark.parametrize(
    "label",
    [
        "",
        "[rank3]: ",
        "3: ",
        "[default3]:",
        "(RayTrainWorker pid=12, ip=10.0.0.1) ",
        "n001: ",
        "2026-11-21T10:00:03.1Z ",
    ],
)
def test_labels_are_removed(label: str) -> None:
    assert said(labelled(label)) == SAID


def test_labels_with_times_may_differ_between_lines() -> None:
    assert said(labelled("2026-11-21 10:00:03,123 ").replace("123   File", "139   File")) == SAID
    assert said("2026-11-21 10:00:03,123 ERROR train " + PLAIN) == SAID


def test_traceback_that_torchrun_reports_is_read_with_its_first_exception() -> None:
    report = "".join(f"  {line}" for line in (PLAIN + DURING + LIBRARY).splitlines(keepends=True))

    assert said("  traceback : " + report.lstrip()) == f"{SAID}; finally x.FooError: no at r.py:3 in f"


def test_tracebacks_of_two_ranks_are_separated() -> None:
    one, other = (labelled(f"[rank{rank}]: ", PLAIN.replace("12", str(rank))).splitlines() for rank in (4, 5))

    assert said("\n".join(line for pair in zip(one, other, strict=True) for line in pair)) == SAID.replace("12", "4")


def test_first_and_last_exception_of_a_chain_are_named() -> None:
    assert said(PLAIN + DURING + LIBRARY) == f"{SAID}; finally x.FooError: no at r.py:3 in f"
    assert said(PLAIN + "step 3\n" + LIBRARY) == SAID


def test_long_chain_is_printed_with_the_message_of_its_last_exception() -> None:
    first = PLAIN.replace("KeyError: 'a'", f"urllib.error.HTTPError: HTTP Error 302: {'Found ' * 9}")
    last = LIBRARY.replace("FooError: no", "FooError: HTTP Error 403: the server does not allow this request")

    (finding,) = read(first + DURING + last).findings

    assert line_of(finding).endswith(
        "urllib.error.HTTPError: HTTP Error 302: Found Found Found Found Found Found ...; "
        "finally x.FooError: HTTP Error 403: the server does not ... at r.py:3 in f, log0:1"
    )


def test_long_message_without_a_chain_keeps_160_characters_and_its_place() -> None:
    (finding,) = read(PLAIN.replace("KeyError: 'a'", f"KeyError: {'word ' * 36}")).findings

    detail = line_of(finding).partition("in the log: ")[2].removesuffix(", log0:1")
    assert detail.endswith("word ... at train.py:12 in main")
    assert 150 < len(detail) <= 160


NAMED = ["a class of the script", "a class of the script with a message", "no message"]


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (PLAIN[: PLAIN.index("KeyError")], 'a traceback that is cut off after train.py:12 in main: x = d["a"]'),
        (f"KeyError       {HEADER}\nCell In[3], line 1\n----> 1 d['a']\n\nKeyError: 'a'\n", "KeyError: 'a'"),
        (f"╭─── {HEADER} ───╮\n│ /home/u/train.py:12 in main │\n╰──────╯\nKeyError: 'a'\n", SAID),
        (
            LIBRARY.replace("x.FooError: no", "KeyError: Caught KeyError in DataLoader worker process 0.")
            + f"Original {PLAIN}",
            SAID,
        ),
        (
            f'{HEADER}:\n  File "run.py", line 1, in <module>\nRuntimeError: Error(s) in loading state_dict for Net:\n'
            "\tsize mismatch for a: b\n",
            "RuntimeError: Error(s) in loading state_dict for Net: size mismatch for a: b at run.py:1",
        ),
        (
            f'{HEADER}:\n  File "run.py", line 2, in f\n    raise EarlyEnd()\nEarlyEnd\n',
            "EarlyEnd at run.py:2 in f: raise EarlyEnd()",
        ),
        (
            f'{HEADER}:\n  File "run.py", line 2, in f\n    raise EarlyEnd(reason)\nEarlyEnd: no more data\n',
            "EarlyEnd: no more data at run.py:2 in f",
        ),
        (
            f'{HEADER}:\n  File "run.py", line 2\n    x = next(it)\nStopIteration\nsrun: error: n1: task 0: Killed\n',
            "StopIteration at run.py:2: x = next(it)",
        ),
    ],
    ids=["cut off", "IPython", "Rich", "a worker's, raised anew", "a message of two lines", *NAMED],
)
def test_other_traceback_formats_are_read(log: str, text: str) -> None:
    assert said(log) == text
