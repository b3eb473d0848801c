"""The pipelines of images, as GitLab's and GitHub's own schemas have them; check-jsonschema carries both."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli, Write
from tests.container.recipes import project
from tests.support.needs import skip_without

SCHEMAS = {"gitlab-ci.yml": "vendor.gitlab-ci", "github-workflow.yml": "vendor.github-workflows"}


def checked(name: str, files: Sequence[Path]) -> str:
    """What the schema of a pipeline's file says of some of them; empty if they are as it wants."""
    program = Path(sys.executable).parent / "check-jsonschema"
    if not os.access(program, os.X_OK):
        skip_without("check-jsonschema", "pip install check-jsonschema")
    words = [program, "--builtin-schema", SCHEMAS[name], *files]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("name", SCHEMAS)
def test_those_that_ship_are_as_their_schema_wants(name: str) -> None:
    files = sorted((ROOT / "containers").glob(f"*/{name}"))

    assert len(files) == len(list((ROOT / "recipes").glob("*/container.yaml")))
    assert checked(name, files) == ""


@pytest.mark.parametrize("name", SCHEMAS)
def test_those_of_other_recipes_are_too(cli: Cli, write: Write, name: str) -> None:
    project(write, {"part": {}}, image="alps", labels={"org.example.note": 'a "note": # of ours'})
    write("recipes/odd/container.yaml", "description: 'On ours: \"1\" # 2'\nfrom: mine\npip: [metatrain]\n")
    made = [["mine"], ["odd"], ["--from", "nvcr.io/nvidia/pytorch:25.06-py3", "--pip", "metatrain", "--name", "cli"]]
    for words in made:
        answer = cli("container", *words, "--system", "clariden")
        assert answer.code == 0, answer.stderr

    files = sorted(Path("containers").glob(f"*/{name}"))

    assert [file.parent.name for file in files] == ["cli", "mine", "odd"]
    assert checked(name, files) == ""


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [("gitlab-ci.yml", "stage: build", "stage: {}"), ("github-workflow.yml", "runs-on:", "runs-under:")],
)
def test_a_wrong_one_is_seen(place: Path, name: str, right: str, wrong: str) -> None:
    text = (ROOT / "containers/ngc-pytorch-25.06" / name).read_text()
    assert right in text
    Path(name).write_text(text.replace(right, wrong, 1))

    assert "Schema validation errors were encountered" in checked(name, [Path(name)])
