"""The environment of the code blocks: a cluster with Slurm and uenv, an image, and a user's files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.doctor.test_bandwidth import PRINTED, WITHOUT_HOOK
from tests.doctor.test_log import ENQUEUED, WATCHDOG
from tests.support import peers
from tests.support.kills import FROM_HERE
from tests.support.needs import need
from tests.support.overlays import extension_source, wheel
from tests.support.programs import program
from tests.support.project import ROOT
from tests.support.slurm import Slurm
from tests.support.uenv import uenv_image
from tests.trial.samples import GIB, PAIRS, perf, written

LABEL = "pytorch/v2.6.0:v1"
MOUNT = Path("/user-environment")
FAILED = "THIS LINE FAILED"
TRAIN = '''"""Stands for a training script: every rank meets rank 0 at MASTER_ADDR:MASTER_PORT, and says so."""
import os, socket, time, torch
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(("", address[1])) as server:
        for _ in range(world - 1):
            server.accept()[0].close()
else:
    for attempt in range(300):
        try:
            socket.create_connection(address).close()
            break
        except OSError:
            time.sleep(0.1)
    else:
        raise SystemExit(f"rank {rank} found nobody at {address}")
os.write(1, f"rank {rank} of {world} met {os.environ['NCCL_NET']!r} {torch.__file__}\\n".encode())
'''


JOB = """\
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --account=a01
#SBATCH --time=01:00:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=72
#SBATCH --uenv=pytorch/v2.6.0:v1
#SBATCH --view=default
set -euo pipefail
ulimit -c 0
source activate/clariden.sh
export CUDA_LAUNCH_BLOCKING=1
srun --cpus-per-task=72 sh -uc 'eval "$UENVTOOL_RANK"' python train.py
"""
FLAWED = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=72
#SBATCH --account=a01 --time=01:00:00 --uenv=pytorch/v2.6.0:v1 --view=default
export NCCL_NET_PLUGIN=ofi
srun -c 72 torchrun --nproc-per-node=4 train.py | tee train.log
"""
EDF = """\
image = "nvcr.io#nvidia/pytorch:25.06-py3"

[annotations]
com.hooks.aws_ofi_nccl.enabled = "true"
com.hooks.aws_ofi_nccl.variant = "cuda-dl"
"""
GOOD_LOG = """\
NCCL version 2.27.7+cuda12.8
nid001:9:9 [0] NCCL INFO Using network AWS Libfabric
nid001:9:9 [0] NCCL INFO Channel 00/0 : 3[3] -> 0[0] [receive] via NET/AWS Libfabric/0/GDRDMA
nid002:9:9 [0] NCCL INFO Using network AWS Libfabric
"""
BAD_LOG = (
    GOOD_LOG
    + "nid004:9:9 [0] NCCL INFO Using network Socket\n"
    + "nid003:9:9 [0] NCCL INFO Using network AWS Libfabric\n"
    + "step 1 loss 0.1\n"
    + "".join(WATCHDOG.format(rank) + ENQUEUED.format(rank, 808 if rank == 2 else 811) for rank in range(4))
)
CRASH_LOG = (
    "step 1\nError: CUBLAS error at Cuda.cpp:311: error code = 1 (CUBLAS_STATUS_NOT_INITIALIZED), device index: 7\n"
    "Segmentation fault (core dumped)\n"
)


