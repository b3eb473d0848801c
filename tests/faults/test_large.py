"""Test large inputs: an overlay with 200,000 files, and two builds at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli, Loaded
from tests.faults import CASES
from tests.image.test_store import environment, filled_store
from tests.support.needs import need
from tests.support.programs import spack_of_python
from uenvtool.env.installable import Installable

__all__ = ["environment"]
SCALE = 1 if CASES >= 300 else 100
"""A default run does a hundredth."""
COUNTED = """
import re, sys
from pathlib import Path
from uenvtool.cli import run
code = run(sys.argv[1:])
own = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())  # ru_maxrss begins with the parent's
print("MB", int(own[1]) >> 10, file=sys.stderr)
sys.exit(code)
"""


def measured(*words: str) -> tuple[subprocess.CompletedProcess[str], int]:
    """A run, and the memory that it took, in MB."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", COUNTED, *words], env=env, capture_output=True, text=True, check=False)
    return done, int(done.stderr.rpartition("MB ")[2])


@pytest.mark.slow
def test_an_overlay_of_many_files(loaded: Loaded, cli: Cli, wheels: Path, place: Path) -> None:
    need("mksquashfs", "unsquashfs")
    loaded("pythonpath")
    assert cli("venv", "v").code == 0
    (site,) = (place / "v").glob("lib/python*/site-packages")
    for folder in range(200_000 // SCALE // 100):
        (site / f"many/d{folder}").mkdir(parents=True)
        for number in range(100):
            (site / f"many/d{folder}/f{number}.txt").write_bytes(b"%d" % number)

    packed, memory = measured("venv", "v", "--squash")
    verified, _ = measured("image", "verify", "v.squashfs")

    assert packed.returncode == 0, packed.stderr
    assert verified.returncode == 0, verified.stderr
    assert memory < 1500
    print(f"{200_000 // SCALE} files, {memory} MB")


@pytest.mark.slow
def test_two_builds_on_one_store(environment: Installable, place: Path) -> None:
    need("mksquashfs", "unsquashfs")
    store = filled_store(place / "store", environment, when=1e9)
    spack_of_python(place / "spack", "import time\nprint('1.1.0') if '--version' in sys.argv else time.sleep(1)")
    words = [sys.executable, "-m", "uenvtool", "image", "build", environment.folder, "--spack", place / "spack"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for turn in range(max(2, 50 // SCALE)):
        both = [
            subprocess.Popen(
                [*words, "--store", store, "-o", f"{name}{turn}.squashfs"], env=env, stderr=subprocess.PIPE
            )
            for name in "ab"
        ]
        told = [run.communicate()[1].decode() for run in both]
        codes = sorted(run.returncode for run in both)
        assert codes in ([0, 0], [0, 4]), told
        assert codes == [0, 0] or any("is in use" in text for text in told), told
    images = {path.read_bytes() for path in place.glob("*.squashfs")}
    assert len(images) == 1
