"""Packing an environment beside the published guide's command, Stackinator's, Tykky's, conda-pack and venv-pack.

VENV names a virtual environment with its bytecode, for example of torch, transformers and scipy; else one is made.
uenvtool's time has bytecode, the comparison of every byte and a sum in it. What is packed is in the kernel's cache.
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
"""What the environment is made of, and what is imported from it."""


def comparisons(place: Place) -> Iterator[Comparison]:
    """Yield one of each tool's usual way, and one where the bytecode has to be compiled."""
    if not place.has("mksquashfs", "apt-get install squashfs-tools"):
        return
    venv = environment(place)
    images = Images(place, venv)
    about = f"{venv.name}: {len(list(venv.rglob('*')))} names."
    ways = [images.guide(), images.overlay(goal=0.55), images.stackinator(), images.tykky(), *images.archives()]
    yield Comparison("Packing an environment", ways, about, rounds=3)
    compiled = [images.compiled(), Way("uenvtool, any environment", images.packed(venv), images.cached(venv))]
    yield Comparison("Packing what has no bytecode", compiled, about, rounds=3)


def environment(place: Place) -> Path:
    """Return the environment that is packed: VENV, or one of MODULES that is made with its bytecode."""
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
    """The ways of packing one environment, each into an image of its own."""

    def __init__(self, place: Place, venv: Path) -> None:
        self.place, self.venv = place, venv
        self.made, self.plain = (self._copy(name) for name in ("made-venv", "plain-venv"))
        compile_tree(self.made / "bin" / "python", self.made, checked=True)
        self.of_guide, self.of_stackinator, self.of_tykky, self.ours = (
            place.folder / f"{name}.squashfs" for name in ("guide", "stackinator", "tykky", "ours")
        )

    def guide(self) -> Way:
        """Return mksquashfs as the guide has it."""
        return Way("mksquashfs as the guide has it", self._squash(self.venv, self.of_guide), self.cached(self.venv))

    def stackinator(self) -> Way:
        """Return it with the options of Stackinator 7 (templates/Makefile), whose times make bytecode stale."""
        options = ["-force-uid", "65534", "-force-gid", "65534", "-all-time", str(int(time.time())), *GUIDE]
        work = self._squash(self.venv, self.of_stackinator, options)
        return Way("mksquashfs as Stackinator has it", work, self.cached(self.venv))

    def tykky(self) -> Way:
        """Return what Tykky does once an environment is installed (create_inst.sh and configs/ at b0956d9).

        Its image, squeezed by gzip, is mounted into a container that each of its wrapper scripts starts.
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
        return Way("chmod, mksquashfs as Tykky has them", work, self.cached(self.plain))

    def overlay(self, goal: float) -> Way:
        """Return what `uenvtool venv --squash` does with an overlay that it made."""
        return Way("uenvtool, an overlay that it made", self.packed(self.made), self.cached(self.made), goal)

    def compiled(self) -> Way:
        """Return compileall, then the guide's command."""
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
        compile_ = self.place.run(*words, fine=(0, 1))  # 1 where a file is no Python
        squash = self._squash(self.plain, self.place.folder / "compiled.squashfs")
        return Way("compileall, then mksquashfs", lambda: compile_() or squash(), self.cached(self.plain))

    def archives(self) -> Iterator[Way]:
        """Yield conda-pack and venv-pack with what they do unless told otherwise, which is an archive to unpack."""
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
        (self.plain / "conda-meta/history").touch()  # conda-pack then takes the folder for an environment of conda
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
                words = words[:-2]  # it packs in one thread
            yield Way(f"{program} (tar.gz)", _weighed(target, self.place.run(*words)), self.cached(self.plain))

    def packed(self, source: Path) -> Callable[[], Mapping[str, float]]:
        """Return the work of packing a folder as `uenvtool venv --squash` does."""

        def work() -> None:
            with packed_image(source, self.ours, on_note=print) as new:
                files.publish([files.Replacement(new=new.path, target=self.ours.absolute())])

        return _weighed(self.ours, work)

    def cached(self, tree: Path) -> Callable[[], None]:
        """Return what has the kernel cache a tree, as it is when it was just made: the disk is not what is compared."""

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
    """Return a work that replaces a file and gives its size."""

    def weighed() -> Mapping[str, float]:
        image.unlink(missing_ok=True)
        work()
        return {"MB": image.stat().st_size / 1e6}

    return weighed
