"""Runs a command that alone sees one folder at another place: STORE MOUNT COMMAND...

In a mount namespace of its own, and without rights in a user namespace too, see mount_namespaces(7)
and user_namespaces(7). The folder MOUNT must exist; nobody else sees what is mounted there.

The command and all that it starts live in a process namespace of their own, see pid_namespaces(7): when
this process ends, also by SIGKILL, the kernel ends them all. So no build goes on in a store that the
next run already works in.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG = 1
CANNOT = 125
"""The exit code if the mount could not be made; chroot(1) and env(1) use it so."""


def main(store: str, mount: str, *command: str) -> None:
    """Mount, run the command, and end as it does."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    own = CLONE_NEWNS | CLONE_NEWPID | (CLONE_NEWUSER if user else 0)
    _call(libc.unshare, own, step="a private mount namespace")
    if user:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    _call(libc.mount, None, b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None, step="a private mount namespace")
    source, target = os.fsencode(store), os.fsencode(mount)
    _call(libc.mount, source, target, None, ctypes.c_ulong(MS_BIND), None, step=f"{store} at {mount}")
    first = os.fork()
    if first == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os._exit(_first_process(command))
    sys.exit(_ended(os.waitpid(first, 0)[1]))


def _first_process(command: tuple[str, ...]) -> int:
    """Start the command and wait for all that end: the first process of a namespace inherits every orphan."""
    child = os.fork()
    if child == 0:
        try:
            os.execvp(command[0], command)  # noqa: S606  a program with its arguments, no shell
        except OSError as error:
            sys.stderr.write(f"with_mount: cannot start {command[0]}: {error.strerror}\n")
        os._exit(CANNOT)
    while True:
        ended, status = os.wait()
        if ended == child:
            return _ended(status)


def _ended(status: int) -> int:
    """The exit code of a process that has ended, as a shell gives it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _call(function: ctypes._NamedFuncPointer, *arguments: object, step: str) -> None:
    if function(*arguments) != 0:
        sys.stderr.write(f"with_mount: no {step}: {os.strerror(ctypes.get_errno())}\n")
        sys.exit(CANNOT)


if __name__ == "__main__":
    main(*sys.argv[1:])
