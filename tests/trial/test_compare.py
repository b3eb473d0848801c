"""`uenvtool diff` of two runs: from their records, their logs, or both."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.conftest import Cli, Write
from tests.doctor.test_bandwidth import PRINTED, WITH_HOOK
from tests.knowledge.secret_forms import SECRET
from tests.knowledge.test_secrets import FORMS, TOKENS
from uenvtool.knowledge.secrets import storable

RECORD = """\
system=clariden
image=pytorch/v2.6.0:v1
git commit=aaaa
driver=550.54.15
nodes=n[1-2]
NCCL_NET=AWS Libfabric
FI_CXI_RX_MATCH_MODE=software
"""
OTHER = RECORD.replace("aaaa", "bbbb-dirty").replace("n[1-2]", "n[3-4]").replace("NCCL_NET=AWS Libfabric\n", "")
DEBUG = "n1:9:9 [0] NCCL INFO NCCL version 2.%d.3+cuda12.9\n"


def differences(cli: Cli, *names: str) -> dict[str, tuple[str, str]]:
    answer = cli("diff", *names, "--json")
    rows = json.loads(answer.stdout)
    assert answer.code == bool(rows), answer.stderr
    return {row["fact"]: (row["before"], row["after"]) for row in rows}


def test_two_records_differ_in_commit_nodes_and_variables(cli: Cli, write: Write) -> None:
    write("logs/train-1/run.txt", RECORD)
    write("logs/train-2/run.txt", OTHER)
    expected = {"git commit": ("aaaa", "bbbb-dirty"), "nodes": ("n[1-2]", "n[3-4]"), "NCCL_NET": ("AWS Libfabric", "")}

    assert differences(cli, "logs/train-1", "logs/train-2") == expected
    assert differences(cli, "logs/train-1/run.txt", "logs/train-2/run.txt") == expected
    assert differences(cli, "logs/train-1", "logs/train-1") == {}
    assert "git commit  aaaa           bbbb-dirty" in cli("diff", "logs/train-1", "logs/train-2").stdout


def test_the_log_of_a_record_adds_the_version_of_nccl(cli: Cli, write: Write) -> None:
    for number, version in ((1, 26), (2, 27)):
        write(f"logs/train-{number}/run.txt", RECORD)
        write(f"slurm-train-{number}.log", DEBUG % version)

    by_folder = differences(cli, "logs/train-1", "logs/train-2")

    assert by_folder == differences(cli, "slurm-train-1.log", "slurm-train-2.log")
    assert by_folder == {"NCCL": ("2.26.3", "2.27.3")}


def test_two_logs_without_records_are_compared(cli: Cli, write: Write) -> None:
    write("a.out", DEBUG % 26)
    write("b.out", (DEBUG % 27) + PRINTED.format(rows=WITH_HOOK))

    assert differences(cli, "a.out", "b.out")["NCCL"] == ("2.26.3", "2.27.3")


def test_a_directory_without_a_record_is_not_a_run(cli: Cli, write: Write) -> None:
    write("logs/train-1/run.txt", RECORD)
    write("logs/train-2/train.log", "")

    for names in (("logs/train-1", "logs/train-2"), ("logs/train-2", "logs/train-1")):
        answer = cli("diff", *names)

        assert answer.code == 2
        assert "'logs/train-2' is not a run" in answer.stderr


def test_equal_runs_have_a_number_of_facts(cli: Cli, write: Write) -> None:
    write("logs/train-1/run.txt", RECORD)
    write("a.log", "")

    assert "the two runs have the same 7 facts" in cli("diff", "logs/train-1", "logs/train-1").stderr
    assert "the two runs have the same 0 facts" in cli("diff", "a.log", "a.log").stderr


def test_secrets_in_a_record_or_a_log_are_hidden(cli: Cli, write: Write) -> None:
    token = "ghp_" + "a1B2" * 9
    write("logs/a-1/run.txt", f"{RECORD}NCCL_X={token}\n")
    write("logs/a-2/run.txt", RECORD)

    answer = cli("diff", "logs/a-1", "logs/a-2")

    assert "NCCL_X" in answer.stdout
    assert token not in answer.stdout


def recorded(cli: Cli, place: Path, *words: str, **env: str) -> dict[str, str]:
    """Return the record that the script of a job writes on this machine."""
    script = cli("job", "-s", "clariden", "-A", "a", *words, "--", "python", "train.py").stdout
    part = script[script.index("{ # the facts") : script.index("MASTER_ADDR=")]
    (place / "part.sh").write_text(f"set -e\n{part}")
    usual = {"PATH": "/usr/bin:/bin", "LOGS": str(place), "SLURM_JOB_NODELIST": "n[1-2]"}
    subprocess.run(["bash", "part.sh"], check=True, cwd=place, env={**usual, **env})
    return dict(line.split("=", 1) for line in (place / "run.txt").read_text().splitlines())


def test_a_job_records_its_facts_without_secrets(cli: Cli, place: Path) -> None:
    secrets = {"NCCL_A": "ghp_" + "a1B2" * 9, "FI_B": "https://me:secret@host/x", "HF_TOKEN": "hf_secret"}
    mounts = "/images/0123456789abcdef0123456789abcdef/store.squashfs:/user-environment"

    facts = recorded(cli, place, "--image", "mine/v1.0:v1", NCCL_NET="Socket", UENV_MOUNT_LIST=mounts, **secrets)

    assert facts["command"] == "python train.py"
    assert (facts["image"], facts["system"], facts["nodes"]) == ("mine/v1.0:v1", "clariden", "n[1-2]")
    assert (facts["NCCL_NET"], facts["NCCL_A"], facts["FI_B"]) == ("Socket", "(hidden)", "https://host/x")
    assert facts["UENV_MOUNT_LIST"] == mounts
    assert not {"HF_TOKEN", "PATH"} & facts.keys()


def test_a_record_contains_no_secret_of_any_form(cli: Cli, place: Path) -> None:
    secrets = [*(text for texts in FORMS.values() for text in texts), *TOKENS, *(text for text, _ in SECRET)]
    env = {f"NCCL_{number}": text for number, text in enumerate(secrets)}

    recorded(cli, place, "--image", "mine/v1.0:v1", **env)

    text = (place / "run.txt").read_text()
    assert text == storable(text)
    assert text.count("(hidden)") > 200
    assert [secret for line, secret in SECRET if secret in line and f"={secret}" in text] == []


VALUES = {
    "NCCL_NET": "AWS Libfabric", "NCCL_NET_PLUGIN": "/opt/aws-ofi-nccl/1.14.0/lib64/libnccl-net.so",
    "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_SOCKET_IFNAME": "^lo,docker0", "NCCL_BUFFSIZE": "8388608",
    "NCCL_ALGO": "NVLSTree,Ring", "UCX_TLS": "rc,cuda_ipc", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "HSA_X": "0x7f", "FI_EMPTY": "",
}  # fmt: skip


def test_a_record_contains_the_values_of_the_network(cli: Cli, place: Path) -> None:
    facts = recorded(cli, place, "--image", "mine/v1.0:v1", **VALUES)

    assert {name: facts.get(name) for name in VALUES} == VALUES


def test_local_jobs_and_pods_write_a_record(cli: Cli, place: Path) -> None:
    assert cli("job", "-s", "local", "--launcher", "none", "-o", "here.sh", "--", "true").code == 0

    assert subprocess.run(["bash", "here.sh"], check=False, cwd=place).returncode == 0

    (path,) = place.glob("logs/here-*/run.txt")
    assert "command=true\n" in path.read_text()
    pod = cli("job", "-s", "rcp", "--image", "registry/x:1", "--", "train.py").stdout
    assert '[ "$NODE_RANK" = 0 ] && { # the facts of this run' in pod


def test_the_record_of_a_container_has_the_variables_of_its_edf(cli: Cli, place: Path) -> None:
    (place / "image.sqsh").write_text("an image")

    facts = recorded(cli, place, "--runtime", "ce", "--image", "./image.sqsh")

    assert facts["CUDA_CACHE_DISABLE"] == "1"
    (file,) = (value for name, value in facts.items() if name.startswith("file "))
    assert file.startswith("8 bytes, 20")
