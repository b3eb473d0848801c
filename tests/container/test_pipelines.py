"""Test the pipelines of images against GitLab's own schema, which check-jsonschema contains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT, Cli, Write
from tests.container.recipes import project
from tests.support.needs import skip_without


def test_those_that_ship_and_those_of_other_recipes_are_as_their_schema_wants(cli: Cli, write: Write) -> None:
    program = Path(sys.executable).parent / "check-jsonschema"
    if not os.access(program, os.X_OK):
        skip_without("check-jsonschema", "pip install check-jsonschema")
    project(write, {"part": {}}, image="alps")
    write("recipes/odd/container.yaml", "description: 'On ours: \"1\" # 2'\nfrom: mine\npip: [metatrain]\n")
    for name in ("mine", "odd"):
        answer = cli("container", name, "--system", "clariden")
        assert answer.code == 0, answer.stderr
    files = [path for root in (ROOT, Path()) for path in sorted((root / "containers").glob("*/gitlab-ci.yml"))]

    words = [program, "--builtin-schema", "vendor.gitlab-ci", *files]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(files) == len(list((ROOT / "recipes").glob("*/container.yaml"))) + 2
