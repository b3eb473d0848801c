"""Stand-ins that record their arguments, and an overlay like that of `venv --squash`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.programs import program
from uenvtool.image.metadata import ENV, PACKED
from uenvtool.venv.record import FORMAT, RECORD, RECORD_FOLDER, RECORD_IN_IMAGE


def recorded(
    place: Path,
    name: str,
    words: Sequence[str],
    *,
    call: Callable[[], object] | None = None,
    code: int = 0,
    run: bool = False,
) -> list[list[str]]:
    """What a program of that name is started with while `words` run, or while `call` does.

    code: its exit code. run: it runs what stands behind an image, as a container does.
    """
    log = place / f"{name}.argv"
    inside = 'while [ "$1" != bash ]; do shift; done; "$@"\n' if run and not code else ""
    stand_in = f"printf '%s\\0' \"$#\" \"$@\" >>'{log}'\n{inside}exit {code}"
    folder = program(place / "stand-ins" / name, stand_in).parent
    if call is not None:
        call()
    else:
        subprocess.run(words, env={"PATH": f"{folder}:{os.environ['PATH']}"}, check=True, capture_output=True)
    return list(_calls(log.read_bytes().decode().split("\0")[:-1])) if log.exists() else []


def _calls(words: list[str]) -> list[list[str]]:
    found = []
    while words:
        count = int(words[0])
        found.append(words[1 : 1 + count])
        words = words[1 + count :]
    return found


def packed_overlay(place: Path, base: Mapping[str, str], *, is_stale: bool = False) -> None:
    """Pack an overlay on that base, without packages, as mine.squashfs. is_stale: the loose one has another state."""
    record = {"format": FORMAT, "base": base, "requests": [], "overrides": [], "packages": []}
    texts = {
        f"image/{ENV}": {"name": "mine", "mount": "/user-tools"},
        f"image/{PACKED}": {},
        f"image/{RECORD_IN_IMAGE}": record,
    }
    if is_stale:
        texts[f"mine/{RECORD_FOLDER}/{RECORD}"] = {**record, "overrides": ["numpy"]}
    for name, data in texts.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data))
    subprocess.run(["mksquashfs", "image", "mine.squashfs", "-quiet"], cwd=place, check=True, capture_output=True)
