"""Test damaged images that are mounted by the kernel or by squashfuse: commands end with a clear error."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults import CASES
from tests.support.kills import FROM_HERE
from tests.support.needs import need, skip_without
from tests.support.overlays import wheel
from tests.support.uenv import uenv_image

pytestmark = pytest.mark.nightly
UENVTOOL = shlex.join([sys.executable, "-c", FROM_HERE])
IMPORTS = "python -c 'import tool, inbase, tool.part3; print(tool.__version__)'"
OUTSIDE = ("image show {damaged}", "image verify {damaged}", "show {damaged}", "shell {overlay} -- true")
INSIDE = ("show {tools}", "venv {tools}", "venv new tool --dry-run", "doctor", "activate --system clariden")
"""Commands that meet a damaged image: as a file, and where it and its base are mounted."""
MOUNTS = {"kernel": "mount -t squashfs -o ro,loop", "squashfuse": "squashfuse"}
MOUNTED = """
{mount} {base} {at} && {mount} {overlay} {tools} || exit 111
export UENV_MOUNT_LIST={base}:{at},{overlay}:{tools} UENV_VIEW={at}:stack:default,{tools}:mine:venv
export PATH={tools}/bin:{at}/env/default/bin:$PATH PYTHONPATH=$(echo {at}/env/default/lib/python*/site-packages)
{command}
code=$?
umount -l {tools} {at}
exit $code
"""
"""As the client of uenv loads both, in a namespace of its own. 111: it cannot be mounted."""
SECONDS = 120


@dataclass(frozen=True)
class Pair:
    """A base and an overlay on it, and where they are mounted."""

    base: Path
    overlay: Path
    at: Path
    tools: Path
    mount: str

    def run(self, command: str, damaged: Path | None = None, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Run a line of bash where both are mounted; one of them may be damaged."""
        images = {"base": self.base, "overlay": self.overlay}
        if damaged:
            images[damaged.stem] = damaged
        script = MOUNTED.format(mount=self.mount, at=self.at, tools=self.tools, command=command, **images)
        return ended(["unshare", "--mount", "bash", "-c", script], env)


def ended(words: list[str], env: Mapping[str, str] | None = None) -> tuple[int, str]:
    given = {**os.environ, **(env or {})}
    done = subprocess.run(words, env=given, capture_output=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL)
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


@pytest.fixture(params=MOUNTS)
def pair(request: pytest.FixtureRequest, tmp_path: Path, place: Path) -> Pair:
    need("mksquashfs", "unsquashfs", "mount", "unshare")
    if request.param != "kernel":
        need(request.param)
    if os.geteuid() != 0:
        skip_without("root", "run the tests as root, who may mount images")
    parts = {f"tool/part{number}.py": f"value = {number}\n" * 40 for number in range(20)}
    wheel(tmp_path / "wheels", "tool", "2.0", requires=["inbase"], files=parts)
    at, tools = tmp_path / "at", tmp_path / "tools"
    at.mkdir()
    tools.mkdir()
    old = [wheel(tmp_path / "old", name, "1.0") for name in ("tool", "inbase")]
    base = uenv_image(tmp_path / "base.squashfs", at, old)
    pair = Pair(base, place / "overlay.squashfs", at, tools, MOUNTS[request.param])
    make = f"{UENVTOOL} venv overlay tool==2.0 --squash --mount {tools}"
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels"), "PIP_CONFIG_FILE": os.devnull}
    alone = MOUNTED.replace("&& {mount} {overlay} {tools} ", "").replace(",{overlay}:{tools}", "")
    alone = alone.replace(",{tools}:mine:venv", "").replace("umount -l {tools} {at}", "umount -l {at}")
    script = alone.format(mount=pair.mount, base=base, at=at, tools=tools, command=make)
    code, told = ended(["unshare", "--mount", "bash", "-c", script], pip)
    if code == 111:
        skip_without(f"an image that {request.param} mounts", "run the tests as root, with loop devices and /dev/fuse")
    assert code == 0, told
    code, told = pair.run(IMPORTS)
    assert (code, told) == (0, "2.0\n")
    return pair


def damage(image: Path, folder: Path, chance: random.Random) -> Path:
    """Flip some bytes of a copy."""
    content = bytearray(image.read_bytes())
    for _ in range(chance.choice((1, 3, 20, 200))):
        at = chance.randrange(chance.choice((20, 96)), len(content))
        content[at] ^= chance.choice((255, 1 << chance.randrange(8)))
    copy = folder / image.name
    copy.write_bytes(content)
    return copy


def test_damaged_images_that_are_mounted(pair: Pair, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    folder.mkdir()
    mounted = 0
    for number in range(CASES or 3):
        chance = random.Random(number)
        damaged = damage(chance.choice((pair.base, pair.overlay)), folder, chance)
        overlay = damaged if damaged.name == pair.overlay.name else pair.overlay
        names = {"damaged": damaged, "overlay": overlay, "tools": pair.tools}
        answers = {line: ended([*shlex.split(UENVTOOL), *shlex.split(line.format(**names))]) for line in OUTSIDE}
        answers |= {line: pair.run(f"{UENVTOOL} {line.format(**names)}", damaged) for line in INSIDE}
        mounted += pair.run(IMPORTS, damaged)[0] != 111  # it may fail, in Python's own words, but it ends
        for line, (code, told) in answers.items():
            assert code in (0, 1, 2, 3, 4, 111), (number, line, code, told)
            assert "please report" not in told, (number, line, told)
            assert "error: Input/output error" not in told, (number, line, told)  # of which file?
            assert "uenvtool/" not in told or "Traceback" not in told, (number, line, told)
    assert mounted, "none of them could be mounted"
