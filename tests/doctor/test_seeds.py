"""For each known problem in the documents that the project began with: its log or shell, and where that leads."""

from __future__ import annotations

import dataclasses

import pytest

from tests.doctor.samples import HEALTHY, TWO_NODES
from tests.doctor.test_checks import GOOD, LIBRARIES, job, python
from tests.doctor.test_log import ids as of_log
from tests.doctor.test_log import read
from uenvtool.doctor.here import faults
from uenvtool.doctor.snapshot import Disks, Folder, Libraries, Snapshot

BASE, VENV = "/user-environment/env/default/lib/python3.13/site-packages", "/s/venv/lib/python3.13/site-packages"
RCP = (
    "job-{0}:9:9 [0] NCCL INFO NET/Socket : Using [0]net1:172.18.128.3<0> [1]eth0:172.16.46.52<0>\n"
    "job-{0}:9:9 [0] NCCL INFO Using network Socket\n"
)
LOGS = {
    "rcp: RDMA is not used": (RCP.format(0) + RCP.format(1), "nccl-tcp"),
    "guide: NCCL is not over Slingshot": (TWO_NODES + "nid001:9:9 [0] NCCL INFO Using network Socket\n", "nccl-tcp"),
    "docs: the plugin is not found": (
        "nid001:9:9 [0] NCCL WARN Error: network AWS Libfabric not found.", "nccl-network-not-found",
    ),
    "docs: GPU-aware MPI deadlocks or refuses": (
        "MPIDI_CRAY_init: GPU_SUPPORT_ENABLED is requested, but GTL library is not linked", "gtl-not-linked",
    ),
    "docs: the environment was not activated in srun": (
        "ModuleNotFoundError: No module named 'nanotron'", "module-missing",
    ),
    "docs: the base's older package wins": (
        f"ImportError: cannot import name 'Gemma3' from 'transformers' ({BASE}/transformers/__init__.py)",
        "import-shadowed",
    ),
    "guide: two jobs share the port 25678": (
        "The server socket has failed to bind to [::]:25678 (errno: 98 - Address already in use).", "address-in-use",
    ),
    "olivia: the head node's name is unknown elsewhere": (
        "[W socket.cpp:601] [c10d] The IPv4 network addresses of (gpu-1-1, 29500) cannot be retrieved (gai error: -2).",
        "master-silent",
    ),
}  # fmt: skip
SHELLS: dict[str, tuple[Snapshot, str]] = {
    "guide: 64 threads on fewer cores": (job({"OMP_NUM_THREADS": "64"}, cores=8), "threads-over-cores"),
    "guide: TX_SIZE of 32768": (job({"FI_CXI_DEFAULT_TX_SIZE": "32768"}), "variable-wrong"),
    "guide: with uenv the variables are set by hand": (dataclasses.replace(job(), environ={}), "variable-missing"),
    "docs: MPICH_GPU_SUPPORT_ENABLED preset to 1": (job({"MPICH_GPU_SUPPORT_ENABLED": "1"}), "variable-wrong"),
    "docs: PYTHONPATH shadows the venv": (
        job(python=python(
            ("transformers", "4.48.3", BASE), ("transformers", "4.57.0", VENV), environment="/s/venv", its_folder=VENV
        )),
        "base-hides-overlay",
    ),
    "docs: packages installed again in the venv": (
        job(python=python(("torch", "2.9.0", VENV), ("torch", "2.6.0", BASE), environment="/s/venv", its_folder=VENV)),
        "two-torches",
    ),
    "docs: a venv on Lustre": (
        job(disks=Disks(venv=Folder(path="/capstor/v", disk="lustre", files=2_000))),
        "venv-on-shared-disk",
    ),
    "docs: Triton's cache in HOME": (
        job(disks=Disks(caches={"TRITON_HOME": Folder(path="/users/u/.triton", disk="nfs4")})),
        "cache-on-shared-disk",
    ),
    "docs: core dumps": (job(core_limit=-1), "core-dumps-on"),
    "rcp: a pod without large_shm": (job(GOOD, shm=(64 << 20, 64 << 20)), "shm-small"),
    "olivia: host paths that are not in the container": (
        job(libraries=Libraries(found=LIBRARIES, gone=("/opt/nccl/lib",))), "host-variable-left",
    ),
}  # fmt: skip


@pytest.mark.parametrize("problem", LOGS)
def test_a_problem_of_the_seeds_is_found_in_its_log(problem: str) -> None:
    log, finding = LOGS[problem]

    assert of_log(read(log)) == {finding}


@pytest.mark.parametrize("problem", SHELLS)
def test_a_problem_of_the_seeds_is_found_in_its_shell(problem: str) -> None:
    here, finding = SHELLS[problem]

    assert finding in {fault.id for fault in faults(here)}


def test_the_output_that_a_seed_shows_as_good_is_good() -> None:
    assert of_log(read(HEALTHY["olivia-s-as-the-seed-prints-it"])) == set()
