"""Finds mksquashfs and unsquashfs, and determines which features they support."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass

from uenvtool.core import processes
from uenvtool.core.errors import ToolMissing
from uenvtool.core.session import in_container, loaded_views

HOW_TO_GET = (
    "load a uenv or module that contains squashfs-tools, or install it with one of `apt install squashfs-tools`, "
    "`dnf install squashfs-tools` and `conda install -c conda-forge squashfs-tools`"
)
IN_CONTAINER = (
    "pack on the host with `uenvtool venv PATH --squash`, which does not need the container, or start the "
    # The container may look for libraries in other directories than the host, but Debian's also looks in /usr/lib.
    """container with the host's program and its libraries: `apptainer exec --bind "$( (command -v mksquashfs """
    """unsquashfs; ldd $(command -v mksquashfs) | grep -oE '/[^ ]+/lib(z|lzma|lzo2|lz4|zstd)[.][^ ]+' | """
    r"""sed 'p;s,.*/\(.*\),&:/usr/lib/\1,') | paste -sd,)" IMAGE COMMAND`"""
)
LONGEST_REASON = 200
OLDEST = (4, 5)
"""The first version that reads and writes file contents in one stream (`R` definitions, `-pf`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Programs:
    """The paths of mksquashfs and unsquashfs, their version, and the features that they support.

    compression: zstd if supported, otherwise gzip. time_option: the option that sets the time of every entry.
    """

    mksquashfs: str
    unsquashfs: str
    version: tuple[int, int]
    compression: str
    time_option: str

    @property
    def sparse_field(self) -> bool:
        """Whether an `R` definition ends with a field for sparse files, as in version 4.6 or newer."""
        return self.version >= (4, 6)

    @property
    def stream(self) -> str:
        """The file name that makes `unsquashfs -pf` write to standard output."""
        return "-" if self.version >= (4, 6) else "/dev/stdout"


def find_programs() -> Programs:
    """Return the programs on PATH or in the views of loaded uenvs. Raises ToolMissing if one is missing or too old."""
    mksquashfs = find_program("mksquashfs")
    unsquashfs = find_program("unsquashfs")
    printed = _output(mksquashfs, "-version")
    match = re.search(r"version (\d+)\.(\d+)", printed)
    if match is None:  # for example because a library is missing
        raise ToolMissing(f"{mksquashfs} does not run: {printed.strip()[-LONGEST_REASON:]}", hint=_hint())
    version = (int(match[1]), int(match[2]))
    if version < OLDEST:
        raise ToolMissing(f"{mksquashfs} is too old: squashfs-tools 4.5 or newer is required", hint=_hint())
    text = _output(mksquashfs, "-help-all" if version >= (4, 7) else "-help")
    return Programs(
        mksquashfs=mksquashfs,
        unsquashfs=unsquashfs,
        version=version,
        compression="zstd" if re.search(r"(?m)^\s+zstd\b", text) else "gzip",
        time_option="-inode-time" if "-inode-time" in text else "-all-time",
    )


def find_program(name: str) -> str:
    """Return the path of a program of squashfs-tools. Raises ToolMissing, with ways to install it."""
    in_views = [f"{view.root}/bin" for view in loaded_views(os.environ)]
    directories = [os.environ.get("PATH", os.defpath), *in_views, "/usr/sbin", "/sbin"]
    program = shutil.which(name, path=os.pathsep.join(directories))
    if program is None:
        raise ToolMissing.not_on_path(name, _hint())
    return program


def _hint() -> str:
    return IN_CONTAINER if in_container(os.environ) else HOW_TO_GET


def _output(program: str, option: str) -> str:
    completed = processes.ask([program, option])
    return completed.stdout + completed.stderr
