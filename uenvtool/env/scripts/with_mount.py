"""Runs a command that sees the directory STORE at MOUNT. Other processes cannot see this mount.

Arguments: [--read-only] [--in DIR] [--writable DIR]... STORE MOUNT COMMAND...

The command runs in its own mount namespace and, if the user is not root, in a user namespace, see mount_namespaces(7)
and user_namespaces(7). The directory MOUNT must exist. The command starts in the directory that --in names.

Builds can run any program, so the command can write only to the store, to the directories that --writable names, and to
the directories of temporary files and devices. With --read-only, the store is also read-only, except for directories in
it that --writable names. The home directory is always read-only. Kernels before 5.12 do not support this restriction
(mount_setattr(2)), so there the command can write everywhere. Root can undo the restriction.

The command and its child processes run in their own process namespace, see pid_namespaces(7). When this process ends,
even by SIGKILL, the kernel kills them all. A build therefore never continues in a store that the next run already uses.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG = 1
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
"""Numbers of system calls, the same on every architecture. glibc before 2.36 has no functions for them."""
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, MOUNT_ATTR_RDONLY = 1, 4, 1
SHARED = ("/dev", "/proc", "/run", "/tmp", "/var/tmp")  # this script creates nothing there
"""Directories of devices, or of temporary files of all users."""
CANNOT = 125
"""The exit code if this script cannot mount the store or start the command, as in chroot(1) and env(1)."""


def main(*arguments: str) -> None:
    """Mount the store, run the command, and exit with its exit code."""
    options: dict[str, list[str]] = {"--writable": [], "--in": []}
    is_read_only = arguments[0] == "--read-only"
    arguments = arguments[1:] if is_read_only else arguments
    while arguments[0] in options:
        options[arguments[0]].append(arguments[1])
        arguments = arguments[2:]
    store, mount, *command = arguments
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    namespaces = CLONE_NEWNS | CLONE_NEWPID | (CLONE_NEWUSER if user else 0)
    _call(libc.unshare, namespaces, step="create a private mount namespace")
    if user:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    flags = ctypes.c_ulong(MS_REC | MS_PRIVATE)
    _call(libc.mount, None, b"/", None, flags, None, step="create a private mount namespace")
    names = os.fsencode(store), os.fsencode(mount)
    _call(libc.mount, *names, None, ctypes.c_ulong(MS_BIND), None, step=f"mount {store} at {mount}")
    temporary, named = [*SHARED, os.environ.get("TMPDIR", SHARED[0])], options["--writable"]
    if is_read_only:
        _make_others_read_only(libc, [*temporary, store, mount, *named], read_only=(store, mount))
    else:
        _make_others_read_only(libc, [*temporary, *named, store, mount])
    for directory in options["--in"]:
        os.chdir(directory)
    first = os.fork()
    if first == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os._exit(_first_process(command))
    sys.exit(_ended(os.waitpid(first, 0)[1]))


def _make_others_read_only(libc: ctypes.CDLL, writable: list[str], read_only: tuple[str, ...] = ()) -> None:
    """Make everything read-only except `writable`. The home directory and the directories `read_only` stay read-only.

    The script copies the mounts of the writable directories, makes everything read-only, and mounts the copies again.
    It mounts the home directory first, since directories in the home directory may be writable.
    """
    home = os.path.expanduser("~")
    above = [directory for directory in writable if home.startswith(f"{directory}/")]
    directories = [*above, home, *(directory for directory in writable if directory not in above)]
    flags = OPEN_TREE_CLONE | AT_RECURSIVE | os.O_CLOEXEC
    kept = [
        (directory, int(libc.syscall(OPEN_TREE, AT_FDCWD, os.fsencode(directory), flags)))  # -1 on old kernels
        for directory in directories
        if os.path.isdir(directory) and directory != "/"
    ]
    if not _set_read_only(libc, AT_FDCWD, b"/"):
        sys.stderr.write(f"with_mount: builds can write everywhere: {os.strerror(ctypes.get_errno())}\n")
        return
    for directory, tree in kept:
        if directory in (home, *read_only) and not _set_read_only(libc, tree, b""):
            continue
        arguments = (tree, b"", AT_FDCWD, os.fsencode(directory), MOVE_MOUNT_F_EMPTY_PATH)
        if libc.syscall(MOVE_MOUNT, *arguments) != 0:
            sys.stderr.write(f"with_mount: {directory} stays read-only: {os.strerror(ctypes.get_errno())}\n")
        if tree >= 0:
            os.close(tree)
    with contextlib.suppress(OSError):  # enter the current directory again, through the new mounts
        os.chdir(os.getcwd())


def _set_read_only(libc: ctypes.CDLL, descriptor: int, path: bytes) -> bool:
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)  # struct mount_attr
    flags = AT_RECURSIVE | (0 if path else AT_EMPTY_PATH)
    size = ctypes.sizeof(attributes)
    return bool(libc.syscall(MOUNT_SETATTR, descriptor, path, flags, ctypes.byref(attributes), size) == 0)


def _first_process(command: list[str]) -> int:
    child = os.fork()
    if child == 0:
        try:
            os.execvp(command[0], command)  # not through a shell
        except OSError as error:
            sys.stderr.write(f"with_mount: cannot start {command[0]}: {error.strerror}\n")
        os._exit(CANNOT)
    while True:  # the first process of a namespace adopts all orphans, so wait for them too
        ended, status = os.wait()
        if ended == child:
            return _ended(status)


def _ended(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _call(function: ctypes._NamedFuncPointer, *arguments: object, step: str) -> None:
    if function(*arguments) != 0:
        sys.stderr.write(f"with_mount: cannot {step}: {os.strerror(ctypes.get_errno())}\n")
        sys.exit(CANNOT)


if __name__ == "__main__":
    main(*sys.argv[1:])
