"""Test the console: output streams, control characters, and outputs that cannot be written to."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.terminals import Terminal
from uenvtool.core import console
from uenvtool.core.errors import ExitCode, Problem
from uenvtool.core.result import Result, Table

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3[0-8]|4[0-8]|9[0-7])[;m]")
HIDDEN = "\u061c\u200b\u2028\U000e0041"
"""Of Unicode: a mark of the writing direction, a space of no width, an end of a line, a tag."""
ESCAPE = f"\x1b]0;owned\x07\x1b[2J{HIDDEN}"

SHOW = "from uenvtool.core import console; from uenvtool.core.result import Result; console.show"


def test_the_answer_is_on_stdout_and_the_rest_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(headings=("a", "b"), rows=[("long cell", "x")])
    told = Result(text="the answer", tables=(table,), problems=(Problem("bad", hint="mend it"),), exit_code=ExitCode.NO)

    code = console.show(replace(told, warnings=("careful",), notes=("noted",), next=("do this\nand that",)))

    shown = capsys.readouterr()
    assert code == 1
    assert shown.out == "the answer\n\na          b\nlong cell  x\n"
    assert shown.err == ("error: bad\nhint: mend it\nwarning: careful\nnoted\nnext:\n  do this\n  and that\n")


def test_as_json_stdout_holds_the_data_alone(capsys: pytest.CaptureFixture[str]) -> None:
    console.show(Result(data={"a": ["é", ESCAPE, "\udcff"]}, text="not this", notes=("noted",)), as_json=True)

    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"a": ["é", ESCAPE, "\udcff"]}
    assert not {"\x1b", *HIDDEN} & {*shown.out}
    assert shown.err == "noted\n"


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_shown(text: str) -> None:
    shown = console.printable(text)

    kinds = {unicodedata.category(character) for character in shown if character not in "\t\n"}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert console.printable(shown) == shown


def test_a_byte_of_a_name_that_is_not_utf_8_is_shown_as_bash_takes_it() -> None:
    assert console.printable(os.fsdecode(b"n\x80\xff")) == r"n\x80\xff"


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
    assert not {"\x1b", *HIDDEN} & {*shown.out, *shown.err}
    assert r"\x1b]0;owned\x07\x1b[2J\u061c\u200b\u2028\U000e0041" in shown.out
    assert "one\\n\\x1b" in shown.out


def test_a_file_is_given_byte_for_byte() -> None:
    text = "export A='\x1b\udcff'\n"
    code = f"{SHOW}(Result(file={text!r}))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert done.stdout == os.fsencode(text)


def test_no_color_takes_the_colours_of_what_typer_prints_too() -> None:
    """On a terminal rich still sends bold and dim: https://no-color.org speaks of colours alone."""
    help_of = "from uenvtool.cli import run; run(['--help'])"

    coloured = COLOUR.search(terminal_gets(help_of, 80, NO_COLOR="")) is not None

    assert coloured
    assert COLOUR.search(terminal_gets(help_of, 80, NO_COLOR="1")) is None


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
    *drawn, after = terminal_gets(code, columns).split("\x1b[2K")  # a line is drawn again where it was
    shown = [CONTROL.sub("", text).strip("\r\n") for text in drawn]
    return [line for line in shown if line.strip()], CONTROL.sub("", after).strip()


