"""The real programs that tests run and for which no distribution has a package.

The tests search for a program in the directory that its variable names, then in its usual places, and then as an
archive in `shared/peers` next to the project, which they unpack once into the cache. If a program is not found, the
test is skipped, and the reason explains how to get the program.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.needs import skip_without
from tests.support.project import CACHE, REAL_HOME, ROOT

SHARED = Path(os.environ.get("UENVTOOL_TEST_SHARED") or ROOT.parent / "shared")


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A real program, or files that a program reads.

    variable: the environment variable that contains its directory.
    marker: a file in its directory.
    archive: its archive in `shared/peers`, which contains one directory, or "" if there is no archive.
    places: other directories to search.
    how: one line that explains how to get it.
    """

    name: str
    variable: str
    marker: str
    how: str
    archive: str = ""
    places: tuple[Path, ...] = ()

    def find(self) -> Path | None:
        """Return the absolute path of the directory, or None. Unpack the archive if nothing else is found."""
        named = os.environ.get(self.variable)
        for folder in (Path(named),) if named else self.places:
            if (folder / self.marker).exists():
                return folder.absolute()
        archive = SHARED / "peers" / self.archive
        return unpacked(archive) if self.archive and not named and archive.is_file() else None

    def need(self) -> Path:
        """Return the directory, or skip the test if it is not found."""
        found = self.find()
        if found is None:
            skip_without(self.name, f"{self.how}, and set {self.variable} to its directory")
        return found


SPACK = Peer(
    name="Spack v1.1.0",
    variable="UENVTOOL_TEST_SPACK",
    marker="bin/spack",
    archive="spack-v1.1.0.tar.xz",
    places=(REAL_HOME / "spack",),
    how="git clone --depth 1 --branch v1.1.0 https://github.com/spack/spack.git ~/spack",
)
PACKAGES = Peer(
    name="Spack's packages v2026.06.0",
    variable="UENVTOOL_TEST_SPACK_PACKAGES",
    marker="repos/spack_repo/builtin/repo.yaml",
    archive="spack-packages-v2026.06.0.tar.xz",
    places=(REAL_HOME / "spack-packages",),
    how="git clone --depth 1 --branch v2026.06.0 https://github.com/spack/spack-packages.git ~/spack-packages",
)
ALPS = Peer(
    name="the package repository of Alps",
    variable="UENVTOOL_TEST_ALPS",
    marker="repo.yaml",
    places=(ROOT / "tests" / "real" / "site" / "spack_repo" / "alps",),
    how="git clone https://github.com/eth-cscs/alps-cluster-config.git, directory site/spack_repo/alps",
)
PACKAGES_OF_2_9 = Peer(
    name="Spack's packages at e79ba9f, for the published pytorch/v2.9.1",
    variable="UENVTOOL_TEST_SPACK_PACKAGES_E79BA9F",
    marker="repos/spack_repo/builtin/repo.yaml",
    archive="spack-packages-e79ba9f.tar.xz",
    how="git clone https://github.com/spack/spack-packages.git, commit e79ba9fc76dd02568da737230bd5f570822fcbb9",
)
PACKAGES_OF_2_12 = Peer(
    name="Spack's packages at 1e8cf05, for pytorch-2.12",
    variable="UENVTOOL_TEST_SPACK_PACKAGES_1E8CF05",
    marker="repos/spack_repo/builtin/repo.yaml",
    archive="spack-packages-1e8cf05.tar.xz",
    how="git clone https://github.com/spack/spack-packages.git, commit 1e8cf059e35d55c4fe1142fed41785bedf6c7246",
)
SOURCES = Peer(
    name="a Spack source mirror",
    variable="UENVTOOL_TEST_SOURCES",
    marker="_source-cache",
    places=(SHARED / "sources",),
    how="`spack mirror create` for the recipe hello with its build tools",
)
STACKINATOR = Peer(
    name="Stackinator 7",
    variable="UENVTOOL_TEST_STACKINATOR",
    marker="pyproject.toml",
    archive="stackinator-db5e1de.tar.xz",
    how="git clone https://github.com/eth-cscs/stackinator.git",
)
UENV_SPACK = Peer(
    name="uenv-spack",
    variable="UENVTOOL_TEST_UENV_SPACK",
    marker="uenv-spack",
    archive="uenv-spack-a10a52a.tar.xz",
    how="git clone https://github.com/eth-cscs/uenv-spack.git",
)
UENV = Peer(
    name="the uenv client and its Slurm plugin",
    variable="UENVTOOL_TEST_UENV",
    marker="uenv",
    archive="uenv-9.2.0-debian12-x86_64.tar.xz",
    how="build https://github.com/eth-cscs/uenv2 (meson, -Dsquashfs_mount=true), and give its squashfs-mount to root "
    "with the setuid bit",
)
UENV_LIBRARIES = "libfmt9 libspdlog1.10 libsqlite3-0 libcurl4 libmount1"
"""The libraries that the client needs, as Debian 12 packages."""
ALL = (SPACK, PACKAGES, PACKAGES_OF_2_9, PACKAGES_OF_2_12, SOURCES, STACKINATOR, UENV_SPACK, UENV)


def uenv_programs() -> Path:
    """Return the directory of `uenv`, `squashfs-mount` and `libslurm-uenv-mount.so`. Skip if they cannot run."""
    folder = UENV.need()
    mount = (folder / "squashfs-mount").stat()
    if mount.st_uid != 0 or not mount.st_mode & 0o4000:
        skip_without("a squashfs-mount that root owns with the setuid bit", f"set {UENV.variable} to its directory")
    trial = subprocess.run([folder / "uenv", "--version"], capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        skip_without("the uenv client's libraries", f"apt-get install {UENV_LIBRARIES}")
    return folder


def uenv_plugin() -> Path:
    """Return the Slurm plugin of the uenv client, or skip the test if it is missing."""
    named = os.environ.get("UENVTOOL_TEST_UENV_PLUGIN")
    plugin = Path(named) if named else uenv_programs() / "libslurm-uenv-mount.so"
    if not plugin.exists():
        skip_without("the uenv client's Slurm plugin", f"{UENV.how}, and set UENVTOOL_TEST_UENV_PLUGIN to its path")
    return plugin


def spack_user() -> Path:
    """Return the directory of Spack's user files for one version, because 1.1 rejects settings of 1.2."""
    return CACHE / f"user-of-{SPACK.need().name}"


def unpacked(archive: Path) -> Path:
    """Return the directory of an archive, which the first call unpacks into the cache.

    The key is the name and size of the archive. If two runs call this function at the same time, one of them waits.
    """
    folder = CACHE / f"{archive.name.removesuffix('.tar.xz')}-{archive.stat().st_size}"
    with _locked(folder):
        if not folder.is_dir():
            work = Path(tempfile.mkdtemp(dir=CACHE))
            subprocess.run(["tar", "--no-same-owner", "-xf", archive, "-C", work], check=True)
            (inner,) = work.iterdir()
            helper = inner / "squashfs-mount"
            if helper.exists() and os.geteuid() == 0:
                helper.chmod(0o4755)  # the plugin and the client start it as any user, to mount images
            inner.rename(folder)
            work.rmdir()
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":  # `python -m tests.support.peers` lists the programs that were found
    for peer in ALL:
        print(f"{peer.name}: {peer.find() or peer.how}")
    sys.exit()
