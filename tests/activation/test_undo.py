"""Test that uenvtool_deactivate restores any environment, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.project import ROOT
from tests.support.shells import ALL, run, script
from uenvtool.knowledge.tuning import load_all

OWN = {"UENVTOOL_RANK", "UENVTOOL_SET"}
READ = {"RANK", "PMI_RANK", "NCCL_VERSION", "UENV_VIEW", "SLURM_PROCID", "SLURM_CPUS_PER_TASK", "LD_LIBRARY_PATH"}
READ |= {
    "SLURM_GPUS_ON_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_CPUS_ON_NODE",
    "RUNAI_NUM_OF_GPUS",
    "UENVTOOL_RUNTIME",
    "UENVTOOL_VENV",
    "UENVTOOL_QUIET",
}
"""Variables that a script looks at."""
OTHERS = OWN | READ | {"VIRTUAL_ENV", "PYTHONHOME", "MINE"}
NAMES = sorted({variable.name for variable in load_all().variables} | OTHERS)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
AWKWARD = st.sampled_from(
    ["", " ", "a b", "'", '"', "$(touch x)", "`touch x`", "a\nb", "\n", "!x", "\\", "*", "ü", "-n", "1"]
)
ENVIRONMENTS = st.dictionaries(st.sampled_from(NAMES), st.one_of(AWKWARD, TEXT), max_size=12)
OF_THE_SHELL = {"_", "BASH_REMATCH", "MATCH", "MBEGIN", "MEND", "match", "mbegin", "mend"}
JOB = {"UENV_VIEW": "/nowhere:a:b", "UENVTOOL_QUIET": "1", "SLURM_PROCID": "0", "SLURM_JOB_ID": "9"}
SYSTEMS = sorted(path.stem for path in (ROOT / "activate").glob("*.sh"))
UNEXPORTED = "MASTER_PORT=1\nNCCL_NET_PLUGIN=x\n"
CHANGED = "export NCCL_PROTO=mine MPICH_GPU_SUPPORT_ENABLED=1\nunset NCCL_NET\n"


@pytest.mark.parametrize("shell", ALL)
@settings(max_examples=12)
@given(env=ENVIRONMENTS)
@example(env={"SLURM_GPUS_ON_NODE": "a\nb"})
@example(env={"SLURM_TASKS_PER_NODE": ""})
@example(env={"SLURM_TASKS_PER_NODE": "0{"})
@example(env={"SLURM_TASKS_PER_NODE": "2(x3),)"})
@example(env={"NCCL_VERSION": ")"})
@example(env={"LD_LIBRARY_PATH": "/a:)"})
@example(env={"UENV_VIEW": "/a:),b"})
def test_activate_then_deactivate_gives_the_same_environment(shell: str, env: dict[str, str]) -> None:
    lines = f"SNAP\nsource {script('clariden')}\nSNAP\nuenvtool_deactivate\nSNAP\n"

    ran = run(shell, lines, {**JOB, **env})

    assert len(ran.snaps) == 3, ran.stderr
    assert ran.snaps[1] != ran.snaps[0]
    assert ran.snaps[2] == ran.snaps[0]


@pytest.mark.parametrize("shell", ALL)
@settings(max_examples=6)
@given(env=ENVIRONMENTS)
@example(env={"LD_LIBRARY_PATH": "0{"})
def test_what_the_user_changes_between_two_sourcings_is_kept_and_the_way_back_too(
    shell: str, env: dict[str, str]
) -> None:
    source = f"source {script('clariden')}\n"
    lines = f"SNAP\n{source}{CHANGED}{source}SNAP\nuenvtool_deactivate\nSNAP\n"

    ran = run(shell, lines, {**env, **JOB, "UENVTOOL_RUNTIME": ""})

    assert ran.snaps[1][b"NCCL_PROTO"] == b"mine"
    assert ran.snaps[1][b"MPICH_GPU_SUPPORT_ENABLED"] == b"0"
    assert ran.snaps[1][b"NCCL_NET"] == b"AWS Libfabric"
    before, after = ran.snaps[0], ran.snaps[2]
    theirs = {b"NCCL_PROTO", b"NCCL_NET"} & set(before)  # what was set before is the user's to change
    assert {name: after[name] for name in after if name not in theirs} == {
        name: before[name] for name in before if name not in theirs
    }


@pytest.mark.parametrize("shell", ALL)
@settings(max_examples=4)
@given(one=st.sampled_from(SYSTEMS), other=st.sampled_from(SYSTEMS), env=ENVIRONMENTS)
@example(one="clariden", other="rcp", env={})
@example(one="rcp", other="clariden", env={})
@example(one="local", other="bristen", env={"MPICH_GPU_SUPPORT_ENABLED": " "})
def test_the_scripts_of_two_systems_leave_nothing(shell: str, one: str, other: str, env: dict[str, str]) -> None:
    lines = f"SNAP\nsource {script(one)}\nsource {script(other)}\nuenvtool_deactivate\nSNAP\n"

    ran = run(shell, lines, {**JOB, **env})

    assert len(ran.snaps) == 2, ran.stderr
    assert ran.snaps[1] == ran.snaps[0]


@pytest.mark.parametrize("shell", [param for param in ALL if param.values[0] != "bash-4.2"])
def test_a_variable_that_is_not_exported_is_not_exported_afterwards(shell: str) -> None:
    lines = f"{UNEXPORTED}SNAP\nsource {script('clariden')}\nuenvtool_deactivate\nSNAP\n"

    ran = run(shell, f'{lines}echo "$MASTER_PORT $NCCL_NET_PLUGIN" >&2\n', JOB)

    assert b"MASTER_PORT" not in ran.snaps[1]
    assert ran.snaps[1] == ran.snaps[0]
    assert ran.stderr.splitlines()[-1] == "1 x"


LISTED = {
    "zsh": "zmodload zsh/parameter; print -l -- ${(k)functions} ${(k)parameters}",
}


@pytest.mark.parametrize("shell", ALL)
def test_no_name_is_left_but_that_of_the_way_back(shell: str) -> None:
    names = f"{LISTED.get(shell, 'compgen -A function; compgen -v')}\necho '=='\n"
    lines = f"{names}source {script('clariden')}\n{names}uenvtool_deactivate\n{names}"

    before, inside, after, _ = (
        {line.split()[0] for line in part.splitlines() if line} for part in run(shell, lines, JOB).stdout.split("==\n")
    )

    ours = {name for name in inside - before if not name.isupper() and not name.startswith("OMPI_MCA")}
    assert ours - OF_THE_SHELL == {"uenvtool_deactivate"}
    assert after - before - OF_THE_SHELL == set()
