"""The committed scripts in the real shells: what they set, keep, say and leave behind.

A row of scripts.yaml is what an activation does where it is sourced:

    - case: ...
      system: rcp              # clariden if it is not said
      in: uenv                 # in a view that has nothing; or ce: in a container
      view: libnccl.so.2.26.2  # in a view with this library; in a container, its folder is in LD_LIBRARY_PATH
      gids: {mlx5_bond_0/1: {7: v2}}  # the GIDs of a port of /sys: v2 and v1 of RoCE, mapped from IPv4; or link-local
      bound: 0-7               # the cores that the kernel lets this process have
      env: {NAME: value}
      sets: {NAME: value}      # null: it is not set
      lacks: [FI_]             # beginnings of names that are not set
      says: ["..."]            # a part of each line of stderr; without it, nothing is said
      quiet: [{NAME: value}]   # with these too, the same is set and nothing is said
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.support.samples import sampled
from tests.support.shells import ALL, COMMANDS, activated, run, script
from tests.support.tracing import need_strace
from uenvtool.activation.template import RANK, TEMPLATE

UENV = {"UENV_VIEW": "/user-environment:pytorch:default"}
CONTAINER = {"container": "enroot"}
ROWS = yaml.safe_load(Path(__file__).with_name("scripts.yaml").read_text())
KEYS = {"case", "system", "in", "view", "gids", "bound", "env", "sets", "lacks", "says", "quiet"}
MAPPED = "0000:0000:0000:0000:0000:ffff:0a00:0001"
GIDS = {
    "v2": (MAPPED, "RoCE v2"),
    "v1": (MAPPED, "IB/RoCE v1"),
    "link-local": ("fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2"),
}
SCRIPTS = sorted((ROOT / "activate").glob("*.sh"))


def view(folder: Path, library: str) -> dict[str, str]:
    """A view with a library and the links of an NCCL, as a variable of the uenv client."""
    lib = folder / "a_view" / "env" / "default" / "lib"
    lib.mkdir(parents=True)
    for name in (library, "libnccl.so.2", "libnccl.so"):
        (lib / name).touch()
    return {"UENV_VIEW": f"{folder}/a_view:pytorch:default"}


def rdma_port(root: Path, port: str, gids: Mapping[int, str]) -> Path:
    """The folder of a port, DEVICE/NUMBER, as /sys below a root shows it."""
    device, _, number = port.partition("/")
    folder = root / "sys" / "class" / "infiniband" / device / "ports" / number
    (folder / "gids").mkdir(parents=True)
    (folder / "gid_attrs" / "types").mkdir(parents=True)
    for index, kind in gids.items():
        for file, text in zip((f"gids/{index}", f"gid_attrs/types/{index}"), GIDS[kind], strict=True):
            (folder / file).write_text(f"{text}\n")
    return folder


def around(row: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """What a row's script finds: its variables, and the files that they lead to."""
    env = {None: {}, "uenv": UENV, "ce": CONTAINER}[row.get("in")]
    if "view" in row:
        of_view = view(folder, row["view"])
        env = {**env, "LD_LIBRARY_PATH": f"{folder}/a_view/env/default/lib"} if env else of_view
    for port, gids in row.get("gids", {}).items():
        rdma_port(folder, port, gids)
    if "bound" in row:
        status = folder / "proc" / "self" / "status"
        status.parent.mkdir(parents=True)
        status.write_text(f"Name:\tbash\nCpus_allowed:\tff\nCpus_allowed_list:\t{row['bound']}\nMems_allowed:\t1\n")
    root = {"UENVTOOL_ROOT": str(folder)} if row.keys() & {"gids", "bound"} else {}
    return {**env, **root, **row.get("env", {})}


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize("row", [pytest.param(row, id=row["case"]) for row in ROWS])
def test_a_script_sets_and_says_what_is_right_there(shell: str, row: dict[str, Any], tmp_path: Path) -> None:
    assert row.keys() <= KEYS
    env, system, says = around(row, tmp_path), row.get("system", "clariden"), row.get("says", [])

    ran = activated(shell, system, env)
    quiet = [activated(shell, system, {**env, **more}) for more in row.get("quiet", [])]

    lines = ran.stderr.splitlines()
    assert len(lines) == len(says), ran.stderr
    for line, part in zip(lines, says, strict=True):
        assert part in line
    assert "".join(other.stderr for other in quiet) == ""
    for found in (ran.env, *(other.env for other in quiet)):
        assert {name: found.get(name) for name in row.get("sets", {})} == row.get("sets", {})
        assert not [name for name in found if name.startswith(tuple(row.get("lacks", ())))]


@pytest.mark.parametrize("shell", ALL)
def test_what_cannot_be_read_in_sys_is_passed_over(shell: str, tmp_path: Path) -> None:
    folder = rdma_port(tmp_path, "mlx5_bond_0/1", dict.fromkeys((2, 4, 6), "v2"))
    (folder / "gids" / "1").mkdir()  # a folder cannot be read, not even by root
    (folder / "gid_attrs" / "types" / "2").unlink()
    (folder / "gid_attrs" / "types" / "4").unlink()
    (folder / "gid_attrs" / "types" / "4").mkdir()
    (folder / "gids" / "$(touch ran)").write_text(MAPPED)
    (folder / "gid_attrs" / "types" / "$(touch ran)").write_text("RoCE v2")

    ran = activated(shell, "rcp", {"PET_NNODES": "2", "UENVTOOL_ROOT": str(tmp_path)})

    assert (ran.env["NCCL_IB_GID_INDEX"], ran.stderr) == ("6", "")


