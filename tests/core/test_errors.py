"""Test the messages for unknown names."""

from __future__ import annotations

import pytest

from uenvtool.cli import failure
from uenvtool.core.errors import did_you_mean, unknown

NEAR = "'NCCL_NET', 'NCCL_NETX' or 'NCCL_NETS'"


def test_few_names_are_all_listed_and_of_many_the_nearest_or_how_to_list_them() -> None:
    known = [f"NCCL_{name}" for name in ("NET", "NETS", "NET_PLUGIN", "NETX", "PROTO", "DEBUG")] + list("abcdefghijkl")
    rules = [f"rule-{number}" for number in range(20)]

    near = unknown("variable", "NCCL_NE", known, listed_by="uenvtool explain --all").hint

    assert unknown("runtime", "docker", ["uenv", "ce"]).hint == "known: ce, uenv"
    assert near == f"did you mean {NEAR}? there are 18: `uenvtool explain --all` lists them"
    assert str(unknown("rule", "rule-1", rules)).endswith("? there are 20")
    assert all(name in str(unknown("rule", "other", rules)) for name in rules)
    assert did_you_mean("nccl_net", ["NCCL_NET", "PATH"]) == "did you mean 'NCCL_NET'?"  # case does not matter
    assert did_you_mean("r", ["r"]) == ""  # a name is never like itself


def test_a_folder_that_may_not_be_entered_is_shown_by_a_command() -> None:
    told = str(failure(PermissionError(13, "Permission denied", "/data/my set/x")))

    assert "hint: run `namei -l '/data/my set/x'` to see which directory" in told


@pytest.mark.parametrize("error", [MemoryError(), ImportError("libtorch.so: failed to map segment from shared object")])
def test_a_limit_of_memory_is_told_and_not_to_be_reported(error: Exception) -> None:
    assert "error: there is not enough memory\nhint: raise this shell's limit (`ulimit -v`)" in str(failure(error))
    assert "please report" in str(failure(ImportError("libtorch.so: cannot open shared object file")))
