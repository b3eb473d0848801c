"""The error message for an exception."""

from __future__ import annotations

import os
import shlex

from uenvtool.core.errors import BadInput, ToolFailed, UenvtoolError


def failure(error: Exception) -> UenvtoolError:
    """Return an exception as an error for the user: unchanged if it is a UenvtoolError, or else the best match."""
    if isinstance(error, FileNotFoundError) and not os.path.isabs(error.filename or "") and _is_directory_removed():
        hint = "change to a directory that exists, and run the command again"
        return BadInput("the current directory does not exist", hint=hint)
    if isinstance(error, UenvtoolError):
        return error
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        hint = "run `uenvtool --debug ...` to see where the error occurs"
        if isinstance(error, PermissionError) and error.filename:
            path = shlex.quote(os.fsdecode(error.filename))
            hint = f"run `namei -l {path}` to see which directory you may not enter"
        return ToolFailed(f"{where}{error.strerror or error}", hint=hint)
    if isinstance(error, MemoryError) or "failed to map segment" in str(error):  # a library could not be loaded
        hint = "raise this shell's limit (`ulimit -v`), or request more memory for the job with --mem"
        return ToolFailed("there is not enough memory", hint=hint)
    return ToolFailed(
        f"unexpected {type(error).__name__}: {error}",
        hint="please report this, with your files and the output of `uenvtool --debug ...`",
    )


def _is_directory_removed() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
