"""Test that `activate` and `explain` ignore no option, and that a script that is not sourced prints a hint."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli
from uenvtool.knowledge.published import Published
from uenvtool.knowledge.recipe import read_recipe


def test_write_with_a_system_writes_only_its_script(cli: Cli, place: Path) -> None:
    assert cli("activate", "--write", "--system", "clariden").code == 0
    assert [path.name for path in (place / "activate").glob("*.sh")] == ["clariden.sh"]
    assert cli("activate", "--write").code == 0
    for name in ("clariden", "lumi"):
        (place / "activate" / f"{name}.sh").write_text("# changed\n")

    refused = cli("activate", "--write", "--system", "clariden")
    forced = cli("activate", "--write", "--system", "clariden", "--force")

    assert refused.code == 2
    assert forced.stdout.split() == ["activate/clariden.sh"]
    assert cli("activate", "--check", "--system", "clariden").code == 0
    assert cli("activate", "--check", "--system", "lumi").code == 1
    assert (place / "activate" / "lumi.sh").read_text() == "# changed\n"


@pytest.mark.parametrize("mode", ["--write", "--check"])
@pytest.mark.parametrize(
    "option",
    [
        ("--uarch", "gh200"), ("--runtime", "ce"), ("--recipe", "pytorch-2.6"), ("--nccl", "2.28"), ("--shell", "zsh"),
        ("--venv", "v"), ("--fact", "image=alps"), ("--workaround", "flight-recorder"),
    ],
)  # fmt: skip
def test_an_option_that_a_mode_cannot_use_is_an_error(
    cli: Cli, place: Path, mode: str, option: tuple[str, str]
) -> None:
    answer = cli("activate", mode, *option)

    assert answer.code == 2
    assert f"{option[0]} cannot be combined with {mode}" in answer.stderr
    assert not (place / "activate").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_script_that_is_run_prints_a_hint(shell: str) -> None:
    script = ROOT / "activate" / "clariden.sh"
    words = [shell, str(script)] if shell == "bash" else ["zsh", "-f", str(script)]
    if subprocess.run(["sh", "-c", f"command -v {shell}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{shell} is not installed")

    ran = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.endswith(f"has no effect: source {script}\n")


def test_a_value_that_depends_on_a_version_names_it(cli: Cli) -> None:
    unknown = cli("explain", "NCCL_PROTO", "--system", "clariden").stdout
    known = cli("explain", "NCCL_PROTO", "--system", "clariden", "--nccl", "2.28").stdout

    assert "when:    only with NCCL 2.27 or newer, or if the version is unknown; " in unknown
    assert "pytorch-2.6 has 2.26" in unknown
    assert "when:" not in known


@pytest.mark.parametrize("name", ["HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "PYTHONNOUSERSITE"])
def test_variables_of_python_and_hugging_face_are_known(cli: Cli, name: str) -> None:
    assert cli("explain", name).stdout.startswith(f"{name}  (")


def test_the_number_of_systems_is_that_of_the_list(cli: Cli) -> None:
    systems = len(json.loads(cli("list", "systems", "--json").stdout)["systems"])

    assert f"there are {systems}: `uenvtool list systems`" in cli("activate", "--system", "nowhere").stderr


@pytest.mark.parametrize("name", ["pytorch-2.6", "pytorch-2.9"])
def test_a_published_row_with_another_number_has_a_reason(name: str) -> None:
    published = read_recipe(name).published
    assert isinstance(published, Published)

    differing = [row for row in published.table.rows if row.spack_version != row.version]

    assert differing
    assert all(row.reason for row in differing)


def test_a_job_that_evaluates_the_output_is_not_taken_for_a_script_that_is_run(cli: Cli, place: Path) -> None:
    """In both, bash has the name of the job's file in $0 and in BASH_SOURCE."""
    text = cli("activate", "--system", "clariden", "--runtime", "uenv").stdout
    (place / "lines.sh").write_text(text)
    job = place / "job.sh"
    job.write_text('#!/bin/bash\nset -eu\neval "$(cat lines.sh)"\necho "$NCCL_NET"\n')

    ran = subprocess.run(["bash", job], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"})

    assert (ran.returncode, ran.stdout) == (0, "AWS Libfabric\n"), ran.stderr
