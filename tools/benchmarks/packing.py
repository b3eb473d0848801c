"""Compares packing with the published guide's command, and with Stackinator, Tykky, conda-pack and venv-pack.

The variable VENV names a virtual environment with bytecode, for example one with torch, transformers and scipy. Without
it, the benchmark creates an environment. uenvtool's time includes bytecode, the comparison of every byte and a
checksum. The packed files are in the kernel's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from overlay import GUIDE
from side_by_side import Comparison, Place, Way
from uv import find_uv_bin

from uenvtool.core import files
from uenvtool.image.bytecode import compile_tree
from uenvtool.venv.image import packed as packed_image

MODULES = os.environ.get("MODULES", "scipy pandas matplotlib").split()
"""The packages that are installed and imported."""


def comparisons(place: Place) -> Iterator[Comparison]:
    """Yield a comparison of the usual commands, and one in which bytecode must be compiled."""
    if not place.has("mksquashfs", "apt-get install squashfs-tools"):
        return
    venv = environment(place)
    images = Images(place, venv)
    about = f"{venv.name}: {len(list(venv.rglob('*')))} names."
    ways = [images.guide(), images.overlay(goal=0.55), images.stackinator(), images.tykky(), *images.archives()]
    yield Comparison("Packing an environment", ways, about, rounds=3)
    compiled = [images.compiled(), Way("uenvtool, any environment", images.packed(venv), images.cached(venv))]
    yield Comparison("Packing files without bytecode", compiled, about, rounds=3)


def environment(place: Place) -> Path:
    """Return the environment to pack, which is VENV or a new environment with MODULES and bytecode."""
    made = place.folder / "environment"
    if "VENV" in os.environ:
        return Path(os.environ["VENV"]).resolve()
    if not made.is_dir():
        uv = os.fspath(find_uv_bin())
        packages = ["rich"] if place.small else MODULES
        place.run(uv, "venv", "--relocatable", "--python", sys.executable, made)()
        place.run(uv, "pip", "install", "--compile-bytecode", "--python", made / "bin/python", *packages)()
    return made


class Images:
    """The commands that pack one environment, each into its own image."""

    def __init__(self, place: Place, venv: Path) -> None:
        self.place, self.venv = place, venv
        self.made, self.plain = (self._copy(name) for name in ("made-venv", "plain-venv"))
        compile_tree(self.made / "bin" / "python", self.made)
        self.of_guide, self.of_stackinator, self.of_tykky, self.ours = (
            place.folder / f"{name}.squashfs" for name in ("guide", "stackinator", "tykky", "ours")
        )

    def guide(self) -> Way:
        """Return the guide's mksquashfs command."""
        return Way("mksquashfs, guide", self._squash(self.venv, self.of_guide), self.cached(self.venv))

    def stackinator(self) -> Way:
        """Return mksquashfs with the options of Stackinator 7 (templates/Makefile), which make bytecode outdated."""
        options = ["-force-uid", "65534", "-force-gid", "65534", "-all-time", str(int(time.time())), *GUIDE]
        work = self._squash(self.venv, self.of_stackinator, options)
        return Way("mksquashfs, Stackinator", work, self.cached(self.venv))

    def tykky(self) -> Way:
        """Return the commands that Tykky runs for an installed environment (create_inst.sh and configs/ at b0956d9).

        Each wrapper script of Tykky mounts the image, which is compressed with gzip, into a container.
        """
        words: list[str | Path] = [
            "mksquashfs",
            self.plain,
            self.of_tykky,
            "-processors",
            str(len(os.sched_getaffinity(0))),
            "-noappend",
        ]
        permit, squash = self.place.run("chmod", "-R", "ugo+rwX", self.plain), self.place.run(*words)
        work = _weighed(self.of_tykky, lambda: permit() or squash())
        return Way("chmod and mksquashfs, Tykky", work, self.cached(self.plain))

    def overlay(self, goal: float) -> Way:
        """Return the packing step of `uenvtool venv --squash` for an overlay that uenvtool created."""
        return Way("uenvtool, its own overlay", self.packed(self.made), self.cached(self.made), goal)

    def compiled(self) -> Way:
        """Return compileall followed by the guide's command."""
        jobs = str(len(os.sched_getaffinity(0)))
        words: list[str | Path] = [
            self.plain / "bin/python",
            "-m",
            "compileall",
            "-q",
            "-f",
            "-j",
            jobs,
            self.plain / "lib",
        ]
        compile_ = self.place.run(*words, fine=(0, 1))  # 1 if a file is not valid Python
        squash = self._squash(self.plain, self.place.folder / "compiled.squashfs")
        return Way("compileall, then mksquashfs", lambda: compile_() or squash(), self.cached(self.plain))

    def archives(self) -> Iterator[Way]:
        """Yield conda-pack and venv-pack with their defaults, which create an archive to unpack."""
        tools = self.place.folder / "tools"
        uv = os.fspath(find_uv_bin())
        done = subprocess.run([uv, "venv", "-q", tools], check=False, capture_output=True)
        wanted: list[str | Path] = [
            uv,
            "pip",
            "install",
            "-q",
            "--python",
            tools / "bin/python",
            "conda-pack",
            "venv-pack",
            "setuptools<81",
        ]
        if done.returncode or subprocess.run(wanted, check=False, capture_output=True).returncode:
            self.place.missing.append("conda-pack, venv-pack: an index that has them")
            return
        (self.plain / "conda-meta").mkdir(exist_ok=True)
        (self.plain / "conda-meta/history").touch()  # conda-pack then treats the directory as a conda environment
        for program in ("conda-pack", "venv-pack"):
            target = self.place.folder / f"{program}.tar.gz"
            words: list[str | Path] = [
                tools / "bin" / program,
                "-q",
                "-f",
                "-p",
                self.plain,
                "-o",
                target,
                "--n-threads",
                "-1",
            ]
            if program == "venv-pack":
                words = words[:-2]  # it uses only one thread
            yield Way(f"{program} (tar.gz)", _weighed(target, self.place.run(*words)), self.cached(self.plain))

    def packed(self, source: Path) -> Callable[[], Mapping[str, float]]:
        """Return a function that packs a directory as `uenvtool venv --squash` does."""

        def work() -> None:
            with packed_image(source, self.ours, on_note=print) as new:
                files.publish([files.Replacement(new=new.path, target=self.ours.absolute())])

        return _weighed(self.ours, work)

    def cached(self, tree: Path) -> Callable[[], None]:
        """Return a function that reads a tree into the kernel's cache, so that the disk does not affect the times."""

        def read() -> None:
            os.sync()
            for path in tree.rglob("*"):
                if path.is_file() and not path.is_symlink():
                    path.read_bytes()

        return read

    def _copy(self, name: str) -> Path:
        folder = self.place.folder / name
        if not folder.is_dir():
            shutil.copytree(self.venv, folder, symlinks=True)
        return folder

    def _squash(self, tree: Path, image: Path, options: list[str] | None = None) -> Callable[[], Mapping[str, float]]:
        return _weighed(image, self.place.run("mksquashfs", tree, image, *(options or GUIDE)))


def _weighed(image: Path, work: Callable[[], Mapping[str, float] | None]) -> Callable[[], Mapping[str, float]]:
    """Return a function that creates a file again and returns its size."""

    def weighed() -> Mapping[str, float]:
        image.unlink(missing_ok=True)
        work()
        return {"MB": image.stat().st_size / 1e6}

    return weighed
