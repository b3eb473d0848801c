"""Test that the result of a command with --json has exactly the fields of its row in docs/commands.md."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL, Cli, Write
from tests.doctor.test_bandwidth import PRINTED, WITHOUT_HOOK
from tests.support.overlays import wheel

PAGE = (ROOT / "docs" / "commands.md").read_text()
BUILD = "build mine -s clariden --no-concretize -o out"
COMMITTED = f"build pytorch-2.6 -s clariden -o {ROOT}/envs/pytorch-2.6/clariden-gh200"
ASKED = {
    "`build`": [BUILD],
    "`build --dry-run`": [f"{COMMITTED} --format stackinator --dry-run"],
    "`build --check`": [f"{COMMITTED} --check"],
    "`container`, `container --tag`": ["container ngc-pytorch-25.06 -o c"],
    "`container --check`": [f"container ngc-pytorch-25.06 -o {ROOT}/containers/ngc-pytorch-25.06 --check"],
    "`diff`": ["diff pytorch-2.6 pytorch-2.9"],
    "`doctor`": ["doctor --log job.out"],
    "`edit`": ["edit mine --add lz4"],
    "`explain VARIABLE`": ["explain NCCL_NET"],
    "`explain RULE`": ["explain launch-blocking"],
    "`explain FINDING`": ["explain nccl-tcp"],
    "`explain SOURCE`": ["explain docs-2026"],
    "`explain --system`": ["explain --system clariden"],
    "`job`": ["job -s clariden -A a --recipe pytorch-2.6 -- python train.py"],
    "`check`": ["check job.sh"],
    "`new`": ["new recipe other"],
    "`show RECIPE`, `show SYSTEM`": ["show mine", "show clariden"],
    "`validate`": ["validate job.out"],
    "`venv`": ["venv v small --no-base"],
    "`show PATH` of an overlay": ["show v", "show v.squashfs"],
    "`image show`": ["image show v.squashfs"],
    "`image verify`": ["image verify v.squashfs"],
}
"""The first cells of rows, with commands that together print all fields of the row."""
SUBMITTED = {"id"}
"""The field of `job --submit`, which no test here runs."""


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=pytest.mark.slow if "squashfs" in asked[-1] else ()) for row, asked in ASKED.items()],
)
def test_the_json_result_has_the_fields_of_its_row(
    row: str, cli: Cli, write: Write, wheels: Path, no_base: None
) -> None:
    write("recipes/mine/recipe.yaml", SMALL)
    write("job.sh", "#!/bin/bash\n#SBATCH --nodes=2\nexport CUDA_LAUNCH_BLOCKING=1\nsrun python train.py\n")
    write("job.out", PRINTED.format(rows=WITHOUT_HOOK))
    wheel(wheels, "small", "1.0")
    if "squashfs" in ASKED[row][-1]:
        assert cli("venv", "v", "small", "--no-base", "--squash").code == 0
    (result, documented) = re.findall(rf"^\| {re.escape(row)} \| (\w+) \| (.*) \|$", PAGE, re.MULTILINE)[0]

    found = set()
    for words in ASKED[row]:
        before, dashes, command = words.partition(" -- ")
        data = json.loads(cli(*shlex.split(f"{before} --json{dashes}{command}")).stdout)
        assert isinstance(data, list) == (result == "list")
        found |= set(data[0] if result == "list" else data)

    assert found == set(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", documented))) - SUBMITTED
