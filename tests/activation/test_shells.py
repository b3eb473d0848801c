"""The committed scripts in the real shells: what they set, keep, say and leave behind."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.needs import needs
from tests.support.samples import sampled
from tests.support.shells import ALL, COMMANDS, activated, run, script
from uenvtool.activation.shells import shells
from uenvtool.activation.template import RANK

UENV = {"UENV_VIEW": "/user-environment:pytorch:default"}
CONTAINER = {"container": "enroot"}
TRACES = (
    shutil.which("strace") and not subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], check=False).returncode
)
SCRIPTS = sorted((ROOT / "activate").glob("*.sh"))


def view(folder: Path, *libraries: str) -> dict[str, str]:
    """A view with libraries of those names, as a variable of the uenv client."""
    lib = folder / "a_view" / "env" / "default" / "lib"
    lib.mkdir(parents=True)
    for name in libraries:
        (lib / name).touch()
    return {"UENV_VIEW": f"{folder}/a_view:pytorch:default"}


@pytest.mark.parametrize("shell", ALL)
def test_what_the_user_set_is_kept_also_where_it_is_empty(shell: str) -> None:
    ran = activated(shell, "clariden", {**UENV, "NCCL_NET": "Socket", "NCCL_CROSS_NIC": ""})

    assert ran.env["NCCL_NET"] == "Socket"
    assert ran.env["NCCL_CROSS_NIC"] == ""
    assert ran.stderr == ""


@pytest.mark.parametrize("shell", ALL)
def test_what_is_wrong_otherwise_is_overridden_in_one_line_on_rank_0(shell: str) -> None:
    wrong = {**UENV, "MPICH_GPU_SUPPORT_ENABLED": "1\nand `more`", "NCCL_NET_PLUGIN": "ofi"}

    first = activated(shell, "clariden", {**wrong, "SLURM_PROCID": "0"})
    other = activated(shell, "clariden", {**wrong, "SLURM_PROCID": "3"})
    quiet = activated(shell, "clariden", {**wrong, "UENVTOOL_QUIET": "1"})

    for ran in (first, other, quiet):
        assert ran.env["MPICH_GPU_SUPPORT_ENABLED"] == "0"
        assert "NCCL_NET_PLUGIN" not in ran.env
    assert len(first.stderr.splitlines()) == 2
    assert "deadlock" in first.stderr
    assert other.stderr == quiet.stderr == ""


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize(
    ("library", "proto", "mode"),
    [
        ("libnccl.so.2.26.2", None, "software"),
        ("libnccl.so.2.27.3", "^LL128", "software"),
        ("libnccl.so.2.28.9", "^LL128", "software"),
        ("libnccl.so.2.29.2", "^LL128", "hybrid"),
        ("libnccl.so.2.9.8", None, "software"),
        ("libother.so", "^LL128", "software"),
    ],
)
def test_the_version_of_nccl_decides(shell: str, library: str, proto: str | None, mode: str, tmp_path: Path) -> None:
    env = activated(shell, "clariden", view(tmp_path, library, "libnccl.so.2", "libnccl.so")).env

    assert env.get("NCCL_PROTO") == proto
    assert env["FI_CXI_RX_MATCH_MODE"] == mode
    assert ("FI_CXI_RDZV_PROTO" in env) == (mode == "hybrid")


@pytest.mark.parametrize("shell", ALL)
def test_a_container_tells_its_nccl_and_keeps_triton_off_dev_shm(shell: str) -> None:
    env = activated(shell, "clariden", {**CONTAINER, "NCCL_VERSION": "2.26.3"}).env

    assert not {"NCCL_PROTO", "TRITON_HOME", "NCCL_NET"} & set(env)
    assert env["MPICH_GPU_SUPPORT_ENABLED"] == "0"


@pytest.mark.parametrize("shell", ALL)
def test_a_container_without_the_hook_is_told_in_a_job(shell: str) -> None:
    job = {**CONTAINER, "SLURM_JOB_ID": "7"}

    without = activated(shell, "clariden", job)
    other = activated(shell, "clariden", {**job, "SLURM_PROCID": "1"})
    hooked = activated(shell, "clariden", {**job, "NCCL_NET": "AWS Libfabric"})
    extended = activated(shell, "clariden", {**job, "ALPS_EXTENDED_IMAGES_ENV_SOURCED": "1"})
    on_host = activated(shell, "clariden", {"SLURM_JOB_ID": "7", "UENVTOOL_RUNTIME": "ce"})

    assert 'the EDF lacks com.hooks.aws_ofi_nccl.enabled = "true"' in without.stderr
    assert len(without.stderr.splitlines()) == 1
    assert "NCCL_NET" not in without.env
    assert [ran.stderr for ran in (other, hooked, extended, on_host)] == [""] * 4


@pytest.mark.parametrize("shell", ALL)
def test_a_job_that_is_in_no_runtime_gets_what_is_right_in_each_and_is_told(shell: str) -> None:
    ran = activated(shell, "clariden", {"SLURM_JOB_ID": "7"})
    other = activated(shell, "clariden", {"SLURM_JOB_ID": "7", "SLURM_PROCID": "1"})

    assert ran.stderr.splitlines() == ["uenvtool: no uenv and no ce here: only what is right in each is set"]
    assert other.stderr == ""
    names = {name for name in ran.env if name.startswith(("NCCL_", "FI_", "TRITON"))}
    assert names == set()
    assert ran.env["MPICH_GPU_SUPPORT_ENABLED"] == "0"
    assert "UENVTOOL_SET" not in ran.env


@pytest.mark.parametrize("shell", ALL)
def test_what_came_along_from_the_host_is_told_in_the_container_and_does_not_hide_that_the_hook_is_off(
    shell: str,
) -> None:
    host = activated(shell, "clariden", {**UENV, "SLURM_JOB_ID": "7"}).env

    inside = activated(shell, "clariden", {**host, **CONTAINER})

    first, second = inside.stderr.splitlines()
    assert first.startswith("uenvtool: set on the host for uenv, and came along: ")
    assert {"NCCL_NET", "TRITON_HOME", "FI_MR_CACHE_MONITOR"} <= set(first.split())
    assert second.startswith("uenvtool: NCCL_NET is not set: ")


@pytest.mark.parametrize("shell", ALL)
def test_alt_read_warns_if_slurm_was_not_told(shell: str, tmp_path: Path) -> None:
    job = {**view(tmp_path, "libnccl.so.2.29.2", "libnccl.so.2"), "SLURM_JOB_ID": "7"}

    warned = activated(shell, "clariden", job)
    other = activated(shell, "clariden", {**job, "SLURM_PROCID": "1"})
    told = activated(shell, "clariden", {**job, "SLURM_NETWORK": "single_node_vni,disable_rdzv_get"})

    assert "needs disable_rdzv_get in SLURM_NETWORK: #SBATCH --network=disable_rdzv_get" in warned.stderr
    assert len(warned.stderr.splitlines()) == 1
    assert other.stderr == told.stderr == ""


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize("preset", [{"FI_CXI_RX_MATCH_MODE": "software"}, {"FI_CXI_RDZV_THRESHOLD": "a b'c"}])
def test_a_set_is_set_whole_or_not_at_all(shell: str, preset: dict[str, str], tmp_path: Path) -> None:
    job = {**view(tmp_path, "libnccl.so.2.29.2", "libnccl.so.2"), "SLURM_JOB_ID": "7"}

    ran = activated(shell, "clariden", {**job, **preset})
    same = activated(shell, "clariden", {**job, "FI_CXI_RX_MATCH_MODE": "hybrid"})

    assert not {"FI_PROVIDER", "FI_CXI_RDZV_PROTO", "FI_CXI_RDZV_EAGER_SIZE"} & set(ran.env)
    name = next(iter(preset))
    assert ran.stderr.splitlines() == [
        f"uenvtool: {name} is set otherwise, so nothing of the set alt_read is added",
    ]
    assert ran.env[name] == preset[name]
    assert same.env["FI_CXI_RDZV_PROTO"] == "alt_read"


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize(
    ("preset", "expected", "said"),
    [("32768", "16384", 1), ("16384", "16384", 0), ("4096", "4096", 0), ("", "", 0), ("many", "many", 0)],
)
def test_a_queue_that_libfabric_would_not_take_is_replaced_and_said(
    shell: str, preset: str, expected: str, said: int
) -> None:
    ran = activated(shell, "clariden", {**UENV, "FI_CXI_DEFAULT_TX_SIZE": preset})

    assert ran.env["FI_CXI_DEFAULT_TX_SIZE"] == expected
    assert ran.stderr.count("FI_CXI_DEFAULT_TX_SIZE was 32768, now 16384: libfabric's maximum") == said
    assert len(ran.stderr.splitlines()) == said


@pytest.mark.parametrize("shell", ALL)
def test_nvshmem_is_set_up_in_a_view_and_not_in_a_container(shell: str, tmp_path: Path) -> None:
    inside = activated(shell, "clariden", view(tmp_path, "libnvshmem_host.so.3")).env
    library_path = {**CONTAINER, "LD_LIBRARY_PATH": f"{tmp_path}/a_view/env/default/lib"}
    container = activated(shell, "clariden", library_path).env

    assert inside["NVSHMEM_REMOTE_TRANSPORT"] == "libfabric"
    assert not [name for name in container if name.startswith("NVSHMEM")]


@pytest.mark.parametrize("shell", ALL)
def test_olivia_puts_the_hosts_libraries_first_inside_the_container(shell: str) -> None:
    outside = activated(shell, "olivia", {"LD_LIBRARY_PATH": "/mine"}).env
    inside = activated(shell, "olivia", {"APPTAINER_CONTAINER": "/x.sif", "LD_LIBRARY_PATH": "/mine"}).env
    empty = activated(shell, "olivia", {"APPTAINER_CONTAINER": "/x.sif"}).env

    folders = "/opt/libfabric/lib:/opt/nccl/lib:/opt/aws-ofi-nccl/lib:/usr/lib64"
    assert (inside["LD_LIBRARY_PATH"], empty["LD_LIBRARY_PATH"]) == (f"{folders}:/mine", folders)
    assert (inside["NCCL_HOME"], inside["LIBFABRIC_HOME"]) == ("/opt/nccl", "/opt/libfabric")
    assert outside["LD_LIBRARY_PATH"] == "/mine"
    assert "NCCL_HOME" not in outside


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize(
    ("job", "system", "network"),
    [
        ({"SLURM_NNODES": "1"}, "olivia", None),
        ({"SLURM_JOB_NUM_NODES": "1", "SLURM_NNODES": "1"}, "olivia", None),
        ({"SLURM_JOB_NUM_NODES": "2"}, "olivia", "AWS Libfabric"),
        ({}, "olivia", "AWS Libfabric"),
        ({"SLURM_NNODES": "1", "UENV_VIEW": "/u:x:default"}, "clariden", "AWS Libfabric"),
    ],
    ids=["one node", "one node, both names", "two nodes", "no job", "one node of the site that always sets it"],
)
def test_the_network_is_not_forced_on_one_node_where_the_site_does_not_ask_for_it(
    shell: str, job: dict[str, str], system: str, network: str | None
) -> None:
    assert activated(shell, system, job).env.get("NCCL_NET") == network


NODE = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_CPUS_ON_NODE": "288", "SLURM_TASKS_PER_NODE": "4(x2)"}


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize(
    ("job", "threads"),
    [
        ({"SLURM_CPUS_PER_TASK": "64", "SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_GPUS_ON_NODE": "4"}, "64"),
        ({"SLURM_CPUS_PER_TASK": "72", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_GPUS_ON_NODE": "4"}, "18"),
        ({"SLURM_CPUS_PER_TASK": "64", "OMP_NUM_THREADS": "3"}, "3"),
        ({"SLURM_CPUS_PER_TASK": "a[$(touch x)]"}, None),
        ({"SLURM_CPUS_PER_TASK": "8", "SLURM_TASKS_PER_NODE": "0", "SLURM_GPUS_ON_NODE": "x"}, None),
        ({}, None),
    ],
)
def test_the_threads_are_the_cores_of_a_process(shell: str, job: dict[str, str], threads: str | None) -> None:
    ran = activated(shell, "clariden", {**UENV, **job})

    assert ran.env.get("OMP_NUM_THREADS") == threads
    assert ran.stderr == ""


@pytest.mark.parametrize("shell", ALL)
def test_without_a_number_of_cores_the_threads_are_a_guess_that_is_said(shell: str) -> None:
    ran = activated(shell, "clariden", {**UENV, **NODE})
    few = activated(shell, "clariden", {**UENV, **NODE, "SLURM_CPUS_ON_NODE": "16"})
    other = activated(shell, "clariden", {**UENV, **NODE, "SLURM_PROCID": "1"})
    own = activated(shell, "clariden", {**UENV, **NODE, "OMP_NUM_THREADS": "5"})

    assert (ran.env["OMP_NUM_THREADS"], few.env["OMP_NUM_THREADS"]) == ("8", "4")
    assert ran.stderr == "uenvtool: OMP_NUM_THREADS is a guess: give --cpus-per-task (-c)\n"
    assert other.stderr == own.stderr == ""


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize(
    ("allowed", "threads"), [("0-7", "8"), ("5", "1"), ("0-35,144-179", "72"), ("0-287", "8"), ("", "8")]
)
def test_a_task_that_slurm_has_bound_uses_its_cores(shell: str, allowed: str, threads: str, tmp_path: Path) -> None:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "status").write_text(
        f"Name:\tbash\nCpus_allowed:\tff\nCpus_allowed_list:\t{allowed}\nMems_allowed:\t1\n"
    )

    ran = activated(shell, "clariden", {**UENV, **NODE, "UENVTOOL_ROOT": str(tmp_path)})

    assert ran.env["OMP_NUM_THREADS"] == threads
    assert ("is a guess" in ran.stderr) == (allowed in ("0-287", ""))


@pytest.mark.parametrize("shell", ALL)
def test_sourced_twice_the_first_state_comes_back(shell: str) -> None:
    path = script("clariden")
    lines = f"SNAP\nsource {path}\nsource {path}\nSNAP\nuenvtool_deactivate\nSNAP\n"

    ran = run(shell, lines, {**UENV, "MPICH_GPU_SUPPORT_ENABLED": "1"})

    assert ran.snaps[0] == ran.snaps[2]
    assert ran.snaps[1][b"MPICH_GPU_SUPPORT_ENABLED"] == b"0"
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "options",
    [
        "set -euo pipefail",
        "set -o noclobber; set -f",
        "IFS=_2; set -u",
        "shopt -s failglob extglob nullglob nocaseglob; set -eu",
        "set -o posix; set -e",
        "set -e; exec 2>&-",
        "set -a; set -eu",
        "trap 'exit 9' ERR; set -E",
    ],
)
def test_the_users_options_of_bash_change_nothing(options: str, tmp_path: Path) -> None:
    env = {**view(tmp_path, "libnccl.so.2.29.2", "libnccl.so.2"), "MPICH_GPU_SUPPORT_ENABLED": "1"}
    path = script("clariden")
    usual = run("bash", f"source {path}\nSNAP\nuenvtool_deactivate\nSNAP", env)

    ran = run("bash", f"{options}\nsource {path}\nSNAP\nuenvtool_deactivate\nSNAP", env)

    assert ran.code == 0
    variables = [{k: v for k, v in snap.items() if not k.startswith(b"BASH_FUNC")} for snap in ran.snaps]
    assert variables == usual.snaps  # `set -a` exports functions too


@pytest.mark.parametrize("options", ["set -eu", "setopt noclobber noglob", "setopt shwordsplit ksharrays", "IFS=_"])
@needs("zsh")[0]
def test_the_users_options_of_zsh_change_nothing(options: str, tmp_path: Path) -> None:
    env = view(tmp_path, "libnccl.so.2.29.2", "libnccl.so.2")
    path = script("clariden")
    usual = run("zsh", f"source {path}\nSNAP\nuenvtool_deactivate\nSNAP", env)

    ran = run("zsh", f"{options}\nsource {path}\nSNAP\nuenvtool_deactivate\nSNAP", env)

    assert ran.code == 0
    assert ran.snaps == usual.snaps


@pytest.mark.parametrize("shell", [param for param in ALL if param.values[0] in ("bash", "bash-4.2", "zsh")])
def test_a_trace_is_not_drowned_in_it(shell: str) -> None:
    before = len(run(shell, "set -x\ntrue\ntrue\n").stderr.splitlines())

    ran = run(shell, f"set -x\nsource {script('clariden')}\ntrue\n", UENV)

    assert len(ran.stderr.splitlines()) <= before + 5
    assert ran.stderr.splitlines()[-1].endswith("true")


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize("system", sampled(["clariden", "rcp", "olivia"]))
@pytest.mark.skipif(not TRACES, reason="needs strace that may trace: apt-get install strace")
def test_sourcing_starts_no_process(shell: str, system: str, tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SLURM_PROCID": "0", "SLURM_JOB_ID": "77"}
    env |= {**view(tmp_path, "libnccl.so.2.29.2", "libnccl.so.2"), "MPICH_GPU_SUPPORT_ENABLED": "1"}

    usual = _processes(shell, "", env, tmp_path)
    ours = _processes(shell, f"source {script(system)}\nuenvtool_deactivate\n", env, tmp_path)

    assert ours == usual


def _processes(shell: str, lines: str, env: dict[str, str], folder: Path) -> int:
    """How many processes a shell starts for some lines."""
    (folder / "lines").write_text(lines)
    calls = ["-e", "trace=fork,vfork,clone,clone3,execve", "-e", "signal=none"]
    command = ["strace", "-f", "-qq", *calls, "-o", str(folder / "trace"), *COMMANDS[shell], str(folder / "lines")]
    subprocess.run(command, env=env, check=True, capture_output=True)
    return sum("CLONE_THREAD" not in line for line in (folder / "trace").read_text().splitlines())


@pytest.mark.parametrize("shell", ALL)
def test_every_script_runs(shell: str) -> None:
    for path in SCRIPTS:
        ran = run(shell, f"source {path}\nSNAP", {"UENVTOOL_QUIET": "1"})
        assert (ran.code, ran.stderr) == (0, ""), path


@needs("shellcheck")[0]
@pytest.mark.parametrize("part", sampled(range(4)))
def test_shellcheck_has_nothing_to_say(part: int) -> None:
    words = ["shellcheck", shells()["bash"].template, *SCRIPTS[part::4]]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)

    assert answer.stdout == ""


@needs("shellcheck")[0]
def test_the_program_for_ranks_is_one_of_any_posix_shell() -> None:
    answer = subprocess.run(["shellcheck", "--shell=sh", str(RANK)], capture_output=True, text=True, check=False)

    assert answer.stdout == ""


def test_the_bash_script_uses_nothing_newer_than_4_2() -> None:
    guarded = '[[ ${BASH_VERSINFO[0]-0}${BASH_VERSINFO[1]-0} -lt 44 ]] || eval "ue_old=\\${$1@a}"\n'
    newer = re.compile(r"\$\{[^}]*@[A-Za-z]\}|EPOCH|local -n|declare -n|mapfile -d|wait -n|printf '%\(")
    for path in SCRIPTS:
        assert guarded in path.read_text()
        assert not newer.search(path.read_text().replace(guarded, "")), path
