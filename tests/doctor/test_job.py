"""Diagnosis of a job by its ID, with answers in the format of sacct 22.05."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Cli
from tests.doctor.test_bandwidth import OLD_TORCH
from tests.doctor.test_checks import GOOD
from tests.doctor.test_hang import call, write
from tests.doctor.test_shell import nothing_else
from tests.support.programs import program
from uenvtool.doctor.nodes import MOST_NODES, expanded
from uenvtool.doctor.slurm import accounted_facts, kept_environment, kept_text, output_paths, shown_facts

__all__ = ["nothing_else"]
RULE = "-" * 80
SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --cpus-per-task=72
#SBATCH --uenv=pytorch/v2.6.0:v1
#SBATCH --view=default
#SBATCH --output=logs-%x-%j.out
ulimit -c 0
{more}
srun -ul -c 72 --output=ranks-%j.out bash -c 'exec "$@"' rank python train.py --output=model.pt
"""
ENVIRONMENT = {"CLUSTER_NAME": "clariden", "HOME": "/users/u", "HF_TOKEN": "hf_abcdefghijklmnop"}


def block(title: str, text: str) -> str:
    """Return the output of `sacct --batch-script` or `--env-vars` for one job."""
    return f"{title}\n{RULE}\n{text or 'NONE'}\n\n"


