"""Jobs of the systems that are files alone: what each site's own pages ask for stands in them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli

TRAIN = ("--", "python", "train.py")
GH200_WITHOUT_LL128 = {"NCCL_PROTO": "^LL128", "FI_CXI_RDZV_THRESHOLD": "0", "FI_CXI_RDZV_GET_MIN": "0"}


def job(cli: Cli, *words: str) -> str:
    answer = cli("job", *words, *TRAIN)
    assert answer.code == 0, answer.stderr
    return answer.stdout


def variables(text: str) -> dict[str, str]:
    """What the job exports if the user has set nothing."""
    return dict(re.findall(r'^export (\w+)="\$\{\w+-(.*)\}"', text, re.MULTILINE))


class TestIsambard:
    def test_wheels_on_the_sites_nccl(self, cli: Cli) -> None:
        text = job(cli, "-s", "isambard-ai")

        assert re.search(r"^module reset .*\nmodule load brics/nccl\n", text, re.MULTILINE)
        assert "#SBATCH --cpus-per-task=72" in text
        assert "srun -l" in text
        assert "#SBATCH --network=disable_rdzv_get" in text  # FI_CXI_RDZV_PROTO=alt_read is the site's

    def test_every_variable_of_the_sites_file_is_there_with_its_value(self, cli: Cli) -> None:
        said = json.loads(cli("explain", "--all", "--json").stdout)
        site = {entry["name"]: {row[0]: row[2] for row in entry["says"]} for entry in said if "name" in entry}
        theirs = {name: says["isambard"] for name, says in site.items() if "isambard" in says}
        ours = variables(job(cli, "-s", "isambard-ai"))

        assert len(theirs) == 19
        assert {name: ours.get(name) for name in theirs} == {**theirs, "NCCL_DEBUG": None}  # which prints alone

    def test_the_gh200_of_bristol_do_not_use_ll128_either(self, cli: Cli) -> None:
        assert GH200_WITHOUT_LL128.items() <= variables(job(cli, "-s", "isambard-ai")).items()

    def test_containers_go_through_the_hosts_nccl(self, cli: Cli) -> None:
        with_apptainer = job(cli, "-s", "isambard-ai", "--runtime", "apptainer", "--image", "docker://nvcr.io/a:1")
        with_podman = job(cli, "-s", "isambard-ai", "--runtime", "podman-hpc", "--image", "nvcr.io/a:1")

        assert "module load brics/apptainer-multi-node" in with_apptainer
        assert 'apptainer exec --nv "${binds[@]/#/--bind=}" "$image" /host/adapt.sh bash -c' in with_apptainer
        assert re.search(r"srun .* --mpi=pmi2 .*podman-hpc run .* --gpu --openmpi-pmi2 ", with_podman, re.DOTALL)
        assert '"$image"; do' not in with_podman  # a name of a registry is no file


class TestLumi:
    def test_masks_of_the_dies_for_srun_and_exclusive_for_torchrun(self, cli: Cli) -> None:
        srun = job(cli, "-s", "lumi", "-A", "project_1", "--launcher", "srun")
        masks = re.findall(r"--cpu-bind=mask_cpu:(\S+)", srun)[0].split(",")

        assert [bin(int(mask, 16)).count("1") for mask in masks] == [7] * 8
        assert sum(int(mask, 16) for mask in masks) & 0x0101010101010101 == 0  # the first core of each is the system's
        assert masks[0] == "fe000000000000"  # die 0 is beside cores 49 to 55
        assert "--numa-binding=exclusive" in job(cli, "-s", "lumi", "-A", "project_1")

    def test_memory_modules_and_image_are_the_guides(self, cli: Cli) -> None:
        text = job(cli, "-s", "lumi", "-A", "project_1")

        assert "#SBATCH --mem-per-gpu=60G" in text
        assert "module use /appl/local/laifs/modules\nmodule load lumi-aif-singularity-bindings\n" in text
        assert "#SBATCH --partition=standard-g" in text
        assert "singularity exec" in text

    def test_nccl_net_gdr_level_is_removed_since_jobs_hang_with_it(self, cli: Cli) -> None:
        text = job(cli, "-s", "lumi", "-A", "project_1")

        assert "\nunset NCCL_NET_GDR_LEVEL\n" in text
        assert "NCCL_NET_GDR_LEVEL" not in variables(text)
        script = cli("activate", "--system", "lumi").stdout
        assert "ue_remove NCCL_NET_GDR_LEVEL" in script

    def test_miopen_writes_on_the_nodes_own_disk(self, cli: Cli) -> None:
        folder = variables(job(cli, "-s", "lumi", "-A", "p"))["MIOPEN_CUSTOM_CACHE_DIR"]
        assert folder == "/tmp/$USER-$SLURM_JOB_ID"

    @pytest.mark.parametrize(("partition", "nodes"), [("small-g", "5"), ("dev-g", "33"), ("standard-g", "1025")])
    def test_a_partitions_limit_is_told(self, cli: Cli, partition: str, nodes: str) -> None:
        answer = cli("job", "-s", "lumi", "-A", "p", "-p", partition, "-N", nodes, *TRAIN)
        assert answer.code == 2
        assert f"a job in {partition} of lumi has at most" in answer.stderr


class TestFrontier:
    def test_each_rank_has_the_die_beside_its_seven_cores_as_device_0(self, cli: Cli) -> None:
        text = job(cli, "-s", "frontier", "-A", "abc123")

        for line in ("--cpus-per-task=7", "--gpus-per-task=1", "--gpu-bind=closest", "--network=disable_rdzv_get"):
            assert f"#SBATCH {line}" in text
        assert "export LOCAL_RANK=0" in text
        assert "--gpus-per-node" not in text

    @pytest.mark.parametrize("words", [("--launcher", "torchrun", *TRAIN), ("--", "torchrun", "train.py")])
    def test_torchrun_is_refused_with_the_sites_reason(self, cli: Cli, words: tuple[str, ...]) -> None:
        answer = cli("job", "-s", "frontier", "-A", "a", *words)

        assert answer.code == 2
        assert "10 seconds took up to 10 minutes" in answer.stderr
        assert "hint: --launcher srun" in answer.stderr

    def test_nccl_net_is_for_several_nodes(self, cli: Cli) -> None:
        assert variables(job(cli, "-s", "frontier", "-A", "a"))["NCCL_NET"] == "OFI"
        assert "NCCL_NET" not in variables(job(cli, "-s", "frontier", "-A", "a", "-N", "1"))

    def test_the_plugin_and_libraries_are_the_modules(self, cli: Cli) -> None:
        text = job(cli, "-s", "frontier", "-A", "a")

        assert text.index("module load rocm/7.1.1") < text.index("module load rccl-net-plugin")
        assert "export LD_LIBRARY_PATH=${CRAY_LD_LIBRARY_PATH}:$LD_LIBRARY_PATH" in text
        assert "NCCL_NET_PLUGIN" not in text  # which the module sets

    def test_an_environment_that_is_a_folder_comes_first(self, cli: Cli, tmp_path: Path) -> None:
        python = tmp_path / "env" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\necho of the environment\n")
        python.chmod(0o755)
        text = job(cli, "-s", "frontier", "-A", "a", "--image", str(python.parent.parent))

        assert "sbcast" not in text
        lines = text[text.index("environment=") : text.index("# A value")]
        ran = subprocess.run(["bash", "-ec", f"{lines}\npython"], capture_output=True, text=True, check=True)
        assert ran.stdout == "of the environment\n"

    def test_an_archive_is_unpacked_on_each_nodes_own_disk(self, cli: Cli) -> None:
        text = job(cli, "-s", "frontier", "-A", "a", "--image", "env.tar.gz")

        assert "#SBATCH --constraint=nvme" in text
        assert "environment=/mnt/bb/${USER}/environment-$SLURM_JOB_ID" in text
        assert "#SBATCH --constraint" not in job(cli, "-s", "frontier", "-A", "a")


class TestPerlmutter:
    def test_ranks_have_the_cores_beside_gpus_that_are_numbered_the_other_way(self, cli: Cli) -> None:
        text = job(cli, "-s", "perlmutter", "-A", "m1", "--launcher", "srun")

        for line in ("--constraint=gpu", "--gpus-per-node=4", "--ntasks-per-node=4", "--cpus-per-task=32"):
            assert f"#SBATCH {line}" in text
        assert "--cpu-bind=map_ldom:3,2,1,0" in text

    def test_the_sites_plugin_is_in_each_kind_of_container(self, cli: Cli) -> None:
        assert "shifter --image=" in job(cli, "-s", "perlmutter", "-A", "m1")
        assert "--module=gpu,nccl-plugin" in job(cli, "-s", "perlmutter", "-A", "m1")
        assert " --gpu --nccl " in job(cli, "-s", "perlmutter", "-A", "m1", "--runtime", "podman-hpc")

    def test_what_podman_hpc_sets_is_set(self, cli: Cli) -> None:
        ours = variables(job(cli, "-s", "perlmutter", "-A", "m1"))
        theirs = {"FI_CXI_DISABLE_HOST_REGISTER": "1", "FI_MR_CACHE_MONITOR": "userfaultfd", "NCCL_CROSS_NIC": "1"}

        assert (theirs | {"NCCL_SOCKET_IFNAME": "hsn", "NCCL_NET_GDR_LEVEL": "PHB"}).items() <= ours.items()
        assert "NCCL_PROTO" not in ours  # LL128 is wrong on GH200, which these are not


class TestBeverin:
    def test_the_image_says_that_peers_are_not_used(self, cli: Cli) -> None:
        shown = cli("explain", "NCCL_P2P_DISABLE").stdout

        assert "fabric == slingshot and runtime == ce and image == alps and gpu == amd" in shown

    def test_a_partition_has_the_nodes_of_its_type(self, cli: Cli) -> None:
        words = ("-s", "beverin", "-A", "g1", "--runtime", "ce", "--image", "rocm/pytorch")
        usual = job(cli, *words)
        named = job(cli, *words, "--partition", "mi200")

        for text, lines in (
            (usual, ("partition=mi300", "ntasks-per-node=4", "cpus-per-task=24", "gpus-per-node=4")),
            (named, ("partition=mi200", "ntasks-per-node=8", "cpus-per-task=8", "gpus-per-node=8")),
        ):
            assert [line for line in lines if f"#SBATCH --{line}" not in text] == []

    def test_what_is_of_gh200_is_not_said_of_its_nodes(self, cli: Cli) -> None:
        answer = cli("job", "-s", "beverin", "-A", "g1", "--runtime", "ce", "--image", "rocm/pytorch", "--json", *TRAIN)

        assert "GH200" not in json.loads(answer.stdout)["files"]["job.toml"]

    def test_its_hook_is_rocms(self, cli: Cli) -> None:
        files = json.loads(
            cli(
                "job", "-s", "beverin", "-A", "g1", "--runtime", "ce", "--image", "rocm/pytorch", "--json", *TRAIN
            ).stdout
        )["files"]

        assert 'com.hooks.aws_ofi_nccl.variant = "rocm6"' in files["job.toml"]


PBS = """
description: Derecho, of which each job is one of PBS.
site: NCAR
fabric: slingshot
runtimes: [modules]
scheduler: {name: none}
tuning: [slingshot, cuda, pytorch, nccl]
nodes:
  a100: {target: zen3, os: sles15, cores: 64, gpu: {vendor: nvidia, model: A100, arch: 80, count: 4}}
