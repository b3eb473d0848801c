"""A Slurm with four nodes on this machine, in a temporary directory, for tests that need a real job.

The nodes n1 to n4 have 288 cores and 4 GPUs each, but only in the configuration. Their names resolve in jobs, because
the daemons run in a separate mount namespace with another /etc/hosts. Each node has its own disk at /mnt, with a
directory for root at the same path as on Frontier.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.needs import skip_without

HOW = "apt-get install slurm-wlm munge, and run the tests as root"
DATABASE = ("mariadb-install-db", "mariadbd", "slurmdbd")
NODES = ("n1", "n2", "n3", "n4")
GPUS = 4
ENDED = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT")
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={munge}/socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={spool}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmctldPort={port}
FirstJobId={port}
SlurmdParameters=config_overrides
GresTypes=gpu
ReturnToService=2
"""
"""The first job ID is a port number, so that the jobs of two Slurms on this machine use different ports."""
ACCOUNTED = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={port}
AccountingStoragePass={munge}/socket
AccountingStoreFlags=job_env,job_script
MinJobAge=2
"""
"""The configuration that keeps jobs in a database, and in the controller only for seconds."""
SLURMDBD = """
AuthType=auth/munge
AuthInfo=socket={munge}/socket
DbdHost=localhost
DbdPort={port}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=288 RealMemory=5000 Gres=gpu:{gpus}\n"
PARTITION = "PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:8 State=UP\n"


