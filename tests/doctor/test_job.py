"""A job by its id, where Slurm's accounting keeps it: the answers have the form that sacct 22.05 gives them."""

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
from tests.doctor.test_here import nothing_else
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
    """What `sacct --batch-script` or `--env-vars` prints of one job."""
    return f"{title}\n{RULE}\n{text or 'NONE'}\n\n"


class Accounting:
    """A Slurm that has forgotten the job 4711, and whose accounting has not; a recording stand-in."""

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
    """The findings by id with where each was seen."""
    return {finding["id"]: finding["place"] for finding in found["findings"]}


def test_script_output_environment_and_end_of_a_job_are_put_together(
    cli: Cli, accounting: Accounting, place: Path
) -> None:
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
def test_a_job_has_an_exit_code_when_it_has_ended(cli: Cli, accounting: Accounting, end: str, code: str | None) -> None:
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
def test_the_state_of_a_job_in_slurm_says_what_ended_it(
    cli: Cli, accounting: Accounting, state: str, name: str
) -> None:
    accounting.keeps(SCRIPT.format(more=":"), {**ENVIRONMENT, **GOOD}, end=f"{state}|0:0")

    assert [(one["id"], one["detail"]) for one in report(cli)["findings"]] == [(name, None)]


def test_a_job_that_failed_and_had_all_that_it_needs_is_never_called_good(cli: Cli, accounting: Accounting) -> None:
    accounting.keeps(SCRIPT.format(more=":"), {**ENVIRONMENT, **GOOD})

    found = report(cli)

    assert [(one["id"], one["detail"]) for one in found["findings"]] == [
        ("failed", "Slurm has the state FAILED, exit code 1:0")
    ]
    assert found["unseen"] == ["output: it is not there, or was not named"]


def test_what_the_script_or_its_activation_mends_is_no_finding(cli: Cli, accounting: Accounting) -> None:
    wrong = {**ENVIRONMENT, "NCCL_NET_PLUGIN": "ofi", "NCCL_CROSS_NIC": "0"}
    accounting.keeps(SCRIPT.format(more="unset NCCL_NET_PLUGIN; export NCCL_CROSS_NIC=1"), wrong)
    assert set(places(report(cli))) == {"failed", "tuning-missing"}

    accounting.keeps(SCRIPT.format(more="source activate/clariden.sh"), wrong)
    # activation takes away what must not be, and keeps a choice
    assert set(places(report(cli))) == {"failed", "variable-other"}


def test_options_of_the_command_line_count_before_those_of_the_script(
    cli: Cli, accounting: Accounting, place: Path
) -> None:
    (place / "logs-train-4711.out").write_text("cxil_map: write error\n")
    (place / "mine-4711").write_text("PTLTE_NOT_FOUND\n")

    accounting.keeps(SCRIPT.format(more=":"), {}, "sbatch --time 1:00 -o mine-%j -- 'job|.sh'")

    assert "ofi-unreachable" in places(report(cli))
    assert "cxil-map" not in places(report(cli))


def test_what_accounting_does_not_keep_is_said(cli: Cli, accounting: Accounting) -> None:
    accounting.keeps("", {})

    assert report(cli)["unseen"] == [
        "output: it is not there, or was not named",
        "script: Slurm does not have it",
        "environment: Slurm keeps none of this job (accounting does, with AccountingStoreFlags=job_env)",
    ]


def test_a_runtime_that_the_system_does_not_have_is_said(cli: Cli, accounting: Accounting) -> None:
    accounting.keeps(SCRIPT.format(more=":"), {"CLUSTER_NAME": "olivia", "SLURM_CLUSTER_NAME": "olivia"})

    assert any(line.startswith("variables: ") for line in report(cli)["unseen"])


def test_a_system_that_nobody_knows_is_bad_input_for_a_job_too(cli: Cli, accounting: Accounting) -> None:
    accounting.keeps(SCRIPT.format(more=":"), ENVIRONMENT)

    assert cli("doctor", "--job", "4711", "--system", "nowhere").code == 2


def test_accounting_is_asked_for_the_job_alone(cli: Cli, accounting: Accounting) -> None:
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
def test_the_file_of_a_pattern_is_the_one_that_slurm_writes(pattern: str, path: str) -> None:
    facts = {"JobId": "17", "ArrayJobId": "12", "ArrayTaskId": "4", "JobName": "my job", "User": "u", "WorkDir": "/w"}

    assert list(output_paths([pattern], {**facts, "NodeList": "nid[001-004]"})) == [path]


def test_without_a_pattern_the_file_is_sbatchs_own() -> None:
    assert list(output_paths([], {"JobId": "17", "WorkDir": "/w"})) == ["/w/slurm-17.out"]
    assert list(output_paths([], {"JobId": "17", "ArrayJobId": "12", "ArrayTaskId": "4"})) == ["slurm-12_4.out"]
    assert list(output_paths(["/dev/null"], {})) == []


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]))
    )
)
def test_an_environment_is_what_was_kept(environ: dict[str, str]) -> None:
    text = block("Environment used for 1", "".join(f"{name}={value}\n" for name, value in environ.items()))

    assert kept_environment(kept_text(text)) == environ


def test_a_value_of_several_lines_is_one() -> None:
    assert kept_environment("A=one\ntwo\n\nB=\n") == {"A": "one\ntwo\n", "B": ""}


@given(st.text(), st.text())
def test_no_answer_of_slurm_makes_doctor_fail(answer: str, pattern: str) -> None:
    facts = {**accounted_facts(answer, ["State", "JobID", "NodeList"]), **shown_facts(answer)}
    kept_environment(kept_text(f"{RULE}\n{answer}"))
    list(output_paths([pattern], facts))


@pytest.mark.parametrize("pattern", ["%" + "9" * 5000 + "j", "%" + "0" * 5000 + "3j", "x" * 5000, "a/" * 3000, "%"])
def test_answers_of_scontrol_are_bounded(pattern: str) -> None:
    answer = f"JobId=7 JobName=x\n   NodeList=n[0-40000000]\n   StdOut=/tmp/{pattern}\n   WorkDir=/tmp\n"

    (path,) = output_paths([shown_facts(answer)["StdOut"]], shown_facts(answer))

    assert len(path) < 6100
    assert not os.path.isfile(path)


@pytest.mark.parametrize(
    "text", ["n[0-40000000]", "n[" + "0-99999," * 1000 + "0]", "n," * 200_000, f"n[{'9' * 5000}]", "n[" * 100_000]
)
def test_a_list_of_nodes_is_bounded(text: str) -> None:
    assert len(list(expanded(text))) <= MOST_NODES


def test_the_dumps_of_the_flight_recorder_are_found_by_the_script_and_name_the_node(
    cli: Cli, accounting: Accounting
) -> None:
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


def test_a_test_of_the_network_has_what_the_job_had(
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
