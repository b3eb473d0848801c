"""Test each numbered promise of docs/security.md, here or in the tests that the table at the end names."""

from __future__ import annotations

import functools
import importlib
import json
import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import LEFT_OUT, ROOT, SMALL, Cli, Write
from tests.support.overlays import wheel
from tests.support.programs import program
from tests.support.trees import snapshot
from uenvtool.cli import COMMANDS

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a terminal interprets."""
RECORDS = """\
#!/bin/sh
echo "$0 $*" >>"{log}"
[ "$1" != --version ] || echo '1.1.0 (abcdef)'
exit 1
"""
"""A program that logs its start and fails."""


def noting(path: Path, log: Path) -> Path:
    """Write a program that logs its start to a file and fails."""
    return program(path, RECORDS.format(log=log))


def test_programs_are_those_of_path_and_never_those_of_the_current_folder(
    cli: Cli, write: Write, place: Path, no_base: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("recipes/mine/recipe.yaml", SMALL)
    log = place / "log"
    names = ("spack", "uv", "python3", "mksquashfs", "unsquashfs", "sbatch", "srun", "podman", "uenv", "fi_info", "git")
    for name in names:
        noting(place / name, log)
    noting(place / "onpath" / "spack", log)
    monkeypatch.setenv("PATH", f":.:{place}/onpath:{os.environ['PATH']}:")
    write("image.squashfs", "hsqs")

    for words in (
        ["build", "mine", "--system", "clariden", "--concretize"],
        ["venv", "v", "small", "--no-base"],
        ["image", "show", "image.squashfs"],
        ["doctor"],
    ):
        cli(*words)

    assert {line.split()[0] for line in log.read_text().splitlines()} == {f"{place}/onpath/spack"}
    noting(place / "onpath" / "python3", log)
    for name, *named in (
        ["spack", "build", "mine", "--system", "clariden", "--concretize", "--spack", place / "named"],
        ["python3", "venv", "v", "small", "--base", place / "named/bin/python3"],
    ):
        log.write_text("")
        mine = noting(place / "named/bin" / name, log)
        cli(*named)
        assert {line.split()[0] for line in log.read_text().splitlines()} == {str(mine)}


def test_what_an_index_gives_for_a_lock_must_have_its_hash(
    cli: Cli, wheels: Path, no_base: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_NO_CACHE", "1")  # which has the file of the lock
    wheel(wheels, "small", "1.0")
    assert cli("venv", "v", "small", "--no-base").code == 0
    wheel(wheels, "small", "1.0", files={"small/extra.py": "changed = True\n"})

    answer = cli("venv", "w", "--no-base", "--from", "v/.uenvtool/pylock.toml")

    assert answer.code == 4, answer.stderr
    assert "small" in answer.stderr
    assert not Path("w").exists()


READERS = [
    ["list"],
    ["show", "hello"],
    ["diff", "pytorch-2.6", "pytorch-2.9"],
    ["validate", "recipes/mine/recipe.yaml"],
    ["schema", "recipe"],
    ["explain", "NCCL_NET"],
    ["check", "job.sh"],
]
WRITERS = [
    ["activate", "--system", "clariden"],
    ["activate", "--write", "-o", "out"],
    ["new", "recipe", "other", "--from", "hello"],
    ["edit", "mine", "--add", "lz4"],
    ["container", "ngc-pytorch-25.06", "-o", "out"],
    ["job", "--system", "clariden", "--account", "a", "--image", "u", "-o", "job.sh", "--", "python", "train.py"],
    ["build", "mine", "--system", "clariden", "--no-concretize", "-o", "out"],
]


STARTS = ("subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system")
started: list[str] = []


@functools.cache
def note_starts() -> None:
    """Record each start of a program, by any function."""
    sys.addaudithook(lambda event, arguments: started.append(f"{event} {arguments[:2]}") if event in STARTS else None)


@pytest.fixture
def no_program() -> Iterator[None]:
    """Fail the test if it starts a program."""
    note_starts()
    started.clear()
    yield
    assert started == []


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_commands_that_read_start_no_program_and_write_no_file(
    cli: Cli, write: Write, place: Path, words: list[str], no_program: None
) -> None:
    write("recipes/mine/recipe.yaml", SMALL)
    write("job.sh", "#!/bin/bash\ntouch ran\n$(touch ran)\nsrun python train.py\n")
    before = snapshot(place.parent)

    answer = cli(*words)

    assert answer.code in (0, 1), answer.stderr
    assert snapshot(place.parent) == before


@pytest.mark.parametrize("words", WRITERS, ids=" ".join)
def test_commands_that_write_alone_start_no_program(cli: Cli, write: Write, words: list[str], no_program: None) -> None:
    write("recipes/mine/recipe.yaml", SMALL)

    answer = cli(*words)

    assert answer.code == 0, answer.stderr


def test_expressions_in_a_recipe_stay_text_and_its_additions_are_not_run(
    cli: Cli, write: Write, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "swordfish")
    text = "'$(touch ran) `touch ran` ${SECRET} $SECRET !!python/object:os.system'"
    write("recipes/mine/recipe.yaml", SMALL.replace("A small recipe.", text))
    addition = write("recipes/mine/packages/zstd/package.py", f"open({str(place / 'ran')!r}, 'w')\n").read_text()

    assert cli("show", "mine").code == 0
    assert cli("build", "mine", "--system", "clariden", "--no-concretize", "-o", "out").code == 0

    assert not list(place.rglob("ran"))
    assert Path("out/spack_repo/uenvtool/packages/zstd/package.py").read_text() == addition
    assert all(
        b"swordfish" not in (content or b"") for content in snapshot("out").values() if isinstance(content, bytes)
    )


def test_a_folder_with_files_of_others_is_not_written_into(cli: Cli, write: Write) -> None:
    write("recipes/mine/recipe.yaml", SMALL)
    write("out/thesis.tex", "years")

    words = ("build", "mine", "--system", "clariden", "--no-concretize", "-o", "out")

    assert cli(*words).code == 2
    assert snapshot("out") == {"thesis.tex": b"years"}
    assert cli(*words, "--force").code == 0
    assert snapshot("out")["thesis.tex"] == b"years"


def test_an_image_of_others_starts_nothing_and_sends_nothing_to_the_terminal(
    cli: Cli, wheels: Path, no_base: None, place: Path
) -> None:
    wheel(wheels, "small", "1.0")
    assert cli("venv", "v", "small", "--no-base", "--squash").code == 0
    subprocess.run(["unsquashfs", "-quiet", "-no-progress", "-d", "raw", "v.squashfs"], check=True)
    (place / "raw/bin/python").unlink()
    log = place / "log"
    noting(place / "raw/bin/python", log)
    for name in ("raw/.uenvtool/uenvtool.json", "raw/meta/extra/uenvtool.json", "raw/meta/env.json"):
        data = json.loads((place / name).read_text())
        if "base" in data:
            data["base"]["python"] = str(noting(place / "named/python3", log))
            data["packages"][0] |= {"version": "1.0\x1b[31m", "note": "\x1b]0;x\x07"}
        else:
            data |= {"name": "v\x1b[31m", "description": "\x1b[2J\x9b31m"}
        (place / name).write_text(json.dumps(data))
    (place / "raw/pyvenv.cfg").write_text(f"home = {place}/named\n")
    subprocess.run(["mksquashfs", "raw", "i.squashfs", "-quiet", "-no-progress"], check=True)

    answers = [
        cli(*words)
        for words in (
            ["image", "show", "i.squashfs"],
            ["image", "verify", "i.squashfs"],
            ["diff", "i.squashfs", "i.squashfs"],
            ["image", "sbom", "i.squashfs"],
            ["show", "i.squashfs"],
            ["show", "raw"],
            ["venv", "i", "--update", "--squash", "--dry-run"],
        )
    ]

    assert all(answer.code in (0, 1, 2) for answer in answers), answers
    assert not log.exists()
    assert not [answer for answer in answers if CONTROL.search(answer.stdout + answer.stderr)]


def test_a_script_is_changed_by_fix_alone_and_nothing_beside_it(cli: Cli, write: Write, place: Path) -> None:
    write("job.sh", '#!/bin/bash\n#SBATCH --nodes=2\nsrun bash -c "RANK=$SLURM_PROCID python train.py"\n')
    before = snapshot(place)

    assert cli("check", "job.sh").code == 1
    assert cli("check", "--diff", "job.sh").code in (0, 1)
    assert snapshot(place) == before
    cli("check", "--fix", "job.sh")

    assert {**snapshot(place), "job.sh": None} == {**before, "job.sh": None}


RULE = """\
description: Not ours.
rules:
  python-name:
    look: [{line: python}]
    severity: warning
    what: a name
    cost: none
    fix: write another
    source: nowhere
    edit: {find: python, replace: ./evil}