@pytest.mark.parametrize("shell", ALL)
def test_what_came_along_from_the_host_is_told_in_the_container_and_does_not_hide_that_the_hook_is_off(
    shell: str,
) -> None:
    host = activated(shell, "clariden", {**UENV, "SLURM_JOB_ID": "7"}).env

    inside = activated(shell, "clariden", {**host, **CONTAINER})

    first, second = inside.stderr.splitlines()
    assert first.startswith("uenvtool: inherited from the host, where they were set for uenv: ")
    assert {"NCCL_NET", "TRITON_HOME", "FI_MR_CACHE_MONITOR"} <= set(first.split())
    assert second.startswith("uenvtool: NCCL_NET is not set: ")


@pytest.mark.parametrize("shell", ALL)
def test_sourced_twice_the_first_state_comes_back(shell: str) -> None:
    path = script("clariden")
    lines = f"SNAP\nsource {path}\nsource {path}\nSNAP\nuenvtool_deactivate\nSNAP\n"

    ran = run(shell, lines, {**UENV, "MPICH_GPU_SUPPORT_ENABLED": "1"})

    assert ran.snaps[0] == ran.snaps[2]
    assert ran.snaps[1][b"MPICH_GPU_SUPPORT_ENABLED"] == b"0"
    assert len(ran.stderr.splitlines()) == 1


OPTIONS = {
    "bash": (
        "set -euo pipefail",
        "set -o noclobber; set -f",
        "IFS=_2; set -u",
        "shopt -s failglob extglob nullglob nocaseglob; set -eu",
        "set -o posix; set -e",
        "set -e; exec 2>&-",
        "set -a; set -eu",
        "trap 'exit 9' ERR; set -E",
    ),
    "zsh": ("set -eu", "setopt noclobber noglob", "setopt shwordsplit ksharrays", "IFS=_"),
}


@pytest.mark.parametrize(
    ("shell", "options"),
    [
        pytest.param(param.values[0], options, marks=param.marks)
        for param in ALL
        for options in OPTIONS.get(str(param.values[0]), ())
    ],
)
def test_the_users_options_of_a_shell_change_nothing(shell: str, options: str, tmp_path: Path) -> None:
    env = {**view(tmp_path, "libnccl.so.2.29.2"), "MPICH_GPU_SUPPORT_ENABLED": "1"}
    lines = f"source {script('clariden')}\nSNAP\nuenvtool_deactivate\nSNAP"
    usual = run(shell, lines, env)

    ran = run(shell, f"{options}\n{lines}", env)

    assert ran.code == 0
    variables = [{k: v for k, v in snap.items() if not k.startswith(b"BASH_FUNC")} for snap in ran.snaps]
    assert variables == usual.snaps  # `set -a` exports functions too


@pytest.mark.parametrize("shell", [param for param in ALL if param.values[0] in ("bash", "bash-4.2", "zsh")])
def test_a_trace_is_not_drowned_in_it(shell: str) -> None:
    before = len(run(shell, "set -x\ntrue\ntrue\n").stderr.splitlines())

    ran = run(shell, f"set -x\nsource {script('clariden')}\ntrue\n", UENV)

    assert len(ran.stderr.splitlines()) <= before + 5
    assert ran.stderr.splitlines()[-1].endswith("true")


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize("system", sampled(["clariden", "rcp", "olivia"]))
def test_sourcing_starts_no_process(shell: str, system: str, tmp_path: Path) -> None:
    need_strace()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SLURM_PROCID": "0", "SLURM_JOB_ID": "77"}
    env |= {**view(tmp_path, "libnccl.so.2.29.2"), "MPICH_GPU_SUPPORT_ENABLED": "1"}

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


@pytest.mark.parametrize("part", sampled(range(4)))
def test_shellcheck_has_nothing_to_say(part: int) -> None:
    words = ["shellcheck", TEMPLATE, *SCRIPTS[part::4]]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)

    assert answer.stdout == ""


def test_the_program_for_ranks_is_one_of_any_posix_shell() -> None:
    answer = subprocess.run(["shellcheck", "--shell=sh", str(RANK)], capture_output=True, text=True, check=False)

    assert answer.stdout == ""


def test_the_bash_script_uses_nothing_newer_than_4_2() -> None:
    guarded = '[[ ${BASH_VERSINFO[0]-0}${BASH_VERSINFO[1]-0} -lt 44 ]] || eval "ue_old=\\${$1@a}"\n'
    newer = re.compile(r"\$\{[^}]*@[A-Za-z]\}|EPOCH|local -n|declare -n|mapfile -d|wait -n|printf '%\(")
    for path in SCRIPTS:
        assert guarded in path.read_text()
        assert not newer.search(path.read_text().replace(guarded, "")), path
