"""The committed scripts in the real shells: what they set, keep, say and leave behind."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.needs import needs
from tests.support.shells import ALL, COMMANDS, EXTENSION, activated, run, script

UENV = {"UENV_VIEW": "/user-environment:pytorch:default"}
TRACES = (
    shutil.which("strace") and not subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], check=False).returncode
)
SCRIPTS = sorted((ROOT / "activate").glob("*.*sh"))


def view(folder: Path, *libraries: str) -> dict[str, str]:
    """A view with libraries of those names, as a variable of the uenv client."""
    lib = folder / "a_view" / "env" / "default" / "lib"
    lib.mkdir(parents=True)
    for name in libraries:
        (lib / name).touch()
    return {"UENV_VIEW": f"{folder}/a_view:pytorch:default"}


@pytest.mark.parametrize("shell", ALL)
def test_what_is_unset_is_set(shell: str) -> None:
    env = activated(shell, "clariden", UENV).env

    assert env["NCCL_NET"] == "AWS Libfabric"
    assert env["FI_CXI_DEFAULT_TX_SIZE"] == "16384"
    assert env["TRITON_HOME"] == "/dev/shm/"
    assert env["MPICH_GPU_SUPPORT_ENABLED"] == "0"


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
        ("libnccl.so.2.28.9", "^LL128", "hybrid"),
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
    env = activated(shell, "clariden", {"UENVTOOL_RUNTIME": "ce", "NCCL_VERSION": "2.26.3"}).env

    assert not {"NCCL_PROTO", "TRITON_HOME", "NCCL_NET"} & set(env)
    assert env["MPICH_GPU_SUPPORT_ENABLED"] == "0"


@pytest.mark.parametrize("shell", ALL)
def test_a_container_without_the_hook_is_told_in_a_job(shell: str) -> None:
    job = {"UENVTOOL_RUNTIME": "ce", "SLURM_JOB_ID": "7"}

    without = activated(shell, "clariden", job)
    other = activated(shell, "clariden", {**job, "SLURM_PROCID": "1"})
    hooked = activated(shell, "clariden", {**job, "NCCL_NET": "AWS Libfabric"})

    assert "NCCL_NET is not set: the aws_ofi_nccl hook sets it" in without.stderr
    assert len(without.stderr.splitlines()) == 1
    assert "NCCL_NET" not in without.env
    assert other.stderr == hooked.stderr == ""


@pytest.mark.parametrize("shell", ALL)
def test_alt_read_warns_where_slurm_was_not_told(shell: str, tmp_path: Path) -> None:
    job = {**view(tmp_path, "libnccl.so.2.28.9", "libnccl.so.2"), "SLURM_JOB_ID": "7"}

    warned = activated(shell, "clariden", job)
    other = activated(shell, "clariden", {**job, "SLURM_PROCID": "1"})
    told = activated(shell, "clariden", {**job, "SLURM_NETWORK": "single_node_vni,disable_rdzv_get"})

    assert "needs disable_rdzv_get" in warned.stderr
    assert len(warned.stderr.splitlines()) == 1
    assert other.stderr == told.stderr == ""


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize(
    ("job", "threads"),
    [
        ({"SLURM_CPUS_PER_TASK": "64", "SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_GPUS_ON_NODE": "4"}, "64"),
        ({"SLURM_CPUS_PER_TASK": "72", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_GPUS_ON_NODE": "4"}, "18"),
        ({"SLURM_CPUS_ON_NODE": "288", "SLURM_TASKS_PER_NODE": "4"}, "72"),
        ({"SLURM_CPUS_PER_TASK": "64", "OMP_NUM_THREADS": "3"}, "3"),
        ({"SLURM_CPUS_PER_TASK": "a[$(touch x)]"}, None),
        ({}, None),
    ],
)
def test_the_threads_are_the_cores_of_a_process(shell: str, job: dict[str, str], threads: str | None) -> None:
    assert activated(shell, "clariden", {**UENV, **job}).env.get("OMP_NUM_THREADS") == threads


@pytest.mark.parametrize("shell", ALL)
def test_sourced_twice_the_first_state_comes_back(shell: str) -> None:
    path = script("clariden", shell)
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
    env = {**view(tmp_path, "libnccl.so.2.28.9", "libnccl.so.2"), "MPICH_GPU_SUPPORT_ENABLED": "1"}
    path = script("clariden", "bash")
    usual = run("bash", f"source {path}\nSNAP\nuenvtool_deactivate\nSNAP", env)

    ran = run("bash", f"{options}\nsource {path}\nSNAP\nuenvtool_deactivate\nSNAP", env)

    assert ran.code == 0
    variables = [{k: v for k, v in snap.items() if not k.startswith(b"BASH_FUNC")} for snap in ran.snaps]
    assert variables == usual.snaps  # `set -a` exports functions too


@pytest.mark.parametrize("options", ["set -eu", "setopt noclobber noglob", "setopt shwordsplit ksharrays", "IFS=_"])
@needs("zsh")[0]
def test_the_users_options_of_zsh_change_nothing(options: str, tmp_path: Path) -> None:
    env = view(tmp_path, "libnccl.so.2.28.9", "libnccl.so.2")
    path = script("clariden", "zsh")
    usual = run("zsh", f"source {path}\nSNAP\nuenvtool_deactivate\nSNAP", env)

    ran = run("zsh", f"{options}\nsource {path}\nSNAP\nuenvtool_deactivate\nSNAP", env)

    assert ran.code == 0
    assert ran.snaps == usual.snaps


@pytest.mark.parametrize("shell", [param for param in ALL if param.values[0] in ("bash", "bash-4.2", "zsh")])
def test_a_trace_is_not_drowned_in_it(shell: str) -> None:
    before = len(run(shell, "set -x\ntrue\ntrue\n").stderr.splitlines())

    ran = run(shell, f"set -x\nsource {script('clariden', shell)}\ntrue\n", UENV)

    assert len(ran.stderr.splitlines()) <= before + 5
    assert ran.stderr.splitlines()[-1].endswith("true")


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize("system", ["clariden", "rcp", "olivia"])
@pytest.mark.skipif(not TRACES, reason="needs strace that may trace: apt-get install strace")
def test_sourcing_starts_no_process(shell: str, system: str, tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SLURM_PROCID": "0", "SLURM_JOB_ID": "77"}
    env |= {**view(tmp_path, "libnccl.so.2.28.9", "libnccl.so.2"), "MPICH_GPU_SUPPORT_ENABLED": "1"}

    usual = _processes(shell, "", env, tmp_path)
    ours = _processes(shell, f"source {script(system, shell)}\nuenvtool_rank_env\nuenvtool_deactivate\n", env, tmp_path)

    assert ours == usual  # tcsh starts one of its own at its start


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
        if path.suffix == f".{EXTENSION[shell]}":
            ran = run(shell, f"source {path}\nSNAP", {"UENVTOOL_QUIET": "1"})
            assert (ran.code, ran.stderr) == (0, ""), path


@needs("shellcheck")[0]
def test_shellcheck_has_nothing_to_say() -> None:
    scripts = [str(path) for path in SCRIPTS if path.suffix == ".sh"]

    answer = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True, check=False)

    assert answer.stdout == ""


def test_the_bash_script_uses_nothing_newer_than_4_2() -> None:
    guarded = 'elif [[ ${BASH_VERSINFO[0]}${BASH_VERSINFO[1]} -ge 44 ]]; then\n    eval "ue_old=\\${$1@a}"\n'
    newer = re.compile(r"\$\{[^}]*@[A-Za-z]\}|EPOCH|local -n|declare -n|mapfile -d|wait -n|printf '%\(")
    for path in SCRIPTS:
        if path.suffix == ".sh":
            assert guarded in path.read_text()
            assert not newer.search(path.read_text().replace(guarded, "")), path
