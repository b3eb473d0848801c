"""The pipelines of images, as GitLab's own schema has them; check-jsonschema carries it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import ROOT, Cli, Write
from tests.container.recipes import project
from tests.support.needs import skip_without

NAME = "gitlab-ci.yml"


def checked(files: Sequence[Path]) -> str:
    """What the schema says of some pipelines; empty if they are as it wants."""
    program = Path(sys.executable).parent / "check-jsonschema"
    if not os.access(program, os.X_OK):
        skip_without("check-jsonschema", "pip install check-jsonschema")
    words = [program, "--builtin-schema", "vendor.gitlab-ci", *files]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_those_that_ship_are_as_their_schema_wants() -> None:
    files = sorted((ROOT / "containers").glob(f"*/{NAME}"))

    assert len(files) == len(list((ROOT / "recipes").glob("*/container.yaml")))
    assert checked(files) == ""


def test_those_of_other_recipes_are_too(cli: Cli, write: Write) -> None:
    project(write, {"part": {}}, image="alps")
    write("recipes/odd/container.yaml", "description: 'On ours: \"1\" # 2'\nfrom: mine\npip: [metatrain]\n")
    for name in ("mine", "odd"):
        answer = cli("container", name, "--system", "clariden")
        assert answer.code == 0, answer.stderr

    files = sorted(Path("containers").glob(f"*/{NAME}"))

    assert [file.parent.name for file in files] == ["mine", "odd"]
    assert checked(files) == ""