def terminal_gets(code: str, columns: int, **env: str) -> str:
    """What code sends to a terminal of so many columns."""
    import fcntl
    import pty
    import struct
    import termios

    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {name: text for name, text in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    environ = {**variables, "TERM": "xterm", **env}
    process = subprocess.Popen([sys.executable, "-c", code], stderr=terminal, stdout=terminal, env=environ)
    os.close(terminal)
    written = b""
    with contextlib.suppress(OSError):  # so a terminal ends that nobody writes to
        while part := os.read(controller, 1 << 16):  # at most 4 KiB, and a busy machine draws more
            written += part
    assert process.wait() == 0
    return written.decode()


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Callable[[Result], tuple[str, str]]:
    """Shows a result on a terminal of 40 columns, and gives what its two outputs got."""
    monkeypatch.setenv("COLUMNS", "40")

    def show(result: Result) -> tuple[str, str]:
        with contextlib.redirect_stdout(Terminal()) as out, contextlib.redirect_stderr(Terminal()) as err:
            console.show(result)
        return out.text, err.text

    return show


Narrow = Callable[[Result], tuple[str, str]]


def test_a_row_takes_one_line_of_a_terminal_and_has_its_colour(narrow: Narrow, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(headings=("severity", "what"), rows=[("broken", "x" * 200)], colours={"broken": "red"}, cut=True)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.delenv("TERM", raising=False)

    heading, row = narrow(Result(tables=(table,)))[0].splitlines()

    assert row.startswith("\x1b[31mbroken")
    assert CONTROL.sub("", row) == f"broken    {'x' * 29}…"
    assert CONTROL.sub("", heading).rstrip() == "severity  what"
    assert heading.startswith("\x1b[1m")


def test_lines_break_between_words_and_never_in_a_path_a_command_or_a_difference(narrow: Narrow) -> None:
    command, path = "`uenvtool job --system clariden -- python train.py`", f"/capstor/{'x' * 40}/spack.yaml"
    change = "+ version: 2.6.0  # what is published there"
    problems = (
        Problem(f"{path} is older than what it was made from", hint=f"see what is in it, then type {command}"),
        Problem(f"it differs\n{change}"),
    )
    warnings = ("the overlay is older than the folder beside it",)

    out, err = narrow(Result(problems=problems, warnings=warnings, next=(command,), file=f"{ESCAPE}a: {'b ' * 40}"))

    assert err.splitlines() == [
        "error:",
        f"  {path}",
        "  is older than what it was made from",
        "hint: see what is in it, then type",
        f"  {command}",
        "error: it differs",
        change,
        "warning: the overlay is older than the",
        "  folder beside it",
        "next:",
        f"  {command}",
    ]
    assert out == f"{console.printable(ESCAPE)}a: {'b ' * 40}\n"


def test_what_is_too_wide_goes_on_below_its_last_column(narrow: Narrow) -> None:
    rows = [("tqdm", "lightning, torchmetrics, transformers", ""), ("torch", "lightning, torchmetrics, you", "older")]
    answer = "  why:    LL128 delivers wrong data on GH200 nodes"

    shown = narrow(Result(text=answer, tables=(Table(headings=("name", "asked by", ""), rows=rows),)))[0].splitlines()

    assert shown[:2] == ["  why:    LL128 delivers wrong data on", "          GH200 nodes"]
    assert shown[4:] == [
        "tqdm   lightning, torchmetrics,",
        "       transformers",
        "torch  lightning, torchmetrics,    older",
        "       you",
    ]


def test_the_name_that_a_row_is_about_stays_whole_or_is_folded(narrow: Narrow) -> None:
    """A wheel's name of 17 letters can be searched for; one that takes more than half of the line is folded."""
    for name, shown in (("nvidia-cudnn-cu12", "nvidia-cudnn-cu12  torch"), ("x" * 60, "x" * 9)):
        rows = [(name, "torch, transformer-engine, vllm", "as in the base")]

        out, _ = narrow(Result(tables=(Table(headings=("name", "asked by", ""), rows=rows),)))

        assert shown in out
        assert out.count("x") == name.count("x")


def test_a_row_is_whole_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("x" * 300, "words " * 100)]

    console.show(Result(tables=(Table(headings=("one", "other"), rows=rows, cut=True),)))
    console.show(Result(tables=(Table(headings=("one", "other"), rows=rows),)))

    assert capsys.readouterr().out.count("  ".join(rows[0]).rstrip()) == 2
