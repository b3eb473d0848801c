"""Runs commands as an ordinary user, even if root runs the tests. The user can write only to certain directories."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.needs import need, skip_without
from tests.support.project import CACHE, ROOT

NOBODY = 65534
REACHABLE = """
set -e
hold=$1; shift
mkdir "$hold"
for folder in $REACH; do
  mkdir -p "$hold$folder"
  mount --bind "$folder" "$hold$folder"
done
for top in "$hold"/*; do
  name=${top##*/}
  setpriv --reuid=65534 --regid=65534 --clear-groups test -x "/$name" || mount --rbind "$top" "/$name"
done
exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs "$@"
"""
"""A script that makes directories such as those below /root reachable, in a separate mount namespace."""


@contextmanager
def public_folder() -> Iterator[Path]:
    """Create a directory that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="uenvtool-test-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def give_to_ordinary_user(folder: Path) -> None:
    """Change the owner of a directory and its content to the ordinary user."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def run_as_ordinary_user(
    argv: Sequence[str | Path], *, folder: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command in a public directory of the user. Skip if root cannot create a mount namespace."""
    words = [str(word) for word in argv]
    environment = {**os.environ, **env}
    if os.geteuid() == 0:
        need("unshare", "setpriv")
        give_to_ordinary_user(folder)
        CACHE.mkdir(parents=True, exist_ok=True)  # mount needs an existing directory
        environment["REACH"] = " ".join(dict.fromkeys(map(str, (sys.base_prefix, sys.prefix, CACHE, ROOT))))
        hold = tempfile.mkdtemp(prefix="uenvtool-test-hold-")
        words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", REACHABLE, "sh", f"{hold}/at", *words]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if os.geteuid() == 0:
        shutil.rmtree(hold, ignore_errors=True)
    if done.stderr.startswith("unshare: "):  # also in a chroot that is not a mount point
        skip_without("a mount namespace", "run the tests outside a restricted container")
    return done
