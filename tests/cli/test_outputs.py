"""What --json prints has a schema for each command; every command line of the tests is held against it too."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator, ValidationError

from tests.conftest import SMALL, Cli, Write
from tests.support import outputs as held
from uenvtool.cli import contexts
from uenvtool.knowledge.outputs import output_schema, outputs


def test_each_command_with_json_has_a_schema_and_no_other_one() -> None:
    with_json = {
        context.command_path.removeprefix("uenvtool ")
        for context in contexts()
        if any("--json" in parameter.opts for parameter in context.command.params)
    }

    assert set(outputs()["commands"]) == with_json


@pytest.mark.parametrize("command", outputs()["commands"])
def test_each_is_a_schema_that_is_printed_for_others(cli: Cli, command: str) -> None:
    printed = json.loads(cli("schema", "--output", *command.split()).stdout)

    Draft202012Validator.check_schema(printed)
    assert printed == output_schema(command)


def test_an_output_that_nobody_has_is_refused_with_the_nearest(cli: Cli) -> None:
    answer = cli("schema", "--output", "job", "chek")

    assert answer.code == 2
    assert "did you mean 'job check'?" in answer.stderr


def test_a_name_that_the_schema_does_not_have_is_seen() -> None:
    with pytest.raises(AssertionError, match="'more' was unexpected"):
        held.hold(["new", "recipe", "x", "--json"], '{"file": "x", "more": 1}')


def test_a_reader_that_checks_may_meet_a_newer_version() -> None:
    Draft202012Validator(output_schema("pack")).validate(
        {"path": "a", "mount": "/a", "bytes": 1, "sha256": "0", "more": 1}
    )
    with pytest.raises(ValidationError, match="'sha256' is a required property"):
        Draft202012Validator(output_schema("pack")).validate({"path": "a", "mount": "/a", "bytes": 1})


@pytest.mark.parametrize(
    "words",
    [
        "build small --no-concretize",
        "build small --dry-run",
        "build pytorch-2.9 --format stackinator --dry-run",
        "container metatrain-alps6 --check",
        "container metatrain-alps6 --dry-run",
        "container tag metatrain-alps6",
        "diff hello pytorch-2.6",
        "diff --system lumi clariden",
        "doctor",
        "edit hello --add zstd",
        "explain --all",
        "explain --diff guide docs-2026",
        "explain --sites NCCL_NET",
        "explain --system clariden",
        "explain --system clariden NCCL_NET edf-unbraced nccl-tcp",
        "job -s clariden -A a --image x -- true",
        "job check job.sh",
        "kernel list",
        "list",
        "new recipe mine --from hello",
        "new system mine",
        "show clariden",
        "sources",
        "sources guide",
        "upgrade pytorch-2.9 --to torch@2.10 --dry-run",
        "validate recipes/small/recipe.yaml recipes/wrong/recipe.yaml",
    ],
)
def test_what_is_printed_is_as_the_schema_says(cli: Cli, write: Write, words: str) -> None:
    write("recipes/small/recipe.yaml", SMALL)
    write("recipes/wrong/recipe.yaml", "groups: 3\n")
    write("job.sh", "#!/bin/bash\nsrun python train.py\n")
    before, *behind = words.split(" -- ")
    if "--check" in words:
        cli("container", "metatrain-alps6", "--json")

    answer = cli(*before.split(), "--json", *(["--", *behind[0].split()] if behind else []))

    assert isinstance(json.loads(answer.stdout), dict | list), answer.stderr
