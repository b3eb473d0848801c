"""`uenvtool activate` and `uenvtool explain`, as a user calls them."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT, Answer
from tests.support import toml
from tests.support.shells import ALL, EXTENSION, run
from uenvtool.files.generated import digest
from uenvtool.model.tuning_reader import load_all

Cli = Callable[..., Answer]
LOADED = {"UENV_VIEW": "/user-environment:pytorch:default"}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--system", "claridn"], ["'claridn'", "did you mean 'clariden'", "bristen", "olivia", "rcp"]),
        (["--system", "clariden", "--runtime", "docker"], ["'docker'", "known: ce, uenv"]),
        (["--system", "clariden", "--shell", "ksh"], ["'ksh'", "bash, docker, edf, env, fish, json, slurm, tcsh"]),
        (["--system", "clariden", "--uarch", "mi300"], ["'mi300'", "gh200"]),
        (["--system", "clariden", "--workaround", "nccl-timeot"], ["did you mean 'nccl-timeout'", "cxil-map"]),
        (["--system", "clariden", "--fact", "ncl=2"], ["'ncl'", "did you mean 'nccl'"]),
        (["--system", "clariden", "--fact", "nccl"], ["nccl", "NAME=VALUE"]),
        (["--system", "clariden", "--nccl", "$(id)"], ["'$(id)' is not a version"]),
        (["--system", "clariden", "--nccl", ""], ["is not a version"]),
        (["--system", "clariden", "--recipe", "pytorch-2.7"], ["pytorch-2.6"]),
        ([], ["none of the known systems", "clariden"]),
    ],
)
def test_what_does_not_exist_is_refused_with_the_names_that_do(
    cli: Cli, arguments: list[str], names: list[str]
) -> None:
    answer = cli("activate", *arguments)

    assert answer.code == 2
    assert answer.stdout == ""
    assert [name for name in names if name not in answer.stderr] == []


def test_workarounds_that_contradict_each_other_are_refused(cli: Cli) -> None:
    answer = cli("activate", "--system", "olivia", "--workaround", "mpich-hang", "--workaround", "mpich-hang-disabled")

    assert answer.code == 2
    assert "--workaround mpich-hang sets FI_MR_CACHE_MONITOR=" in answer.stderr
    assert "choose one of them" in answer.stderr
    assert "nccl-timeout" in answer.stderr


@pytest.mark.parametrize("shell", ALL)
def test_a_workaround_is_set_beside_the_rest(cli: Cli, place: Path, shell: str) -> None:
    answer = cli("activate", "--system", "clariden", "--workaround", "nccl-many-connections", "--shell", _name(shell))
    (place / "ours").write_text(answer.stdout)

    ran = run(shell, f"source {place}/ours\nSNAP\n", LOADED)

    assert ran.env["NCCL_MAX_NCHANNELS"] == "20"
    assert ran.env["NCCL_NET"] == "AWS Libfabric"


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("pytorch-2.6", {"NCCL_PROTO": None, "FI_CXI_RX_MATCH_MODE": "software", "FI_CXI_RDZV_PROTO": None}),
        ("pytorch-2.9", {"NCCL_PROTO": "^LL128", "FI_CXI_RX_MATCH_MODE": "hybrid", "FI_CXI_RDZV_PROTO": "alt_read"}),
    ],
)
def test_a_recipe_decides_by_its_versions(
    cli: Cli, place: Path, shell: str, recipe: str, expected: dict[str, str | None]
) -> None:
    (place / "ours").write_text(cli("activate", "--recipe", recipe, "--shell", _name(shell)).stdout)

    ran = run(shell, f"source {place}/ours\nSNAP\n", LOADED)

    assert {name: ran.env.get(name) for name in expected} == expected


@pytest.mark.parametrize("recipe", ["pytorch-2.6", "pytorch-2.9"])
@pytest.mark.parametrize("system", ["clariden", "bristen"])
def test_an_image_and_a_script_never_disagree(cli: Cli, place: Path, system: str, recipe: str) -> None:
    folder = {"clariden": "clariden-gh200", "bristen": "bristen-a100"}[system]
    written = yaml.safe_load((ROOT / "envs" / recipe / folder / "spack.yaml").read_text())["spack"]["env_vars"]
    (place / "ours").write_text(cli("activate", "--system", system, "--recipe", recipe).stdout)
    tuned = {variable.name for variable in load_all().variables}

    ran = run("bash", f"source {place}/ours\nSNAP\n", {**LOADED, "NCCL_NET_PLUGIN": "ofi"})

    image = {name: value for name, value in written["set"].items() if name in tuned}
    of_a_job = {"OMP_NUM_THREADS"}  # not before there is a job
    script = {name: value for name, value in ran.env.items() if name in tuned - of_a_job}
    assert script == {name: value for name, value in image.items() if name != "PYTHONUSERBASE"}
    assert "NCCL_NET_PLUGIN" in written["unset"]


def test_the_script_of_a_recipe_is_what_eval_takes(cli: Cli, place: Path) -> None:
    (place / "ours").write_text(cli("activate", "--system", "clariden").stdout)

    ran = run("bash", f'eval "$(cat {place}/ours)"\nSNAP\n', LOADED)

    assert ran.env["NCCL_NET"] == "AWS Libfabric"
    assert not [name for name in ran.env if name.startswith("ue_")]


def test_json_says_what_when_and_why(cli: Cli) -> None:
    answer = cli("activate", "--recipe", "pytorch-2.9", "--system", "clariden", "--runtime", "uenv", "--shell", "json")

    variables = {variable["name"]: variable for variable in json.loads(answer.stdout)["variables"]}
    assert variables["FI_CXI_RDZV_PROTO"]["value"] == "alt_read"
    assert variables["NCCL_NET_PLUGIN"] | {"reason": ""} == {
        "name": "NCCL_NET_PLUGIN",
        "value": None,
        "computed": None,
        "policy": "unset",
        "when": None,
        "unseen": "skip",
        "reason": "",
        "source": "docs-2026",
        "since": "2026-08",
    }


def test_an_edf_is_for_the_container_engine(cli: Cli) -> None:
    answer = cli("activate", "--system", "clariden", "--shell", "edf")

    table = toml.loads(answer.stdout)["env"]
    assert table["NCCL_PROTO"] == "^LL128"
    assert "NCCL_NET" not in table  # its hook sets it
    assert "TRITON_HOME" not in table  # which fails there


@pytest.mark.parametrize("shell", [*EXTENSION, "env", "edf", "docker"])
def test_the_command_in_the_header_makes_the_same_again(cli: Cli, shell: str) -> None:
    given = ["--system", "clariden", "--recipe", "pytorch-2.6", "--venv", "a b", "--workaround", "nccl-timeout"]
    first = cli("activate", *given, "--shell", _name(shell)).stdout
    again = next(line for line in first.splitlines() if "again:" in line).split("again:")[1]

    assert cli(*shlex.split(again)[1:]).stdout == first


class TestCommittedScripts:
    def test_they_are_what_tuning_and_systems_give(self, cli: Cli) -> None:
        answer = cli("activate", "--check", "-o", ROOT / "activate")

        assert answer.code == 0, answer.stderr

    def test_their_record_is_of_these_scripts(self) -> None:
        recorded = json.loads((ROOT / "activate" / ".uenvtool.json").read_text())["files"]

        scripts = {path.name: path for path in (ROOT / "activate").glob("*.*sh")}
        assert recorded == {name: digest(path.read_bytes()) for name, path in scripts.items()}

    def test_a_drift_is_shown(self, cli: Cli, place: Path) -> None:
        shutil.copytree(ROOT / "activate", place / "activate")
        script = place / "activate" / "clariden.fish"
        script.write_text(script.read_text().replace("16384", "32768"))
        (place / "activate" / "gone.sh").write_text("")
        (place / "activate" / "rcp.csh").unlink()

        answer = cli("activate", "--check")

        assert answer.code == 1
        assert "32768" in answer.stderr
        assert "activate/clariden.fish" in answer.stderr
        assert "activate/gone.sh is left over" in answer.stderr
        assert "activate/rcp.csh" in answer.stderr
        assert "hint: uenvtool activate --write" in answer.stderr

    def test_they_are_written_where_one_says(self, cli: Cli, place: Path) -> None:
        answer = cli("activate", "--write", "-o", "there")

        assert answer.code == 0
        assert sorted(answer.stdout.splitlines()) == sorted(
            f"there/{path.name}" for path in (ROOT / "activate").iterdir() if not path.name.startswith(".")
        )
        assert cli("activate", "--check", "-o", "there").code == 0


class TestExplain:
    def test_a_variable_with_its_reason_and_sources(self, cli: Cli) -> None:
        answer = cli("explain", "FI_CXI_DEFAULT_TX_SIZE")

        assert answer.code == 0
        for said in (
            "16384",
            "tuning/slingshot.yaml",
            "reduced from 32768 on purpose",
            "2026-08",
            "guide (2025-09): 32768",
        ):
            assert said in answer.stdout

    def test_every_variable(self, cli: Cli) -> None:
        names = {entry["name"] for entry in json.loads(cli("explain", "--all", "--json").stdout)}

        assert names == {variable.name for variable in load_all().variables}

    def test_only_what_can_hold_on_a_system(self, cli: Cli) -> None:
        names = {entry["name"] for entry in json.loads(cli("explain", "--all", "--system", "rcp", "--json").stdout)}

        assert "NCCL_IB_GID_INDEX" in names
        assert "NCCL_NET" not in names

    def test_two_sources(self, cli: Cli) -> None:
        answer = cli("explain", "--diff", "guide", "docs-2026", "--json")

        rows = {row["name"]: (row["guide"], row["docs-2026"]) for row in json.loads(answer.stdout)}
        assert rows["FI_CXI_DEFAULT_TX_SIZE"] == ("32768", "16384")
        assert rows["NCCL_PROTO"] == ("-", "^LL128")
        assert "NCCL_NET" not in rows  # in which they agree

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["NCCL_PROTOO"], "did you mean 'NCCL_PROTO'"),
            (["--diff", "guide", "docs-2027"], "did you mean 'docs-2026'"),
            (["--diff", "guide"], "takes two sources"),
            ([], "name a variable"),
            (["--all", "--system", "nowhere"], "unknown system"),
        ],
    )
    def test_what_is_not_known(self, cli: Cli, arguments: list[str], said: str) -> None:
        answer = cli("explain", *arguments)

        assert answer.code == 2
        assert said in answer.stderr


def _name(shell: str) -> str:
    return "bash" if shell == "bash-4.2" else shell