"""


def test_a_system_without_slurm_gets_no_job_of_slurm_but_its_variables(cli: Cli) -> None:
    Path("systems").mkdir()
    Path("systems", "derecho.yaml").write_text(PBS)

    answer = cli("job", "-s", "derecho", *TRAIN)
    Path("mine.sh").write_text(cli("activate", "--system", "derecho").stdout)
    env = {"PATH": "/usr/bin:/bin", "PBS_JOBID": "17", "UENVTOOL_QUIET": "1"}
    shown = subprocess.run(["bash", "-c", ". ./mine.sh && env"], env=env, capture_output=True, text=True, check=True)

    assert (answer.code, answer.stdout) == (2, "")
    assert "derecho has no Slurm, for which jobs of modules are written" in answer.stderr
    assert "uenvtool activate --system derecho" in answer.stderr
    assert "NCCL_NET=AWS Libfabric\n" in shown.stdout
    assert "FI_CXI_RX_MATCH_MODE=hybrid\n" in shown.stdout


def test_an_option_without_a_value_is_left_out(cli: Cli) -> None:
    Path("systems").mkdir()
    Path("systems", "mine.yaml").write_text(PBS.replace("name: none", "name: slurm"))

    assert "#SBATCH --time" not in job(cli, "-s", "mine")


@pytest.mark.parametrize(
    "words", [("perlmutter", "-A", "a"), ("isambard-ai", "--runtime", "podman-hpc", "--image", "a")]
)
def test_a_packed_overlay_is_refused_where_nothing_mounts_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    Path("mine.squashfs").touch()
    data = {"base": {"in_container": True}, "mount": "/user-tools", "name": "mine"}
    monkeypatch.setattr("uenvtool.venv.info.described", lambda path: data)

    answer = cli("job", "-s", *words, "--venv", "mine.squashfs", *TRAIN)

    assert answer.code == 2
    assert "mounts no image" in answer.stderr
    assert "unsquashfs -d FOLDER mine.squashfs" in answer.stderr


def test_what_a_system_and_its_local_disk_both_ask_for_is_one_constraint(cli: Cli) -> None:
    folder = Path("systems")
    folder.mkdir()
    (folder / "mine.yaml").write_text(
        "extends: perlmutter\ndescription: mine\nruntimes: [conda]\njobs:\n  local:\n"
        "    {folder: /local, constraint: disk, reason: fast, source: me 2026}\n"
    )
    text = job(cli, "-s", "mine", "-A", "a", "--image", "env.tar.gz")

    assert re.findall(r"^#SBATCH --constraint=(\S+)", text, re.MULTILINE) == ["gpu&disk"]


def test_an_environment_is_not_staged_as_an_image_is(cli: Cli) -> None:
    answer = cli("job", "-s", "frontier", "-A", "a", "--stage", "--image", "env.tar.gz", *TRAIN)
    assert answer.code == 2
    assert "goes to each node in any case" in answer.stderr
