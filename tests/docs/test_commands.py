"""docs/commands.md: the answer of a command with --json has the names of its row and no others."""

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
    "`build`": [BUILD, f"{COMMITTED} --format stackinator --dry-run", f"{COMMITTED} --check"],
    "`container`, also with `--tag`": [f"container ngc-pytorch-25.06 -o c{more}" for more in ("", " --check")],
    "`diff`": ["diff pytorch-2.6 pytorch-2.9"],
    "`doctor`": ["doctor --log job.out"],
    "`edit`": ["edit mine --add lz4"],
    "`explain`": [
        f"explain {what}" for what in ("NCCL_NET", "launch-blocking", "nccl-tcp", "docs-2026", "--system clariden")
    ],
    "`job`": ["job -s clariden -A a --recipe pytorch-2.6 -- python train.py"],
    "`check`": ["check job.sh"],
    "`new`": ["new recipe other"],
    "`show`": ["show mine"],
    "`validate`": ["validate job.out"],
    "`venv`": ["venv v small --no-base"],
    "`show` of an overlay": ["show v", "show v.squashfs"],
    "`image show`": ["image show v.squashfs"],
    "`image verify`": ["image verify v.squashfs"],
}
"""Rows of the table of names, and commands that together answer with all names of theirs."""
SUBMITTED = {"id"}
"""Of the row of `job`; no test submits here."""


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=pytest.mark.slow if "squashfs" in asked[-1] else ()) for row, asked in ASKED.items()],
)
def test_its_answer_as_data_has_the_names_of_its_row(
    row: str, cli: Cli, write: Write, wheels: Path, no_base: None
) -> None:
    write("recipes/mine/recipe.yaml", SMALL)
    write("job.sh", "#!/bin/bash\n#SBATCH --nodes=2\nexport CUDA_LAUNCH_BLOCKING=1\nsrun python train.py\n")
    write("job.out", PRINTED.format(rows=WITHOUT_HOOK))
    wheel(wheels, "small", "1.0")
    if "squashfs" in ASKED[row][-1]:
        assert cli("venv", "v", "small", "--no-base", "--squash").code == 0
    (documented,) = re.findall(rf"^\| {re.escape(row)} \| (.*) \|$", PAGE, re.MULTILINE)

    found = set()
    for words in ASKED[row]:
        before, dashes, command = words.partition(" -- ")
        data = json.loads(cli(*shlex.split(f"{before} --json{dashes}{command}")).stdout)
        found |= set(data[0] if isinstance(data, list) else data)

    assert found == set(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", documented))) - SUBMITTED
