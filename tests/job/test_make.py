"""Test the files that `uenvtool job` writes for each runtime, and its errors."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT, Cli, Write
from tests.job.stand_ins import packed_overlay, recorded
from tests.support.programs import program
from tests.support.trees import files as files_below

UENV = ("--system", "clariden", "--account", "g123", "--recipe", "pytorch-2.6")
CE = ("--system", "clariden", "--runtime", "ce", "--account", "g123", "--image", "nvcr.io#nvidia/pytorch:25.06-py3")
EXTENDED = (*CE[:-1], "ghcr.io#eth-cscs/ngc-pytorch:26.02-py3-alps6")
OLIVIA = ("--system", "olivia", "--account", "g123")
PODS = ("--system", "rcp", "--image", "registry.example/mlo:v1", "-o", "train.sh", "--dry-run")
LOCAL = ("--system", "local")
BEVERIN = ("--system", "beverin", "--account", "g1", "--runtime", "ce", "--image", "rocm/pytorch")
INSIDE = ("--env", "HF_TOKEN", "--mount", "/data/a:/a", "--env", "HF_HOME=/a/$x", "--workdir", "/a/w")
OWN_VARIANT = "com.hooks.aws_ofi_nccl.variant=cuda12"
OWN_PYTHON = ("--", "env/bin/python", "train.py", "--lr", "0.1")
TRAIN = ("--", "python", "train.py", "--lr", "0.1")
GOLDENS = ROOT / "tests" / "goldens" / "job"
JOBS = {
    "uenv": UENV,
    "uenv, torchrun": (*UENV, "--launcher", "torchrun"),
    "uenv 2.9": (*UENV[:-1], "pytorch-2.9"),
    "uenv 2.9, torchrun": (*UENV[:-1], "pytorch-2.9", "--launcher", "torchrun"),
    "uenv, everything": (*UENV, "--requeue", "--option", "--array=0-7", "--large", "--stage"),
    "uenv, vetted and requeued": (*UENV, "--spare", "1", "--requeue"),
    "ce, vetted and requeued": (*CE, "--spare", "1", "--requeue", "--launcher", "torchrun"),
    "olivia, vetted and requeued": (*OLIVIA, "--vet", "--requeue", "--gpu-per-rank", "--launcher", "srun"),
    "ce": CE,
    "ce, torchrun": (*CE, "--launcher", "torchrun"),
    "ce, a hook that sets its variables": ("--system", "daint", *CE[2:]),
    "extended image": EXTENDED,
    "olivia": OLIVIA,
    "olivia, srun": (*OLIVIA, "--launcher", "srun"),
    "olivia, modules": (*OLIVIA, "--runtime", "modules", "--launcher", "torchrun"),
    "isambard-ai, modules": ("--system", "isambard-ai", *OWN_PYTHON),
    "isambard-ai, apptainer": ("--system", "isambard-ai", "--runtime", "apptainer", "--image", "docker://nvcr.io/a:1"),
    "isambard-ai, podman-hpc": (
        "--system", "isambard-ai", "--runtime", "podman-hpc", "--image", "nvcr.io/a:1", "--env", "HF_TOKEN",
    ),
    "lumi, masks": ("--system", "lumi", "--account", "p", "--launcher", "srun"),
    "lumi, torchrun": ("--system", "lumi", "--account", "p"),
    "frontier, sent": ("--system", "frontier", "--account", "p", "--image", "env.tar.gz"),
    "frontier, modules": ("--system", "frontier", "--account", "p", "--runtime", "modules", *OWN_PYTHON),
    "perlmutter, shifter": ("--system", "perlmutter", "--account", "p"),
    "perlmutter, podman-hpc": ("--system", "perlmutter", "--account", "p", "--runtime", "podman-hpc"),
    "beverin, extended image": ("--system", "beverin", *EXTENDED[2:]),
    "pods": PODS,
    "local": LOCAL,
    "uenv, a GPU for each rank": (*UENV, "--gpu-per-rank"),
    "uenv, accelerate": (*UENV, "--", "accelerate", "launch", "train.py"),
    "uenv, NCCL test": (*UENV, "--nccl-test"),
    "ce, NCCL test": (*CE, "--nccl-test"),
    "uenv, flight recorder": (*UENV, "--workaround", "flight-recorder"),
    "ce, mounts and variables": (*CE, *INSIDE[:-3], "HF_HOME=/a/x", *INSIDE[-2:]),
    "ce, annotations": (*CE, "--annotation", "com.hooks.ssh.enabled=true", "--annotation", OWN_VARIANT),
    "ce, staged": (*CE[:-1], "./image.sqsh", "--stage"),
    "olivia, mounts and variables": (*OLIVIA, *INSIDE),
    "olivia, staged": (*OLIVIA, "--image", "./image.sif", "--stage"),
    "perlmutter, srun": ("--system", "perlmutter", "--account", "p", "--launcher", "srun"),
    "beverin, ROCm": (*BEVERIN, "--partition", "mi300"),
    "beverin, the other node type": (*BEVERIN, "--partition", "mi200"),
    "pods, three of eight GPUs": (*PODS, "--nodes", "3", "--gpus", "8"),
    "pods, storage and user": (
        *PODS, "--pvc", "scratch:/mnt/s", "--project", "p1", "--uid", "12:34", "--env", "A=$(x) b", "--workdir", "/s",
        "--env", "HF_TOKEN",
    ),
    "pods, interactive": (*PODS, "--interactive"),
    "pods, of a pool": (*PODS, "--node-type", "h100"),
    "pods, interactive, of a pool": (*PODS, "--interactive", "--node-type", "h200"),
    "uenv, interactive": (*UENV, "--interactive", "--option", "--mem=0"),
    "ce, interactive": (*CE, "--interactive", "--env", "HF_TOKEN"),
    "olivia, interactive": (*OLIVIA, "--interactive", "--", "jupyter", "lab", "a b"),
    "frontier, interactive": ("--system", "frontier", "--account", "p", "--image", "./env", "--interactive"),
}  # fmt: skip
"""A job of each form; without words of its own, it starts TRAIN. Its files are those of tests/goldens/job."""


def written(cli: Cli, *words: str) -> dict[str, str]:
    """The files of a job by name."""
    answer = cli("job", "--json", *words)
    assert answer.code == 0, answer.stderr
    files: dict[str, str] = json.loads(answer.stdout)["files"]
    return files


def script(cli: Cli, *words: str) -> str:
    return next(iter(written(cli, *words).values()))


def golden(job: str) -> Path:
    """The folder of a form's files as they are to be, read in review as what they are."""
    return GOLDENS / job.replace(", ", "_").replace(" ", "-")


def same_as_goldens(folder: Path, files: dict[str, str]) -> None:
    """Fail if the files are not those of a folder of goldens, all of them and no other.

    `UENVTOOL_GOLDENS=1 pytest ...` writes them anew; `git diff` shows what changed.
    """
    if os.environ.get("UENVTOOL_GOLDENS"):
        for name in files_below(folder) if folder.is_dir() else ():
            (folder / name).unlink()
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    assert files == {name: data.decode() for name, data in files_below(folder).items()}


