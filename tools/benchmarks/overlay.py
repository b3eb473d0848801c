"""Compares installing packages, adding one, and creating an image from requirements with uv, pip and mksquashfs.

"By hand" means `uv venv`, `uv pip install` and the published guide's mksquashfs, with the base's Python and with
bytecode, which uenvtool's image also contains. Each run starts with an empty cache, so the time includes the index.
Adding a package changes an existing overlay with a warm cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from side_by_side import Comparison, Place, Way, Work
from uv import find_uv_bin

from uenvtool.venv.settings import read_settings

GUIDE = ("-no-recovery", "-noappend", "-Xcompression-level", "3")
"""The options with which the published guide packs a virtual environment."""


def comparisons(place: Place) -> Iterator[Comparison]:
    """Yield the comparisons."""
    packages = ["rich"] if place.small else ["transformers", "scipy", "pandas", "matplotlib"]
    base = place.folder / "base"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", base], check=True)
    uv, tool, pip, image = _ways(place, base / "bin/python", packages)
    about = f"{', '.join(packages)}; each run begins without a cache."
    yield Comparison("Packages on a base", [pip, uv, tool], about, rounds=3)
    more = [*packages, *([] if place.small else ["datasets", "rich"])]
    beside = f"einops, beside {', '.join(more)} and what they need; the old state comes back before each run."
    yield Comparison("One more package", _one_more(place, base / "bin/python", more), beside, rounds=5)
    if place.has("mksquashfs", "apt-get install squashfs-tools"):
        yield Comparison("From requirements to an image", image, about, rounds=3)


def _one_more(place: Place, base: Path, packages: list[str]) -> list[Way]:
    uv, hand, made = os.fspath(find_uv_bin()), place.folder / "hand", place.folder / "made"
    python, cache = hand / "bin/python", ("--cache-dir", place.folder / "cache")
    settings = read_settings(os.environ)
    os.environ.update(settings.urls)
    places = list(settings.arguments)
    install: list[str | Path] = [uv, "pip", "install", "--link-mode=copy", "--compile-bytecode", "--python", python]
    install += [*cache, *places]
    for path in (hand, made):
        shutil.rmtree(path, ignore_errors=True)
    place.run(uv, "venv", "--system-site-packages", "--python", base, hand)()
    place.run(*install, *packages)()
    place.tool("venv", made, *packages, "einops", "--base", base)()

    without = place.run(uv, "pip", "uninstall", "--python", python, "einops")
    by_pip = place.run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "einops")
    return [
        Way("pip install", by_pip, without),
        Way("uv pip install", place.run(*install, "einops"), without),
        Way("uenvtool venv", place.tool("venv", made, "einops"), place.tool("venv", made, "--remove", "einops")),
    ]


def _ways(place: Place, base: Path, packages: list[str]) -> tuple[Way, Way, Way, list[Way]]:
    uv, hand, made = os.fspath(find_uv_bin()), place.folder / "hand", place.folder / "made"
    python, squashed = hand / "bin/python", [place.folder / "hand.squashfs", place.folder / "made.squashfs"]

    def cleared() -> None:
        for path in (hand, made, place.folder / ".cache", *squashed):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def together(*parts: Work) -> Work:
        def work() -> None:
            for part in parts:
                part()

        return work

    def weighed(image: Path, work: Work) -> Work:
        return lambda: work() or {"MB": image.stat().st_size / 1e6}

    start = place.run(uv, "venv", "--relocatable", "--system-site-packages", "--python", base, hand)
    settings = read_settings(os.environ)
    os.environ.update(settings.urls)
    places = list(settings.arguments)
    options: list[str | Path] = ["--link-mode=copy", "--compile-bytecode", "--python", python, *places]
    by_uv = together(start, place.run(uv, "pip", "install", *options, *packages))
    by_pip = together(start, place.run(sys.executable, "-m", "pip", "--python", python, "install", "-q", *packages))
    pack = place.run("mksquashfs", hand, squashed[0], *GUIDE)
    tool: list[str | Path] = ["venv", made, *packages, "--base", base]
    by_tool = place.tool(*tool, "--squash", squashed[1])
    return (
        Way("uv pip install", by_uv, cleared),
        Way("uenvtool venv", place.tool(*tool), cleared),
        Way("pip install", by_pip, cleared),
        [
            Way("uv and mksquashfs by hand", weighed(squashed[0], together(by_uv, pack)), cleared),
            Way("uenvtool venv --squash", weighed(squashed[1], by_tool), cleared, goal=1),
        ],
    )