"""
FINDING = """\
description: Not ours.
findings:
  other-words:
    title: other words
    severity: broken
    what: words of theirs
    log: [{text: OTHER WORDS}]
    why: none
    fix: read on
    source: nowhere
    command: ./evil
"""


@pytest.mark.parametrize("where", ["clone", "config"])
def test_knowledge_of_the_current_folder_changes_no_script_and_gives_no_command(
    cli: Cli, write: Write, place: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    own = where == "config"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))
    folder = "config/uenvtool/" if own else ""
    write(f"{folder}rules/theirs.yaml", RULE)
    write(f"{folder}findings/theirs.yaml", FINDING)
    script = write("job.sh", "#!/bin/bash\n#SBATCH --time=1\npython train.py\n")
    write("job.log", "OTHER WORDS\n")

    checked, told = cli("check", "--fix", "job.sh"), cli("doctor", "--log", "job.log", "--fix")

    assert ("python-name" in checked.stdout) is not own  # a finding that is mended is not told
    assert ("./evil train.py" in script.read_text()) is own
    assert "words of theirs" in told.stdout + told.stderr
    assert ("./evil" in told.stdout) is own


def test_a_folder_named_tilde_is_not_the_home_of_a_user_without_one(
    cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.delenv("HOME")
    write("~/.config/uenvtool/rules/theirs.yaml", RULE)
    write("recipes/mine/recipe.yaml", SMALL)
    script = write("job.sh", "#!/bin/bash\n#SBATCH --time=1\npython train.py\n")

    cli("check", "--fix", "job.sh")

    assert "./evil" not in script.read_text()
    assert cli("build", "mine", "-o", "out", "--no-concretize").code == 0


def test_every_command_is_in_the_list() -> None:
    text = (ROOT / "docs" / "security.md").read_text().split("## Programs and files of each command")[1]
    items = re.findall(r"^- (`.*?) (?:starts?|runs?) ", text.split("\n18. ")[0], re.MULTILINE)

    assert set(COMMANDS) <= set(re.findall(r"`(\w+)", " ".join(items)))


TESTED_BY = {
    1: "fuzz/test_security.py::test_expressions_in_a_recipe_stay_text_and_its_additions_are_not_run",
    2: "fuzz/test_names.py::test_a_hostile_name_in_a_recipe_is_refused_where_it_stands",
    3: "fuzz/test_writers.py::test_free_text_is_refused_or_stays_text "
    "fuzz/test_forms.py::test_every_text_has_a_form_and_every_mapping_knows_its_names "
    "test_systems_in_jobs test_runtimes_in_jobs test_launchers_in_jobs "
    "test_tunings_in_every_shell_and_format test_recipes_in_environments "
    "test_containers_and_components_in_what_builds_them test_rules_and_findings_in_what_is_shown",
    4: "fuzz/test_security.py::test_knowledge_of_the_current_folder_changes_no_script_and_gives_no_command",
    5: "fuzz/test_records.py::test_a_damaged_record_removes_nothing_outside_its_folder",
    6: "fuzz/test_security.py::test_commands_that_read_start_no_program_and_write_no_file "
    "test_a_script_is_changed_by_fix_alone_and_nothing_beside_it",
    7: "fuzz/test_records.py::test_damaged_metadata_of_a_loaded_uenv_is_passed_over_or_told",
    8: "fuzz/test_knowledge.py::test_files_of_others_never_stand_in_the_way",
    9: "core/test_console.py::test_told_text_is_printable_in_every_part test_as_json_stdout_holds_the_data_alone",
    10: "venv/test_hashes.py::test_an_overlay_made_from_hashes_or_again_or_from_its_lock_keeps_to_them "
    "fuzz/test_security.py::test_what_an_index_gives_for_a_lock_must_have_its_hash",
    11: "venv/test_uv_settings.py::test_what_lies_in_a_folder_above_or_here_decides_nothing "
    "test_a_file_above_that_cannot_be_read_stops_nothing",
    12: "fuzz/test_kinds_of_file.py::test_what_is_no_file_is_told_and_does_not_hang",
    13: "core/test_places.py::test_what_another_user_has_prepared_is_not_taken_for_what_a_killed_run_left",
    14: "fuzz/test_security.py::test_an_image_of_others_starts_nothing_and_sends_nothing_to_the_terminal "
    "venv/test_howto.py::test_commands_of_somebody_elses_image_run_nothing_of_its_own_when_they_are_pasted",
    15: "fuzz/test_security.py::test_programs_are_those_of_path_and_never_those_of_the_current_folder "
    "test_a_folder_named_tilde_is_not_the_home_of_a_user_without_one "
    "knowledge/test_place.py::test_nothing_of_the_current_folder_runs "
    "cli/test_surroundings.py::test_packages_of_the_current_folder_do_not_stand_before_the_tools_own "
    "core/test_names_and_modes.py::test_path_has_no_entry_of_the_current_directory "
    "test_an_empty_path_becomes_the_default",
    16: "doctor/test_log.py::test_dense_log_is_fast_and_skipped_parts_are_listed "
    "doctor/test_job.py::test_scontrol_output_is_bounded "
    "core/test_limits.py::test_a_reader_that_takes_too_long_is_stopped_and_names_the_file "
    "test_a_hostile_dump_is_named_and_the_other_dumps_are_read test_a_record_that_takes_too_long_is_named",
    17: "doctor/test_log.py::test_tokens_in_a_log_are_hidden "
    "test_secrets_are_removed_before_a_line_is_shortened "
    "test_refusals.py::test_refused "
    "knowledge/test_secrets.py::test_of_the_measured_forms_at_most_two_in_a_hundred_are_wrong "
    "container/test_containerfile.py::test_no_file_contains_a_login_of_a_url "
    "venv/test_secrets.py::test_a_secret_is_only_where_the_user_has_put_it",
    18: "fuzz/test_security.py::test_commands_that_read_start_no_program_and_write_no_file "
    "test_commands_that_write_alone_start_no_program",
    19: "fuzz/test_security.py::test_a_folder_with_files_of_others_is_not_written_into",
    20: "core/test_siblings.py::test_a_file_of_the_users_stays_and_nothing_is_written "
    "venv/test_kernels.py::test_another_tools_kernel_is_not_replaced",
    21: "venv/test_foreign.py::test_it_is_told_and_kept_and_a_folder_of_the_users_keeps_its_name",
    22: "faults/test_kills.py::test_job test_build "
    "core/test_siblings.py::test_a_run_killed_at_any_rename_leaves_no_new_file_beside_an_old_one "
    "test_edits_at_once_are_all_in_the_file "
    "faults/test_limits.py::test_a_full_disk_keeps_what_was_written_before test_a_spent_quota "
    "test_a_disk_without_inodes_keeps_what_was_written_before "
    "core/test_places.py::test_ctrl_c_while_files_are_removed_leaves_none "
    "test_ctrl_c_after_a_temporary_file_was_written_leaves_none "
    "core/test_names_and_modes.py::test_a_replaced_file_keeps_its_access_control_list "
    "test_a_replaced_directory_keeps_its_access_control_list",
    23: "image/test_post_install.py::test_it_writes_into_its_own_folder_alone_and_that_is_packed "
    "env/test_install.py::test_a_build_of_an_ordinary_user_writes_nowhere_else_either",
}
"""The tests of each numbered promise, below `tests`. A name without a file is in the file before it."""


def test_every_promise_has_a_test() -> None:
    text = (ROOT / "docs" / "security.md").read_text()

    assert [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)] == sorted(TESTED_BY)
    for tests in TESTED_BY.values():
        for word in tests.split():
            path, separator, name = word.rpartition("::")
            if separator:
                module = importlib.import_module(f"tests.{path.removesuffix('.py').replace('/', '.')}")
            marks = [*getattr(module, "pytestmark", []), *getattr(getattr(module, name), "pytestmark", [])]
            assert not {mark.name for mark in marks} & {*LEFT_OUT}, f"{name} does not run by default"