def without_copies(files: dict[str, str]) -> dict[str, str]:
    """The files of pods, but for what stands whole elsewhere, which is compared with that here.

    Of the activation only the lines that the committed one has otherwise are left, and of each script in the manifest
    its name.
    """
    activation, manifest = files["train.activate.sh"], files["train.yaml"]
    both = zip(activation.splitlines(), (ROOT / "activate" / "rcp.sh").read_text().splitlines(), strict=True)
    for name in ("train.sh", "train.activate.sh"):
        block = textwrap.indent(files[name], "    ")
        assert manifest.count(block) == 1
        manifest = manifest.replace(block, f"    the lines of {name}\n")
    own = "".join(f"{line}\n" for line, committed in both if line != committed)
    return {**files, "train.activate.sh": own, "train.yaml": manifest}


@pytest.mark.parametrize("job", JOBS)
def test_each_form_is_its_golden_and_the_check_finds_nothing(
    cli: Cli, write: Write, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("image.sif", "image.sqsh", "env.tar.gz", "env/bin/python"):
        write(name, "")
    words = JOBS[job]
    files = written(cli, *words, *(() if {"--", "--nccl-test", "--interactive"} & set(words) else TRAIN))
    folder = golden(job)

    same_as_goldens(folder, without_copies(files) if "train.yaml" in files else files)

    monkeypatch.chdir(folder)
    answer = cli("check", *(name for name in files if name.endswith((".sh", ".toml")) and "activate" not in name))
    assert answer.code == 0, answer.stdout


def test_shellcheck_finds_nothing_in_any_form() -> None:
    scripts = [path for path in sorted(GOLDENS.glob("*/*.sh")) if "activate" not in path.name]

    ran = subprocess.run(["shellcheck", "--severity", "warning", *scripts], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout) == (0, "")
    assert {path.parent.name for path in scripts} == {golden(job).name for job in JOBS}


@pytest.mark.parametrize("how", [(), ("--stage",), ("--venv", "mine.squashfs"), ("--venv", "mine.squashfs", "--stage")])
def test_the_check_takes_the_recipe_of_an_image_file_from_the_job_and_of_no_other_file(
    cli: Cli, place: Path, how: tuple[str, ...]
) -> None:
    (place / "base.squashfs").touch()
    packed_overlay(place, {"kind": "uenv", "image": "./base.squashfs"})
    text = script(cli, *UENV, *(how if "--venv" in how else ("--image", "./base.squashfs", *how)), *TRAIN)
    (place / "job.sh").write_text(text)
    named = "sbcast --force ./base" if "--stage" in how else "#SBATCH --uenv=./base"
    (place / "other.sh").write_text(text.replace(named, named.replace("base", "other")))

    made, edited = cli("check", "job.sh"), cli("check", "other.sh")

    assert "export NCCL_PROTO" not in text, "the recipe's NCCL needs no way out"
    assert made.code == 0, made.stdout
    assert "error[tuning-guard]" in edited.stdout


GH200 = "gpu: {vendor: nvidia, model: GH200, arch: 90, count: 4}"
NODE = f"extends: clariden\nnodes: {{gh200: {{target: neoverse_v2, os: sles15, cores: 288, {GH200}, binding: %s}}}}\n"
MASKS = NODE % "{srun: {value: 'mask_cpu:0xff,0xff00,0xff0000,0xff000000', reason: as lstopo shows}}"
PERLMUTTER = "description: Mine.\nextends: perlmutter\n"
LARGE = PERLMUTTER + "jobs: {options: %s, large: {constraint: %s, reason: 80 GB a GPU, source: NERSC}}\n"
SHARED = "extends: olivia\ndescription: Mine.\nruntimes: [uenv]\nscheduler: {name: slurm, defaults: {%s}}\n"
OUTPUT = "{output: {value: '%j.out', reason: as the site's tools expect}}"
DISK = PERLMUTTER + (
    "runtimes: [conda]\njobs: {local: {folder: /local, constraint: disk, reason: fast, source: me 2026}}\n"
)
NEWER = "extends: pytorch-2.9\ndescription: Newer.\ngroups: {cuda: {specs: [nccl@2.29.2-1, libfabric@2.4.0]}}\n"
APPTAINER = (ROOT / "knowledge" / "runtimes" / "apptainer.yaml").read_text()
CPUS = (
    "description: Mine.\nsite: here\nfabric: infiniband\nruntimes: [apptainer]\nscheduler: {name: slurm%s}\n"
    "tuning: [infiniband, nccl, pytorch]\nnodes: {milan: {target: zen3, os: rhel9, cores: 128}}\n"
)
ON_CPUS = ("--system", "mine", "--image", "docker://a.b/c:1")
NO_GPUS = ["gpus", " --nv", "NCCL_"]
MINE = ("--system", "mine", *UENV[2:])
VENV = "home = /user-environment/env/default/bin\ninclude-system-site-packages = true\nversion = 3.13.0\n"
LINES = {
    "two constraints hold together": (
        LARGE % ("{}", "hbm80g"), (*MINE[:4], "--large"), ["--constraint=gpu&hbm80g\n"], []
    ),
    "one constraint twice is one": (LARGE % ("{}", "gpu"), (*MINE[:4], "--large"), ["--constraint=gpu\n"], []),
    "a node without GPUs has one rank": (
        CPUS % "", ON_CPUS, ["ntasks-per-node=1 ", "cpus-per-task=128\n", "--nproc-per-node=1"], NO_GPUS
    ),
    "tasks as asked": (
        CPUS % "", (*ON_CPUS, "--launcher", "srun", "--option=--ntasks-per-node=8"),
        ["#SBATCH --ntasks-per-node=8 ", "cpus-per-task=16\n", "connect through gloo"], NO_GPUS,
    ),
    "cores as asked": (
        CPUS % ", defaults: {cpus-per-task: 32}", (*ON_CPUS, "--launcher", "srun"),
        ["ntasks-per-node=4 ", "cpus-per-task=32\n"], NO_GPUS,
    ),
    "both as asked": (
        CPUS % "", (*ON_CPUS, "--option=--ntasks-per-node=4", "--option=-c 16"),
        ["ntasks-per-node=1 ", "cpus-per-task=64\n", "--nproc-per-node=4", "OMP_NUM_THREADS-16"], NO_GPUS,
    ),
    "a local disk's constraint too": (
        {"systems/mine.yaml": DISK, "env.tar.gz": ""}, (*MINE[:4], "--image", "env.tar.gz"),
        ["--constraint=gpu&disk\n"], []
    ),
    "a system has the last word on other options": (
        LARGE % (OUTPUT, "gpu"), (*MINE[:4], "--large"), ["#SBATCH --output=%j.out "], ["slurm-%x"]
    ),
    "a system's masks": (MASKS, MINE, ["--cpu-bind=mask_cpu:0xff,0xff00,0xff0000,0xff000000 "], []),
    "masks of four ranks are none of two": (MASKS, (*MINE, "--gpus", "2"), ["--cpu-bind=cores "], ["mask_cpu"]),
    "an apostrophe in a reason": (
        NODE % "{torchrun: {value: node, reason: it's near}}",
        (*MINE[:-1], "pytorch-2.9", "--launcher", "torchrun"), ["it'\\''s near"], [],
    ),
    "the network option comes with the tuning that needs it": (
        {"recipes/newer/recipe.yaml": NEWER}, (*UENV[:-1], "newer", "--image", "mine/1:v1"),
        ["#SBATCH --network=disable_rdzv_get"], []
    ),
    "a remark behind the command of an address takes nothing of the script": (
        {"runtimes/apptainer.yaml": re.sub(r"  address: .*", "  address: 'hostname -i # of the node'", APPTAINER)},
        (*OLIVIA, "--vet"), ["MASTER_ADDR=$(hostname -i) ", "$SLURMD_NODENAME $(hostname -i)"], ["# of the node"],
    ),
    "a file that is here is a path for a uenv": (
        {"my.squashfs": ""}, (*UENV[:-2], "--image", "my.squashfs"), ["#SBATCH --uenv=./my.squashfs\n"], []
    ),
    "with its mount too, whatever its name": (
        {"mine": ""}, (*UENV[:-2], "--image", "mine:/user-environment"), ["--uenv=./mine:/user-environment\n"], []
    ),
    "a label without a file is none": ({}, (*UENV[:-2], "--image", "mine/1:v1"), ["#SBATCH --uenv=mine/1:v1\n"], []),
    "a file below a folder like a registry": (
        {"images.d/x.sqsh": ""}, (*CE[:-1], "images.d/x.sqsh"), ['/images.d/x.sqsh"\n'], []
    ),
    "a venv of the uenv's Python, whose torchrun is the base's": (
        {"mine/pyvenv.cfg": VENV}, (*UENV, "--venv", "mine", "--launcher", "torchrun"),
        ["exec python -m torch.distributed.run --nnodes", "/mine/bin:$PATH # python"], ["torchrun --nnodes"],
    ),
    "a venv of the container's Python, with a torchrun of its own": (
        {"mine/pyvenv.cfg": VENV.replace("/user-environment/env/default", "/opt/conda"), "mine/bin/torchrun": ""},
        (*CE, "--venv", "mine", "--launcher", "torchrun"), ["torchrun --nnodes", '/mine", # the Python overlay'], [],
    ),
    "the usual time is at most that of the partition": ({}, (*UENV, "--partition", "debug"), ["time=00:45:00 "], []),
    "a share of a node's memory": ({}, (*OLIVIA, "--gpus", "1"), ["#SBATCH --mem=110G "], []),
    "a share of all of the memory": (
        SHARED % "mem: 0", (*MINE, "--gpus", "2"), ["#SBATCH --mem=404G "], []
    ),
    "memory that a job has alone": (
        SHARED.replace("slurm", "slurm, exclusive: true") % "mem: 440G", (*MINE, "--gpus", "1"), ["mem=440G"], []
    ),
    "usual options that no plan has": (
        SHARED % "qos: devel, account: g1", (*MINE[:2], *MINE[4:]), ["#SBATCH --qos=devel\n", "--account=g1\n"], []
    ),
    "a time that a partition gives": (
        {}, (*UENV, "--time", "24:00:00", "--option", "--partition=low"), ["time=24:00:00"], []
    ),
    "more nodes of fewer GPUs": ({}, (*OLIVIA, "--nodes", "32", "--gpus", "1"), ["nodes=32"], []),
    "the network is not named on one node": (
        {"env.tar.gz": ""}, ("--system", "frontier", "--account", "a", "--nodes", "1", "--image", "env.tar.gz"),
        [], ["export NCCL_NET="]
    ),
}  # fmt: skip
"""What is in no golden: a system of the user's, or other files; the words; parts of the job's files that are there
once; those that are not there."""


@pytest.mark.parametrize("case", LINES)
def test_the_files_of_a_job_have_what_these_ask_for(cli: Cli, write: Write, case: str) -> None:
    ours, words, there, absent = LINES[case]
    for name, text in (ours if isinstance(ours, dict) else {"systems/mine.yaml": ours}).items():
        write(name, text)

    files = written(cli, *words, *TRAIN)

    whole = "\n".join(files.values())
    assert {part: whole.count(part) for part in (*there, *absent)} == dict.fromkeys(there, 1) | dict.fromkeys(absent, 0)
    for name in (name for name in files if name.endswith(".sh")):
        assert subprocess.run(["bash", "-n"], input=files[name], text=True, check=False).returncode == 0


@pytest.mark.parametrize(("gpus", "options", "ranks"), [(1, (), 1), (4, (), 4), (0, (), 2), (4, ("--gpus", "3"), 3)])
def test_a_job_on_this_machine_has_a_rank_for_each_gpu_that_it_has(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, options: tuple[str, ...], ranks: int
) -> None:
    listed = "NVIDIA RTX A2000, 8.6, 6138\\n" * gpus
    program(place / "bin" / "nvidia-smi", f"printf '{listed}'")
    monkeypatch.setenv("PATH", f"{place}/bin:{os.environ['PATH']}")

    text = script(cli, *LOCAL, *options, *TRAIN)

    assert f"--nproc-per-node={ranks} " in text


def test_a_variable_without_a_value_is_taken_when_the_job_starts(cli: Cli) -> None:
    """And the job ends where it is not set, before it waits for anything."""
    text = script(cli, *LOCAL, "--launcher", "none", "--env", "HF_TOKEN", "--", "sh", "-c", 'echo "got $HF_TOKEN"')

    def ran(environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
        path = {"PATH": os.environ["PATH"]}
        return subprocess.run(["bash"], input=text, env=path | environ, capture_output=True, text=True, check=False)

    assert ran({"HF_TOKEN": "a $b"}).stdout == "got a $b\n"
    without = ran({})
    assert without.returncode != 0
    assert without.stderr.endswith("HF_TOKEN: export it before you start the job\n")


def test_the_manifest_has_the_scripts_whatever_a_word_is(cli: Cli) -> None:
    for word in ("0.1", "a\x1bb", "é"):
        files = written(cli, *PODS, "--", "python", "train.py", word)

        scripts, _ = yaml.safe_load_all(files["train.yaml"])

        assert scripts["data"] == {name: files[name].rstrip("\n") + "\n" for name in ("train.sh", "train.activate.sh")}


def in_pod(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Variables and a command as a pod has them, which has no others."""
    alone = ["env", "-i", f"PATH={place}/stand-ins:/usr/bin:/bin", *words]
    return subprocess.run(alone, capture_output=True, text=True, check=False)


def pod(place: Path, *env: str) -> subprocess.CompletedProcess[str]:
    """The pod script run as a pod does."""
    given = ("RUNAI_NUM_OF_GPUS=4", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=2222", *env)
    return in_pod(place, *given, "bash", "train.sh")


def test_a_pod_starts_torchrun_with_what_runai_gives_it_and_words_as_they_are(cli: Cli, place: Path) -> None:
    words = ["a b", "$(touch hacked)", "`id`", "it's", 'say "x"', "--", "\\", "a\nb", "*", "é", ""]
    made = cli("job", "--system", "rcp", "--image", "reg/x:v1", "-o", "train.sh", "--", "python", "train.py", *words)
    assert made.code == 0, made.stderr

    codes: list[int] = []

    (argv,) = recorded(
        place, "torchrun", [], call=lambda: codes.append(pod(place, "PET_NNODES=1", "RANK=0").returncode), code=9
    )

    assert codes == [9]
    assert argv == [
        "--nnodes=1", "--nproc-per-node=4", "--rdzv-backend=c10d", "--rdzv-endpoint=10.0.0.1:2222",
        "--max-restarts=0", "--log-dir=logs", "--tee=3", "train.py", *words,
    ]  # fmt: skip
    assert not (place / "hacked").exists()


def test_the_scripts_travel_into_the_pod(cli: Cli, place: Path) -> None:
    """What runai is given starts the job in a pod that has none of its files."""
    assert cli("job", "--system", "rcp", "--image", "reg/x:v1", "-o", "train.sh", *TRAIN).code == 0
    (submitted,) = recorded(place, "runai", ["sh", "train.submit.sh"])
    (place / "train.sh").unlink()
    words = ("RUNAI_NUM_OF_GPUS=2", "PET_NNODES=1", *submitted[submitted.index("--") + 1 :])

    (argv,) = recorded(place, "torchrun", [], call=lambda: in_pod(place, *words).check_returncode())

    assert argv[1] == "--nproc-per-node=2"
    assert argv[-3:] == ["train.py", "--lr", "0.1"]


def test_a_script_on_the_storage_starts_as_csub_starts_it(cli: Cli, place: Path) -> None:
    """csub.py gives a shell a line: into the folder of the code, then the command."""
    assert cli("job", "--system", "rcp", "--image", "reg/x:v1", "-o", "train.sh", *TRAIN).code == 0
    (place / "code").mkdir()
    words = ("RUNAI_NUM_OF_GPUS=2", "PET_NNODES=1", "sh", "-c", f"cd {place}/code && bash {place}/train.sh")

    (argv,) = recorded(place, "torchrun", [], call=lambda: in_pod(place, *words).check_returncode())

    assert argv[1] == "--nproc-per-node=2"
    assert (place / "code" / "logs").is_dir()


@pytest.mark.skipif(Path("/sys/class/infiniband").is_dir(), reason="needs a machine without RoCE: run it elsewhere")
def test_a_pod_without_the_device_names_the_flags_that_bring_it(cli: Cli, place: Path) -> None:
    assert cli("job", "--system", "rcp", "--image", "reg/x:v1", "-o", "train.sh", *TRAIN).code == 0

    ran = pod(place, "PET_NNODES=2", "RANK=1")

    assert ran.returncode == 1
    assert "--annotation k8s.v1.cni.cncf.io/networks=kube-system/roce --extended-resource rdma/rdma=1" in ran.stderr


def test_a_container_ends_with_its_job_which_takes_its_edf_as_it_is(cli: Cli, place: Path) -> None:
    """The way of seeds/000: a Dockerfile on NVIDIA's image with metatrain, its EDF, and srun --environment of it."""
    made = cli("container", "metatrain-alps6")
    words = made.stderr.splitlines()[-1].replace("ACCOUNT", "g123").split()
    edf = place / "containers/metatrain-alps6/metatrain-alps6.toml"
    before = edf.read_text()

    answer = cli(*words[1 : words.index("--")], "--env", "HF_HOME=/a b", "--", "mtt", "train", "options.yaml")

    assert answer.code == 0, answer.stderr
    assert answer.stdout.split() == ["train.sh"]
    text = (place / "train.sh").read_text()
    assert "--mpi=pmix \\\n  --environment=./containers/metatrain-alps6/metatrain-alps6.toml bash" in text
    assert "#SBATCH --network=disable_rdzv_get" in text
    assert "  export HF_HOME='\\''/a b'\\'' # --env\n" in text
    assert edf.read_text() == before
    assert cli("check", "train.sh", str(edf)).code == 0


def test_an_overlay_that_an_edf_mounts_is_first_in_its_job(cli: Cli, place: Path, write: Write) -> None:
    packed_overlay(place, {"kind": "container", "in_container": True})
    mounts = 'mounts = ["${PWD}:${PWD}"%s]\n'
    edf = write("x.toml", 'image = "a/b:1"\nworkdir = "${PWD}"\n' + mounts % "")
    words = ("-s", "clariden", "-A", "g1", "--image", "x.toml", "--venv", "mine.squashfs", *TRAIN)

    refused = cli("job", *words)
    hint = re.findall(r'add "(.*?)" to', refused.stderr)[0]
    edf.write_text('image = "a/b:1"\nworkdir = "${PWD}"\n' + mounts % f', "{hint}"')

    assert refused.code == 2
    assert "export PATH=/user-tools/bin:$PATH" in script(cli, *words)


def test_a_job_is_written_with_the_files_that_it_needs(cli: Cli, place: Path) -> None:
    answer = cli("job", *CE, "-o", "jobs/mine.sh", *TRAIN)

    assert answer.code == 0, answer.stderr
    assert answer.stdout.split() == ["jobs/mine.sh", "jobs/mine.toml"]
    assert "--environment=./jobs/mine.toml" in (place / "jobs" / "mine.sh").read_text()
    assert "sbatch jobs/mine.sh" in answer.stderr


def test_a_dry_run_shows_all_and_writes_nothing(cli: Cli, place: Path) -> None:
    answer = cli("job", *CE, "--vet", "-o", "mine.sh", "--submit", "--dry-run", *TRAIN)

    assert answer.code == 0
    assert "\n# mine.toml\n" in answer.stdout
    assert "-o mine.sh would write mine.sh, mine.toml, mine.vet.sh\n" in answer.stderr
    assert list(place.iterdir()) == []


def test_a_container_on_olivia_takes_the_libraries_of_the_modules(cli: Cli, place: Path) -> None:
    text = script(cli, *OLIVIA, *TRAIN)
    binds = text[text.index("module reset") : text.index("for path in")].replace("module ", "echo ")
    shown = 'printf "%s\\n" "${binds[@]}"'
    roots = {"EBROOTLIBFABRIC": "/sw/fabric", "EBROOTNCCL": "/sw/nccl", "EBROOTAWSMINOFIMINNCCL": "/sw/plugin"}

    ran = subprocess.run(["bash", "-c", binds + shown], env=roots, capture_output=True, text=True, check=True)
    without = subprocess.run(["bash", "-c", binds + shown], env={}, capture_output=True, text=True, check=False)

    assert ran.stdout.splitlines() == [
        "reset", "load NRIS/GPU", "load NCCL/2.26.6-GCCcore-14.2.0-CUDA-12.8.0", "/sw/fabric/lib:/opt/libfabric/lib",
        "/sw/fabric/include:/opt/libfabric/include", "/sw/nccl:/opt/nccl", "/sw/plugin/lib:/opt/aws-ofi-nccl/lib",
        "/usr/lib64:/usr/lib64",
    ]  # fmt: skip
    assert without.returncode != 0
    assert "EBROOTLIBFABRIC" in without.stderr


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("python train.py a", "train.py a"),
        ("/opt/x/bin/python3.12 -m pkg.train", "-m pkg.train"),
        ("mtt train options.yaml", "--no-python mtt train options.yaml"),
        ("train.py", "train.py"),
        ("python -u train.py", "--no-python python -u train.py"),
    ],
)
def test_torchrun_gets_a_command_as_it_takes_it(cli: Cli, command: str, shown: str) -> None:
    text = script(cli, *JOBS["uenv, torchrun"], "--", *command.split())

    assert f"\ncommand=({shown})\n" in text


ANY = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(ANY, min_size=1, max_size=4))
def test_any_words_are_data_to_bash(cli: Cli, words: list[str]) -> None:
    """The array of a job, as bash reads it, is the words of the command line."""
    text = script(cli, *UENV, "--", "prog", *words)
    array = text[text.index("command=(") : text.index("\n# Generated by")]

    ran = subprocess.run(
        ["bash", "-c", f"{array}\nprintf '%s\\0' \"${{command[@]}}\""], capture_output=True, check=True
    )

    assert ran.stdout.decode().split("\0")[:-1] == ["prog", *words]


