"""What a user is told of an exception."""

from __future__ import annotations

import os
import shlex

from uenvtool.core.errors import BadInput, ToolFailed, UenvtoolError


def failure(error: Exception) -> UenvtoolError:
    """Return what a user is told of an exception: itself if it is one of ours, else what fits it best."""
    if isinstance(error, FileNotFoundError) and not os.path.isabs(error.filename or "") and _folder_is_gone():
        return BadInput("the current folder is gone", hint="go to one that exists, and give the command again")
    if isinstance(error, UenvtoolError):
        return error
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        hint = "`uenvtool --debug ...` shows where this comes from"
        if isinstance(error, PermissionError) and error.filename:
            hint = f"`namei -l {shlex.quote(os.fsdecode(error.filename))}` shows which folder you may not enter"
        return ToolFailed(f"{where}{error.strerror or error}", hint=hint)
    if isinstance(error, MemoryError) or "failed to map segment" in str(error):  # the latter: of a library
        return ToolFailed("there is not enough memory", hint="`ulimit -v` shows this shell's limit, --mem sets a job's")
    return ToolFailed(
        f"unexpected {type(error).__name__}: {error}",
        hint="please report this with your files and what `uenvtool --debug ...` prints",
    )


def _folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
