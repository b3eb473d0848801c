"""Each sentence of docs/security.md that can be wrong has a test: here, or where the table at the end says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL, Answer
from tests.support.trees import snapshot
from uenvtool import tools

Cli = Callable[..., Answer]
Write = Callable[[str, str | bytes], Path]
READERS = [
    ["list"],
    ["show", "hello"],
    ["diff", "pytorch-2.6", "pytorch-2.9"],
    ["validate", "recipes/mine/recipe.yaml"],
    ["schema", "recipe"],
    ["explain", "NCCL_NET"],
    ["job", "check", "job.sh"],
]


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_commands_that_read_start_no_program_and_write_no_file(
    cli: Cli, write: Write, place: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    write("recipes/mine/recipe.yaml", SMALL)
    write("job.sh", "#!/bin/bash\ntouch ran\n$(touch ran)\nsrun python train.py\n")
    before = snapshot(place.parent)
    monkeypatch.setattr(tools, "run", refused)

    answer = cli(*words)

    assert answer.code in (0, 1), answer.stderr
    assert snapshot(place.parent) == before


WRITERS = [
    ["activate", "--system", "clariden"],
    ["activate", "--system", "clariden", "-o", "out"],
    ["new", "recipe", "other", "--from", "hello"],
    ["edit", "mine", "--add", "lz4"],
    ["container", "ngc-pytorch-25.06", "-o", "out"],
    ["job", "--system", "clariden", "--account", "a", "--image", "u", "-o", "job.sh", "--", "python", "train.py"],
    ["build", "mine", "--system", "clariden", "--no-concretize", "-o", "out"],
]


@pytest.mark.parametrize("words", WRITERS, ids=" ".join)
def test_commands_that_write_alone_start_no_program(
    cli: Cli, write: Write, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    write("recipes/mine/recipe.yaml", SMALL)
    monkeypatch.setattr(tools, "run", refused)

    answer = cli(*words)

    assert answer.code == 0, answer.stderr


def test_expressions_in_a_recipe_stay_text(
    cli: Cli, write: Write, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "swordfish")
    text = "'$(touch ran) `touch ran` ${SECRET} $SECRET !!python/object:os.system'"
    write("recipes/mine/recipe.yaml", SMALL.replace("A small recipe.", text))

    assert cli("build", "mine", "--system", "clariden", "--no-concretize", "-o", "out").code == 0

    assert not list(place.rglob("ran"))
    assert all(
        b"swordfish" not in (content or b"") for content in snapshot("out").values() if isinstance(content, bytes)
    )


def test_a_folder_with_files_of_others_is_not_written_into(cli: Cli, write: Write) -> None:
    write("recipes/mine/recipe.yaml", SMALL)
    write("out/thesis.tex", "years")

    assert cli("build", "mine", "--system", "clariden", "--no-concretize", "-o", "out").code == 2
    assert snapshot("out") == {"thesis.tex": b"years"}


TESTED_BY = {
    5: "tests/fuzz/test_security.py::test_expressions_in_a_recipe_stay_text",
    6: "tests/fuzz/test_names.py::test_a_hostile_name_in_a_recipe_is_refused_where_it_stands",
    7: "tests/fuzz/test_writers.py::test_jobs_and_edf",
    8: "tests/fuzz/test_records.py::test_a_damaged_record_removes_nothing_outside_its_folder",
    9: "tests/fuzz/test_security.py::test_commands_that_read_start_no_program_and_write_no_file",
    10: "tests/fuzz/test_records.py::test_damaged_metadata_of_a_loaded_uenv_is_passed_over_or_told",
    11: "tests/fuzz/test_knowledge.py::test_files_of_others_never_stand_in_the_way",
    12: "tests/fuzz/test_knowledge.py::test_a_damaged_file_is_accepted_or_told",
    13: "tests/overlay/test_hashes.py::test_an_overlay_made_from_hashes_or_again_or_from_its_lock_keeps_to_them",
    14: "tests/overlay/test_foreign.py::test_it_is_told_and_kept_and_a_folder_of_the_users_keeps_its_name",
    15: "tests/fuzz/test_kinds_of_file.py::test_what_is_no_file_is_told_and_does_not_hang",
    16: "tests/real/test_squashfs.py::test_unpacking_starts_no_program_of_the_images",
    17: "tests/fuzz/test_security.py::test_commands_that_read_start_no_program_and_write_no_file",
    18: "tests/fuzz/test_security.py::test_commands_that_write_alone_start_no_program",
    19: "tests/fuzz/test_security.py::test_a_folder_with_files_of_others_is_not_written_into",
}
"""The test of each numbered sentence about what is not trusted."""


def test_every_sentence_about_what_is_not_trusted_has_a_test() -> None:
    text = (ROOT / "docs" / "security.md").read_text().partition("## Not trusted")[2]

    assert [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)] == sorted(TESTED_BY)
    for test in TESTED_BY.values():
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(), test
