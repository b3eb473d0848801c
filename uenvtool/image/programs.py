"""Finds mksquashfs and unsquashfs, and what this version of them can do."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from uenvtool import tools
from uenvtool.errors import ToolMissing
from uenvtool.loaded import loaded_views

HOW_TO_GET = (
    "load a uenv or module that has squashfs-tools, or install it: "
    "apt install squashfs-tools, dnf install squashfs-tools, conda install -c conda-forge squashfs-tools"
)

ONE_TIME = ("-all-time", "-inode-time")
"""The option that sets every time in an image: to 4.6, and since 4.7."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Both programs, their version, and what mksquashfs says that it knows."""

    mksquashfs: str
    unsquashfs: str
    version: tuple[int, int]
    compressions: tuple[str, ...]
    help: str

    @property
    def compression(self) -> str:
        """The compression to use: zstd where it is there."""
        return "zstd" if "zstd" in self.compressions else "gzip"

    @property
    def pseudo_data(self) -> bool:
        """Whether contents can be given and taken in one stream (`R` definitions, `-pf`): since 4.5."""
        return self.version >= (4, 5)

    @property
    def pseudo_sparse(self) -> bool:
        """Whether an `R` definition ends in a field that says if the file is sparse: since 4.6."""
        return self.version >= (4, 6)

    @property
    def one_time(self) -> bool:
        """Whether all times in an image can be set: since 4.4. Without it, no two images are the same."""
        return any(map(self.has, ONE_TIME))

    def has(self, option: str) -> bool:
        """Whether mksquashfs lists an option."""
        return re.search(rf"(?m)^\s*{re.escape(option)}\b", self.help) is not None


def find_programs(environ: Mapping[str, str] | None = None) -> Programs:
    """Both programs on PATH, else in the views of the loaded uenvs. Raises ToolMissing."""
    environ = os.environ if environ is None else environ
    mksquashfs = find_program("mksquashfs", environ)
    unsquashfs = find_program("unsquashfs", environ)
    said = tools.run([mksquashfs, "-version"]).stdout
    found = re.search(r"version (\d+)\.(\d+)", said)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    texts = [_said(mksquashfs, option) for option in ("-help", "-help-all") if option == "-help" or version >= (4, 7)]
    text = "\n".join(texts)
    return Programs(mksquashfs, unsquashfs, version, _compressions(text), text)


def find_program(name: str, environ: Mapping[str, str] | None = None) -> str:
    """A program of squashfs-tools. Raises ToolMissing with the ways to get it."""
    environ = os.environ if environ is None else environ
    folders = [
        environ.get("PATH", os.defpath),
        *(f"{view.root}/bin" for view in loaded_views(environ)),
        "/usr/sbin",
        "/sbin",
    ]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None:
        raise ToolMissing(f"{name} is not here", hint=HOW_TO_GET)
    return found


def _said(program: str, option: str) -> str:
    completed = tools.run([program, option])
    return completed.stdout + completed.stderr


def _compressions(text: str) -> tuple[str, ...]:
    """The names below the line that announces them."""
    found = re.search(r"(?i)compressors available(?: and compressor specific options)?:?\n((?:.*\n)*)", text)
    names = re.findall(r"(?m)^\s+(gzip|lzo|lz4|xz|zstd|lzma)\b", found[1] if found else "")
    return tuple(dict.fromkeys(names))
