"""Real container runtimes, unpacked into the tests' cache, and an image for them.

Nothing is installed. Each node of the tests' Slurm lays the files over /usr and /etc in its own mount namespace.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.made_once import made_once
from tests.support.needs import how_to_get, need, skip_without

APPTAINER = "run the tests as root on a Debian that can download from the unstable suite"
PODMAN_HPC = "pip download podman-hpc==1.2.2, and apt-get install podman runc fuse-overlayfs inotify-tools"
SUITE = "unstable"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
DOWNLOAD = r"""
set -e
site=$(apt-get indextargets --format '$(REPO_URI)' 'Component: main' | grep -v security | head -n 1)
mkdir -p lists/partial cache/archives/partial
echo "deb [signed-by=$1] $site $2 main" >sources.list
own="-o Dir::Etc::sourcelist=$PWD/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$PWD/lists"
own="$own -o Dir::Cache=$PWD/cache -o APT::Sandbox::User=root"
apt-get $own -qq update
apt-get $own -qq download apptainer libc6
for package in *.deb; do dpkg-deb -x "$package" new; done
rm -rf lists cache sources.list *.deb
libc=usr/lib/apptainer-libc libraries=usr/lib/x86_64-linux-gnu
mkdir -p "tree/$libc" "tree/usr/bin" "tree/$libraries"
cp -a new/$libraries/*.so* "tree/$libc"
cp -a new/$libraries/apptainer "tree/$libraries"
cp -a new/usr/bin/apptainer tree/usr/bin
cp -a new/etc new/var tree
ln -s apptainer tree/usr/bin/singularity
mkdir -p tree/var/lib/apptainer/mnt/session
for program in usr/bin/apptainer "$libraries/apptainer/bin/starter"; do
  patchelf --set-interpreter "/$libc/ld-linux-x86-64.so.2" --set-rpath "/$libc" "tree/$program"
done
rm -rf new
"""
LAY = """
set -e
mount -t tmpfs -o mode=755 lay /media
for top in usr etc var/lib; do
  mkdir -p /media/$top/new /media/$top/work
  mount -t overlay -o "lowerdir=TREE/$top:/$top,upperdir=/media/$top/new,workdir=/media/$top/work" lay /$top
done
for file in subuid subgid; do echo nobody:100000:65536 >>/etc/$file; done
cp -a /dev/fuse /media/fuse
chmod 666 /media/fuse
mount --bind /media/fuse /dev/fuse
"""
"""The shell lines that a node runs. TREE: the directory of the runtime's files. /dev/fuse is open to users there."""
MQUEUE = """
mkdir -p /media/dev/shm /media/dev/pts /media/dev/mqueue
for name in null zero full random urandom tty ptmx fuse; do cp -a /dev/$name /media/dev; done
chmod 666 /media/dev/fuse
ln -s /proc/self/fd /media/dev/fd
for name in shm pts; do mount --bind /dev/$name /media/dev/$name; done
mount -t mqueue mqueue /media/dev/mqueue
mount --rbind /media/dev /dev
"""
"""More shell lines for podman, which binds /dev/mqueue with --ipc=host. Some machines do not have it."""
PODMAN_HPC_TREE = r"""
set -e
mkdir -p etc/containers usr/bin var/lib
mv usr/lib/podman-hpc/etc/podman_hpc etc/
mv usr/lib/podman-hpc/bin/fuse-overlayfs-wrap usr/bin/
engine='[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
printf "$engine" >etc/containers/containers.conf
printf '[storage]\ndriver = "overlay"\n' >etc/containers/storage.conf
sed -i 's#"/tmp/{{ uid }}_hpc#"/var/lib/hpc/{{ uid }}#' etc/podman_hpc/podman_hpc.yaml
mkdir -p -m 777 var/lib/hpc
cat >usr/bin/podman-hpc <<'EOF'
#!/bin/sh
export PYTHONPATH=/usr/lib/podman-hpc SQUASH_DIR=/var/lib/hpc/squash
exec /usr/bin/python3 -c 'from podman_hpc.podman_hpc import main; main()' "$@"
EOF
chmod 755 usr/bin/*
"""
ROOT_OF_IMAGE = r"""
set -e
mkdir -p root
cd root
for top in bin sbin lib lib64; do mkdir -p usr/$top && ln -s usr/$top $top; done
mkdir -p dev etc host opt proc root run sys tmp usr/lib/python var/tmp
cp /usr/bin/python3 usr/bin/ && ln -s python3 usr/bin/python
modules=$(/usr/bin/python3 -c 'import json, os; print(os.path.dirname(os.path.dirname(json.__file__)))')
mkdir -p ".$modules"
left_out="--exclude=__pycache__ --exclude=test --exclude=config-* --exclude=ensurepip"
tar -C "$modules" -c $left_out . | tar -C ".$modules" -x
programs="bash cat env hostname id ls mkdir sleep tee"
for name in $programs; do cp -L "/usr/bin/$name" usr/bin/; done
ln -s bash usr/bin/sh
{
  for file in usr/bin/python3 $(printf 'usr/bin/%s ' $programs) $(find ".$modules" -name '*.so'); do
    ldd "$file" 2>/dev/null | grep -oE '/[^ ]+' || true
  done
  # glibc's libraries, which each image has, and those of C++ programs
  for name in libpthread.so.0 libdl.so.2 librt.so.1 libm.so.6 libstdc++.so.6 libgcc_s.so.1; do
    /sbin/ldconfig -p | sed -n 's,.*=> ,,p' | grep -F "/$name" | head -n 1
  done
} | sort -u | while read -r library; do
  for path in "$library" "$(readlink -f "$library")"; do # the loader is a link, which a site may bind
    mkdir -p ".$(dirname "$path")" && cp -L "$library" ".$path"
  done
done
echo root:x:0:0:root:/root:/bin/sh >etc/passwd
echo root:x:0: >etc/group
cat >host/adapt.sh <<'EOF'
#!/bin/bash
export ADAPTED=yes
exec "$@"
EOF
cat >usr/bin/torchrun <<'EOF'
#!/bin/sh
exec python3 -m torch.distributed.run "$@"
EOF
chmod 755 host/adapt.sh usr/bin/torchrun
"""


def apptainer() -> Path:
    """Return the files of Debian's newest Apptainer with the C library that it needs, or skip the test."""
    need("apt-get", "dpkg-deb", "patchelf", "squashfuse", "newuidmap", "unshare", "mksquashfs")
    if os.geteuid() != 0 or not Path(KEYS).exists() or not Path("/dev/fuse").exists():
        skip_without("Apptainer, /dev/fuse and root", APPTAINER)

    def make(folder: Path) -> None:
        words = ["sh", "-c", DOWNLOAD, "sh", KEYS, SUITE]
        made = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        if made.returncode:
            skip_without("Apptainer", f"{APPTAINER} ({made.stderr.strip().splitlines()[-1:]})")

    return made_once("apptainer", DOWNLOAD, make) / "tree"


def podman_hpc() -> Path:
    """Return the files of podman-hpc 1.2.2, or skip the test."""
    need("podman", "runc", "fuse-overlayfs", "inotifywait", "newuidmap", "unshare", "setpriv")
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        skip_without("podman-hpc, /dev/fuse and root", PODMAN_HPC)

    def make(folder: Path) -> None:
        site = folder / "tree" / "usr" / "lib" / "podman-hpc"
        words = ["pip", "install", "--quiet", "--target", site, "podman-hpc==1.2.2"]
        made = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
        if made.returncode:
            skip_without("podman-hpc", f"{PODMAN_HPC} ({made.stderr.strip().splitlines()[-1:]})")
        subprocess.run(["sh", "-c", PODMAN_HPC_TREE], cwd=folder / "tree", check=True)

    return made_once("podman-hpc", PODMAN_HPC_TREE, make) / "tree"


def image_root() -> Path:
    """Return the root directory of an image with this machine's bash and /usr/bin/python3."""
    if shutil.which("python3", path="/usr/bin") is None:
        skip_without("/usr/bin/python3", how_to_get("bash").replace("bash", "python3"))

    def make(folder: Path) -> None:
        subprocess.run(["bash", "-c", ROOT_OF_IMAGE], cwd=folder, check=True, capture_output=True)

    return made_once("image-root", ROOT_OF_IMAGE + sys.version, make) / "root"


def laid(tree: Path, work: Path, more: str = "") -> str:
    """Return the command that lays these files over the root. It fails if the kernel refuses an overlay."""
    script = work / "lay.sh"
    script.write_text(LAY.replace("TREE", str(tree)) + more)
    words = ["unshare", "--mount", "--propagation", "private", "sh", script]
    tried = subprocess.run([*words], capture_output=True, text=True, check=False)
    if tried.returncode:
        skip_without("an overlay over /usr in a mount namespace", f"run outside a container: {tried.stderr.strip()}")
    return f". {script}"
