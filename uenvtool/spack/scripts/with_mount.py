"""Runs a command that alone sees one folder at another place: STORE MOUNT COMMAND...

In a mount namespace of its own, and without rights in a user namespace too, see mount_namespaces(7)
and user_namespaces(7). The folder MOUNT must exist; nobody else sees what is mounted there.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
CANNOT = 125
"""The exit code if the mount could not be made; chroot(1) and env(1) use it so."""


def main(store: str, mount: str, *command: str) -> None:
    """Mount, then go on as the command."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    _call(libc.unshare, CLONE_NEWNS | (CLONE_NEWUSER if user else 0), step="a private mount namespace")
    if user:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    _call(libc.mount, None, b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None, step="a private mount namespace")
    source, target = os.fsencode(store), os.fsencode(mount)
    _call(libc.mount, source, target, None, ctypes.c_ulong(MS_BIND), None, step=f"{store} at {mount}")
    os.execvp(command[0], command)  # noqa: S606  a program with its arguments, no shell


def _call(function: ctypes._NamedFuncPointer, *arguments: object, step: str) -> None:
    if function(*arguments) != 0:
        sys.stderr.write(f"with_mount: no {step}: {os.strerror(ctypes.get_errno())}\n")
        sys.exit(CANNOT)


if __name__ == "__main__":
    main(*sys.argv[1:])
