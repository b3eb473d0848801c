"""Each check reports its problem and nothing else, and an idle machine has no findings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from uenvtool.core.session import CurrentJob, LoadedView
from uenvtool.doctor.shell import faults
from uenvtool.doctor.snapshot import Directory, Libraries, MpiUser, Snapshot, Tuned
from uenvtool.knowledge.finding import load_finding_file, load_findings
from uenvtool.knowledge.recognise import concrete_systems
from uenvtool.knowledge.settings import settings_for
from uenvtool.knowledge.system import load_system
from uenvtool.venv.health import Health, PythonHere, PythonPackage

KNOWN = load_findings().findings
JOB = CurrentJob(scheduler="slurm", id="17")
BASE, OVERLAY, USER = (
    "/user-environment/env/default/lib/python3.12/site-packages",
    "/v/lib/python3.12/site-packages",
    "/u",
)
VIEW = LoadedView(mount="/user-environment", uenv="pytorch", name="default", root="/user-environment/env/default")


def tuned(nccl: str = "2.26") -> Tuned:
    """Return the tuning of Clariden in a uenv."""
    here = settings_for("clariden", runtime="uenv", facts={"nccl": nccl})
    return Tuned(
        system="clariden",
        runtime="uenv",
        settings=here.held(),
        command="uenvtool activate",
        guards=here.guards,
        needs=here.tuning.needs,
    )


def good(here: Tuned) -> dict[str, str]:
    """Return the variables that a tuning sets."""
    return {
        setting.name: setting.value
        for setting in here.settings
        if setting.value is not None and setting.policy in ("default", "at-most", "required") and not setting.from_
    }


TUNED, NEWER = tuned(), tuned("2.29")
GOOD = good(TUNED)
NETWORK = dataclasses.replace(TUNED, settings=tuple(each for each in TUNED.settings if each.name == "NCCL_NET"))
"""The tuning of one variable that conflicts with another one."""
LIBRARIES = {"libnccl-net": ("/x/libnccl-net.so",), "libmpi": ("/x/libmpi.so.12",)}


def python(*packages: tuple[str, str, str], **more: Any) -> PythonHere:
    """Return a Python with packages, each given as name, version and directory."""
    listed = tuple(PythonPackage(name=name, version=version, folder=folder) for name, version, folder in packages)
    return PythonHere(version="3.12.3", folders=tuple(dict.fromkeys(p.folder for p in listed)), packages=listed, **more)


def job(environ: Mapping[str, str] | None = None, **more: Any) -> Snapshot:
    """Return a healthy rank of a job, changed by the given values."""
    parts: dict[str, Any] = {
        "environ": {**GOOD, "MASTER_ADDR": "nid001", "MASTER_PORT": "29500", **(environ or {})},
        "node": "nid001",
        "cores": 72,
        "job": JOB,
        "tuned": TUNED,
        "python": python(("torch", "2.6.0", BASE)),
        "shm": (8 << 30, 16 << 30),
        "libraries": Libraries(found=LIBRARIES),
    }
    return Snapshot(**{**parts, **more})


def ids(here: Snapshot) -> list[str]:
    return [fault.id for fault in faults(here)]


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in job().environ.items() if name not in names}


def test_healthy_job_has_no_finding() -> None:
    assert faults(job()) == []


def test_idle_machine_has_no_finding() -> None:
    assert faults(Snapshot(environ={"HOME": "/home/u"}, node="laptop", cores=8, core_limit=-1, shm=(1, 2))) == []


INSIDE = dataclasses.replace(TUNED, runtime="ce")


def with_mpi(*, transport: bool) -> Libraries:
    """Return an mpi4py that is linked with an MPI library."""
    user = MpiUser(path="/s/mpi4py/MPI.so", mpi="libmpi_gnu_123.so.12", transport=transport)
    return Libraries(found=LIBRARIES, mpi_users=(user,))


IN_CONTAINER = Tuned(
    system="clariden",
    runtime="ce",
    command="",
    settings=tuple(
        setting for setting in settings_for("clariden", runtime="ce").held() if setting.policy == "expected"
    ),
)
WITH_LL128 = tuned("2.28")
"""A job with an NCCL that can use LL128 and a tuning that does not set the rendezvous."""
FIRES = {
    "guard-open": job({**good(WITH_LL128), "NCCL_PROTO": "LL,LL128,Simple"}, tuned=WITH_LL128),
    "variable-missing": dataclasses.replace(job(), environ=without("NCCL_CROSS_NIC", "NCCL_NET_GDR_LEVEL")),
    "variable-other": job({"NCCL_CROSS_NIC": "0"}),
    "variable-wrong": job({"FI_CXI_DEFAULT_TX_SIZE": "32768"}),
    "variable-wrong: forbidden": job({"NCCL_NET_PLUGIN": "ofi"}),
    "variable-wrong: in conflict": job({"NCCL_NET_PLUGIN": "ofi"}, tuned=NETWORK),
    "variable-needs": job({**good(NEWER), "SLURM_NETWORK": "other"}, tuned=NEWER),
    "hook-missing": dataclasses.replace(job(), tuned=IN_CONTAINER, environ=without("NCCL_NET")),
    "plugin-not-found": job(libraries=Libraries()),
    "plugin-not-found: what it needs": job(libraries=Libraries(found=LIBRARIES, plugin_lacks=("libfabric.so.1",))),
    "provider-missing": job({"FI_PROVIDER": "cxi"}, libraries=Libraries(found=LIBRARIES, providers=frozenset({"tcp"}))),
    "driver-too-old": job(
        python=python(("torch", "2.11.0+cu130", BASE)), libraries=Libraries(found=LIBRARIES, driver_cuda=12)
    ),
    "two-mpis": job(libraries=Libraries(found={**LIBRARIES, "libmpi": ("/a/libmpi.so.12", "/b/libmpi.so.40")})),
    "gtl-not-linked": job({"MPICH_GPU_SUPPORT_ENABLED": "1"}, tuned=None, libraries=with_mpi(transport=False)),
    "host-variable-left: paths": job(
        in_container=True, absent={"VIRTUAL_ENV": "/users/u/v"}
    ),
    "host-variable-left": job({"OF_HOST": "1", "UENVTOOL_SET": "uenv OF_HOST"}, in_container=True, tuned=INSIDE),
    "host-variable-left: folders": job(
        libraries=Libraries(found=LIBRARIES, gone=("/opt/cray/libfabric/1.22.0/lib64",))
    ),
    "two-torches": job(python=python(
        ("torch", "2.9.0", OVERLAY), ("torch", "2.6.0", BASE), environment="/v", its_folder=OVERLAY
    )),
    "base-hides-overlay": job(python=python(
        ("transformers", "4.48.3", BASE), ("transformers", "4.57.0", OVERLAY), environment="/v", its_folder=OVERLAY
    )),
    "user-site": job(python=python(("numpy", "1.26", USER), ("numpy", "2.1.2", BASE), user_site=USER)),
    "python-path-other": job({"PYTHONPATH": "/old/lib/python3.9/site-packages"}),
    "threads-over-cores": job({"OMP_NUM_THREADS": "64"}, cores=8),
    "venv-on-shared-disk": job(venv=Directory(path="/v", disk="lustre", files=2_000)),
    "cache-on-shared-disk": job(
        caches={"TRITON_HOME": Directory(path="/users/u/.triton", disk="lustre")}
    ),
    "hub-cache-on-shared-disk": job(
        caches={"HF_HOME": Directory(path="/scratch/hub", disk="lustre", files=2_000)}
    ),
    "shm-small": job(shm=(60 << 20, 64 << 20)),
    "core-dumps-on": job(core_limit=-1),
    "address-in-use": job(listening=frozenset({29500})),
    "master-unreachable": job(unresolved=("nid001",)),
    "inside-uenv-session": Snapshot(environ={}, views=(VIEW,)),
}  # fmt: skip
SILENT = {
    "guard-open": job(good(WITH_LL128), tuned=WITH_LL128),
    "variable-missing": dataclasses.replace(job(), environ=without("NCCL_CROSS_NIC"), job=None),
    "variable-other": job({"NCCL_CROSS_NIC": "1"}),
    "variable-wrong": job({"FI_CXI_DEFAULT_TX_SIZE": "1024"}),
    "variable-wrong: forbidden": job({"NCCL_NET_PLUGIN": ""}),
    "variable-wrong: in conflict": job({"NCCL_NET_PLUGIN": ""}, tuned=NETWORK),
    "variable-needs": job({**good(NEWER), "SLURM_NETWORK": "disable_rdzv_get"}, tuned=NEWER),
    "hook-missing": dataclasses.replace(FIRES["hook-missing"], environ=job().environ),
    "plugin-not-found": job({"NCCL_NET": "Socket"}, libraries=Libraries()),
    "plugin-not-found: what it needs": job(),
    "provider-missing": job({"FI_PROVIDER": "cxi"}, libraries=Libraries(found=LIBRARIES, providers=frozenset({"cxi"}))),
    "driver-too-old": job(
        python=python(("torch", "2.9.0+cu126", BASE), ("nvidia-cuda-runtime-cu12", "12.6", BASE)),
        libraries=Libraries(found=LIBRARIES, driver_cuda=12),
    ),
    "two-mpis": job(libraries=Libraries(found={**LIBRARIES, "libmpi": ("/a/libmpi.so.12",)})),
    "gtl-not-linked": job({"MPICH_GPU_SUPPORT_ENABLED": "1"}, tuned=None, libraries=with_mpi(transport=True)),
    "host-variable-left: paths": job(absent={"VIRTUAL_ENV": "/users/u/v"}),
    "host-variable-left": job({"UENVTOOL_SET": "uenv NCCL_CROSS_NIC UNSET_AGAIN"}, in_container=True, tuned=INSIDE),
    "host-variable-left: folders": job(),
    "two-torches": job(python=python(
        ("torch", "2.9.0", OVERLAY), ("torch", "2.6.0", BASE), environment="/v", its_folder=OVERLAY,
        overlay=Health(overrides=frozenset({"torch"})),
    )),
    "base-hides-overlay": job(python=python(
        ("transformers", "4.57.0", OVERLAY), ("transformers", "4.48.3", BASE), environment="/v", its_folder=OVERLAY
    )),
    "user-site": job(python=python(("mine", "1.0", USER), ("numpy", "2.1.2", BASE), user_site=USER)),
    "python-path-other": job({"PYTHONPATH": "/new/lib/python3.12/site-packages:/home/u/code"}),
    "threads-over-cores": job({"OMP_NUM_THREADS": "64,1"}),
    "venv-on-shared-disk": job(venv=Directory(path="/v", disk="squashfs", files=9_000)),
    "cache-on-shared-disk": job(
        caches={"TRITON_HOME": Directory(path="/dev/shm", disk="tmpfs")}
    ),
    "hub-cache-on-shared-disk": job(caches={
        "HF_HOME": Directory(path="/scratch/hub", disk="lustre", files=12),
        "HF_DATASETS_CACHE": Directory(path="/dev/shm/data", disk="tmpfs", files=9_000),
    }),
    "shm-small": job(shm=None),
    "core-dumps-on": job(core_limit=0),
    "address-in-use": job({"MASTER_ADDR": "nid002"}, listening=frozenset({29500})),
    "master-unreachable": job(),
    "inside-uenv-session": job(views=(VIEW,)),
}  # fmt: skip


def test_every_finding_of_a_check_has_both_conditions() -> None:
    of_checks = {
        name
        for name, known in KNOWN.items()
        if not known.log or name in ("driver-too-old", "gtl-not-linked", "address-in-use", "master-unreachable")
    } - {
        "python-broken",
        "rank-silent",
        "rank-differs",
        "network-slow",
        "mpi-wrong-data",
        "unclear",
        "went-on",
        "no-end",
        "earlier-runs",
        "rank-elsewhere",
        "ranks-wait-there",
        *load_finding_file("hang").findings,
    }

    assert FIRES.keys() == SILENT.keys()
    assert {_id(name) for name in FIRES} == of_checks


def _id(name: str) -> str:
    """Return the finding of a sample, without the condition after the colon."""
    return name.partition(":")[0]


@pytest.mark.parametrize("name", FIRES)
def test_check_reports_only_its_own_finding(name: str) -> None:
    assert set(ids(FIRES[name])) == {_id(name)}


@pytest.mark.parametrize("name", SILENT)
def test_check_is_silent_without_its_condition(name: str) -> None:
    assert _id(name) not in ids(SILENT[name])


def test_wrong_setting_has_its_own_fix_command() -> None:
    (fault,) = faults(job({"OMP_NUM_THREADS": "64"}, cores=8))

    assert (fault.detail, fault.commands) == ("64 threads on 8 cores", ("export OMP_NUM_THREADS=8",))


def test_missing_variables_are_one_finding_fixed_by_activation() -> None:
    (fault,) = faults(dataclasses.replace(job(), environ={"NCCL_NET": "AWS Libfabric"}))

    assert fault.id == "variable-missing"
    assert "more" in fault.detail
    assert fault.commands == ("uenvtool activate",)


@pytest.mark.parametrize(
    ("environ", "is_open"),
    [
        ({"NCCL_PROTO": "^LL128"}, False),
        ({"NCCL_PROTO": "^LL,LL128"}, False),
        ({"NCCL_PROTO": "Simple"}, False),
        ({"NCCL_PROTO": "LL,simple"}, False),
        ({"NCCL_LL128_C2C": "0"}, False),
        ({"FI_CXI_RDZV_THRESHOLD": "0", "FI_CXI_RDZV_GET_MIN": "0"}, False),
        ({}, True),
        ({"NCCL_PROTO": ""}, True),
        ({"NCCL_PROTO": "LL128"}, True),
        ({"NCCL_PROTO": "^LL"}, True),
        ({"NCCL_PROTO": "^LL128;allreduce:LL128"}, True),
        ({"NCCL_PROTO": "allreduce:Simple"}, True),
        ({"NCCL_PROTO": "LL128,Simple", "NCCL_LL128_C2C": "0"}, True),  # named, LL128 is not asked for C2C
        ({"FI_CXI_RDZV_THRESHOLD": "0"}, True),
        ({"FI_CXI_RDZV_THRESHOLD": "0", "FI_CXI_RDZV_GET_MIN": "2049"}, True),
    ],
)
@pytest.mark.parametrize("runtime", ["uenv", "ce"])
@pytest.mark.parametrize("nccl", [None, "2.27.3", "2.30.7"])
def test_one_workaround_for_ll128_is_enough(
    environ: dict[str, str], is_open: bool, runtime: str, nccl: str | None
) -> None:
    here = settings_for("clariden", runtime=runtime, facts={"nccl": nccl} if nccl else {})
    known = Tuned(system="clariden", runtime=runtime, settings=(), command="", guards=here.guards)

    found = [
        fault for fault in faults(dataclasses.replace(job(tuned=known), environ=environ)) if fault.id == "guard-open"
    ]

    assert bool(found) == is_open
    assert all(fault.commands == ("export NCCL_PROTO=^LL128",) for fault in found)


@pytest.mark.parametrize(
    ("system", "runtime", "nccl"),
    [("clariden", "uenv", "2.26.6"), ("bristen", "uenv", "2.29.2"), ("rcp", "runai", "2.29.2")],
)
def test_ll128_danger_depends_on_system_and_nccl_version(system: str, runtime: str, nccl: str) -> None:
    assert settings_for(system, runtime=runtime, facts={"nccl": nccl}).guards == ()
    assert settings_for("olivia", runtime="apptainer").guards != ()


@pytest.mark.parametrize("nccl", [None, "2.27.3", "2.29.2", "2.30.7"])
def test_settings_of_each_system_guard_against_each_danger(nccl: str | None) -> None:
    kept_away = []
    for name in concrete_systems():
        for runtime in load_system(name).runtimes:
            here = settings_for(name, runtime=runtime, facts={"nccl": nccl} if nccl else {})
            values = {found.name: found.value for found in here.held() if found.is_fixed and found.value}
            assert all(guard.way(values) for guard in here.guards), (name, runtime)
            kept_away += [(name, runtime) for _ in here.guards]

    assert {("clariden", "uenv"), ("santis", "ce"), ("olivia", "apptainer")} <= set(kept_away)


def test_value_of_a_hook_without_its_option_is_a_risk() -> None:
    """The value is the one that the Container Engine's hook sets on Daint."""
    here = settings_for("daint", runtime="ce")
    known = Tuned(system="daint", runtime="ce", settings=(), command="", needs=here.tuning.needs)

    (fault,) = faults(dataclasses.replace(job(tuned=known), environ={"FI_CXI_RDZV_PROTO": "alt_read"}))

    assert fault.id == "variable-needs"
    assert KNOWN[fault.id].severity == "risk"


def test_a_version_decides_which_value_is_wrong() -> None:
    software = {"FI_CXI_RX_MATCH_MODE": "software"}

    assert ids(job(software)) == []
    assert "variable-other" in ids(job(software, tuned=NEWER))
