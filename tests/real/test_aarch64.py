"""Test commands on aarch64 with user-mode emulation, in a chroot with Debian's arm64 packages and wheels.

The emulator is registered only in a user namespace (Linux 6.7 or newer), so no root rights are needed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.conftest import Answer, Cli
from tests.support.index import environment, fail_or_skip_without_index
from tests.support.needs import how_to_get, needs, skip_without
from tests.support.overlays import wheel
from tests.support.project import ROOT
from uenvtool.venv.settings import read_settings
from uenvtool.venv.uv import find_uv

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("aarch64")]
pytestmark += needs("unshare", "apt-get", "dpkg-deb", "tar")
HANDLER = Path("/usr/lib/binfmt.d/qemu-aarch64.conf")
PACKAGES = ("bash", "coreutils", "libstdc++6", "python3", "squashfs-tools")
OF_APT = """
#clear APT::Architectures;
#clear APT::Update;
APT {{ Architecture "arm64"; Architectures:: "arm64"; Install-Recommends "false"; Sandbox::User ""; }};
Dir {{ Etc::main "/dev/null"; Etc::parts "/dev/null"; Cache "{0}"; State "{0}/state"; State::status "/dev/null"; }};
"""
"""The configuration after that of the machine, which selects the package mirror and proxy."""
INSIDE = """
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
cat "$1" >/proc/sys/fs/binfmt_misc/register
mount --rbind /dev "$2/dev"
mount -t proc proc "$2/proc"
exec chroot "$2" /usr/bin/env -i -C /inside HOME=/root PATH=/usr/bin:/bin NO_COLOR=1 "${@:3}"
"""
TOOL = "opt/uenvtool"
SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\nexport NCCL_SOCKET_IFNAME=hsn\ntorchrun train.py\n"
LOG = "nid001: NCCL INFO NET/Socket : Using [0]hsn0:10.0.0.1<0>\nnid001: NCCL INFO Using network Socket\n"


def run(words: Sequence[str | Path], **variables: str) -> Answer:
    env = {**os.environ, **variables}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=300)
    return Answer(done.returncode, done.stdout, done.stderr)


def apt(conf: Path, *words: str) -> None:
    """Run apt-get, or skip the test if apt-get cannot download."""
    answer = run(["apt-get", *words], APT_CONFIG=str(conf))
    if said := re.search(r"^[EW]: (Failed to fetch|Unable to fetch) .*", answer.stderr, re.MULTILINE):
        skip_without("Debian's packages for arm64", f"a network ({said[0]})")
    assert answer.code == 0, answer.stderr


@dataclass(frozen=True)
class Machine:
    """A Debian for aarch64 in a directory, with a working directory and the packages of uenvtool."""

    root: Path
    work: Path
    site: Path

    def run(self, *words: str) -> Answer:
        start = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "bash", "-ec"]
        return run([*start, INSIDE, "bash", HANDLER, self.root, *words])

    def uenvtool(self, *words: str, **variables: str) -> Answer:
        given = [f"{name}={value}" for name, value in variables.items()]
        return self.run("env", *given, f"/{TOOL}/bin/python", f"/{TOOL}/bin/uenvtool", *words)


def unpack_debian(root: Path, folder: Path) -> None:
    for name in ("state/lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True)
    own = folder / "apt.conf"
    own.write_text(run(["apt-config", "dump"]).stdout + OF_APT.format(folder))
    apt(own, "--error-on=any", "update")
    apt(own, "-y", "--download-only", "install", *PACKAGES)
    unpack = 'dpkg-deb --fsys-tarfile "$0" | tar -x -C "$1" --no-same-owner --keep-directory-symlink'
    for package in sorted((folder / "archives").glob("*.deb")):
        assert run(["bash", "-o", "pipefail", "-c", unpack, package, root]).code == 0


def install_tool(machine: Machine, dist: Path) -> None:
    built = run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", dist, ROOT])
    assert built.code == 0, built.stderr
    settings = read_settings(environment())  # of pip, as `uenvtool venv` takes them
    version = machine.site.parent.name.removeprefix("python")
    words = ["pip", "install", "--only-binary=:all:", "--python-platform=aarch64-manylinux_2_28"]
    words += [f"--python-version={version}", f"--target={machine.site}", *settings.arguments]
    variables = {**settings.environment, "UV_CACHE_DIR": str(dist / "cache")}
    got = run([find_uv(), *words, *dist.glob("*.whl")], **variables)
    if got.code != 0:
        fail_or_skip_without_index(got.stderr)
    (machine.site / "bin").rename(machine.root / TOOL / "bin")
    (machine.root / TOOL / "bin/python").symlink_to("/usr/bin/python3")
    (machine.root / TOOL / "pyvenv.cfg").write_text("home = /usr/bin\n")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    if not HANDLER.exists():
        skip_without("an emulator of aarch64", how_to_get("qemu-aarch64-static"))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        (root / "inside").mkdir(parents=True)
        unpack_debian(root, Path(folder, "apt"))
        library = root / TOOL / "lib" / os.readlink(root / "usr/bin/python3")
        made = Machine(root, root / "inside", library / "site-packages")
        started = made.run("uname", "-m")
        if started.stdout != "aarch64\n":
            skip_without("binfmt_misc in a user namespace", f"Linux 6.7 or newer ({started.stderr.strip()})")
        install_tool(made, Path(folder, "dist"))
        yield made


COMMANDS = """\
list
show pytorch-2.6 --json
build pytorch-2.6 --no-concretize
job --system clariden --account g1 --recipe pytorch-2.6 -o job.sh -- python train.py
check script.sh --system clariden
doctor --log run.out --system clariden
activate --system clariden --shell bash
container pytorch-25.06
"""


@pytest.mark.parametrize("command", COMMANDS.splitlines())
def test_a_command_says_and_writes_what_it_does_here(machine: Machine, cli: Cli, place: Path, command: str) -> None:
    shutil.rmtree(machine.work)
    for folder in (place, machine.work):
        folder.mkdir(exist_ok=True)
        (folder / "script.sh").write_text(SCRIPT)
        (folder / "run.out").write_text(LOG)

    there, here = machine.uenvtool(*command.split()), cli(*command.split())

    data = f"/{machine.site.relative_to(machine.root)}/uenvtool/data/"
    assert replace(there, stdout=there.stdout.replace(data, f"{ROOT}/")) == here
    assert run(["diff", "-r", machine.work, place]) == Answer(0, "", "")


def test_doctor_looks_at_the_shell(machine: Machine) -> None:
    answer = machine.uenvtool("doctor")

    assert answer.code in (0, 1), answer.stderr
    assert "in this shell" in answer.stdout


def test_an_overlay_and_its_image_are_of_aarch64(machine: Machine, cli: Cli) -> None:
    compiled = {f"rpds/{path.name}": path.read_bytes() for path in (machine.site / "rpds").glob("*.*")}
    python = "cp" + machine.site.parent.name.removeprefix("python").replace(".", "")
    for version, architecture in (("1.0", "aarch64"), ("2.0", "x86_64")):
        tag = f"{python}-{python}-manylinux_2_17_{architecture}"
        wheel(machine.work / "wheels", "rpds", version, files=compiled, tag=tag)
    words = ["venv", "mine", "rpds", "--base", "/usr/bin/python3", "--squash"]

    made = machine.uenvtool(*words, PIP_NO_INDEX="1", PIP_FIND_LINKS="/inside/wheels")

    assert made.code == 0, made.stderr
    ran = machine.run("/inside/mine/bin/python", "-c", "import rpds; print(len(rpds.List([1, 2])), rpds.__file__)")
    assert ran.stdout.startswith("2 /inside/mine/"), ran.stderr
    data = json.loads(cli("show", machine.work / "mine.squashfs", "--json").stdout)
    assert [(each["name"], each["version"]) for each in data["packages"]] == [("rpds", "1.0")]
