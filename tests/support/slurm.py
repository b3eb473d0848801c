"""A Slurm of one node in a temporary folder, for tests that need a real job."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.needs import skip_without

HOW = "apt-get install slurm-wlm munge, and run the tests as root"
MUNGE_SOCKET = Path("/run/munge/munge.socket.2")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:8 State=UP
"""


@dataclass(frozen=True)
class Slurm:
    """A Slurm that runs; its commands find it by SLURM_CONF."""

    conf: Path

    def run(self, *command: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's commands with a bare environment."""
        bare = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "SLURM_CONF": str(self.conf),
            "HOME": "/nowhere",
            **(env or {}),
        }
        return subprocess.run(command, env=bare, capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def running_slurm(folder: Path, plugin: Path | None = None) -> Iterator[Slurm]:
    """Start munge, where it does not run, and a Slurm; end them afterwards. Skips where that cannot be.

    plugin: one that its commands and nodes load (SPANK).
    """
    programs = ("slurmctld", "slurmd", "munged", "srun")
    if os.geteuid() != 0 or not all(shutil.which(name) for name in programs):
        skip_without("a real Slurm", HOW)
    with _alone(), _started(folder, plugin) as slurm:
        yield slurm


@contextmanager
def _alone() -> Iterator[None]:
    """Wait for the Slurm of another test run on this machine to end: two disturb each other."""
    with (Path(tempfile.gettempdir()) / "uenvtool-tests-slurm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _started(folder: Path, plugin: Path | None) -> Iterator[Slurm]:
    started = []
    if not MUNGE_SOCKET.exists():
        started.append(_munge(folder))
    for name in ("state", "spool"):
        (folder / name).mkdir()
    conf = folder / "slurm.conf"
    host = socket.gethostname().split(".")[0]
    conf.write_text(CONFIGURATION.format(host=host, folder=folder, ports=_free_ports(2), cpus=os.cpu_count()))
    (folder / "plugstack.conf").write_text(f"required {plugin}\n" if plugin else "")
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    try:
        for name in ("slurmctld", "slurmd"):
            started.append(subprocess.Popen([name, "-D"], env=environment, stderr=subprocess.DEVNULL))
        slurm = Slurm(conf)
        _wait(lambda: "idle" in slurm.run("sinfo", "--noheader").stdout, folder)
        yield slurm
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def _munge(folder: Path) -> subprocess.Popen[bytes]:
    MUNGE_SOCKET.parent.mkdir(exist_ok=True)
    shutil.chown(MUNGE_SOCKET.parent, "munge", "munge")
    process = subprocess.Popen(["munged", "--foreground"], user="munge", group="munge", stderr=subprocess.DEVNULL)
    _wait(MUNGE_SOCKET.exists, folder)
    return process


def _wait(ready, folder: Path) -> None:  # type: ignore[no-untyped-def]
    for _ in range(150):
        if ready():
            return
        time.sleep(0.2)
    logs = [path.read_text()[-2000:] for path in folder.glob("*.log")]
    raise AssertionError(f"Slurm did not start: {' '.join(logs)[-500:] or 'no log'}")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