class Accounting:
    """A stand-in for a Slurm that knows job 4711 only from its accounting, with recorded answers."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.folder = place / "slurm"
        self.folder.mkdir()
        self.program("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
        self.program(
            "sacct",
            f"printf '%s\\n' \"$*\" >>{self.folder}/calls\n"
            f"case $* in *--batch-script*) cat {self.folder}/script ;; *--env-vars*) cat {self.folder}/environment ;;\n"
            f"*) cat {self.folder}/row ;; esac",
        )

    def program(self, name: str, body: str) -> None:
        program(self.folder / name, body)

    def keeps(
        self, script: str, environ: Mapping[str, str], submitted: str = "sbatch job.sh", end: str = "FAILED|1:0"
    ) -> None:
        lines = "".join(f"{name}={value}\n" for name, value in environ.items())
        (self.folder / "script").write_text(block("Batch Script for 4711", script))
        (self.folder / "environment").write_text(block("Environment used for 4711 (must be batch to display)", lines))
        (self.folder / "row").write_text(f"{end}|nid[001-002]|{self.place}|4711|4711|u|train|{submitted}\n")


@pytest.fixture
def accounting(place: Path, monkeypatch: pytest.MonkeyPatch) -> Accounting:
    found = Accounting(place)
    monkeypatch.setenv("PATH", f"{found.folder}:/usr/bin:/bin")
    return found


def report(cli: Cli, *options: str) -> dict[str, Any]:
    answer = cli("doctor", "--json", "--job", "4711", *options)
    assert answer.code in (0, 1), answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def places(found: Mapping[str, Any]) -> dict[str, str]:
    """Return the place of each finding, by ID."""
    return {finding["id"]: finding["place"] for finding in found["findings"]}


def test_script_output_environment_and_state_are_combined(cli: Cli, accounting: Accounting, place: Path) -> None:
    accounting.keeps(
        SCRIPT.format(more="export CUDA_LAUNCH_BLOCKING=1"),
        {**ENVIRONMENT, "NCCL_NET_PLUGIN": "ofi", "FI_CXI_DEFAULT_TX_SIZE": "32768", "OMP_NUM_THREADS": "288"},
    )
    (place / "logs-train-4711.out").write_text("cxil_map: write error\n")
    (place / "ranks-4711.out").write_text("slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0.\n")
    (place / "model.pt").write_text("PTLTE_NOT_FOUND\n")

    found = report(cli)

    assert places(found) == {
        "cxil-map": "logs-train-4711.out:1",
        "out-of-memory-host": "ranks-4711.out:1",
        "variable-wrong": "environment",
        "threads-over-cores": "environment",
        "launch-blocking": "script:9",
        "tuning-missing": "script:5",
    }
    assert found["facts"] | {"NCCL's network": ""} == {
        "state": "FAILED",
        "exit code": "1:0",
        "nodes": "nid[001-002]",
        "runs on": "clariden, in uenv",
        "NCCL's network": "",
    }
    assert found["unseen"] == []
    assert "hf_abcdefghijklmnop" not in json.dumps(found)


@pytest.mark.parametrize(
    ("end", "code"), [("RUNNING|0:0", None), ("PENDING|0:0", None), ("COMPLETED|0:0", "0:0"), ("TIMEOUT|0:0", "0:0")]
)
def test_exit_code_is_shown_only_after_the_job_ended(
    cli: Cli, accounting: Accounting, end: str, code: str | None
) -> None:
    accounting.keeps(SCRIPT.format(more=":"), ENVIRONMENT, end=end)

    facts = report(cli)["facts"]

    assert (facts["state"], facts.get("exit code")) == (end.partition("|")[0], code)


@pytest.mark.parametrize(
    ("state", "name"),
    [
        ("OUT_OF_MEMORY", "out-of-memory-host"),
        ("TIMEOUT", "time-limit"),
        ("NODE_FAIL", "node-failed"),
        ("PREEMPTED", "preempted"),
    ],
)
def test_slurm_state_shows_the_cause_of_the_end(cli: Cli, accounting: Accounting, state: str, name: str) -> None:
    accounting.keeps(SCRIPT.format(more=":"), {**ENVIRONMENT, **GOOD}, end=f"{state}|0:0")

    assert [(one["id"], one["detail"]) for one in report(cli)["findings"]] == [(name, None)]


def test_failed_job_without_known_cause_has_a_finding(cli: Cli, accounting: Accounting) -> None:
    accounting.keeps(SCRIPT.format(more=":"), {**ENVIRONMENT, **GOOD})

    found = report(cli)

    assert [(one["id"], one["detail"]) for one in found["findings"]] == [
        ("failed", "Slurm reports state FAILED, exit code 1:0")
    ]
    assert found["unseen"] == ["output: the file does not exist or its name is unknown"]


def test_variables_fixed_by_the_script_have_no_finding(cli: Cli, accounting: Accounting) -> None:
    wrong = {**ENVIRONMENT, "NCCL_NET_PLUGIN": "ofi", "NCCL_CROSS_NIC": "0"}
    accounting.keeps(SCRIPT.format(more="unset NCCL_NET_PLUGIN; export NCCL_CROSS_NIC=1"), wrong)
    assert set(places(report(cli))) == {"failed", "tuning-missing"}

    accounting.keeps(SCRIPT.format(more="source activate/clariden.sh"), wrong)
    # activation takes away what must not be, and keeps a choice
    assert set(places(report(cli))) == {"failed", "variable-other"}


def test_program_that_reads_no_rank_is_a_note_and_limits_do_not_matter(
    cli: Cli, accounting: Accounting, place: Path
) -> None:
    (place / "eval.py").write_text("import torch\nmodel = torch.nn.Linear(2, 2).cuda()\n")
    options = "--nodes=2 --ntasks-per-node=4 --time=24:00:00 --output=logs/%j.out"
    accounting.keeps(
        f"#!/bin/bash\n#SBATCH {options}\nsrun python eval.py\n", {**ENVIRONMENT, **GOOD}, end="COMPLETED|0:0"
    )

    found = report(cli)

    assert [(one["id"], one["severity"], one["place"]) for one in found["findings"]] == [
        ("same-work", "note", "script:3")
    ]
    assert found["findings"][0]["detail"] == "8 processes of eval.py on 2 nodes"


def test_command_line_options_override_script_options(cli: Cli, accounting: Accounting, place: Path) -> None:
    (place / "logs-train-4711.out").write_text("cxil_map: write error\n")
    (place / "mine-4711").write_text("PTLTE_NOT_FOUND\n")

    accounting.keeps(SCRIPT.format(more=":"), {}, "sbatch --time 1:00 -o mine-%j -- 'job|.sh'")

    assert "ofi-unreachable" in places(report(cli))
    assert "cxil-map" not in places(report(cli))


def test_data_missing_from_accounting_is_listed_as_skipped(cli: Cli, accounting: Accounting) -> None:
    accounting.keeps("", {})

    assert report(cli)["unseen"] == [
        "output: the file does not exist or its name is unknown",
        "script: not stored by Slurm",
        "environment: not stored by Slurm (this requires AccountingStoreFlags=job_env)",
    ]


def test_runtime_unknown_to_the_system_is_listed_as_skipped(cli: Cli, accounting: Accounting) -> None:
    accounting.keeps(SCRIPT.format(more=":"), {"CLUSTER_NAME": "olivia", "SLURM_CLUSTER_NAME": "olivia"})

    assert any(line.startswith("variables: ") for line in report(cli)["unseen"])


def test_unknown_system_is_bad_input_for_a_job(cli: Cli, accounting: Accounting) -> None:
    accounting.keeps(SCRIPT.format(more=":"), ENVIRONMENT)

    assert cli("doctor", "--job", "4711", "--system", "nowhere").code == 2


def test_accounting_is_queried_only_for_the_job(cli: Cli, accounting: Accounting) -> None:
    accounting.keeps(SCRIPT.format(more=":"), {})

    report(cli)

    asked = "--allocations --parsable2 --noheader"
    columns = "State,ExitCode,NodeList,WorkDir,JobIDRaw,JobID,User,JobName,SubmitLine"
    assert (accounting.folder / "calls").read_text().splitlines() == [
        f"--jobs 4711 {asked} --format={columns}",
        "--jobs 4711 --batch-script",
        "--jobs 4711 --env-vars",
    ]


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a-%j.out", "/w/a-17.out"),
        ("a-%5j-%A_%3a", "/w/a-00017-12_004"),
        ("/t/%u/%x-%N%%", "/t/u/my job-nid001%"),
        ("$SLURM_JOB_NAME/${SLURM_JOB_ID}.log", "/w/my job/17.log"),
        ("r-%t", "/w/r-0"),
        ("%b", "/w/%b"),
    ],
)
def test_output_pattern_is_expanded_like_slurm(pattern: str, path: str) -> None:
    facts = {"JobId": "17", "ArrayJobId": "12", "ArrayTaskId": "4", "JobName": "my job", "User": "u", "WorkDir": "/w"}

    assert list(output_paths([pattern], {**facts, "NodeList": "nid[001-004]"})) == [path]


def test_default_output_file_is_that_of_sbatch() -> None:
    assert list(output_paths([], {"JobId": "17", "WorkDir": "/w"})) == ["/w/slurm-17.out"]
    assert list(output_paths([], {"JobId": "17", "ArrayJobId": "12", "ArrayTaskId": "4"})) == ["slurm-12_4.out"]
    assert list(output_paths(["/dev/null"], {})) == []


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]))
    )
)
def test_kept_environment_round_trip(environ: dict[str, str]) -> None:
    text = block("Environment used for 1", "".join(f"{name}={value}\n" for name, value in environ.items()))

    assert kept_environment(kept_text(text)) == environ


def test_multi_line_value_is_one_variable() -> None:
    assert kept_environment("A=one\ntwo\n\nB=\n") == {"A": "one\ntwo\n", "B": ""}


@given(st.text(), st.text())
def test_any_slurm_output_is_handled(answer: str, pattern: str) -> None:
    facts = {**accounted_facts(answer, ["State", "JobID", "NodeList"]), **shown_facts(answer)}
    kept_environment(kept_text(f"{RULE}\n{answer}"))
    list(output_paths([pattern], facts))


@pytest.mark.parametrize("pattern", ["%" + "9" * 5000 + "j", "%" + "0" * 5000 + "3j", "x" * 5000, "a/" * 3000, "%"])
def test_scontrol_output_is_bounded(pattern: str) -> None:
    answer = f"JobId=7 JobName=x\n   NodeList=n[0-40000000]\n   StdOut=/tmp/{pattern}\n   WorkDir=/tmp\n"

    (path,) = output_paths([shown_facts(answer)["StdOut"]], shown_facts(answer))

    assert len(path) < 6100
    assert not os.path.isfile(path)


@pytest.mark.parametrize(
    "text", ["n[0-40000000]", "n[" + "0-99999," * 1000 + "0]", "n," * 200_000, f"n[{'9' * 5000}]", "n[" * 100_000]
)
def test_node_list_is_bounded(text: str) -> None:
    assert len(list(expanded(text))) <= MOST_NODES


def test_dumps_named_in_the_script_are_found_with_their_nodes(cli: Cli, accounting: Accounting) -> None:
    recorder = (
        'export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID"\nexport TORCH_FR_DUMP_TEMP_FILE="$PWD/$LOGS/flight_rank_"'
    )
    accounting.keeps(SCRIPT.format(more=recorder), ENVIRONMENT)
    folder = accounting.place / "logs" / "train-4711"
    folder.mkdir(parents=True)
    waiting = [call(1)]
    write(folder, {0: waiting, 1: waiting, 2: waiting, 3: []})

    (behind,) = [found for found in report(cli)["findings"] if found["id"] == "rank-behind"]

    assert behind["detail"].startswith(
        "rank 3 on nid002 did not enter all_reduce ([8, 4] Float) number 1 of default_pg"
    )
    assert behind["nodes"] == "nid002"


def test_network_test_has_image_and_variables_of_the_job(
    cli: Cli, accounting: Accounting, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_NAME", "clariden")
    script = SCRIPT.format(more='export NCCL_NET="${NCCL_NET-AWS Libfabric}" NCCL_PROTO=Simple')
    accounting.keeps(script, {**ENVIRONMENT, "NCCL_NET": "Socket", "NCCL_PROTO": "LL"})
    (place / "logs-train-4711.out").write_text(OLD_TORCH.format(size=4.0, busbw=91.3) + "NCCL version 2.27.7\n")

    (line,) = report(cli)["runs"]

    assert line["image"] == "pytorch/v2.6.0:v1"
    assert {"NCCL_NET": "Socket", "NCCL_PROTO": "Simple"}.items() <= line["variables"].items()
    assert (line["facts"], line["nodes"]) == ({"NCCL": "2.27.7"}, 2)
    assert "HF_TOKEN" not in line["variables"]
