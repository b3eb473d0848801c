"""Finds mksquashfs and unsquashfs, and what this version of them can do."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from uenvtool.core import tools
from uenvtool.core.errors import ToolMissing
from uenvtool.core.session import loaded_views

HOW_TO_GET = (
    "load a uenv or module that has squashfs-tools, or install it: "
    "apt install squashfs-tools, dnf install squashfs-tools, conda install -c conda-forge squashfs-tools"
)

ONE_TIME = ("-all-time", "-inode-time")
"""The option that sets every time in an image: to 4.6, and since 4.7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Both programs, their version, and what mksquashfs can do as its help lists it."""

    mksquashfs: str
    unsquashfs: str
    version: tuple[int, int]
    compressions: tuple[str, ...]
    help: str

    @property
    def compression(self) -> str:
        """The compression to use: zstd if it is known."""
        return "zstd" if "zstd" in self.compressions else "gzip"

    @property
    def pseudo_data(self) -> bool:
        """Whether contents can be given and taken in one stream (`R` definitions, `-pf`), as since 4.5."""
        return self.version >= (4, 5)

    @property
    def sparse_field(self) -> bool:
        """Whether an `R` definition ends in a field that says if the file is sparse, as since 4.6."""
        return self.version >= (4, 6)

    @property
    def one_time(self) -> bool:
        """Whether all times in an image can be set, as since 4.4. Without it no two images are the same."""
        return any(map(self.has, ONE_TIME))

    def has(self, option: str) -> bool:
        """Whether mksquashfs lists an option."""
        return re.search(rf"(?m)^\s*{re.escape(option)}\b", self.help) is not None

    def shortcomings(self) -> Iterator[str]:
        """What an image of these programs lacks, in a sentence each."""
        if self.compression != "zstd":
            yield "this mksquashfs has no zstd: packing with gzip, which is larger and slower to read"
        if not self.one_time:
            yield "this mksquashfs cannot set times: the image will differ from run to run"


def find_programs(environ: Mapping[str, str] | None = None) -> Programs:
    """Both programs on PATH, else in the views of the loaded uenvs. Raises ToolMissing."""
    environ = os.environ if environ is None else environ
    mksquashfs = find_program("mksquashfs", environ)
    unsquashfs = find_program("unsquashfs", environ)
    found = re.search(r"version (\d+)\.(\d+)", _output(mksquashfs, "-version"))
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    options = ("-help", "-help-all") if version >= (4, 7) else ("-help",)
    text = "\n".join(_output(mksquashfs, option) for option in options)
    return Programs(
        mksquashfs=mksquashfs, unsquashfs=unsquashfs, version=version, compressions=_compressions(text), help=text
    )


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
        raise ToolMissing(f"the program {name} is not on PATH", hint=HOW_TO_GET)
    return found


def _output(program: str, option: str) -> str:
    completed = tools.run([program, option])
    return completed.stdout + completed.stderr


def _compressions(text: str) -> tuple[str, ...]:
    """The names below the line that announces them."""
    found = re.search(r"(?i)compressors available(?: and compressor specific options)?:?\n((?:.*\n)*)", text)
    names = re.findall(r"(?m)^\s+(gzip|lzo|lz4|xz|zstd|lzma)\b", found[1] if found else "")
    return tuple(dict.fromkeys(names))
