"""Finds mksquashfs and unsquashfs, and what this version of them can do."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass

from uenvtool.core import processes
from uenvtool.core.errors import ToolMissing
from uenvtool.core.session import loaded_views

HOW_TO_GET = (
    "load a uenv or module that has squashfs-tools, or install it: "
    "apt install squashfs-tools, dnf install squashfs-tools, conda install -c conda-forge squashfs-tools"
)

OLDEST = (4, 5)
"""Since then contents are given and taken in one stream (`R` definitions, `-pf`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Programs:
    """Both programs, their version, and what differs between versions and builds of them.

    compression: zstd if they know it. time_option: the option that sets every time in an image.
    """

    mksquashfs: str
    unsquashfs: str
    version: tuple[int, int]
    compression: str
    time_option: str

    @property
    def sparse_field(self) -> bool:
        """Whether an `R` definition ends in a field that says if the file is sparse, as since 4.6."""
        return self.version >= (4, 6)

    @property
    def stream(self) -> str:
        """The name that `unsquashfs -pf` writes to its standard output by."""
        return "-" if self.version >= (4, 6) else "/dev/stdout"


def find_programs() -> Programs:
    """Find both programs, not too old, on PATH or in the views of the loaded uenvs. Raises ToolMissing."""
    mksquashfs = find_program("mksquashfs")
    unsquashfs = find_program("unsquashfs")
    found = re.search(r"version (\d+)\.(\d+)", _output(mksquashfs, "-version"))
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < OLDEST:
        raise ToolMissing(f"{mksquashfs} is too old: squashfs-tools 4.5 or later is needed", hint=HOW_TO_GET)
    text = _output(mksquashfs, "-help-all" if version >= (4, 7) else "-help")
    return Programs(
        mksquashfs=mksquashfs,
        unsquashfs=unsquashfs,
        version=version,
        compression="zstd" if re.search(r"(?m)^\s+zstd\b", text) else "gzip",
        time_option="-inode-time" if "-inode-time" in text else "-all-time",
    )


def find_program(name: str) -> str:
    """Find a program of squashfs-tools. Raises ToolMissing with the ways to get it."""
    folders = [
        os.environ.get("PATH", os.defpath),
        *(f"{view.root}/bin" for view in loaded_views(os.environ)),
        "/usr/sbin",
        "/sbin",
    ]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None:
        raise ToolMissing.not_on_path(name, HOW_TO_GET)
    return found


def _output(program: str, option: str) -> str:
    completed = processes.run([program, option])
    return completed.stdout + completed.stderr
