"""Messages of names that nobody knows."""

from __future__ import annotations

import pytest

from uenvtool.core.errors import did_you_mean, unknown
from uenvtool.failure import failure


def test_few_names_are_all_listed() -> None:
    assert unknown("runtime", "docker", ["uenv", "ce"]).hint == "known: ce, uenv"


def test_of_many_names_the_three_nearest_are_told() -> None:
    known = [f"NCCL_{name}" for name in ("NET", "NETS", "NET_PLUGIN", "NETX", "PROTO", "DEBUG")] + list("abcdefghijkl")

    hint = unknown("variable", "NCCL_NE", known, listed_by="uenvtool explain --all").hint

    assert (
        hint == "did you mean 'NCCL_NET', 'NCCL_NETX' or 'NCCL_NETS'? there are 18: `uenvtool explain --all` lists them"
    )


def test_case_does_not_matter_and_a_name_is_never_like_itself() -> None:
    assert did_you_mean("nccl_net", ["NCCL_NET", "PATH"]) == "did you mean 'NCCL_NET'?"
    assert did_you_mean("r", ["r"]) == ""


def test_many_names_that_no_command_lists_are_all_told_where_none_is_near() -> None:
    known = [f"rule-{number}" for number in range(20)]

    assert str(unknown("rule", "rule-1", known)).endswith("? there are 20")
    assert all(name in str(unknown("rule", "other", known)) for name in known)


def test_a_folder_that_may_not_be_entered_is_shown_by_a_command() -> None:
    told = str(failure(PermissionError(13, "Permission denied", "/data/my set/x")))

    assert "hint: `namei -l '/data/my set/x'` shows which folder" in told


@pytest.mark.parametrize("error", [MemoryError(), ImportError("libtorch.so: failed to map segment from shared object")])
def test_a_limit_of_memory_is_told_and_not_to_be_reported(error: Exception) -> None:
    assert "error: there is not enough memory\nhint: `ulimit -v`" in str(failure(error))
    assert "please report" in str(failure(ImportError("libtorch.so: cannot open shared object file")))
