"""The door to the terminal: what goes where, what a terminal would obey, outputs that take nothing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uenvtool.core import console
from uenvtool.core.errors import ExitCode, Problem
from uenvtool.core.result import Result, Table

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ESCAPE = "\x1b]0;owned\x07\x1b[2J"

SHOW = "from uenvtool.core import console; from uenvtool.core.result import Result; console.show"


def test_the_answer_is_on_stdout_and_the_rest_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    result = Result(
        text="the answer",
        tables=(Table(headings=("a", "b"), rows=[("long cell", "x")]),),
        problems=(Problem("bad", hint="mend it"),),
        warnings=("careful",),
        notes=("noted",),
        next=("do this\nand that",),
        exit_code=ExitCode.NO,
    )

    code = console.show(result)

    shown = capsys.readouterr()
    assert code == 1
    assert shown.out == "the answer\n\na          b\nlong cell  x\n"
    assert shown.err == ("error: bad\nhint: mend it\nwarning: careful\nnoted\nnext:\n  do this\n  and that\n")


def test_as_json_stdout_holds_the_data_alone(capsys: pytest.CaptureFixture[str]) -> None:
    console.show(Result(data={"a": ["é", ESCAPE, "\udcff"]}, text="not this", notes=("noted",)), as_json=True)

    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"a": ["é", ESCAPE, "\udcff"]}
    assert "\x1b" not in shown.out
    assert shown.err == "noted\n"


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_shown(text: str) -> None:
    shown = console.printable(text)

    assert all(character.isprintable() or character in "\t\n" or ord(character) > 0x9F for character in shown)
    assert console.printable(shown) == shown


def test_told_text_is_printable_in_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(headings=(ESCAPE,), rows=[(f"one\n{ESCAPE}",)])
    console.show(
        Result(
            text=ESCAPE, tables=(table,), problems=(Problem(ESCAPE, hint=ESCAPE),), warnings=(ESCAPE,), notes=(ESCAPE,)
        )
    )
    with console.progress(ESCAPE) as step:
        step(ESCAPE)

    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert "\\x1b]0;owned\\x07" in shown.out
    assert "one\\n\\x1b" in shown.out


def test_a_file_is_given_byte_for_byte() -> None:
    text = "export A='\x1b\udcff'\n"
    code = f"{SHOW}(Result(file={text!r}))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert done.stdout == os.fsencode(text)


def test_on_a_terminal_a_file_is_printable_too() -> None:
    import pty

    code = f"{SHOW}(Result(file={ESCAPE!r}))"
    controller, terminal = pty.openpty()
    done = subprocess.run([sys.executable, "-c", code], stdout=terminal, check=False)
    os.close(terminal)

    assert done.returncode == 0
    assert b"\x1b" not in os.read(controller, 10_000)


LIVE = """
import time
from uenvtool.core import console
from uenvtool.env.output import InstallOutput

done = {str(number) for number in range(136)}
output = InstallOutput(total=236, done=done, cached=["x"] * 100, built=["x"] * 30, current="py-torch-nvidia-apex-25")
with console.progress("installing 236 packages") as step:
    step(output.text())
    time.sleep(0.5)
