"""Copies the permissions of a file that is replaced: its mode and its POSIX access control list (acl(5))."""

from __future__ import annotations

import contextlib
import os
import stat
import struct
from pathlib import Path

_OWN, _INHERITED = "system.posix_acl_access", "system.posix_acl_default"
_VERSION_BYTES, _ENTRY, _OWNER = 4, "<HHI", 1
"""The format of a list: the version, and for each entry its tag, permissions and ID (linux/posix_acl_xattr.h)."""


def set_rights(path: Path | str | int, mode: int, like: Path, *, narrowed: bool = False) -> None:
    """Set the mode of a file, and give it the access control list of another file, or no list if that has none.

    path: the name or descriptor of the file. narrowed: give nobody more permissions than the owner has in `mode`.
    Directories also get the list that new files in them inherit.
    """
    owner = mode >> 6 & 0o7
    own = _list(like, _OWN)
    _set_list(path, _OWN, _narrowed(own, owner) if own and narrowed else own)
    if stat.S_ISDIR(os.stat(path).st_mode):
        _set_list(path, _INHERITED, _list(like, _INHERITED))
    os.chmod(path, mode)  # the mask of a list is the group's part of the mode


def has_list(path: Path) -> bool:
    """Return whether a file or directory has an access control list."""
    return any(_list(path, kind) is not None for kind in (_OWN, _INHERITED))


def _list(path: Path, kind: str) -> bytes | None:
    with contextlib.suppress(OSError):  # the file has no list, or its filesystem supports no lists
        return os.getxattr(path, kind)
    return None


def _set_list(path: Path | str | int, kind: str, content: bytes | None) -> None:
    if content is not None:
        os.setxattr(path, kind, content)
        return
    with contextlib.suppress(OSError):
        os.removexattr(path, kind)


def _narrowed(content: bytes, owner: int) -> bytes:
    entries = struct.iter_unpack(_ENTRY, content[_VERSION_BYTES:])
    packed = (struct.pack(_ENTRY, tag, owner if tag == _OWNER else granted & owner, id) for tag, granted, id in entries)
    return content[:_VERSION_BYTES] + b"".join(packed)
