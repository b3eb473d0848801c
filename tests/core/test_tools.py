"""Programs start and end with their starter, whenever it is interrupted."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT

INTERRUPTED = """
import concurrent.futures, logging, os, random, signal, sys, threading, time
from uenvtool.core import tools

def stop(number, frame):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, stop)
chance, told = random.Random(1), 0
for turn in range(200):
    timer = threading.Timer(chance.uniform(0, 0.004), os.kill, (os.getpid(), signal.SIGTERM))
    try:
        timer.start()
        tools.run(["true"])
        timer.join()
        time.sleep(1)
    except KeyboardInterrupt:
        told += 1
    timer.join()
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    codes = [done.code for done in pool.map(tools.run, [["true"]] * 4)]
print(told, codes)
"""


def test_an_interruption_is_never_lost_and_never_blocks_the_next_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.stdout == "200 [0, 0, 0, 0]\n", done.stderr[-2000:]