@dataclass(frozen=True, kw_only=True)
class World:
    """A user's project and home directories, and the variables of the shell."""

    folder: Path
    home: Path
    environ: Mapping[str, str]

    def run(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run lines as a script that stops at the first failure. more: additional variables."""
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder, env={**self.environ, **more}, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip

    def type(self, lines: str) -> str:
        """Type lines in a terminal, which `uenv start` needs. Return the output, with FAILED after a failed line."""
        exits = "exit\n" * (1 + lines.count("uenv start"))
        done = subprocess.run(
            ["script", "-qec", "bash -i", "/dev/null"],
            input=lines + exits, cwd=self.folder, env=dict(self.environ), capture_output=True, text=True, timeout=600,
            check=False,
        )  # fmt: skip
        return done.stdout

    def submit(self, slurm: Slurm, script: str) -> tuple[int, str]:
        """Submit a batch script and wait. Return its exit code, and the output of the job and sbatch."""
        if "myenv" in script and not (self.folder / "myenv.squashfs").exists():  # if only this page is tested
            made = self.run(f"uenvtool venv myenv einops --uenv {LABEL} --squash")
            assert made.returncode == 0, made.stderr
        job = self.folder / "block.sh"
        job.write_text(script)
        output = self.folder / "block.out"
        sent = slurm.submit(f"--output={output}", str(job), env=self.environ, cwd=self.folder, timeout=300)
        return sent.returncode, sent.stderr + (output.read_text() if output.exists() else "")


def made(folder: Path) -> World:
    """Create a world in a directory, or skip the test if the uenv client is missing."""
    need("mksquashfs")
    need("script")
    programs = peers.uenv_programs()
    home = folder / "home"
    (home / ".config" / "uenv").mkdir(parents=True)
    (home / ".config" / "uenv" / "config").write_text(f"repo = {folder}/repo\n")
    (home / ".bashrc").write_text(f"PS1=; trap 'echo \"{FAILED}: $BASH_COMMAND\"' ERR\n")
    world = World(folder=_checkout(folder / "uenvtool"), home=home, environ=_environ(folder, home, programs))
    _uenv_repository(world, folder)
    _users_files(world.folder)
    return world


def _environ(folder: Path, home: Path, programs: Path) -> dict[str, str]:
    command = program(folder / "bin" / "uenvtool", f"#!{sys.executable} -E\n{FROM_HERE}\n")
    return {
        "PATH": f"{command.parent}:{programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin",
        "HOME": str(home),
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "CLUSTER_NAME": "clariden",
        "SCRATCH": str(folder / "scratch"),
        "USER": "user",
        "TERM": "dumb",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(folder / "wheels"),
        "SLURM_NETWORK": "disable_rdzv_get",
        "UENVTOOL_ROOT": str(folder / "nothing"),  # this machine may be a container
    }


def _checkout(folder: Path) -> Path:
    """Copy the files that git tracks or would track."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def _uenv_repository(world: World, folder: Path) -> None:
    (folder / "scratch").mkdir()
    packages = [wheel(folder / "base", "torch", "2.6.0"), wheel(folder / "base", "numpy", "2.1.2")]
    image = uenv_image(folder / "pytorch.squashfs", MOUNT, packages, name="pytorch")
    wheel(folder / "wheels", "lightning", "2.5.0", requires=["torch>=2.1"])
    wheel(folder / "wheels", "einops", "0.8.0")
    wheel(folder / "wheels", "ipykernel", "7.0")
    extension_source(folder / "wheels", "flash-attn", "2.8.3")
    world.run(f"uenv repo create {folder}/repo")
    added = world.run(f"uenv image add {LABEL}@clariden%gh200 {image}")
    assert added.returncode == 0, added.stderr


def _users_files(folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN)
    (folder / "torch_env.tar.gz").touch()
    (folder / "requirements.txt").write_text("einops\n")
    (folder / "job.sh").write_text(JOB)
    (folder / "old.sh").write_text(FLAWED)
    (folder / "env.toml").write_text(EDF)
    (folder / "train.out").write_text(GOOD_LOG)
    (folder / "job.out").write_text(BAD_LOG)
    (folder / "crash.out").write_text(CRASH_LOG)
    (folder / "slurm-all_reduce_perf-123456.log").write_text(PRINTED.format(rows=WITHOUT_HOOK))
    slow = {name: perf(pair.split(), {GIB: 140.5}) for name, pair in PAIRS.items() if "n2" in pair.split()}
    written(folder / "logs" / "try-1234", logs=slow)