"""


def test_a_live_line_is_one_line_of_80_columns_with_all_that_counts_and_leaves_nothing() -> None:
    drawn, after = drawn_on_a_terminal(LIVE, columns=80)

    line = drawn[-1]
    assert len(line) <= 80 - len("^C")  # which a terminal adds; on the next line the whole would stay
    assert re.match(r". 0:00:0\d 136 done, 100 left, 100 cached, 30 built; building py-torch-nv", line), drawn
    assert after == ""


def drawn_on_a_terminal(code: str, columns: int) -> tuple[list[str], str]:
    """The lines that code draws on a terminal, without what controls it, and what stays of the last one."""
    import fcntl
    import pty
    import struct
    import termios

    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {name: text for name, text in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    done = subprocess.run(
        [sys.executable, "-c", code], stderr=terminal, stdout=terminal, check=True, env={**variables, "TERM": "xterm"}
    )
    os.close(terminal)
    written = b""
    with contextlib.suppress(OSError):  # so a terminal ends that nobody writes to
        while part := os.read(controller, 1 << 16):  # at most 4 KiB, and a busy machine draws more
            written += part
    *drawn, after = written.decode().split("\x1b[2K")  # a line is drawn again where it was
    assert done.returncode == 0
    shown = [CONTROL.sub("", text).strip("\r\n") for text in drawn]
    return [line for line in shown if line.strip()], CONTROL.sub("", after).strip()


def test_a_row_takes_one_line_of_a_terminal_and_has_its_colour(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(headings=("severity", "what"), rows=[("broken", "x" * 200)], colours={"broken": "red"}, cut=True)
    monkeypatch.setattr(console, "_is_terminal", lambda _stream: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("TERM", raising=False)

    console.show(Result(tables=(table,)))

    heading, row = capsys.readouterr().out.splitlines()
    assert row.startswith("\x1b[31mbroken")
    assert CONTROL.sub("", row) == f"broken    {'x' * 29}…"
    assert CONTROL.sub("", heading).rstrip() == "severity  what"
    assert heading.startswith("\x1b[1m")


def test_on_a_terminal_the_last_column_goes_on_below_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(headings=("name", "why"), rows=[("nccl", "what it says of itself, on any fabric --network=4")])
    monkeypatch.setattr(console, "_is_terminal", lambda _stream: True)
    monkeypatch.setenv("COLUMNS", "38")
    monkeypatch.setenv("NO_COLOR", "1")

    console.show(Result(tables=(table,)))

    lines = ["name  why", "nccl  what it says of itself, on any", "      fabric --network=4"]
    assert capsys.readouterr().out.splitlines() == lines


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 40 columns, without colours."""
    monkeypatch.setattr(console, "_is_terminal", lambda _stream: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.usefixtures("narrow")
def test_on_a_terminal_lines_break_between_words_and_never_in_a_path_or_a_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, path = "`uenvtool job --system clariden -- python train.py`", f"/capstor/{'x' * 40}/spack.yaml"
    problem = Problem(f"{path} is older than what it was made from", hint=f"see what is in it, then type {command}")

    console.show(Result(problems=(problem,), warnings=("the overlay is older than the folder beside it",)))

    assert capsys.readouterr().err.splitlines() == [
        "error:",
        f"  {path}",
        "  is older than what it was made from",
        "hint: see what is in it, then type",
        f"  {command}",
        "warning: the overlay is older than the",
        "  folder beside it",
    ]


@pytest.mark.usefixtures("narrow")
def test_on_a_terminal_columns_that_leave_no_room_get_narrower(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("tqdm", "lightning, torchmetrics, transformers", ""), ("torch", "lightning, torchmetrics, you", "older")]

    console.show(Result(tables=(Table(headings=("name", "asked by", ""), rows=rows),)))

    assert capsys.readouterr().out.splitlines()[1:] == [
        "tqdm   lightning, torchmetrics,",
        "       transformers",
        "torch  lightning, torchmetrics,    older",
        "       you",
    ]


@pytest.mark.usefixtures("narrow")
def test_on_a_terminal_an_answer_goes_on_below_its_last_column(capsys: pytest.CaptureFixture[str]) -> None:
    console.show(
        Result(text="  why:    LL128 delivers wrong data on GH200 nodes\nno problem was found in the whole shell")
    )

    assert capsys.readouterr().out.splitlines() == [
        "  why:    LL128 delivers wrong data on",
        "          GH200 nodes",
        "no problem was found in the whole shell",
    ]


@pytest.mark.usefixtures("narrow")
def test_on_a_terminal_commands_to_go_on_with_and_differences_stay_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, change = (
        "uenvtool build pytorch-2.6 --system clariden -o envs",
        "+ version: 2.6.0  # what is published there",
    )

    console.show(Result(problems=(Problem(f"it differs\n{change}"),), next=(command,), file=f"a: {'b ' * 40}"))

    shown = capsys.readouterr()
    assert shown.err.splitlines() == ["error: it differs", change, "next:", f"  {command}"]
    assert shown.out == f"a: {'b ' * 40}\n"


def test_a_row_is_whole_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("x" * 300, "words " * 100)]

    console.show(Result(tables=(Table(headings=("one", "other"), rows=rows, cut=True),)))
    console.show(Result(tables=(Table(headings=("one", "other"), rows=rows),)))

    assert capsys.readouterr().out.count("  ".join(rows[0]).rstrip()) == 2
