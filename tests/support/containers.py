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
for file in usr/bin/python3 $(printf 'usr/bin/%s ' $programs) $(find ".$modules" -name '*.so'); do
  ldd "$file" 2>/dev/null | grep -oE '/[^ ]+' || true
done | sort -u | while read -r library; do
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
chmod 755 host/adapt.sh
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


def image_root() -> Path:
    """Return the root directory of an image with this machine's bash and /usr/bin/python3."""
    if shutil.which("python3", path="/usr/bin") is None:
        skip_without("/usr/bin/python3", how_to_get("bash").replace("bash", "python3"))

    def make(folder: Path) -> None:
        subprocess.run(["bash", "-c", ROOT_OF_IMAGE], cwd=folder, check=True, capture_output=True)

    return made_once("image-root", ROOT_OF_IMAGE + sys.version, make) / "root"


def laid(tree: Path, work: Path) -> str:
    """Return the command that lays these files over the root. It fails if the kernel refuses an overlay."""
    script = work / "lay.sh"
    script.write_text(LAY.replace("TREE", str(tree)))
    words = ["unshare", "--mount", "--propagation", "private", "sh", script]
    tried = subprocess.run([*words], capture_output=True, text=True, check=False)
    if tried.returncode:
        skip_without("an overlay over /usr in a mount namespace", f"run outside a container: {tried.stderr.strip()}")
    return f". {script}"
