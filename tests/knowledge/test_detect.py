"""Test `new system --here` with the output of programs on real machines."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.programs import program
from uenvtool.knowledge.detect import Gpu, amd_gpus, detected_system, fabric_of, nvidia_gpus, partitions
from uenvtool.knowledge.system import load_system

TRAIN = ("--", "python", "train.py")
OWN_PYTHON = ("--", "env/bin/python", "train.py")
IBV_OF_IBEX = "hca_id:\tmlx5_0\n\ttransport:\t\tInfiniBand (0)\n\t\tport:\t1\n\t\t\tlink_layer:\t\tInfiniBand\n"
IBV_OF_A_ROCE_CARD = (
    "hca_id:\trocep0s4\n\ttransport:\t\tInfiniBand (0)\n\tstate:\t\tPORT_ACTIVE (4)\n\tlink_layer:\tEthernet\n"
)
ROCMINFO = """\
Agent 1
  Name:                    AMD EPYC 7A53 64-Core Processor
  Marketing Name:          AMD EPYC 7A53 64-Core Processor
Agent 5
  Name:                    gfx90a
  Marketing Name:          AMD Instinct MI250X
      Name:                    amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-
Agent 6
  Name:                    gfx90a
  Marketing Name:          AMD Instinct MI250X
"""
SINFO = (
    "cpu*|120|128|257000|(null)\ngpu|16|64|515000+|gpu:a100:4(S:0-1)\ninteractive|2|64|515000|gpu:a100:1\nbroken line\n"
)


class TestWhatProgramsPrint:
    def test_sinfo_of_partitions_those_with_most_gpus_first(self) -> None:
        first, *others = partitions(SINFO)

        assert (first.name, first.nodes, first.cores, first.memory, first.gpus) == ("gpu", 16, 64, 502, ("a100", 4))
        assert [one.name for one in others] == ["interactive", "cpu"]

    @pytest.mark.parametrize("gres", ["gpu:4", "gpu:4(S:0-3)", "craynetwork:4,gpu:4"])
    def test_sinfo_of_gpus_without_a_model(self, gres: str) -> None:
        assert partitions(f"g|1|8|1024|{gres}")[0].gpus == ("", 4)

    def test_nvidia_smi(self) -> None:
        text = "NVIDIA A100-SXM4-80GB, 8.0, 81920\n" * 4
        assert nvidia_gpus(text) == Gpu(vendor="nvidia", model="A100-SXM4-80GB", arch="80", count=4, memory=80)
        assert nvidia_gpus("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n") is None

    def test_rocminfo_counts_agents_and_not_their_isas(self) -> None:
        assert amd_gpus(ROCMINFO) == Gpu(vendor="amd", model="MI250X", arch="gfx90a", count=2)

    @pytest.mark.parametrize(
        ("providers", "devices", "fabric"),
        [
            ("cxi:\n    version: 118.22\ntcp:\n", "", "slingshot"),
            ("verbs:\n    version: 118.0\n", IBV_OF_IBEX, "infiniband"),
            ("", IBV_OF_A_ROCE_CARD, "roce"),
            ("tcp:\n", "No IB devices found\n", ""),
        ],
    )
    def test_the_network(self, providers: str, devices: str, fabric: str) -> None:
        assert fabric_of(providers, devices) == fabric


def programs(printed: dict[str, str]) -> Callable[..., str]:
    return lambda program, *_: printed.get(program, "")


def test_a_login_node_has_its_gpus_of_sinfo_and_says_that_they_are_guessed() -> None:
    found = detected_system(programs({"sinfo": SINFO}), environ={"LMOD_CMD": "/usr/share/lmod/lmod"})

    assert found.gpus == Gpu(vendor="nvidia", model="A100", arch="80", count=4, memory=80)
    assert found.partition == "gpu"
    assert {"gpu", "fabric", "mpi", "target", "os", "packages"} == set(found.guessed)
    assert found.runtimes[-2:] == ("modules", "conda")


@pytest.mark.parametrize("gres", ["gpu:4", "gpu:xyz900:4"])
def test_gpus_of_no_known_model_stay_and_the_model_is_asked_for(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gres: str
) -> None:
    program(tmp_path / "programs" / "sinfo", f"echo 'gpu*|16|64|515000|{gres}'")
    monkeypatch.setenv("PATH", f"{tmp_path}/programs:/usr/bin:/bin")

    unnamed = cli("new", "system", "mine", "--here")
    named = cli("new", "system", "ours", "--here", "--gpu", "h100")

    assert "guessed: gpu, sinfo shows 4 GPUs" in unnamed.stderr
    assert "--gpu MODEL" in Path("systems/mine.yaml").read_text()
    assert [node.gpu_count for node in load_system("mine").nodes.values()] == [4]
    assert load_system("ours").nodes["h100"].gpu == Gpu(vendor="nvidia", model="H100", arch="90", count=4, memory=80)
    assert "guessed: gpu" not in named.stderr


def test_the_c_library_and_the_compiler_are_those_of_the_node_where_both_are_seen() -> None:
    ldd = "ldd (GNU libc) 2.34\nCopyright (C) 2021 Free Software Foundation, Inc.\n"
    seen = detected_system(programs({"ldd": ldd, "/usr/bin/gcc": "11.5.0\n"}))
    unseen = detected_system(programs({"ldd": ldd}))

    assert (seen.glibc, seen.gcc) == ("2.34", "11.5.0")
    assert "of this node" in seen.guessed["packages"]
    assert "of Ubuntu 22.04" in unseen.guessed["packages"]


def test_the_cpu_in_one_module_with_a_gpu_is_that_of_its_model(cli: Cli) -> None:
    assert cli("new", "system", "ours", "--gpu", "GH200:4").code == 0

    assert load_system("ours").nodes["gh200"].target == "neoverse_v2"


def test_nothing_but_programs_that_look_is_started(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sinfo", "nvidia-smi", "rocminfo", "fi_info", "ibv_devinfo", "srun", "sbatch", "apptainer", "module"):
        program(tmp_path / "programs" / name, f'echo "{name} $*" >> {tmp_path}/started')
    monkeypatch.setenv("PATH", f"{tmp_path}/programs:/usr/bin:/bin")

    assert cli("new", "system", "mine", "--here").code == 0
    started = {line.split()[0] for line in (tmp_path / "started").read_text().splitlines()}
    assert started == {"sinfo", "nvidia-smi", "rocminfo", "fi_info", "ibv_devinfo"}


def test_the_job_that_follows_for_a_machine_without_a_scheduler_is_written(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    command = cli("new", "system", "mine", "--here").stderr.splitlines()[-1].split()

    assert cli(*command[1:]).code == 0


CLUSTERS = {
    "infiniband, Apptainer": (("--fabric", "infiniband", "--gpu", "H100:4", "--runtime", "apptainer"), "NCCL_NET-IB"),
    "RoCE, modules": (("--fabric", "roce", "--gpu", "A100:8", "--runtime", "modules"), "NCCL_NET-IB"),
    "Slingshot, AMD, conda": (("--fabric", "slingshot", "--gpu", "MI250X:8"), "FI_CXI_RX_MATCH_MODE-hybrid"),
    "Ethernet, podman-hpc": (("--fabric", "ethernet", "--gpu", "V100:2", "--runtime", "podman-hpc"), "TORCH_NCCL"),
}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_new_site_has_its_first_job_by_the_commands_of_the_page(cli: Cli, cluster: str) -> None:
    options, variable = CLUSTERS[cluster]
    has_image = {"apptainer", "podman-hpc"} & set(options)
    words = ("--image", "docker://nvcr.io/a:1", *TRAIN) if has_image else OWN_PYTHON

    assert cli("new", "system", "mine", *options).code == 0
    assert cli("validate", "systems/mine.yaml").code == 0
    answer = cli("job", "--system", "mine", "--nodes", "2", "-o", "job.sh", *words)

    assert answer.code == 0, answer.stderr
    text = Path("job.sh").read_text()
    assert f"{{{variable}" in text or variable in text
    assert subprocess.run(["bash", "-n", "job.sh"], check=False).returncode == 0
    assert cli("check", "job.sh", "--system", "mine").code == 0
    assert cli("activate", "--system", "mine").code == 0
    assert load_system("mine").nodes


def test_a_system_without_its_cores_says_what_its_jobs_lack(cli: Cli) -> None:
    assert cli("new", "system", "mine", *CLUSTERS["RoCE, modules"][0]).code == 0
    assert cli("new", "system", "ours", *CLUSTERS["RoCE, modules"][0], "--cores", "128").code == 0

    lacking = cli("job", "--system", "mine", *OWN_PYTHON)
    whole = cli("job", "--system", "ours", *OWN_PYTHON)

    assert "the file of mine does not contain the cores of a node" in lacking.stderr
    assert "# cores: 64" in Path("systems/mine.yaml").read_text()
    assert "--cpus-per-task=16" in whole.stdout
    assert "cores a node" not in whole.stderr


def test_what_nobody_looked_at_is_marked_as_guessed(cli: Cli) -> None:
    assert cli("new", "system", "mine", "--fabric", "roce").code == 0

    lines = Path("systems/mine.yaml").read_text().splitlines()
    for name in ("target:", "os:", "packages:"):
        at = next(number for number, line in enumerate(lines) if line.strip().startswith(name))
        assert "# guessed:" in lines[at - 1]


def test_the_version_of_slurm_is_recorded_so_that_the_mpi_can_use_it(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    def ask(program: str, *arguments: str) -> str:
        return ("slurm 24.05.4\n" if arguments == ("--version",) else SINFO) if program == "sinfo" else ""

    monkeypatch.setattr("uenvtool.knowledge.detect._printed", ask)

    assert cli("new", "system", "mine", "--here", "--fabric", "infiniband").code == 0
    assert load_system("mine").packages["slurm"].externals[0].spec.text == "slurm@24.05.4"
    assert cli("validate", "systems/mine.yaml").code == 0
    assert cli("new", "system", "pods", "--fabric", "roce", "--gpu", "H200:8", "--runtime", "runai").code == 0
    assert (load_system("pods").scheduler.name, "slurm" in load_system("pods").packages) == ("kubernetes", False)
