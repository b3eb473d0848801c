"""Test `uenvtool activate` and `uenvtool explain` on the command line."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, Cli, Write
from tests.support.shells import ALL, COMMANDS, run
from uenvtool.core.errors import BadInput, Position
from uenvtool.core.files.generated import digest
from uenvtool.knowledge import yamltree
from uenvtool.knowledge.system import load_system
from uenvtool.knowledge.tuning import load_all

LOADED = {"UENV_VIEW": "/user-environment:pytorch:default"}


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "--recipe pytorch-2.6 --workaround nccl-many-connections",
            {
                "NCCL_PROTO": None,
                "FI_CXI_RX_MATCH_MODE": "software",
                "FI_CXI_RDZV_PROTO": None,
                "NCCL_MAX_NCHANNELS": "20",
                "NCCL_NET": "AWS Libfabric",
            },
        ),
        (
            "--recipe pytorch-2.9",
            {"NCCL_PROTO": "^LL128", "FI_CXI_RX_MATCH_MODE": "hybrid", "FI_CXI_RDZV_PROTO": "alt_read"},
        ),
    ],
)
def test_a_recipe_decides_by_its_versions_and_a_workaround_is_set_beside_the_rest(
    cli: Cli, place: Path, shell: str, words: str, expected: dict[str, str | None]
) -> None:
    (place / "ours").write_text(cli("activate", *words.split(), "--shell", _name(shell)).stdout)

    ran = run(shell, f"source {place}/ours\nSNAP\n", LOADED)

    assert {name: ran.env.get(name) for name in expected} == expected


def test_software_that_is_there_in_no_known_version_is_not_called_absent(cli: Cli) -> None:
    said = " ".join(cli("activate", "--system", "daint", "--recipe", "pytorch-2.9").stdout.replace("#", "").split())

    assert "nvshmem (any version), torch 2.9.1 of pytorch-2.9" in said


@pytest.mark.parametrize("committed", sorted(ROOT.glob("envs/pytorch-*/*/spack.yaml")), ids=str)
def test_an_image_and_a_script_never_disagree(cli: Cli, place: Path, committed: Path) -> None:
    recipe, system = committed.parent.parent.name, committed.parent.name.rsplit("-", 1)[0]
    written = yaml.safe_load(committed.read_text())["spack"]["env_vars"]
    of_the_view = {"PYTHONPATH", "PYTHONUSERBASE"}  # how its packages are found
    tuned = {variable.name for variable in load_all().variables} - of_the_view
    removed = {name: "another" for name in written.get("unset", []) if name in tuned}
    (place / "ours").write_text(cli("activate", "--system", system, "--recipe", recipe).stdout)

    first = load_system(system).runtimes[0]  # what an image is tuned for where the system has no uenv
    ran = run("bash", f"source {place}/ours\nSNAP\n", {**LOADED, **removed, "UENVTOOL_RUNTIME": first})

    image = {name: value for name, value in written["set"].items() if name in tuned}
    of_a_job = {"OMP_NUM_THREADS", "MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR"}  # not before there is a job
    script = {name: value for name, value in ran.env.items() if name in tuned - of_a_job}
    assert script == image
    assert ("NCCL_NET_PLUGIN" in removed) == (load_system(system).fabric == "slingshot")


def test_json_says_what_when_and_why(cli: Cli) -> None:
    given = ["--nccl", "2.29.2", "--system", "clariden", "--runtime", "uenv", "--shell", "json"]

    answer = cli("activate", *given)

    variables = {variable["name"]: variable for variable in json.loads(answer.stdout)["variables"]}
    assert variables["FI_CXI_RDZV_PROTO"]["value"] == "alt_read"
    assert variables["NCCL_NET_PLUGIN"] | {"reason": ""} == {
        "name": "NCCL_NET_PLUGIN",
        "value": None,
        "computed": None,
        "policy": "unset",
        "set": None,
        "when": None,
        "unseen": [],
        "reason": "",
        "source": "docs-2026",
        "since": "2026-08",
    }


@pytest.mark.parametrize("shell", [*COMMANDS, "dotenv", "edf"])
def test_the_command_in_the_header_makes_the_same_again(cli: Cli, shell: str) -> None:
    system = "olivia" if shell == "dotenv" else "clariden"
    given = ["--system", system, "--recipe", "pytorch-2.6", "--venv", "a b", "--workaround", "nccl-timeout"]
    first = cli("activate", *given, "--shell", _name(shell)).stdout
    again = next(line for line in first.splitlines() if "Regenerate with: " in line).split("Regenerate with: ")[1]

    assert cli(*shlex.split(again)[1:]).stdout == first


class TestCommittedScripts:
    def test_they_are_what_tuning_and_systems_give(self, cli: Cli) -> None:
        answer = cli("activate", "--check", "-o", ROOT / "activate")

        assert answer.code == 0, answer.stderr
        recorded = json.loads((ROOT / "activate" / ".uenvtool.json").read_text())["files"]
        assert recorded == {path.name: digest(path.read_bytes()) for path in (ROOT / "activate").glob("*.sh")}

    def test_a_drift_is_shown(self, cli: Cli, place: Path) -> None:
        shutil.copytree(ROOT / "activate", place / "activate")
        script = place / "activate" / "clariden.sh"
        script.write_text(script.read_text().replace("16384", "32768"))
        (place / "activate" / "gone.sh").write_text("")
        (place / "activate" / "rcp.sh").unlink()

        answer = cli("activate", "--check")

        assert answer.code == 1
        for told in (
            "32768",
            "/clariden.sh",
            "/gone.sh is left over from an earlier run",
            "/rcp.sh",
            "hint: generate it again with `uenvtool activate --write`",
        ):
            assert told in answer.stderr

    def test_they_are_written_where_one_says(self, cli: Cli, place: Path) -> None:
        answer = cli("activate", "--write", "-o", "there")

        assert answer.code == 0
        assert sorted(answer.stdout.splitlines()) == sorted(
            f"there/{path.name}" for path in (ROOT / "activate").iterdir() if not path.name.startswith(".")
        )
        assert cli("activate", "--check", "-o", "there").code == 0

    def test_a_system_with_a_transient_read_error_is_reported(
        self, cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write("systems/mine.yaml", "extends: rcp\ndescription: Mine\n")
        read, failures = yamltree.content, [OSError(5, "Input/output error")]

        def failing_once(path: Path, shown: str) -> bytes:
            if path.name == "mine.yaml" and failures:
                raise BadInput(str(failures.pop()), Position(shown))
            return read(path, shown)

        monkeypatch.setattr(yamltree, "content", failing_once)
        answer = cli("activate", "--write")

        assert answer.code == 0
        assert "mine.sh" not in answer.stdout
        assert "ignored: systems/mine.yaml:1:1: [Errno 5] Input/output error" in " ".join(answer.stderr.split())


def test_a_form_is_for_the_runtime_that_reads_it(cli: Cli) -> None:
    text = cli("activate", "--system", "clariden", "--shell", "dotenv").stdout

    assert "# For ce: A container of CSCS's Container Engine" in text
    assert "TRITON_HOME" not in text
    assert "NCCL_NET=" not in text


def test_an_extended_image_gets_the_whole_set(cli: Cli) -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.11 or newer")
    sets = load_all().sets
    together = (*sets["alps-runtime"].settings, *sets["alps-runtime-cuda"].settings)
    whole = {setting.name: setting.value or "" for setting in together}

    table = tomllib.loads(cli("activate", "--system", "clariden", "--fact", "image=alps", "--shell", "edf").stdout)[
        "env"
    ]

    assert len(whole) == 30
    assert {name: table[name] for name in whole} == whole


EXPLAINED = {
    "fi_cxi_default_tx_size": "FI_CXI_DEFAULT_TX_SIZE  (knowledge/tuning/slingshot.yaml) | 16384 | "
    "this is libfabric's maximum | 2026-08 https://docs.cscs.ch/software/communication/nccl/",
    "NCCL_CROSS_NIC": "which contradict each other",
    "FI_CXI_RDZV_PROTO": "set:     set only together with all variables of alt_read",
    "NCCL_NET": "\n  not set by uenvtool\n",
    "NCCL_NET_PLUGIN": "\n  removed\n",
    "FI_CXI_SAFE_DEVMEM_COPY_THRESHOLD": "--workaround cxil-map: GPU-aware MPI fails with `cxil_map: write error`"
    " | cost:    the CPU no longer",
    "FI_CXI_RDZV_PROTO --system clariden --nccl 2.26.2": "not set, only with NCCL 2.29 or newer, but here it is 2.26.2",
    "FI_CXI_RDZV_PROTO --system clariden --nccl 2.29.2": "on clariden, in uenv: alt_read",
    "FI_CXI_RDZV_PROTO --verbose --system clariden --nccl 2.29.2": "in uenv: alt_read; source | values by source",
    "NCCL_P2P_LEVEL -s clariden": "not set, only with NCCL 2.27 or newer; pytorch- | pytorch-2.6 has 2.26.2-1",
    "NCCL_P2P_LEVEL -s clariden --recipe pytorch-2.6": "but pytorch-2.6 has 2.26.2-1 | would be: NVL: limits",
    "NVSHMEM_REMOTE_TRANSPORT -s clariden --recipe pytorch-2.6": "only with NVSHMEM, but pytorch-2.6 has none",
    "NCCL_IB_HCA -s clariden": "not set, only where fabric == roce (here: slingshot) and site == EPFL (here: CSCS)",
    "NCCL_DEBUG -s clariden": "not set on any system: choose a value yourself",
    "NCCL_NET -s clariden": "  on clariden, in uenv: AWS Libfabric | why:     prevents | source:  docs-2026 (20",
    "NCCL_LL128_C2C -s clariden": "danger:  NCCL can corrupt results without an error message; here prevented by ",
    "docs-2026": "title:   CSCS documentation | url:     https://docs.cscs.ch | values:  CUDA_CACHE_DISABLE,",
}
"""The words behind `explain`, and what it says."""


class TestExplain:
    @pytest.mark.parametrize("words", EXPLAINED)
    def test_a_variable_with_its_reason_sources_and_costs(self, cli: Cli, words: str) -> None:
        told = cli("explain", *words.split()).stdout

        assert [said for said in EXPLAINED[words].split(" | ") if said not in told] == []

    @pytest.mark.parametrize("place", ["--system clariden --recipe pytorch-2.6", "--system olivia", "--system rcp"])
    def test_the_answer_for_a_system_is_ten_lines(self, cli: Cli, place: str) -> None:
        names = sorted({variable.name for variable in load_all().variables})

        answers = cli("explain", *names, *place.split()).stdout.split("\n\n")

        assert len(answers) == len(names)
        assert [text for text in answers if len(text.splitlines()) > 10] == []

    def test_one_value_said_by_many_is_no_contradiction(self, cli: Cli) -> None:
        assert "which contradict each other" not in cli("explain", "MPICH_GPU_SUPPORT_ENABLED").stdout

    def test_who_contradicts_whom_and_who_is_followed_is_a_table(self, cli: Cli) -> None:
        lines = [line.split(maxsplit=2) for line in cli("explain", "FI_CXI_DEFAULT_TX_SIZE").stdout.splitlines()]
        rows = {words[0]: words[1:] for words in lines[-3:]}

        assert " ".join(lines[-5]) == "values by source, which contradict each other:"
        assert rows["2048"][0] == "sigma2,"  # on Olivia, and what HPE and BriCS say elsewhere
        assert "hpe (2026-04-10), sigma2 (2026-05-13)" in rows["2048"][1]
        assert rows["16384"][0] == "docs-2026,"

    def test_a_machine_that_is_known_needs_no_name(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "on clariden" not in cli("explain", "NCCL_CROSS_NIC").stdout
        monkeypatch.setenv("CLUSTER_NAME", "clariden")

        answer = cli("explain", "NCCL_CROSS_NIC")

        assert "on clariden, in uenv: 1\n" in answer.stdout

    def test_every_variable(self, cli: Cli) -> None:
        names = {entry["name"] for entry in json.loads(cli("explain", "--all", "--json").stdout)}

        assert names == {variable.name for variable in load_all().variables}

    def test_what_will_be_set_in_a_job_is_one_table(self, cli: Cli) -> None:
        rcp = {row["name"] for row in json.loads(cli("explain", "--system", "rcp", "--json").stdout)}
        asked = ("explain", "--system", "clariden", "--runtime", "uenv", "--nccl", "2.29.2")
        answer = cli(*asked)

        assert "NCCL_IB_GID_INDEX" in rcp
        assert "NCCL_NET" not in rcp
        table, _, legend = answer.stdout.partition("\n\n")
        rows = {line.split()[0]: line for line in table.splitlines()}
        assert {row["reason"].rpartition(" ")[2] for row in json.loads(cli(*asked, "--json").stdout)} == {
            line.split()[0] for line in legend.splitlines()
        }
        assert "alt_read" in rows["FI_CXI_RDZV_PROTO"]
        assert "PIX" not in rows
        assert len(answer.stdout.splitlines()) < 30
        assert "on clariden, in uenv" in answer.stderr

    def test_where_the_values_of_a_site_come_from_is_said(self, cli: Cli) -> None:
        assert "those of Olivia's NCCL modules (HPE's set)" in cli("explain", "--system", "olivia").stderr
        assert "This system is for images and overlays from 2025" in cli("explain", "--system", "olivia-2025").stderr
        assert "in debug: 4 nodes, 90 node-minutes, 01:30:00" in cli("explain", "--system", "clariden").stderr


def _name(shell: str) -> str:
    return "bash" if shell == "bash-4.2" else shell


def test_what_a_hook_sets_is_told_and_left_to_it(cli: Cli) -> None:
    """CSCS documentation, pages of Daint and Santis, 2026-06-17; that of Clariden names none."""
    told = {}
    for system in ("daint", "santis", "clariden"):
        place = ("--system", system, "--runtime", "ce")
        edf = cli("activate", *place, "--shell", "edf").stdout
        comment = " ".join(
            edf.partition("# The container hook sets these variables itself")[2].replace("#", "").split()
        )
        rows = json.loads(cli("explain", *place, "--json").stdout)
        told[system] = {row["name"] for row in rows if row["reason"].startswith("the hook: ")}
        assert set(re.findall(r"(\w+)=", comment.partition(";")[0])) == told[system]
        assert told[system] & set(re.findall(r"^(\w+) = ", edf, re.MULTILINE)) <= {"NCCL_PROTO"}  # to be sure

    assert {system: len(names) for system, names in told.items()} == {"daint": 14, "santis": 14, "clariden": 0}
    assert "set by the hook" in cli("explain", "--system", "santis", "--runtime", "ce", "NCCL_PXN_DISABLE").stdout