@dataclass(frozen=True)
class Slurm:
    """A running Slurm, which its commands find through SLURM_CONF. user: the user ID that runs them."""

    conf: Path
    user: int = 0

    def run(
        self, *command: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: int = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a Slurm command with a minimal environment."""
        bare = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
            "SLURM_CONF": str(self.conf),
            "HOME": str(self.conf.parent),
            **(env or {}),
        }
        own = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        return subprocess.run(  # type: ignore[call-overload, no-any-return]
            command, env=bare, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False, **own
        )

    def submit(
        self, *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: int = 150
    ) -> subprocess.CompletedProcess[str]:
        """Submit a batch script and wait for its end, without the ten-second polling of `sbatch --wait`.

        The result is that of sbatch with the exit code of the job. For an array, this is the highest exit code of its
        tasks. timeout: in seconds.
        """
        sent = self.run("sbatch", "--parsable", *words, env=env, cwd=cwd)
        if sent.returncode == 0:
            sent.returncode = self.exit_code(sent.stdout.strip(), timeout)
        return sent

    def exit_code(self, job: str, timeout: int = 150) -> int:
        """Wait for the end of a job and return its exit code."""
        for _ in range(timeout * 5):
            records = self.run("scontrol", "--oneliner", "show", "job", job).stdout.splitlines()
            if records and all(re.search(r"JobState=(\w+)", record)[1] in ENDED for record in records):  # type: ignore[index]
                codes = [re.search(r" ExitCode=(\d+):(\d+)", record) for record in records]
                return max(int(code[1]) or int(code[2]) for code in codes if code)
            time.sleep(0.2)
        raise AssertionError(f"job {job} did not end in {timeout} s: {records}")


@contextmanager
def running_slurm(
    folder: Path, plugin: Path | None = None, accounting: bool = False, lay: str = ":"
) -> Iterator[Slurm]:
    """Start a Slurm with its own munge, and stop both at the end. Skip the test if this is not possible.

    plugin: a SPANK plugin that its commands and nodes load. accounting: use a database, which stores the scripts and
    environments of jobs. lay: a shell command that each daemon runs first, in its own mount namespace.
    """
    programs = ("slurmctld", "slurmd", "munged", "srun")
    if os.geteuid() != 0 or not all(shutil.which(name) for name in programs):
        skip_without("a real Slurm", HOW)
    if accounting and not all(shutil.which(name) for name in DATABASE):
        skip_without("Slurm's accounting", f"{HOW}; and apt-get install slurmdbd mariadb-server")
    # Sockets are in the spool directory. Their paths have at most 108 characters, so pytest's directories are too long.
    with _alone(), tempfile.TemporaryDirectory(prefix="slurm-") as spool:
        Path(spool).chmod(0o755)  # it contains the job's script, which the user reads
        munge = Path(spool) / "munge"
        conf = _configured(folder, Path(spool), munge, plugin)
        with _started(Slurm(conf), munge, accounting, lay) as slurm:
            yield slurm


@contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other test run on this machine uses Slurm, because two of them disturb each other."""
    with (Path(tempfile.gettempdir()) / "uenvtool-tests-slurm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _started(slurm: Slurm, munge: Path, accounting: bool, lay: str) -> Iterator[Slurm]:
    folder = slurm.conf.parent
    started = [_munge(munge)]
    environment = {**os.environ, "SLURM_CONF": str(slurm.conf)}
    if accounting:
        started += _database(slurm, munge, environment)
    hosts = folder / "hosts"
    hosts.write_text(Path("/etc/hosts").read_text() + f"127.0.0.1 {' '.join(NODES)}\n")
    own = f'{lay} && mount --bind "$0" /etc/hosts && mount -t tmpfs disk /mnt && mkdir -p /mnt/bb/root && exec "$@"'
    inside = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", own]
    try:
        for command in (["slurmctld"], *(["slurmd", "-N", name] for name in NODES)):
            words = [*inside, hosts, *command, "-D"]
            started.append(subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL))
        _wait(lambda: slurm.run("sinfo", "--noheader", "--format=%D %T").stdout.split() == ["4", "idle"], folder)
        yield slurm
    finally:
        slurm.run("scancel", "--user=root", "--full")
        for process in reversed(started):
            process.terminate()
            process.wait()


def _configured(folder: Path, spool: Path, munge: Path, plugin: Path | None) -> Path:
    """Write the configuration of the daemons, and return the path of slurm.conf."""
    (folder / "state").mkdir()
    for name in NODES:
        (spool / name).mkdir()
    gpus = [folder / f"gpu{number}" for number in range(GPUS)]
    for gpu in gpus:  # slurmd rejects a regular file, and no rank would get CUDA_VISIBLE_DEVICES
        os.mknod(gpu, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    host = socket.gethostname().split(".")[0]
    port, *ports = _free_ports(1 + len(NODES))
    lines = [NODE.format(name=name, host=host, port=each, gpus=GPUS) for name, each in zip(NODES, ports, strict=True)]
    general = CONFIGURATION.format(host=host, folder=folder, spool=spool, munge=munge, port=port)
    (folder / "slurm.conf").write_text(general + "".join(lines) + PARTITION)
    devices = f"NodeName=n[1-{len(NODES)}] Name=gpu File={folder}/gpu[0-{GPUS - 1}] Flags=nvidia_gpu_env\n"
    (folder / "gres.conf").write_text(devices)
    (folder / "plugstack.conf").write_text(f"required {plugin}\n" if plugin else "")
    return folder / "slurm.conf"


def _database(slurm: Slurm, munge: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a database and slurmdbd, and configure the controller to use them."""
    folder = slurm.conf.parent
    data, reached, (port,) = folder / "database", folder / "db.sock", _free_ports(1)
    usual = ["--no-defaults", "--user=root", f"--datadir={data}"]
    make = [DATABASE[0], *usual, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run(make, check=True, capture_output=True)
    words = [DATABASE[1], *usual, f"--socket={reached}", "--skip-networking", "--skip-grant-tables"]
    yield subprocess.Popen(words, stderr=(folder / "database.log").open("wb"))
    _wait(reached.exists, folder)
    conf = folder / "slurmdbd.conf"
    conf.touch(mode=0o600)
    conf.write_text(SLURMDBD.format(port=port, folder=folder, munge=munge))
    yield subprocess.Popen(
        [DATABASE[2], "-D"], env={**environment, "MYSQL_UNIX_PORT": str(reached)}, stderr=subprocess.DEVNULL
    )
    with slurm.conf.open("a") as stream:
        stream.write(ACCOUNTED.format(port=port, munge=munge))
    _wait(lambda: slurm.run("sacctmgr", "-i", "add", "cluster", "test").returncode == 0, folder)


def _munge(folder: Path) -> subprocess.Popen[bytes]:
    """Start a munge whose files are in a new directory."""
    folder.mkdir()
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o400)
    for path in (folder, folder / "key"):
        shutil.chown(path, "munge", "munge")
    own = [f"--{name}-file={folder}/{name}" for name in ("key", "pid", "seed")]
    words = ["munged", "--foreground", "--force", f"--socket={folder}/socket", *own]
    process = subprocess.Popen(words, user="munge", group="munge", stderr=subprocess.DEVNULL)
    _wait((folder / "socket").exists, folder)
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