def run_as_one_rank(place: Path, first: str) -> subprocess.CompletedProcess[str]:
    """Run job.sh with a stand-in for srun that starts the words from the program `first` on, as a job's one rank."""
    program(place / "stand-ins" / "srun", f'while [ "$1" != {first} ]; do shift; done\nexec "$@"')
    env = {"PATH": f"{place}/stand-ins:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "1"}
    env |= {
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_STEP_NUM_TASKS": "1",
        "SLURM_STEP_TASKS_PER_NODE": "1",
        "SLURM_NNODES": "1",
    }
    return subprocess.run(["bash", "job.sh"], env=env, capture_output=True, text=True, check=False, timeout=60)


class TestApptainer:
    MONITOR = f"sleep 1000.{os.getpid()}"
    """Of this process of the tests alone, since others run beside it."""

    def run(self, cli: Cli, place: Path, *words: str, code: int = 0) -> tuple[int, list[list[str]], str]:
        """A job of Olivia with stand-ins for srun and apptainer: its exit code, apptainer's words, its output."""
        self.write_system(place)
        image = place / "image.sif"
        image.touch()
        made = cli("job", "-s", "mine", "-A", "a", "--image", str(image), "-o", "job.sh", *words)
        assert made.code == 0, made.stderr
        ran: list[subprocess.CompletedProcess[str]] = []
        argv = recorded(place, "apptainer", [], call=lambda: ran.append(self.batch(place)), code=code, run=True)
        return ran[0].returncode, argv, ran[0].stdout + ran[0].stderr

    def write_system(self, place: Path) -> None:
        """Write the system `mine`, an Olivia of one folder of the host's."""
        host = place / "host"
        host.mkdir()
        system = place / "systems" / "mine.yaml"
        system.parent.mkdir()
        system.write_text(
            "extends: olivia-2025\njobs:\n runtimes:\n  apptainer:\n    binds:\n"
            f"    - {{host: {host}, inside: /opt/libfabric/lib, reason: libfabric}}\n    monitor: {self.MONITOR}\n"
        )

    def batch(self, place: Path) -> subprocess.CompletedProcess[str]:
        return run_as_one_rank(place, "apptainer")

    def test_the_container_gets_the_hosts_libraries_and_the_words(self, cli: Cli, place: Path) -> None:
        code, (argv,), output = self.run(
            cli, place, "--launcher", "srun", "--", "printf", "<%s>", "a b", "$(id)", "it's"
        )

        assert code == 0, output
        assert argv[:9] == [
            "exec", "--nv", f"--bind={place}/host:/opt/libfabric/lib", "--env", "LIBFABRIC_HOME=/opt/libfabric",
            "--env", "NCCL_HOME=/opt/nccl", "--env", "NVIDIA_HPC_HOME=/opt/nvidia/hpc_sdk",
        ]  # fmt: skip
        assert argv[9:12] == [f"{place}/image.sif", "bash", "-c"]
        assert argv[13:] == ["rank", "printf", "<%s>", "a b", "$(id)", "it's"]
        assert output.endswith("<a b><$(id)><it's>")  # what bash -c in the container makes of it
        libraries = "/opt/libfabric/lib:/opt/nccl/lib:/opt/nvidia/hpc_sdk/lib:/usr/lib64"
        assert f"export LD_LIBRARY_PATH={libraries}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" in argv[12]

    def test_the_sif_that_build_sh_makes_is_what_the_job_starts(self, cli: Cli, place: Path) -> None:
        self.write_system(place)
        made = cli("container", "--from", "nvcr.io/nvidia/pytorch:25.06-py3", "--pip", "einops", "--system", "mine")
        words = made.stderr.splitlines()[-1].replace("ACCOUNT", "a").split()
        image = words[words.index("--image") + 1]
        assert image == "containers/pytorch-einops/pytorch-einops+25.06-py3.sif"
        program(place / "stand-ins" / "podman", '[ "$1" != save ] || touch "$5"')
        program(place / "stand-ins" / "apptainer", '[ "$1" = build ] && [ -e "${3#docker-archive:}" ] && touch "$2"')
        env = {"PATH": f"{place}/stand-ins:/usr/bin:/bin"}
        built = subprocess.run(
            ["bash", "containers/pytorch-einops/build.sh"], env=env, check=True, capture_output=True, text=True
        )
        assert built.stdout == f"{place}/{image}\n"

        job = cli(*words[1 : words.index("-o")], "-o", "job.sh", "--launcher", "srun", "--", "true")
        assert job.code == 0, job.stderr
        (argv,) = recorded(place, "apptainer", [], call=lambda: self.batch(place), run=True)

        assert argv[argv.index("bash") - 1] == f"./{image}"

    def test_a_library_that_is_missing_is_named_at_the_start(self, cli: Cli, place: Path) -> None:
        made = cli("job", "-s", "olivia-2025", "-A", "g123", "-o", "job.sh", *TRAIN)
        assert made.code == 0, made.stderr

        ran = self.batch(place)

        assert ran.returncode == 1
        assert re.fullmatch(r"missing on \S+: /opt/cray/libfabric/1.22.0/lib64\n", ran.stderr)

    def test_the_exit_code_is_the_trainings_and_the_monitor_ends(self, cli: Cli, place: Path) -> None:
        code, _, output = self.run(cli, place, "--launcher", "srun", *TRAIN, code=6)

        assert code == 6, output
        seen = subprocess.run(["pgrep", "-f", f"^{self.MONITOR}$"], capture_output=True, check=False)
        assert seen.returncode == 1


def test_the_container_engine_gets_its_file_with_srun(cli: Cli, place: Path) -> None:
    assert cli("job", *CE, "-o", "job.sh", "--", "python", "train.py", "a b").code == 0
    env = {"PATH": f"{place}/stand-ins:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "72"}

    (argv,) = recorded(place, "srun", [], call=lambda: subprocess.run(["bash", "job.sh"], env=env, check=True))

    assert argv[:6] == ["-l", "-c", "72", "--cpu-bind=sockets", "--environment=./job.toml", "bash"]
    assert argv[-4:] == ["rank", "python", "train.py", "a b"]


def test_the_command_that_is_named_makes_the_same_job_again(cli: Cli) -> None:
    first = script(cli, *UENV, "--option", "--exclusive", "--nodes", "4", *TRAIN)
    again = shlex.split(re.findall(r"Regenerate with: uenvtool job (.*)", first)[0])

    assert script(cli, *again) == first


LAUNCHED = {
    "python train.py": ("srun", "python train.py"),
    "python -m pkg --x": ("srun", "python -m pkg --x"),
    "OMP_NUM_THREADS=3 python x.py": ("srun", "env OMP_NUM_THREADS=3 python x.py"),
    "torchrun --nproc_per_node=4 train.py": ("torchrun", "--nproc_per_node=4 train.py"),
    "/opt/bin/torchrun train.py": ("torchrun", "train.py"),
    "python3.12 -m torch.distributed.run train.py": ("torchrun", "train.py"),
    "A=1 B=2 torchrun train.py": ("torchrun", "train.py"),
    "accelerate launch --mixed_precision bf16 train.py": ("accelerate", "--multi_gpu --mixed_precision bf16 train.py"),
    "accelerate launch --use_fsdp train.py": ("accelerate", "--use_fsdp train.py"),
    "accelerate launch --config-file=mine.yaml train.py": ("accelerate", "--config-file=mine.yaml train.py"),
    "accelerate launch train.py --use_fsdp": ("accelerate", "--multi_gpu train.py --use_fsdp"),
    "deepspeed train.py --deepspeed_config d.json": ("deepspeed", "train.py --deepspeed_config d.json"),
    "echo torchrun": ("srun", "echo torchrun"),
    "python -u -m torch.distributed.run train.py": ("torchrun", "train.py"),
    "python3 -X dev -um accelerate.commands.launch train.py": ("accelerate", "--multi_gpu train.py"),
    "uv run --extra ssm torchrun --nproc_per_node 4 train.py": ("torchrun", "--nproc_per_node 4 train.py"),
    "nsys profile -o x torchrun -m pkg.train": ("torchrun", "-m pkg.train"),
    "bash profile.sh accelerate launch train.py": ("accelerate", "--multi_gpu train.py"),
    "python train.py --launcher torchrun --model x.py": ("srun", "python train.py --launcher torchrun --model x.py"),
    "fabric run --strategy ddp train.py": ("fabric", "--strategy ddp train.py"),
    "uv run tune run lora --config x": ("tune", "lora --config x"),
    "composer -n 4 train.py": ("composer", "-n 4 train.py"),
    "FORCE_TORCHRUN=1 llamafactory-cli train x.yaml": ("llamafactory", "x.yaml"),
    "trainer --strategy deepspeed --nodes 2": ("srun", "trainer --strategy deepspeed --nodes 2"),
}


@pytest.mark.parametrize("command", LAUNCHED)
def test_a_launcher_in_the_command_is_recognised(cli: Cli, command: str) -> None:
    launcher, left = LAUNCHED[command]

    data = json.loads(cli("job", "--json", *UENV, "--", *command.split()).stdout)

    assert (data["launcher"], data["command"]) == (launcher, left.split())
    assert data["tasks_per_node"] == (4 if launcher == "srun" else 1)
    assert data["options"]["gpus-per-node"] == "4"


NAMED = {
    "python src/train.py x.sh": "train",
    "python -m pkg.train": "pkg.train",
    "python -um pkg.train": "pkg.train",
    "nsys profile python3.12 -m pkg.train --x": "pkg.train",
    "torchrun -m pkg.train": "pkg.train",
    "accelerate launch --config_file=a.yaml train.py": "train",
    "./prog -m 5": "prog",
    "A=1 ./bin/prog": "prog",
    "python -c pass": "python",
    "llamafactory-cli train x.yaml": "llamafactory-cli",
    "tune run lora --config x": "lora",
    "bash -c 'cd a && python b.py'": "b",
}


@pytest.mark.parametrize("system", [UENV, ("--system", "lumi", "--account", "p")], ids=["srun", "torchrun"])
def test_a_job_is_named_after_its_file_or_its_program(cli: Cli, system: tuple[str, ...]) -> None:
    named = {
        command: json.loads(cli("job", "--json", *system, "--", *shlex.split(command)).stdout)["name"]
        for command in NAMED
    }

    assert named == NAMED
    with_file = script(cli, *system, "-o", "jobs/hf2.sh", "--dry-run", "--", "python", "-c", "pass")
    assert "#SBATCH --job-name=hf2\n" in with_file


@pytest.mark.parametrize(
    ("kind", "is_said"), [("'NO'", False), ("MULTI_CPU", False), ("FSDP", True), ("MULTI_GPU", True)]
)
def test_a_config_of_accelerate_that_says_no_strategy_is_no_strategy(
    cli: Cli, write: Write, place: Path, monkeypatch: pytest.MonkeyPatch, kind: str, is_said: bool
) -> None:
    monkeypatch.setenv("HOME", str(place / "home"))
    text = f"compute_environment: LOCAL_MACHINE\ndistributed_type: {kind}\n"
    write("mine.yaml", text)
    write("home/.cache/huggingface/accelerate/default_config.yaml", text)

    for options in ((), ("--config_file", "mine.yaml")):
        words = ("accelerate", "launch", *options, "train.py")
        command = json.loads(cli("job", "--json", *UENV, "--", *words).stdout)["command"]
        assert ("--multi_gpu" in command) is not is_said


def test_a_broken_launcher_of_the_user_is_left_out_and_said(cli: Cli, write: Write) -> None:
    write("launchers/mine.yaml", "description: My own.\ncommands: [mine]\n")

    answer = cli("job", *UENV, "--", "python", "train.py")

    assert answer.code == 0
    assert "ignored: launchers/mine.yaml:1:1: 'source' is missing" in " ".join(answer.stderr.split())


TOLD = [
    ("-- CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 python train.py", "", ""),
    ("-- CUDA_VISIBLE_DEVICES=4,5,6,7 python train.py", "", "a rank sees only 0 of the 4 GPUs"),
    (
        "-- torchrun --nproc-per-node 2 train.py",
        "",
        "--nproc-per-node 2: the job requests 4 GPUs per node; use --gpus 2",
    ),
    ("-- python train.py", "import a\n\n    mp.spawn(run, nprocs=8)\n", "train.py:3 starts processes itself"),
    ("-- python -m train", "import submitit\n", "train.py:1 submits jobs with submitit"),
    ("-- python train.py", "# mp.spawn(run, nprocs=8)\n", ""),
    ("-- python other.py", "", "file not found: 'other.py'"),
    ("-- uv run train.py", "", "uv run starts the Python of its own environment"),
    ("--launcher torchrun -- uv run python train.py", "", "uv run starts the Python of its own environment"),
    ("-- conda run -n mine python train.py", "", "conda run starts the Python of its own environment"),
    ("-- /opt/bin/micromamba run -p /a python train.py", "", "micromamba run starts the Python of its own"),
    ("-- /usr/bin/python3 train.py", "", "/usr/bin/python3 is not the python3 of pytorch/v2.6.0:v1"),
    ("-- mine/bin/python -u train.py", "", "mine/bin/python is not the python of pytorch/v2.6.0:v1"),
    ("-- /opt/bin/torchrun train.py", "", "/opt/bin/torchrun is not the torchrun of pytorch/v2.6.0:v1"),
    ("-- /user-environment/env/default/bin/python train.py", "", ""),
    ("--workdir /user-environment -- env/default/bin/python -V", "", ""),
    ("--nccl-test -- uv run train.py", "", ""),
    ("-- python -m pkg.train", "", "-m pkg.train: pkg was not found here"),
    ("--workdir /a/w -- python other.py", "", "the job looks for it in /a/w"),
]


@pytest.mark.parametrize(("command", "program", "warning"), TOLD)
def test_what_a_command_will_not_find_or_does_with_the_gpus_of_a_node_is_told(
    cli: Cli, write: Write, command: str, program: str, warning: str
) -> None:
    write("train.py", program)

    answer = cli("job", *UENV, *command.split())

    assert answer.code == 0
    assert (warning in " ".join(answer.stderr.split())) if warning else "warning" not in answer.stderr


def test_a_runner_brings_its_own_pytorch(cli: Cli) -> None:
    answer = cli("job", "-s", "isambard-ai", "--", "uv", "run", "torchrun", "t.py")

    assert answer.code == 0, answer.stderr


ADDRESS = "--nnodes=$N --master-addr=$MASTER_ADDR t.py"
NGC = "nvidia/pytorch:25.06-py3"
SCRIPT = ("--", "bash", "run.sh")
ONCE_A_NODE = {"launcher": "none", "tasks_per_node": 1}
PLANS = [
    ("", (*UENV, "--", "python train.py --lr 0.1"), {"command": ["python", "train.py", "--lr", "0.1"]}),
    ("", (*UENV, "--", "A=1 python 'a b.py'"), {"command": ["env", "A=1", "python", "a b.py"]}),
    ("", (*UENV, "--", "cd x && python t.py"), {"command": ["bash", "-c", "cd x && python t.py"]}),
    ('torchrun --nnodes="$NNODES" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" t.py', (*UENV, *SCRIPT), ONCE_A_NODE),
    ("ARGS=(\n --nnodes $N\n --master_addr $M\n)\ntorchrun ${ARGS[@]} gpt.py", (*UENV, *SCRIPT), ONCE_A_NODE),
    (f"if $one; then\n torchrun --standalone t.py\nelse\n torchrun {ADDRESS}\nfi", (*UENV, *SCRIPT), ONCE_A_NODE),
    ("torchrun $ARGS t.py", (*UENV, "--launcher", "none", *SCRIPT), ONCE_A_NODE),  # which a row of refusals has without
    ("torchrun --nproc-per-node=4 t.py", (*UENV, "--nodes", "1", *SCRIPT), ONCE_A_NODE),
    ("", (*CE[:2], *CE[4:-1], f"nvcr.io/{NGC}", *TRAIN), {"runtime": "ce", "image": f"nvcr.io#{NGC}"}),
    ("", (*CE[:-1], f"docker://nvcr.io/{NGC}", *TRAIN), {"runtime": "ce", "image": f"nvcr.io#{NGC}"}),
    ("", (*OLIVIA, "--image", f"nvcr.io#{NGC}", *TRAIN), {"runtime": "apptainer", "image": f"docker://nvcr.io/{NGC}"}),
    ("", (*UENV[:4], "--image", "pytorch/v2.6.0:v1", *TRAIN), {"runtime": "uenv", "image": "pytorch/v2.6.0:v1"}),
    *(
        ("", ("-s", system, "-A", "a", "--recipe", recipe, *TRAIN), {"image": image})
        for system, recipe, image in (
            ("daint", "pytorch-2.6", "pytorch/v2.6.0:v1"), ("santis", "pytorch-2.6", "pytorch/v2.6.0:v1@clariden"),
            ("santis", "pytorch-2.9", "pytorch/v2.9.1:v1"),
        )
    ),
]  # fmt: skip
"""A script, the words of a job (that run it as run.sh, or not), and what is planned."""


@pytest.mark.parametrize(("script", "words", "plan"), PLANS)
def test_what_is_planned(cli: Cli, write: Write, script: str, words: tuple[str, ...], plan: dict[str, object]) -> None:
    write("run.sh", f"{script}\n")

    assert json.loads(cli("job", "--json", *words).stdout).items() >= plan.items()


def test_what_was_changed_by_hand_stays(cli: Cli, place: Path) -> None:
    assert cli("job", *CE, "-o", "train.sh", *TRAIN).code == 0
    edf = place / "train.toml"
    edf.write_text(edf.read_text().replace('"/capstor:/capstor"', '"/users/me"'))

    refused = cli("job", *CE, "-o", "train.sh", "--nodes", "4", *TRAIN)

    assert refused.code == 2
    assert "train.toml has been changed since uenvtool wrote it" in refused.stderr
    assert '-  "/users/me",' in refused.stderr
    assert "--nodes=2" in (place / "train.sh").read_text()  # all of the files, or none
    assert cli("job", *CE, "-o", "train.sh", "--nodes", "4", "--force", *TRAIN).code == 0
    assert "/users/me" not in edf.read_text()


def test_jobs_beside_each_other_do_not_disturb(cli: Cli, place: Path) -> None:
    assert cli("job", *UENV, "-o", "one.sh", *TRAIN).code == 0
    (place / "one.sh").write_text("changed\n")

    assert cli("job", *UENV, "-o", "two.sh", *TRAIN).code == 0
    assert cli("job", *UENV, "-o", "two.sh", "--nodes", "4", *TRAIN).code == 0
    assert cli("job", *UENV, "-o", "one.sh", *TRAIN).code == 2


ENROOT = """\
description: Containers of enroot, started in each task.
container: true
libraries: system
forms: [dotenv]
job:
  registry: docker://@HOST@#@NAME@
  step: enroot start --mount "$(IFS=:; echo "${binds[*]}")" "$image"
"""


def test_a_runtime_is_one_file(cli: Cli, place: Path, write: Write) -> None:
    """To the end: the job of a runtime that no line of Python knows runs what is asked for."""
    write("runtimes/enroot.yaml", ENROOT)
    write("systems/mine.yaml", "extends: olivia-2025\nruntimes: [enroot]\njobs: {runtimes: {enroot: {env: {A: b}}}}\n")
    write("image.sqsh", "")
    made = cli("job", "-s", "mine", "-A", "a", "--image", "./image.sqsh", "-o", "job.sh", "--", "printf", "<%s>", "a b")
    assert made.code == 0, made.stderr

    recorded(place, "enroot", [], call=lambda: None, run=True)
    ran = run_as_one_rank(place, "enroot")

    assert (ran.returncode, ran.stdout) == (0, "<a b>"), ran.stderr
    assert (place / "enroot.argv").read_bytes().split(b"\0")[1:3] == [b"start", b"--mount"]


OVERLAYS = {
    "on another tag": (
        {"kind": "uenv", "image": "pytorch/v2.6.0:v1@clariden"},
        (*UENV[:-2], "--image", "pytorch/v2.6.0:v2"),
        "mine.squashfs was created on pytorch/v2.6.0:v1@clariden, which is another build than pytorch/v2.6.0:v2 "
        "(the job runs pytorch/v2.6.0:v2); create the overlay again on pytorch/v2.6.0:v2",
    ),
    "on another tag than the recipe's": (
        {"kind": "uenv", "image": "pytorch/v2.6.0:v0"},
        UENV,
        "another build than pytorch/v2.6.0:v1 (the job runs pytorch/v2.6.0:v0)",
    ),
    "on a file that may have been built from another recipe": (
        {"kind": "uenv", "image": "/store/base.squashfs"},
        UENV,
        "--recipe pytorch-2.6: the job runs /store/base.squashfs, on which mine.squashfs was created; its variables "
        "are correct only if /store/base.squashfs was built from pytorch-2.6",
    ),
    "stale": ({}, UENV, "/mine; pack it again with `uenvtool venv "),
}


@pytest.mark.parametrize("case", OVERLAYS)
def test_an_overlay_that_does_not_fit_is_said(cli: Cli, place: Path, case: str) -> None:
    base, words, message = OVERLAYS[case]
    packed_overlay(place, base, is_stale=case == "stale")
    (place / "train.py").touch()

    answer = cli("job", *words, "--venv", "mine.squashfs", *TRAIN)

    assert answer.code == 0, answer.stderr
    (warning,) = [line for line in answer.stderr.splitlines() if line.startswith("warning: ")]
    assert message in warning


FITTING: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "on a uenv": ({"kind": "uenv", "python": "/user-environment/env/default/bin/python", "in_container": False}, UENV),
    "on a uenv at another mount point": ({"kind": "uenv", "python": "/x/bin/python", "in_container": False}, UENV),
    "for the CPU of the nodes": (
        {"kind": "uenv", "python": "/user-environment/bin/python", "platform": "linux-aarch64"}, UENV
    ),
    "in a container": ({"kind": "container", "python": "/usr/bin/python", "in_container": True}, CE),
    "in a container, for pods": (
        {"kind": "container", "python": "/usr/bin/python", "in_container": True},
        ("-s", "rcp", "--image", "r/x:1", "--pvc", "a:/a"),
    ),
    "in the environment of the job": (
        {"kind": "environment", "python": "{place}/env/bin/python", "in_container": False},
        ("-s", "frontier", "-A", "a", "--image", "./env"),
    ),
    "on this machine": (
        {"kind": "plain", "python": sys.executable, "in_container": False}, ("-s", "local"),
    ),
    "with modules": (
        {"kind": "environment", "python": "/opt/x/bin/python", "in_container": False}, ("-s", "isambard-ai"),
    ),
    "without a record of its base": ({}, UENV),
}  # fmt: skip


@pytest.mark.parametrize("case", FITTING)
def test_an_overlay_that_fits_is_used(cli: Cli, place: Path, write: Write, case: str) -> None:
    base, words = FITTING[case]
    base = {name: value.format(place=place) if isinstance(value, str) else value for name, value in base.items()}
    record = {"format": 1, "base": base, "requests": [], "overrides": [], "packages": []}
    write("mine/.uenvtool/uenvtool.json", json.dumps(record))
    write("env/bin/python", "")
    write("train.py", "")

    assert f"{place}/mine/bin" in script(cli, *words, "--venv", "mine", *TRAIN)


@pytest.mark.parametrize(
    ("base", "words", "code"),
    [
        ("pytorch/v2.8.0:v1", UENV, 2),
        ("pytorch/v2.8.0:v1", (*UENV[:-2], "--image", "pytorch/v2.6.0:v1"), 2),
        ("pytorch/v2.6.0:v1", (*UENV[:-2], "--image", "pytorch/v2.6.0"), 0),
        ("{place}/base.squashfs", (*UENV[:-2], "--image", "base.squashfs"), 0),
        ("{place}/base.squashfs", UENV, 0),
        ("{place}/other.squashfs", (*UENV[:-2], "--image", "base.squashfs"), 2),
    ],
)
def test_an_overlay_on_another_image_is_refused(
    cli: Cli, place: Path, base: str, words: tuple[str, ...], code: int
) -> None:
    packed_overlay(place, {"kind": "uenv", "image": base.format(place=place)})
    for name in ("train.py", "base.squashfs", "other.squashfs"):
        (place / name).touch()

    answer = cli("job", *words, "--venv", "mine.squashfs", *TRAIN)

    assert answer.code == code, answer.stderr
    assert ("was created on" in answer.stderr) == bool(code)


def test_a_packed_venv_of_this_machine_s_python_is_refused_over_a_uenv(cli: Cli, place: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", "mine"], check=True)
    assert cli("venv", "mine", "--squash").code == 0

    answer = cli("job", *UENV, "--venv", "mine.squashfs", *TRAIN)

    assert answer.code == 2
    assert "--venv mine.squashfs: its Python " in answer.stderr
    assert (
        "hint: create the environment on the uenv: `uenvtool venv NEW PACKAGE... --uenv pytorch/v2.6.0:v1"
        in answer.stderr
    )


def test_the_note_on_an_nccl_test_names_its_program(cli: Cli, place: Path) -> None:
    answer = cli("job", *UENV, "--nccl-test", "-o", "job.sh")

    assert "8 ranks of `all_reduce_perf` on 2 nodes, 4 GPUs each" in answer.stderr
