"""Test build code that tries to write outside of its directories, as an ordinary user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.env.test_install import skip_if_not_kept_in
from tests.support.ordinary_user import public_folder, run_as_ordinary_user
from uenvtool.env.install import MOUNTING

MINE = "for p in $(ls /proc | grep -x '[0-9]*'); do"
ATTEMPTS = {
    "a new file": "echo x > $home/new",
    "a line more": "echo x >> $home/.bashrc",
    "rights": "chmod 777 $home/.bashrc",
    "a time": "touch -d 2001-01-01 $home/.bashrc",
    "removal": "rm -f $home/.bashrc",
    "a rename": "mv $home/.bashrc $home/other",
    "a hard link there": "ln $home/.bashrc $home/other",
    "a hard link from here": "ln $home/.bashrc $local/other && echo x >> $local/other",
    "a symlink": "ln -s $home/new $local/link; echo x > $local/link",
    "the store at its mount": "echo x > $mount/bin/new",
    "the store beside its mount": "echo x > $store/bin/new",
    "..": "cd $local && echo x > ../bin/new",
    "mounted again, writable": "mount -o remount,rw,bind $home && echo x > $home/new",
    "unmounted": "umount -l $home && echo x > $home/new",
    "mounted again, as root of a namespace": "unshare -Urm sh -c 'mount -o remount,rw,bind $home; echo x > $home/new'",
    "unmounted, as root of a namespace": "unshare -Urm sh -c 'umount -l $home; echo x > $home/new'",
    "mounted elsewhere, as root of a namespace": "unshare -Urm sh -c 'mkdir $local/at; mount --bind $home $local/at;"
    " mount -o remount,rw,bind $local/at; echo x > $local/at/new'",
    "the root of a process outside": f"{MINE} echo x > /proc/$p/root$home/new; done",
    "an open file of its own": "for file in /proc/self/fd/*; do echo x > $file/../new; done",
    "the namespace of a process outside": f"{MINE} nsenter -t $p -m sh -c 'echo x > $home/new'; done",
}
"""What is tried, and the line of sh that tries it."""


@pytest.mark.slow
def test_a_script_of_an_image_writes_into_its_folder_alone() -> None:
    with public_folder() as folder:
        places = {name: folder / name for name in ("home", "store", "mount")}
        for path in (*places.values(), places["store"] / "bin", places["store"] / "local"):
            path.mkdir()
        (places["home"] / ".bashrc").write_text("mine\n")
        local = places["mount"] / "local"
        before = kept(places)
        names = {**{name: str(path) for name, path in places.items()}, "local": str(local)}
        options = ["--read-only", "--in", local, "--writable", local]
        lines = [f"( {line} ) 2>/dev/null" for line in (*ATTEMPTS.values(), "echo x > $local/mine")]
        words = [*MOUNTING, *options, places["store"], places["mount"], "sh", "-c"]

        done = run_as_ordinary_user([*words, "\n".join(lines)], folder=folder, env={**names, "HOME": names["home"]})

        skip_if_not_kept_in(done.stderr)
        assert kept(places) == before, done.stderr
        assert (places["store"] / "local/mine").read_text() == "x\n", done.stderr


def kept(places: dict[str, Path]) -> dict[str, object]:
    """All that may not change, with its mode and time."""
    folders = [places["home"], places["store"] / "bin", places["mount"]]
    found = [path for folder in folders for path in sorted(folder.rglob("*"))]
    return {
        str(path): (os.lstat(path).st_mode, os.lstat(path).st_mtime_ns, path.is_file() and path.read_bytes())
        for path in found
    }
