"""Runs a command with the directory STORE mounted at MOUNT, visible only to that command:
[--read-only] [--in DIR] [--writable DIR]... STORE MOUNT COMMAND...

The command runs in its own mount namespace and, if the user is not root, in a user namespace, see mount_namespaces(7)
and user_namespaces(7). The directory MOUNT must exist. Other processes cannot see the mount.

Builds can run any program, so almost everything is read-only for the command. Writable are the store, the directories
that --writable names, and the directories of temporary files and devices. With --read-only, the store is also
read-only, except for directories in it that --writable names. The home directory is always read-only. Kernels before
5.12 do not support this (mount_setattr(2)), so the command is not restricted there. Root can undo the restriction.
The command starts in the directory that --in names.

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
"""The exit code if mounting failed, as in chroot(1) and env(1)."""


def main(*words: str) -> None:
    """Mount the store, run the command, and exit with its exit code."""
    options: dict[str, list[str]] = {"--writable": [], "--in": []}
    is_read_only = words[0] == "--read-only"
    words = words[1:] if is_read_only else words
    while words[0] in options:
        options[words[0]].append(words[1])
        words = words[2:]
    store, mount, *command = words
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
    """Make everything read-only except `writable` and the mounts below it. The home directory is also read-only.

    The writable directories are copied first and then mounted over the read-only ones. The home directory is mounted
    before the others, since directories in it may be writable. read_only: directories that become read-only although
    they are inside a writable directory.
    """
    home = os.path.expanduser("~")
    above = [directory for directory in writable if home.startswith(f"{directory}/")]
    directories = [*above, home, *(directory for directory in writable if directory not in above)]
    kept = [
        (directory, _set_aside(libc, directory))
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


def _set_aside(libc: ctypes.CDLL, directory: str) -> int:
    """Return a descriptor of a detached copy of a directory's mounts, or -1 if the kernel does not support it."""
    flags = OPEN_TREE_CLONE | AT_RECURSIVE | os.O_CLOEXEC
    return int(libc.syscall(OPEN_TREE, AT_FDCWD, os.fsencode(directory), flags))


def _set_read_only(libc: ctypes.CDLL, descriptor: int, path: bytes) -> bool:
    """Make a directory and all mounts below it read-only. Return whether the kernel supports it (struct mount_attr)."""
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = AT_RECURSIVE | (0 if path else AT_EMPTY_PATH)
    size = ctypes.sizeof(attributes)
    return bool(libc.syscall(MOUNT_SETATTR, descriptor, path, flags, ctypes.byref(attributes), size) == 0)


def _first_process(command: list[str]) -> int:
    """Start the command and reap every process that ends, since a namespace's first process adopts all orphans."""
    child = os.fork()
    if child == 0:
        try:
            os.execvp(command[0], command)  # not through a shell
        except OSError as error:
            sys.stderr.write(f"with_mount: cannot start {command[0]}: {error.strerror}\n")
        os._exit(CANNOT)
    while True:
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
