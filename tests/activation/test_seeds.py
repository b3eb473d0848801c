"""The published job scripts against ours, under their conditions: the same, or different for a reason on record.

The exports are those of the published pages: the metatensor guide for Alps (2025-09), CSCS's PyTorch page (2025),
EPFL RCP's page on multi-node training with Run:ai (2025-12), and Sigma2's page on PyTorch for Olivia (2025).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.activation.test_ranks import LINE, environment
from tests.activation.test_shells import rdma_port, view
from tests.support.shells import run, script
from uenvtool.knowledge.sources import load_sources
from uenvtool.knowledge.tuning import load_all

JOB = {
    "SLURM_JOB_ID": "123456",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "8",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
    "SLURM_NNODES": "2",
    "SLURM_TASKS_PER_NODE": "4(x2)",
    "SLURM_GPUS_ON_NODE": "4",
    "SLURM_CPUS_ON_NODE": "288",
    "SLURM_JOB_NODELIST": "nid[001234-001235]",
}
AGREED = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "CUDA_CACHE_DISABLE": "1", "MPICH_GPU_SUPPORT_ENABLED": "0"}


@dataclass(frozen=True)
class Published:
    """A published script: who says it, where it runs, what it exports, and what ours says instead.

    newer: variable to our value and the newer source that says so. ours: variable to our value and why.
    """

    source: str
    system: str
    env: dict[str, str]
    exports: dict[str, str | None]
    newer: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    ours: dict[str, tuple[str, str]] = field(default_factory=dict)


PORT = ("13456", "a port of the job's own: two jobs on a node would meet at a fixed one")
PUBLISHED = {
    "guide on a uenv": Published(
        "guide",
        "clariden",
        {**JOB, "SLURM_CPUS_PER_TASK": "64", "MPICH_GPU_SUPPORT_ENABLED": "1"},
        {
            **AGREED,
            "TRITON_HOME": "/dev/shm/",
            "OMP_NUM_THREADS": "64",
            "NCCL_NET": "AWS Libfabric",
            "NCCL_NET_GDR_LEVEL": "PHB",
            "NCCL_CROSS_NIC": "1",
            "NCCL_PROTO": None,
            "FI_CXI_DEFAULT_CQ_SIZE": "131072",
            "FI_CXI_DEFAULT_TX_SIZE": "32768",
            "FI_CXI_DISABLE_HOST_REGISTER": "1",
            "FI_CXI_RX_MATCH_MODE": "software",
            "FI_MR_CACHE_MONITOR": "userfaultfd",
            "MASTER_ADDR": "nid001234",
            "MASTER_PORT": "25678",
            "WORLD_SIZE": "8",
            "RANK": "5",
            "LOCAL_RANK": "1",
        },
        newer={"FI_CXI_DEFAULT_TX_SIZE": ("16384", "docs-2026")},
        ours={"MASTER_PORT": PORT},
    ),
    "guide in a container": Published(
        "guide",
        "clariden",
        {**JOB, "SLURM_CPUS_PER_TASK": "64", "container": "enroot"},
        {**AGREED, "TRITON_HOME": "/dev/shm/", "OMP_NUM_THREADS": "64", "WORLD_SIZE": "8", "MASTER_PORT": "25678"},
        newer={"TRITON_HOME": (None, "docs-2026")},  # fails under the Container Engine
        ours={"MASTER_PORT": PORT},
    ),
    "docs-2025 on a uenv": Published(
        "docs-2025",
        "clariden",
        JOB,
        {**AGREED, "TRITON_HOME": "/dev/shm/", "OMP_NUM_THREADS": "8"},
        # without --cpus-per-task, 8 is the guess
    ),
    "docs-2025 in a container": Published("docs-2025", "clariden", {**JOB, "container": "enroot"}, AGREED),
    "rcp": Published(
        "rcp",
        "rcp",
        {"PET_NNODES": "2", "RUNAI_NUM_OF_GPUS": "4", "RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "23456"},
        {
            "NCCL_IB_GID_INDEX": "7",
            "NCCL_IB_HCA": "mlx5_bond_",
            "NCCL_SOCKET_NTHREADS": "4",
            "NCCL_NSOCKS_PERTHREAD": "4",
            "RANK": "1",
            "MASTER_ADDR": "10.0.0.1",
            "MASTER_PORT": "23456",
        },
    ),
    "olivia": Published(
        "olivia-2025",
        "olivia-2025",
        {**JOB, "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_NTASKS": "2", "APPTAINER_CONTAINER": "x.sif"},
        {
            "NNODES": "2",
            "MASTER_ADDR": "nid001234",
            "MASTER_PORT": "29500",
            "LIBFABRIC_HOME": "/opt/libfabric",
            "NCCL_HOME": "/opt/nccl",
            "NVIDIA_HPC_HOME": "/opt/nvidia/hpc_sdk",
            "LD_LIBRARY_PATH": "/opt/libfabric/lib:/opt/nccl/lib:/opt/nvidia/hpc_sdk/lib:/usr/lib64",
            "CPATH": "/opt/libfabric/include",
        },
        ours={"MASTER_PORT": PORT},
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_script_and_ours_export_the_same_but_for_what_is_on_record(name: str, tmp_path: Path) -> None:
    seed = PUBLISHED[name]
    env = dict(seed.env)
    if "container" not in env and seed.system == "clariden":
        env |= view(tmp_path, "libnccl.so.2.26.2")
    if seed.system == "rcp":
        rdma_port(tmp_path, "mlx5_bond_0/1", {3: "link-local", 6: "v1", 7: "v2"})
        env["UENVTOOL_ROOT"] = str(tmp_path)

    start = LINE if "SLURM_JOB_ID" in env else ""  # Run:ai gives its pods their ranks itself
    ran = run("bash", f"source {script(seed.system)}\n{start} /usr/bin/env -0\n", env)
    found = environment(ran)

    changed = {variable: value for variable, (value, _) in {**seed.newer, **seed.ours}.items()}
    assert {variable: found.get(variable) for variable in seed.exports} == {**seed.exports, **changed}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_difference_has_a_newer_source_on_record(name: str) -> None:
    seed = PUBLISHED[name]
    sources = load_sources()
    tuned = {variable.name: variable for variable in load_all().variables}

    for variable, (_, newer) in seed.newer.items():
        assert sources[newer].date > sources[seed.source].date
        says = tuned[variable].says
        assert seed.source in says
        assert newer in says or any(newer in setting.reason for setting in tuned[variable].settings)
