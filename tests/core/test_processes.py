"""Test that programs end together with uenvtool on any signal, and that ignored signals stay ignored."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.kills import MAIN, command
from tests.support.programs import program
from tests.support.samples import sampled
from uenvtool.core import processes
from uenvtool.core.errors import NoAnswer

STUBBORN = "trap '' TERM INT HUP; sleep 99 & echo $! > $$; mv $$ grandchild; echo $$ > $$; mv $$ child; wait; sleep 99"
"""A shell program that ignores what asks it to end, and so does what it starts; a kill leaves no empty file of it."""

IN_MAIN = """
import sys
from uenvtool import __main__
from uenvtool.core import processes
sys.argv = ["uenvtool", "list"]
import uenvtool.cli
uenvtool.cli.call = lambda words: processes.run(["bash", "-c", {program!r}]).code
__main__.main()
"""
IN_THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from uenvtool import __main__
from uenvtool.core import processes
sys.argv = ["uenvtool", "list"]
import uenvtool.cli
def call(words):
    with ThreadPoolExecutor(2) as pool:
        return sum(done.code for done in pool.map(processes.run, [["bash", "-c", {program!r}]] * 6))
uenvtool.cli.call = call
__main__.main()
"""
BUSY = """
import sys
from uenvtool import __main__
sys.argv = ["uenvtool", "list"]
import uenvtool.cli
def call(words):
    open("child", "w").write("0"), open("grandchild", "w").write("0")
    while True:
        try:
            while True:
                pass
        except KeyboardInterrupt:
            pass
uenvtool.cli.call = call
__main__.main()
"""


LATE_READER = """
import threading, time
run = threading.Thread.run
threading.Thread.run = lambda thread: (time.sleep(0.5), run(thread))
"""
"""Lets a thread begin its work late, as on a busy machine."""


def started(code: str, place: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code.replace("{program!r}", repr(STUBBORN))]
    process = subprocess.Popen(
        command, cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
    )
    while not all((place / name).is_file() and (place / name).read_text() for name in ("child", "grandchild")):
        assert process.poll() is None
        time.sleep(0.01)
    return process


def all_ended(place: Path) -> bool:
    """If both programs have ended; a kill takes the kernel a moment."""
    pids = [int((place / name).read_text()) for name in ("child", "grandchild")]
    for _ in range(1000):
        if not any(map(is_alive, pids)):
            return True
        time.sleep(0.01)
    return False


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("number", sampled([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(IN_MAIN, id="main"),
        pytest.param(IN_THREADS, id="threads"),
        pytest.param(BUSY, id="busy", marks=pytest.mark.slow),
    ],
)
def test_one_signal_ends_it_with_children_that_do_not_want_to(place: Path, code: str, number: int) -> None:
    process = started(code, place)
    began = time.monotonic()

    process.send_signal(number)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 130
    assert errors == "interrupted\n"
    assert time.monotonic() - began < 30, "it waited for a program"
    assert code is BUSY or all_ended(place)


@pytest.mark.parametrize(("pause", "before"), [(0, LATE_READER), (0, ""), (0.05, ""), (0.2, "")])
def test_a_second_signal_leaves_nothing_behind_either(place: Path, pause: float, before: str) -> None:
    process = started(before + IN_MAIN, place)

    process.send_signal(signal.SIGINT)
    time.sleep(pause)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)

    assert (process.returncode, errors) == (130, "interrupted\n")
    assert all_ended(place)


def test_a_program_has_time_to_clean_up(place: Path) -> None:
    tidy = "trap 'sleep 0.2; touch cleaned; exit 1' TERM; echo $$ > grandchild; echo $$ > child; sleep 99 & wait"
    process = started(IN_MAIN.replace("{program!r}", repr(tidy)), place)

    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 130
    assert (place / "cleaned").exists()


def test_what_was_ignored_at_the_start_stays_ignored(place: Path) -> None:
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + IN_MAIN.replace(
        "{program!r}", "'touch begun; sleep 1; exit 7'"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=place, env={**os.environ, "PYTHONPATH": str(ROOT)})
    while not (place / "begun").exists():
        assert process.poll() is None
        time.sleep(0.01)

    process.send_signal(signal.SIGHUP)

    assert process.wait(60) == 7


AT_ANY_MOMENT = """
import os, signal, sys
from uenvtool.__main__ import main
signal.signal(signal.SIGVTALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
signal.setitimer(signal.ITIMER_VIRTUAL, float(sys.argv[1]))
sys.argv = ["uenvtool", *sys.argv[2:]]
main()
"""
"""Strikes after seconds of the program's own CPU time: on a busy machine, too, it has come as far."""


def test_ctrl_c_at_any_moment_gives_no_traceback(place: Path) -> None:
    chance = random.Random(1)
    ends = set()
    for _ in range(10):
        when = chance.uniform(0.001, 0.4)
        command = [sys.executable, "-c", AT_ANY_MOMENT, str(when), "list"]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
        )
        ends.add((done.returncode, done.stderr))

    assert ends <= {(-signal.SIGINT, ""), (130, "interrupted\n"), (0, "")}  # the first: nothing was loaded yet
    assert (130, "interrupted\n") in ends


