"""Test jobs that are not distributed training: servers, evaluations, arrays and jobs without GPUs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from uenvtool.check.program import read_program
from uenvtool.job.disk import MAX_PROGRAM

UENV = ("--system", "clariden", "--account", "a", "--image", "mine/v1.0:v1")


def planned(cli: Cli, *words: str) -> dict[str, object]:
    """Return the plan of a job."""
    answer = cli("job", "--json", *words)
    assert answer.code == 0, answer.stderr
    data: dict[str, object] = json.loads(answer.stdout)
    return data


@pytest.mark.parametrize(
    ("command", "tasks"),
    [
        ("--launcher none -- vllm serve M", 1),
        ("--nodes 1 --gpus 1 -- vllm serve M", 1),
        ("-- python train.py --logger tensorboard", 4),
        ("-- echo tensorboard", 4),
        ("-- pip install gradio", 4),
    ],
)
def test_only_a_server_in_several_tasks_is_refused(cli: Cli, command: str, tasks: int) -> None:
    assert planned(cli, *UENV, *command.split())["tasks_per_node"] == tasks


@pytest.mark.parametrize(
    ("script", "launcher"),
    [
        ("vllm serve M", "none"),
        ("ray start --head", "none"),
        ("python -m sglang.launch_server", "none"),
        ("vllm serve M --port $((8000 + LOCAL_RANK))", "srun"),
        ("python eval.py", "srun"),
    ],
)
def test_a_script_with_a_server_runs_once_per_node(cli: Cli, write: Write, script: str, launcher: str) -> None:
    write("run.sh", f"{script}\n")

    for words in (("bash", "run.sh"), ("bash", "-c", script)):
        assert planned(cli, *UENV, "--", *words)["launcher"] == launcher


def test_the_script_of_a_job_is_in_its_working_directory(cli: Cli, place: Path, write: Write) -> None:
    write("run.sh", "python eval.py\n")
    write("elsewhere/run.sh", "vllm serve M\n")

    for words in (("bash", "run.sh"), ("./run.sh",)):
        assert planned(cli, *UENV, "--workdir", str(place / "elsewhere"), "--", *words)["launcher"] == "none"


EVAL = "import torch\nfrom transformers import AutoModel\nmodel = AutoModel.from_pretrained('x').cuda()\n"
TO_GPU = (
    "import torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\nmodel = torch.nn.Linear(2, 2)"
)
SAME = "eval.py reads no rank, so each does the whole work; use --nodes 1 --gpus 1, or --launcher none"
RUNS = {
    "-- python eval.py": f"8 ranks of `python eval.py` on 2 nodes, 4 GPUs each; {SAME}",
    "-- torchrun eval.py": f"8 ranks of `torchrun eval.py` on 2 nodes, 4 GPUs each; {SAME}",
    "-- accelerate launch eval.py": f"4 GPUs each; {SAME}",
    "-- python -m eval": f"8 ranks of `python -m eval` on 2 nodes, 4 GPUs each; {SAME}",
    "-- A=1 python -u eval.py --token x": f"8 ranks of `python -u eval.py` on 2 nodes, 4 GPUs each; {SAME}",
    "-- bash run.sh": f"8 ranks of `bash run.sh` on 2 nodes, 4 GPUs each; {SAME}",
    "--nodes 1 --gpus 2 -- python eval.py": f"2 ranks of `python eval.py` on 1 node, 2 GPUs; {SAME}",
    "--launcher none -- python eval.py": "eval.py reads no rank, so each node does the whole work; use --nodes 1",
    "--array 0-3 -- python eval.py {array}": "4 GPUs each, for each number of the array 0-3; eval.py reads no rank",
}


@pytest.mark.parametrize("words", RUNS)
def test_a_job_whose_ranks_all_do_the_same_work_is_reported(cli: Cli, write: Write, words: str) -> None:
    write("eval.py", EVAL)
    write("run.sh", "python eval.py --split test\n")

    answer = cli("job", *UENV, "-o", "job.sh", *words.split())

    assert answer.code == 0
    assert RUNS[words] in " ".join(answer.stderr.split())
    assert answer.stderr.count("python eval.py") <= 1


SHARED = {
    "its own variable": "import os\nimport torch\nrank = int(os.environ['RANK'])\n",
    "Slurm's variable": "import os\nshard = os.environ.get('SLURM_PROCID', 0)\n",
    "a module next to it": "import torch\nfrom helper import shard\n",
    "a package below src": "import below.inner\n",
    "a relative import of a module": "from pkg import run\n",
    "torch.distributed": "import torch.distributed as dist\ndist.init_process_group('gloo')\n",
    "accelerate": "from accelerate import Accelerator\n",
    "Lightning": "import lightning as L\nL.Trainer()\n",
    "Trainer of Transformers": "from transformers import Trainer\nTrainer(model).train()\n",
    "an option": "import argparse\nargparse.ArgumentParser().add_argument('--local-rank')\n",
    "MPI": "from mpi4py import MPI\n",
    "a program without imports": "# to do\n",
    "a program of another Python": "print 'a'\n",
    "a long expression": f"import os\nshard = os.environ['RANK']\ntext = {' + '.join(['shard'] * 900)}\n",
    "a line that Python warns about": "import os\nshard = 1if os.environ['RANK'] else 2\n",
    "next to a module of many MB": "from helper import shard\nimport large\n",
}


@pytest.mark.parametrize("case", SHARED)
def test_a_program_that_reads_its_rank_is_not_reported(
    cli: Cli, write: Write, recwarn: pytest.WarningsRecorder, case: str
) -> None:
    write("eval.py", SHARED[case])
    for name in ("helper.py", "src/below/inner.py", "pkg/own.py"):
        write(name, "import os\nshard = os.environ['LOCAL_RANK']\n")
    write("pkg/__init__.py", "from .own import shard\n")
    write("src/below/__init__.py", "")
    write("large.py", f"import os\n{'#' * MAX_PROGRAM}\n")

    answer = cli("job", *UENV, "-o", "job.sh", "--", "python", "eval.py")

    assert (answer.code, "warning" in answer.stderr) == (0, False), answer.stderr
    assert not recwarn.list
    assert "8 ranks of `python eval.py` on 2 nodes, 4 GPUs each\n" in answer.stderr


def test_modules_are_read_only_until_the_result_is_known() -> None:
    used = read_program("t.py", "import os, module\nshard = os.environ['RANK']\n", ".", pytest.fail)

    assert (used.reads_rank, used.first_gpu) == (True, "")


def test_program_that_is_too_large_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    program, module = "import torch, m\nmodel = torch.nn.Linear(2, 2).cuda()\n", "import torch\n" * 9

    assert read_program("t.py", program, ".", lambda _: module).reads_rank is False
    monkeypatch.setattr("uenvtool.check.program.MOST_CHARACTERS", len(program) + len(module) - 1)
    assert read_program("t.py", program, ".", lambda _: module).reads_rank is True


@pytest.mark.parametrize(
    ("line", "words", "is_reported"),
    [
        (".cuda()", "-- python t.py", True),
        (".cuda()", "-- torchrun t.py", True),
        (".to('cuda')", "-- python t.py", True),
        (".to(torch.device('cuda:0'))", "-- python t.py", True),
        (".cuda()", "--gpu-per-rank -- python t.py", False),
        (".cuda()", "--gpus 1 -- python t.py", False),
        (".cuda(dist.get_rank() % 4)", "-- python t.py", False),
        (".cuda()\ntorch.cuda.set_device(int(os.environ['LOCAL_RANK']))", "-- python t.py", False),
        (".to(f'cuda:{rank}')", "-- python t.py", False),
        (".to('cpu')  # or .cuda()", "-- python t.py", False),
    ],
)
def test_ranks_that_all_use_the_first_gpu_are_reported(
    cli: Cli, write: Write, line: str, words: str, is_reported: bool
) -> None:
    write("t.py", TO_GPU + line + "\n")

    answer = cli("job", *UENV, *words.split())

    said = 't.py:4 uses the first GPU of the node in each of the 4 ranks, so NCCL fails with "Duplicate GPU detected"'
    assert (said in " ".join(answer.stderr.split())) is is_reported


@pytest.mark.parametrize(
    ("typed", "expanded"),
    [
        (("{array}",), ["7"]),
        (("--shard={array}", "of 100"), ["--shard=7", "of 100"]),
        (("x {array} $y", ""), ["x 7 $y", ""]),
        (("{array}{array}", "'{array}'"), ["77", "'7'"]),
    ],
)
def test_an_array_fills_in_its_number(cli: Cli, typed: tuple[str, ...], expanded: list[str]) -> None:
    for option in (("--array", "0-9%2"), ("--option=--array=0-9%2",)):
        script = cli("job", *UENV, *option, "--", "prep", *typed).stdout

        line = next(line for line in script.splitlines() if line.startswith("command="))
        shown = "printf '%s\\0' \"${command[@]}\""
        ran = subprocess.run(
            ["bash", "-c", f"{line}\n{shown}"], env={"SLURM_ARRAY_TASK_ID": "7"}, capture_output=True, check=True
        )
        assert ran.stdout.decode().split("\0")[:-1] == ["prep", *expanded]
        assert "#SBATCH --array=0-9%2" in script
        assert "#SBATCH --output=slurm-%x-%A_%a.log" in script


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--option=--array=0-1", "--", "prep", "$SLURM_ARRAY_TASK_ID"),
            "write {array} instead of $SLURM_ARRAY_TASK_ID",
        ),
        (("--", "prep", "--id=${SLURM_ARRAY_TASK_ID}"), "and add --array 0-9"),
        (("--", "prep", "$SLURM_JOB_ID"), "no shell expands $SLURM_JOB_ID in an argument; quote the whole command"),
        (("--", "prep", "{array}"), "{array} stays as it is, because the job is no array; add --array 0-9"),
        (("--", "bash", "-c", "prep $SLURM_ARRAY_TASK_ID"), ""),
        (("--", "prep $SLURM_JOB_ID"), ""),
        (("--array=0-1", "--", "prep", "{array}"), ""),
    ],
)
def test_an_argument_that_nothing_expands_is_reported(cli: Cli, words: tuple[str, ...], said: str) -> None:
    answer = cli("job", *UENV, *words)

    assert answer.code == 0
    assert (said in " ".join(answer.stderr.split())) if said else "warning" not in answer.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train.py", "'train.py' is not on PATH, so the job cannot start it; use `python train.py`"),
        ("A=1 train.py", "use `python train.py`"),
        ("./train.py", "'./train.py' is not executable, so the job cannot start it; use `python ./train.py`"),
        ("./plain.py", "'./plain.py' has no #! line, so the job cannot start it; use `python ./plain.py`"),
        ("run.sh", "use `bash run.sh`"),
        ("tool", "'tool' is not on PATH, so the job cannot start it; use `./tool`"),
        ("--launcher torchrun -- run.sh", "use `bash run.sh`"),
        ("--launcher torchrun -- train.py", ""),
        ("./tool", ""),
        ("./marked.py", ""),
        ("python train.py", ""),
    ],
)
def test_a_file_that_cannot_start_is_reported(cli: Cli, write: Write, words: str, said: str) -> None:
    for name, text in {
        "train.py": "",
        "run.sh": "",
        "plain.py": "",
        "tool": "#!/bin/sh\n",
        "marked.py": "#!/bin/sh\n",
    }.items():
        path = write(name, text)
        if name in ("plain.py", "tool", "marked.py"):
            path.chmod(0o755)

    answer = cli("job", *UENV, *(words if words.startswith("--launcher") else f"-- {words}").split())

    assert answer.code == 0
    assert (said in " ".join(answer.stderr.split())) if said else "cannot start" not in answer.stderr


CE = ("-s", "clariden", "-A", "a", "--runtime", "ce", "--image", "nvcr.io/nvidia/pytorch:25.06-py3")


def test_an_edf_that_mounts_the_home_directory_is_reported(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(place))
    said = f"the container mounts the whole home directory {place}"

    for words in ((), ("--workdir", str(place)), ("--workdir", "/a", "--mount", f"{place}/")):
        assert said in " ".join(cli("job", *CE, *words, "--", "true").stderr.split())
    monkeypatch.setenv("HOME", "/users/me")
    assert said not in " ".join(cli("job", *CE, "--", "true").stderr.split())


@pytest.mark.parametrize(
    ("image", "options"),
    [
        ("/lustre-of-no-machine/p/x.squashfs", ("-s", "clariden")),
        ("/mnt/lustre-of-no-machine/x.squashfs:/user-environment", ("-s", "clariden")),
        ("/lustre-of-no-machine/x.sqsh", ("-s", "clariden", "--runtime", "ce")),
        ("/lustre-of-no-machine/x.sif", ("-s", "olivia")),
        ("/lustre-of-no-machine/env", ("-s", "isambard-ai", "--runtime", "conda")),
    ],
)
def test_an_image_on_another_machine_is_accepted_with_a_warning(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, image: str, options: tuple[str, ...]
) -> None:
    answer = cli("job", *options, "-A", "a", "--image", image, "--", "true")

    assert answer.code == 0
    assert image.partition(":")[0] in answer.stdout
    assert f"--image {image}: this machine has no such file system, so the path was not checked" in " ".join(
        answer.stderr.split()
    )
    monkeypatch.setenv("CLUSTER_NAME", "clariden")
    assert cli("job", *options, "-A", "a", "--image", image, "--", "true").code == (2 if "clariden" in options else 0)


CPUS = {
    "lumi": ({"partition": "small", "nodes": "1", "ntasks-per-node": "1", "cpus-per-task": "128"}, ()),
    "lumi, several nodes": ({"partition": "standard", "nodes": "5"}, ("--nodes", "5")),
    "lumi, a partition": ({"partition": "largemem"}, ("--partition", "largemem")),
    "lumi, ranks": ({"ntasks-per-node": "16", "cpus-per-task": "8"}, ("--option", "--ntasks-per-node=16")),
    "olivia": ({"partition": "small", "cpus-per-task": "256"}, ("--image", "docker://a.b/c:1")),
    "perlmutter": ({"constraint": "cpu", "cpus-per-task": "256"}, ()),
}


@pytest.mark.parametrize("case", CPUS)
def test_a_job_without_gpus_runs_on_nodes_without_gpus(cli: Cli, case: str) -> None:
    options, words = CPUS[case]

    plan = planned(cli, "-s", case.partition(",")[0], "-A", "a", "--gpus", "0", *words, "--", "prep")

    written = plan["options"]
    assert isinstance(written, dict)
    assert written.items() >= options.items()
    assert not [name for name in written if "gpu" in name or name == "mem"]
    assert plan["launcher"] == "srun"


def test_a_system_of_the_user_may_have_nodes_without_gpus(cli: Cli, write: Write) -> None:
    write(
        "systems/mine.yaml",
        "extends: isambard-ai\njobs:\n  partitions:\n    cpus: {gpus: 0, time: '02:00:00', source: mine}\n"
        "  cpu: {cores: 64, target: zen4, source: mine}\n",
    )
    job = ("-s", "mine", "--runtime", "apptainer", "--image", "docker://a.b/c:1", "--gpus", "0")

    assert planned(cli, *job, "--", "prep")["options"].items() >= {"partition": "cpus", "cpus-per-task": "64"}.items()  # type: ignore[attr-defined]
    write("systems/mine.yaml", "extends: clariden\njobs: {cpu: {cores: 64, partition: normal, source: mine}}\n")
    answer = cli("job", "-s", "mine", "-A", "a", "--image", "a/v1:v1", "--gpus", "0", "--", "prep")
    assert (answer.code, "partition 'normal' has GPUs or is not known" in answer.stderr) == (2, True)


def test_the_default_qos_and_its_limit_are_next_to_the_time(cli: Cli) -> None:
    answer = cli("job", "-s", "perlmutter", "-A", "a", "-o", "job.sh", "--", "prep")
    script = cli("job", "-s", "perlmutter", "-A", "a", "--", "prep").stdout
    regular = cli("job", "-s", "perlmutter", "-A", "a", "--option", "--qos=regular", "--", "prep").stdout

    assert "00:30:00 in debug, the default QOS (8 nodes, 00:30:00)" in " ".join(answer.stderr.split())
    assert "#SBATCH --time=00:30:00" in script
    assert "the default QOS debug allows 8 nodes, 00:30:00; select another with --option --qos=NAME" in script
    assert "#SBATCH --time=01:00:00\n" in regular
    assert "limits of a job in the QOS debug, the default: 8 nodes, 00:30:00" in " ".join(
        cli("explain", "-s", "perlmutter").stderr.split()
    )
