"""Runs a command that alone sees one folder at another place:
[--read-only] [--in DIR] [--writable DIR]... STORE MOUNT COMMAND...

In a mount namespace of its own, and without rights in a user namespace too, see mount_namespaces(7)
and user_namespaces(7). The folder MOUNT must exist; nobody else sees what is mounted there.

Everything else is read-only for the command, since a build can do what it likes: all but the store, the
folders that --writable names, and those for temporary files and devices. With --read-only the store is it
too, but for folders in it that --writable names. The home folder is, wherever it lies. On a kernel before
5.12, which cannot do this (mount_setattr(2)), the command is not kept in, and root can undo it. --in names the
folder that the command starts in.

The command and all that it starts live in a process namespace of their own, see pid_namespaces(7): when
this process ends, also by SIGKILL, the kernel ends them all. So no build goes on in a store that the
next run already works in.
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
"""Numbers of system calls, the same on every machine; the C library has no functions for them before 2.36."""
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, MOUNT_ATTR_RDONLY = 1, 4, 1
SHARED = ("/dev", "/proc", "/run", "/tmp", "/var/tmp")  # nothing is made there
"""Folders that hold devices, or temporary files of everybody's."""
CANNOT = 125
"""The exit code if the mount could not be made; chroot(1) and env(1) use it so."""


def main(*words: str) -> None:
    """Mount, run the command, and end as it does."""
    options: dict[str, list[str]] = {"--writable": [], "--in": []}
    is_read_only = words[0] == "--read-only"
    words = words[1:] if is_read_only else words
    while words[0] in options:
        options[words[0]].append(words[1])
        words = words[2:]
    store, mount, *command = words
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    own = CLONE_NEWNS | CLONE_NEWPID | (CLONE_NEWUSER if user else 0)
    _call(libc.unshare, own, step="a private mount namespace")
    if user:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    _call(libc.mount, None, b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None, step="a private mount namespace")
    names = os.fsencode(store), os.fsencode(mount)
    _call(libc.mount, *names, None, ctypes.c_ulong(MS_BIND), None, step=f"{store} at {mount}")
    temporary, named = [*SHARED, os.environ.get("TMPDIR", SHARED[0])], options["--writable"]
    if is_read_only:
        _keep_in(libc, [*temporary, store, mount, *named], read_only=(store, mount))
    else:
        _keep_in(libc, [*temporary, *named, store, mount])
    for folder in options["--in"]:
        os.chdir(folder)
    first = os.fork()
    if first == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os._exit(_first_process(command))
    sys.exit(_ended(os.waitpid(first, 0)[1]))


def _keep_in(libc: ctypes.CDLL, writable: list[str], read_only: tuple[str, ...] = ()) -> None:
    """Make everything read-only but these folders, and what is mounted below them; the home folder is it too.

    The folders are set aside as they are, and put back over the read-only ones, the home folder below
    all others: folders in it may be writable. read_only: those that are put back so, though they lie in others.
    """
    home = os.path.expanduser("~")
    above = [folder for folder in writable if home.startswith(f"{folder}/")]
    folders = [*above, home, *(folder for folder in writable if folder not in above)]
    kept = [(folder, _set_aside(libc, folder)) for folder in folders if os.path.isdir(folder) and folder != "/"]
    if not _set_read_only(libc, AT_FDCWD, b"/"):
        sys.stderr.write(f"with_mount: builds are not kept in: {os.strerror(ctypes.get_errno())}\n")
        return
    for folder, tree in kept:
        if folder in (home, *read_only) and not _set_read_only(libc, tree, b""):
            continue
        arguments = (tree, b"", AT_FDCWD, os.fsencode(folder), MOVE_MOUNT_F_EMPTY_PATH)
        if libc.syscall(MOVE_MOUNT, *arguments) != 0:
            sys.stderr.write(f"with_mount: {folder} stays read-only: {os.strerror(ctypes.get_errno())}\n")
        if tree >= 0:
            os.close(tree)
    with contextlib.suppress(OSError):  # the folder that it is in, as it is now
        os.chdir(os.getcwd())


def _set_aside(libc: ctypes.CDLL, folder: str) -> int:
    """Return a descriptor of a copy of a folder's mounts, that is nowhere yet; -1 if the kernel cannot."""
    flags = OPEN_TREE_CLONE | AT_RECURSIVE | os.O_CLOEXEC
    return int(libc.syscall(OPEN_TREE, AT_FDCWD, os.fsencode(folder), flags))


def _set_read_only(libc: ctypes.CDLL, descriptor: int, path: bytes) -> bool:
    """Make a folder and all that is mounted below it read-only; whether the kernel did (struct mount_attr)."""
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    flags = AT_RECURSIVE | (0 if path else AT_EMPTY_PATH)
    size = ctypes.sizeof(attributes)
    return bool(libc.syscall(MOUNT_SETATTR, descriptor, path, flags, ctypes.byref(attributes), size) == 0)


def _first_process(command: list[str]) -> int:
    """Start the command and wait for all that end: the first process of a namespace inherits every orphan."""
    child = os.fork()
    if child == 0:
        try:
            os.execvp(command[0], command)  # a program with its arguments, no shell
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
        sys.stderr.write(f"with_mount: no {step}: {os.strerror(ctypes.get_errno())}\n")
        sys.exit(CANNOT)


if __name__ == "__main__":
    main(*sys.argv[1:])