AS_THE_TOOL_LOADS = """
import os, runpy, signal, sys
class Strike:
    def find_spec(self, name, path=None, target=None):
        if name == "uenvtool.core":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Strike())
runpy.run_module("uenvtool", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_gives_no_traceback_while_the_tool_loads(place: Path) -> None:
    command = [sys.executable, "-c", AS_THE_TOOL_LOADS, "--version"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}

    done = subprocess.run(command, env=environ, cwd=place, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


AT_WORK = """
import sys
from uenvtool.core import console, processes
sys.argv = ["/opt/bin/uenvtool", "venv", "my env", "six @ https://joe:pw@h.example/six.whl"]
with console.progress("overlay my env") as on_step:
    on_step("resolving")
    on_step("installing")
processes.tell_interrupted()
"""


@pytest.mark.parametrize(("started_by", "before"), [("", ""), ("uenv run image --", "uenv run image -- ")])
def test_of_interrupted_work_it_says_how_far_it_came_and_what_goes_on_with_it(started_by: str, before: str) -> None:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "UENVTOOL_STARTED_BY": started_by}
    done = subprocess.run([sys.executable, "-c", AT_WORK], env=environ, capture_output=True, text=True, check=True)

    assert done.stderr.splitlines()[-3:] == [
        "interrupted: overlay my env: installing",
        "hint: no file is incomplete; to continue, run:",
        f"  {before}uenvtool venv 'my env' 'six @ https://h.example/six.whl'",
    ]


INTERRUPTED = """
import concurrent.futures, os, random, signal, threading, time
from uenvtool.core import processes

chance, told = random.Random(1), 0
for turn in range(200):
    processes._state = processes._Interruption()
    processes.end_on_signals()
    timer = threading.Timer(chance.uniform(0, 0.004), os.kill, (os.getpid(), signal.SIGTERM))
    try:
        timer.start()
        processes.run(["true"])
        timer.join()
        time.sleep(1)
    except KeyboardInterrupt:
        told += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    timer.join()
processes._state = processes._Interruption()
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    codes = [done.code for done in pool.map(processes.run, [["true"]] * 4)]
print(told, codes)
"""


def test_an_interruption_is_never_lost_and_never_blocks_the_next_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.stdout == "200 [0, 0, 0, 0]\n", done.stderr[-2000:]


SILENT = {
    "sleeps": "sleep 99",
    "prints and then sleeps": "echo half; sleep 99",
    "ignores the signals that end a program": "trap '' TERM INT HUP; sleep 99 & wait; sleep 99",
    "ends, but its child keeps the output open": "sleep 99 & exit 0",
}


@pytest.mark.parametrize("script", SILENT.values(), ids=SILENT)
def test_a_silent_program_is_reported_and_killed_with_its_children(
    script: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], place: Path
) -> None:
    monkeypatch.setattr(processes, "SLOW_SECONDS", 0.1)
    monkeypatch.setattr(processes, "QUERY_SECONDS", 0.4)
    before = time.monotonic()

    with pytest.raises(NoAnswer, match="gpu-query does not answer") as error:
        processes.ask([program(place / "gpu-query", f"echo $$ > {place}/group\n{script}"), "-L"])

    assert time.monotonic() - before < 5
    assert error.value.problems[0].hint == f"find the cause, then run the same again: `{place}/gpu-query -L`"
    assert capfd.readouterr().err == "waiting for gpu-query\n"
    group = int((place / "group").read_text())
    assert is_eventually(lambda: not running(group))


def test_a_query_returns_output_and_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    done = processes.ask(["bash", "-c", "echo out; echo err >&2; exit 3"])

    assert (done.code, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert capfd.readouterr().err == ""


def test_a_slow_answer_is_used(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(processes, "SLOW_SECONDS", 0.1)

    assert processes.ask(["bash", "-c", "sleep 0.5; echo answer"]).stdout == "answer\n"
    assert capfd.readouterr().err == "waiting for bash\n"


def running(group: int) -> list[str]:
    """Return the processes of a group that have not ended."""
    stats = [stat.read_text().rpartition(")")[2].split() for stat in Path("/proc").glob("[0-9]*/stat")]
    return [state for state, _, its_group, *_ in stats if int(its_group) == group and state != "Z"]


def is_eventually(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        with contextlib.suppress(OSError):  # a process may end while it is read
            if holds():
                return True
        time.sleep(0.01)
    return False


AT_THE_END = """
import os
from uenvtool.core import processes
leave, times = processes.leave, []
def interrupted(code):
    times.append(code)
    if len(times) == 1:
        os.kill(os.getpid(), signal.SIGINT)
    leave(code)
processes.leave = interrupted
"""


def test_ctrl_c_at_the_end_of_a_command_is_no_error() -> None:
    words = command("list", "systems", code=AT_THE_END + MAIN)

    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (processes.INTERRUPTED, "interrupted\n")
